"""The examples and the README's code run as they stand, in an empty folder, and say what the README shows."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from plume_memory import Answer, ParametricMemory

ROOT = Path(__file__).parents[1]


EXAMPLES = ROOT / "examples"


def run(code: str, folder: Path, typed: str = "") -> str:
    """What a program prints in a folder, by the examples as modules; `typed` is its standard input."""
    path = os.pathsep.join([str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": path}
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, cwd=folder, env=environment, input=typed, capture_output=True, text=True, check=False
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


def example(name: str, folder: Path, typed: str = "") -> list[str]:
    return run((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"), folder, typed).splitlines()


def as_page(text: str) -> str:
    """Without the decimals of numbers: they differ by processor."""
    return re.sub(r"\d+\.\d+", "#", text).strip()


def shown(name: str) -> str:
    """What docs/langchain.md says an example prints."""
    page = (ROOT / "docs" / "langchain.md").read_text(encoding="utf-8")
    _, _, behind = page.partition(f"{(EXAMPLES / f'{name}.py').read_text(encoding='utf-8')}```\n\n```text\n")
    return as_page(behind.partition("```")[0])


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

    assert as_page("\n".join(lines)) == shown("agent_memory")
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

    assert as_page("\n".join(lines)) == shown("langgraph_store")
    assert lines[0].endswith("kiln-node20: kiln-node20 is backed up at 22:30.")
    assert "wren-db37" in lines[1]
    assert "22:30" in lines[2]
    assert lines[3] == "['update 1', 'update 2', 'forget 1', 'update 4']"


@pytest.mark.model
def test_the_stream_comes_with_a_trace_of_every_token(smollm2: object, tmp_path: Path) -> None:
    lines = example("streaming_trace", tmp_path)

    assert as_page("\n".join(lines)) == shown("streaming_trace")
    assert "Maren Holt" in lines[0]
    assert lines[1].startswith("version 1, evidence: The Quillon Bridge")
    assert len(lines) > 5
    assert "<|im_end|>" in lines[-1]


@pytest.mark.model
def test_a_mem0_export_is_imported_once_and_answered(smollm2: object, tmp_path: Path) -> None:
    lines = example("migrate_from_mem0", tmp_path)

    assert as_page("\n".join(lines)) == shown("migrate_from_mem0")
    assert lines[0] == "written 2, unchanged 0, memories ('alice',), left out ()"
    assert lines[1] == "written 0, unchanged 2, memories ('alice',), left out ()"
    assert "Zurich" in lines[2]
    found = {line.split(" ", 1)[1] for line in lines[3:]}
    assert found == {"version 2: Alice plays the cello.", "version 3: Alice now lives in Zurich."}


@pytest.mark.model
@pytest.mark.slow
def test_the_terminal_assistant_knows_in_its_second_run_what_the_first_was_told(
    smollm2: object, tmp_path: Path
) -> None:
    first = example("terminal_assistant", tmp_path, "My bike is a red Canyon.\nThe spare key is under the fern.\n")
    second = example(
        "terminal_assistant",
        tmp_path,
        "What colour is my bike?\nThe spare key is under the mat.\nWhere is the spare key?\n"
        "/as-of 2 Where is the spare key?\n/as-of 9 Where is the spare key?\n/as-of now\n/log\n/quit\n",
    )

    assert first == ["I am at version 0. What is new?", "kept as version 1", "kept as version 2"]
    assert "red" in second[1]
    assert "mat" in second[3]
    assert "fern" in second[4]
    assert "has no version 9" in second[5]
    assert second[7:] == [
        "1  update  My bike is a red Canyon.",
        "2  update  The spare key is under the fern.",
        "3  update  The spare key is under the mat.",
    ]


WEB = """
from fastapi.testclient import TestClient
from fastapi_app import app
with TestClient(app) as client:
    def get(user, **asked):
        reply = client.get("/answer", params=asked, headers={"X-User": user})
        print(user, reply.status_code, reply.json())
    told = client.post("/facts", json={"text": "Alice lives in Bern."}, headers={"X-User": "alice"})
    print(told.status_code, told.json())
    get("alice", question="Where does Alice live?")
    get("bob", question="Where does Alice live?")
    get("alice", question="Where does Alice live?", version=9)
"""


@pytest.mark.model
def test_the_web_app_answers_whoever_told_it_and_nobody_else(smollm2: object, tmp_path: Path) -> None:
    lines = run(WEB, tmp_path).splitlines()

    assert lines[0] == "201 {'version': 1}"
    assert lines[1].startswith("alice 200 {'answer': 'Alice lives in Bern.', 'version': 1,")
    assert lines[2] == "bob 404 {'detail': 'I have nothing about that in memory.'}"
    assert lines[3].startswith("alice 404")


REMOTE = """
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
import remote_model

class StandIn(BaseChatModel):
    _llm_type = "stand-in"
    def _generate(self, messages, stop=None, run_manager=None, **_):
        notes = [m.text for m in messages if "<memory-notes>" in m.text][-1:]
        said = [line for note in notes for line in note.splitlines() if line.startswith("- ")]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(" ".join(said) or "no notes"))])

remote_model.main(StandIn())
"""


@pytest.mark.model
def test_a_remote_model_finds_the_notes_that_bear_on_the_question_in_its_prompt(
    smollm2: object, tmp_path: Path
) -> None:
    lines = run(REMOTE, tmp_path).splitlines()

    assert lines[0] == "no notes"
    assert re.fullmatch(r'- "alice", version 1, [\d-]+: "I am allergic to peanuts."', lines[1])
    assert re.fullmatch(r'- "team", version 1, [\d-]+: "The release is on 12 May."', lines[2])


@pytest.mark.model
def test_a_chat_log_is_imported_once_and_recalled_with_who_said_it(smollm2: object, tmp_path: Path) -> None:
    assert example("import_chat_log", tmp_path) == [
        "discord: written 1, unchanged 0, left out {}",
        "bot: written 2, unchanged 0, left out {'nobody said it': 1}",
        "discord: written 0, unchanged 1, left out {}",
        "bot: written 0, unchanged 2, left out {'nobody said it': 1}",
        "What is the staging server called?",
        "    2026-03-04 mara: The staging server is called Otter.",
        "When is the launch?",
        "    2026-03-06 mara: The launch is on 19 May.",
    ]


@pytest.mark.model
def test_the_notebook_prints_what_its_cells_show(smollm2: object, tmp_path: Path) -> None:
    cells = json.loads((EXAMPLES / "time_travel.ipynb").read_text(encoding="utf-8"))["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    between = "-- next cell --"

    printed = run("\n".join(f"{''.join(cell['source'])}\nprint({between!r})" for cell in code), tmp_path)

    shown = ["".join(output["text"]) for cell in code for output in cell["outputs"]]
    assert printed.split(f"{between}\n") == [*shown, ""]


def test_an_example_is_short_enough_to_be_copied() -> None:
    long = [path.name for path in EXAMPLES.glob("*.py") if len(path.read_text(encoding="utf-8").splitlines()) >= 80]

    assert long == []


def test_the_docs_show_the_examples_as_they_are() -> None:
    page = (ROOT / "docs" / "langchain.md").read_text(encoding="utf-8")
    for name in ("agent_memory", "langgraph_store", "streaming_trace", "migrate_from_mem0"):
        assert (ROOT / "examples" / f"{name}.py").read_text(encoding="utf-8").strip() in page, name
