"""Pyright, too, says of the public API what tests/typing_api.py says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("basedpyright", reason="basedpyright is not installed: pip install '.[dev]'")

API = Path(__file__).with_name("typing_api.py")


def test_pyright_agrees_on_the_public_api_and_would_find_what_is_wrong(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from plume_memory import ParametricMemory\n\nanswer: int = ParametricMemory.open('a').ask('?')\n")
    command = [sys.executable, "-m", "basedpyright", "--level", "error", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, str(API), str(wrong)], cwd=API.parents[1], capture_output=True, text=True, check=False
    )
    found = [(Path(one["file"]).name, one["message"]) for one in json.loads(done.stdout)["generalDiagnostics"]]
    assert [message for file, message in found if file == API.name] == []
    assert [file for file, _ in found] == [wrong.name], "what is wrong is found"
