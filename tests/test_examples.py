"""The examples and the README's code run as they stand, in an empty folder, and say what the README shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def run(code: str, folder: Path) -> str:
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.model
@pytest.mark.slow
def test_the_readmes_example_is_the_quickstart_and_follows_the_update(smollm2: object, tmp_path: Path) -> None:
    code = (ROOT / "examples" / "quickstart.py").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)

    lines = run(code, tmp_path).splitlines()

    assert code.partition('"""\n\n')[2].strip() == blocks[0].strip()
    assert "Bern" in lines[0]
    assert "Zurich" in lines[1]
    assert lines[2].startswith("version 2, evidence from version 2")
    assert "Bern" in lines[-1], "the first version still answers as it did"


@pytest.mark.model
def test_the_langchain_example_answers_and_streams(smollm2: object, tmp_path: Path) -> None:
    out = run((ROOT / "examples" / "langchain_chat.py").read_text(encoding="utf-8"), tmp_path)

    assert "Maren Holt" in out
    assert "'total_tokens'" in out
    assert "1911" in out.splitlines()[-1]
