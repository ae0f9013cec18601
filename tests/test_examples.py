"""The examples and the README's code run as they stand, in an empty folder, and say what the README shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from plume_memory import Answer, ParametricMemory

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


def test_the_page_of_the_library_names_what_there_is() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "api.md").read_text(encoding="utf-8"), re.DOTALL)
    called = {name for block in blocks for name in re.findall(r"\bmemory\.(\w+)\(", block)}
    told = {name for block in blocks for name in re.findall(r"\banswer\.(\w+)", block)}

    assert {"update", "ask", "ask_many", "stream", "rollback", "forget"} <= called
    assert {name for name in called if not hasattr(ParametricMemory, name)} == set()
    assert {name for name in told if not hasattr(Answer, name) and name not in Answer.__dataclass_fields__} == set()


@pytest.mark.model
def test_the_langchain_example_answers_and_streams(smollm2: object, tmp_path: Path) -> None:
    out = run((ROOT / "examples" / "langchain_chat.py").read_text(encoding="utf-8"), tmp_path)

    assert "Maren Holt" in out
    assert "'total_tokens'" in out
    assert "1911" in out.splitlines()[-1]


def example(name: str, folder: Path) -> list[str]:
    return run((ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8"), folder).splitlines()


@pytest.mark.model
def test_notes_for_any_model_are_what_the_page_shows(smollm2: object, tmp_path: Path) -> None:
    code = (ROOT / "examples" / "recall.py").read_text(encoding="utf-8")
    page = (ROOT / "docs" / "recall.md").read_text(encoding="utf-8")

    lines = run(code, tmp_path).splitlines()

    assert code in page
    assert [line for line in lines if line not in page.splitlines()] == []


@pytest.mark.model
def test_the_agent_keeps_users_apart_and_remembers_across_threads(smollm2: object, tmp_path: Path) -> None:
    lines = example("agent_memory", tmp_path)

    answers = dict(zip(lines[:8:2], lines[1:8:2], strict=True))
    asked = "tuesday: What is the badge code of Mira Holm?"
    assert "4471" in answers[f"alice, {asked}"]
    assert "9035" in answers[f"bob, {asked}"]
    assert lines[8:] == [
        "alice ['The badge code of Mira Holm is 4471.']",
        "bob ['The badge code of Mira Holm is 9035.']",
    ]


@pytest.mark.model
def test_the_graphs_store_is_searched_answered_and_forgets_what_was_replaced(smollm2: object, tmp_path: Path) -> None:
    lines = example("langgraph_store", tmp_path)

    assert lines[0].endswith("kiln-node20: kiln-node20 is backed up at 22:30.")
    assert "wren-db37" in lines[1]
    assert "22:30" in lines[2]
    assert lines[3] == "['update 1', 'update 2', 'forget 1', 'update 4']"


@pytest.mark.model
def test_the_stream_comes_with_a_trace_of_every_token(smollm2: object, tmp_path: Path) -> None:
    lines = example("streaming_trace", tmp_path)

    assert "Maren Holt" in lines[0]
    assert lines[1].startswith("version 1, evidence: The Quillon Bridge")
    assert len(lines) > 5
    assert "<|im_end|>" in lines[-1]


@pytest.mark.model
def test_a_mem0_export_is_imported_once_and_answered(smollm2: object, tmp_path: Path) -> None:
    lines = example("migrate_from_mem0", tmp_path)

    assert lines[0] == "written 2, unchanged 0, memories ('alice',), left out ()"
    assert lines[1] == "written 0, unchanged 2, memories ('alice',), left out ()"
    assert "Zurich" in lines[2]
    found = {line.split(" ", 1)[1] for line in lines[3:]}
    assert found == {"version 1: Alice lives in Bern.", "version 3: Alice now lives in Zurich."}


def test_the_docs_show_the_examples_as_they_are() -> None:
    page = (ROOT / "docs" / "langchain.md").read_text(encoding="utf-8")
    for name in ("agent_memory", "langgraph_store", "streaming_trace", "migrate_from_mem0"):
        assert (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").strip() in page, name
