"""What a shell completes: bash runs the script that `plume` makes for it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

BASH = shutil.which("bash")


@pytest.mark.skipif(BASH is None, reason="no bash here")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("plume upd", ["update"]),
        ("plume --memory alice upd", ["update"]),
        ("plume keys cr", ["create"]),
        ("plume ask --mem", ["--memory"]),
        ("plume ex", ["export", "export-adapter"]),
    ],
)
def test_bash_completes_commands_and_options(tmp_path: Path, typed: str, completed: list[str]) -> None:
    program = tmp_path / "plume"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m plume_memory.cli "$@"\n')
    program.chmod(0o755)
    script = (
        "source <(plume --show-completion bash)\n"
        f"COMP_WORDS=({typed})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_plume_completion plume\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        [BASH or "", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (sorted(done.stdout.split()), done.stderr) == (completed, "")


def test_completion_and_help_import_neither_a_database_nor_torch() -> None:
    """They take half a second, not two."""
    code = (
        "import sys; from plume_memory.cli.main import main; main(['ask', '--help'])\n"
        "print(sorted({'sqlalchemy', 'alembic', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == "[]"
