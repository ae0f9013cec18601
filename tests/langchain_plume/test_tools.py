"""The four tools against langchain-tests, and what an agent sees of each."""

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_plume.tools import ForgetTool, HistoryTool, RecallTool, RememberTool, memory_tools
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from plume_memory.memory import ParametricMemory
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'plume.db'}", engine=ENGINE) as opened:
        yield opened


def with_facts() -> ParametricMemory:
    memory = ParametricMemory.open("suite", url="sqlite://", engine=ENGINE)
    memory.update("Alice lives in Bern.", derive=False)
    return memory


def test_history_says_of_what_has_expired_that_it_does_not_hold(memory: ParametricMemory) -> None:
    now = datetime.now(UTC)
    memory.update("Alice is in Bern today.", expires_at=now - timedelta(hours=1), derive=False)
    memory.update("Alice has a boat.", expires_at=now + timedelta(hours=1), derive=False)
    gone, held = json.loads(HistoryTool(memory=memory).invoke({}))
    assert not gone["holds"]
    assert "text" not in gone
    assert held["holds"]


class _Suite:
    """A fresh memory with one update for each test of LangChain's own suites."""

    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        return {"memory": with_facts()}


class _Remember(_Suite):
    tool_constructor = RememberTool
    tool_invoke_params_example = {"text": "Alice moved to Zurich."}  # noqa: RUF012 — a property in the suite


class _Forget(_Suite):
    tool_constructor = ForgetTool
    tool_invoke_params_example = {"version": 1}  # noqa: RUF012 — as above


class _Recall(_Suite):
    tool_constructor = RecallTool
    tool_invoke_params_example = {"question": "Where does Alice live?", "k": 2}  # noqa: RUF012 — as above


class _History(_Suite):
    tool_constructor = HistoryTool
    tool_invoke_params_example = {"limit": 5}  # noqa: RUF012 — as above


class TestRememberUnit(_Remember, ToolsUnitTests): ...


class TestRememberIntegration(_Remember, ToolsIntegrationTests): ...


class TestForgetUnit(_Forget, ToolsUnitTests): ...


class TestForgetIntegration(_Forget, ToolsIntegrationTests): ...


class TestRecallUnit(_Recall, ToolsUnitTests): ...


class TestRecallIntegration(_Recall, ToolsIntegrationTests): ...


class TestHistoryUnit(_History, ToolsUnitTests): ...


class TestHistoryIntegration(_History, ToolsIntegrationTests): ...


def called(tool: BaseTool, **args: Any) -> ToolMessage:
    message = tool.invoke({"name": tool.name, "args": args, "id": "call-1", "type": "tool_call"})
    assert isinstance(message, ToolMessage)
    return message


def held(memory: ParametricMemory) -> list[str]:
    return [transition.text for transition in memory.text_at().transitions]


def test_memory_tools_are_the_four_with_their_arguments_and_no_memory_in_sight(memory: ParametricMemory) -> None:
    tools = memory_tools(memory)

    schemas = [convert_to_openai_tool(tool)["function"] for tool in tools]
    assert {s["name"]: list(s["parameters"]["properties"]) for s in schemas} == {
        "remember": ["text"],
        "forget": ["version", "text"],
        "recall": ["question", "k"],
        "history": ["limit"],
    }
    assert not any("ParametricMemory" in repr(tool) for tool in tools)


# --- remember -----------------------------------------------------------------------------------------


def test_remember_appends_and_says_the_version(memory: ParametricMemory) -> None:
    tool = RememberTool(memory=memory)

    assert called(tool, text="Alice lives in Bern.").content == "Remembered as version 1."
    assert called(tool, text="Alice moved to Zurich.").content == "Remembered as version 2."
    assert held(memory) == ["Alice lives in Bern.", "Alice moved to Zurich."]


def test_remembering_the_newest_text_again_writes_nothing_but_an_older_one_counts_anew(
    memory: ParametricMemory,
) -> None:
    tool = RememberTool(memory=memory)
    called(tool, text="A.")

    assert called(tool, text="A.").content == "Already remembered as version 1."
    called(tool, text="B.")
    assert called(tool, text="A.").content == "Remembered as version 3."
    memory.forget(3)
    assert called(tool, text="A.").content == "Remembered as version 5."


def test_an_error_is_an_answer_unless_asked_otherwise(memory: ParametricMemory) -> None:
    message = called(RememberTool(memory=memory), text="  ")

    assert message.status == "error"
    assert "white space" in str(message.content)
    with pytest.raises(ToolException, match="white space"):
        called(RememberTool(memory=memory, handle_tool_error=False), text="  ")
    memory.close()
    assert "closed" in str(called(HistoryTool(memory=memory)).content)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        (RememberTool(), {"text": "A."}),
        (ForgetTool(), {"version": 1}),
        (RecallTool(), {"question": "A"}),
        (HistoryTool(), {}),
    ],
    ids=lambda value: value.name if isinstance(value, BaseTool) else "",
)
def test_a_tool_without_a_memory_says_how_to_give_it_one_and_a_copy_takes_it(
    memory: ParametricMemory, tool: BaseTool, args: dict[str, Any]
) -> None:
    memory.update("A.", derive=False)

    message = called(tool, **args)
    assert message.status == "error"
    assert f"{tool.name} has no memory: pass memory=..., or let PlumeMemoryMiddleware(tools=True)" in message.content

    assert called(tool.model_copy(update={"memory": memory}), **args).status == "success"
    assert called(tool, **args).status == "error"


# --- forget -------------------------------------------------------------------------------------------


@pytest.fixture
def facts(memory: ParametricMemory) -> ParametricMemory:
    for text in (
        "Alice lives in Bern.",
        "Alice has a cat.",
        "Alice lives in Bern. Bob too.",
        "猫は白い。",
        "The code is 7.",
    ):
        memory.update(text, derive=False)
    return memory


@pytest.mark.parametrize(
    ("args", "version"),
    [
        ({"version": 2}, 2),
        ({"text": "the cat"}, None),
        ({"text": "Alice CAT"}, 2),
        ({"text": "  alice lives  in bern. "}, 1),
        ({"text": "bern bob"}, 3),
        ({"text": "猫は白い。"}, 4),
        ({"text": "code 7"}, 5),
    ],
)
def test_forget_takes_a_version_or_words_that_one_update_alone_has(
    facts: ParametricMemory, args: dict[str, Any], version: int | None
) -> None:
    before = {transition.version for transition in facts.text_at().transitions}

    message = called(ForgetTool(memory=facts), **args)

    after = {transition.version for transition in facts.text_at().transitions}
    assert before - after == ({version} if version else set())
    if version:
        assert message.content == f"Forgot version {version}; the memory is now at version 6."


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ({"text": "lives in Bern"}, "Several updates say 'lives in Bern', nothing was forgotten. Give a version: 1: "),
        ({"text": "Alice lives in Rome"}, "No update that holds has all the words of 'Alice lives in Rome'"),
        ({"text": "Alice lives in Rome"}, "Nearest: 1: 'Alice lives in Bern.'; 2: "),
        ({"text": "zebra"}, "Look it up with recall or history."),
        ({"text": "犬"}, "nothing was forgotten"),
        ({"text": ""}, "nothing was forgotten"),
        ({"version": 99}, "99"),
        ({}, "a version, or a text, and not both"),
        ({"version": 1, "text": "Bern"}, "a version, or a text, and not both"),
    ],
)
def test_forget_guesses_nothing_and_says_what_to_do(facts: ParametricMemory, args: dict[str, Any], said: str) -> None:
    message = called(ForgetTool(memory=facts), **args)

    assert message.status == "error"
    assert said in str(message.content)
    assert facts.version == 5


def test_what_was_forgotten_cannot_be_forgotten_again(facts: ParametricMemory) -> None:
    tool = ForgetTool(memory=facts)
    called(tool, version=2)

    assert called(tool, version=2).status == "error"
    assert called(tool, text="Alice has a cat.").status == "error"
    assert facts.version == 6


def test_many_updates_that_fit_are_not_all_listed(memory: ParametricMemory) -> None:
    for n in range(8):
        memory.update(f"Alice saw bird {n}.", derive=False)

    said = str(called(ForgetTool(memory=memory), text="Alice saw").content)
    assert "7: 'Alice saw bird 6.'" in said
    assert "; and 3 earlier ones" in said


# --- recall and history -------------------------------------------------------------------------------


def test_recall_returns_the_notes_that_bear_on_a_question(facts: ParametricMemory) -> None:
    found = str(called(RecallTool(memory=facts), question="Whose is the cat?", k=2).content)

    assert found == facts.recall("Whose is the cat?", k=2).text
    assert '"Alice has a cat."' in found
    assert "version 2" in found


def test_recall_says_that_nothing_bears_on_a_question_and_an_empty_one_is_refused(memory: ParametricMemory) -> None:
    nothing = "Nothing in memory bears on that."
    assert called(RecallTool(memory=memory), question="cat").content == nothing
    memory.update("Alice lives in Bern.", derive=False)
    assert called(RecallTool(memory=memory), question="zebra").content == nothing
    assert called(RecallTool(memory=memory), question=" ").status == "error"


def test_history_tells_the_newest_entries_and_the_texts_that_hold(facts: ParametricMemory) -> None:
    facts.forget(2)
    facts.rollback(to=1)

    entries = json.loads(str(called(HistoryTool(memory=facts), limit=3).content))
    assert [(e["version"], e["kind"]) for e in entries] == [(5, "update"), (6, "forget"), (7, "rollback")]
    assert (entries[0]["holds"], entries[1]["forgets"], entries[2]["restores"]) == (False, 2, 1)
    whole = json.loads(str(called(HistoryTool(memory=facts)).content))
    assert [e["holds"] for e in whole if e["kind"] == "update"] == [True, False, False, False, False]
    assert [e.get("text") for e in whole] == ["Alice lives in Bern.", *[None] * 6]


def test_history_tells_what_an_update_replaced(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.")
    memory.update("She moved to Rome.", replaces=[1])
    entries = json.loads(str(called(HistoryTool(memory=memory)).content))
    assert [e.get("replaces") for e in entries] == [
        None,
        [{"version": 1, "text": "Alice lives in Bern.", "probability": 1.0}],
    ]


def test_history_does_not_tell_a_forgotten_part_of_a_text_that_holds(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern. Her cat is called Mistral.")
    memory.forget(text="Her cat is called Mistral.")

    entries = json.loads(str(called(HistoryTool(memory=memory)).content))
    assert [(e["kind"], e.get("text"), e.get("forgets")) for e in entries] == [
        ("update", "Alice lives in Bern.", None),
        ("forget", None, 1),
    ]


async def test_the_tools_work_async(memory: ParametricMemory) -> None:
    await RememberTool(memory=memory).ainvoke({"text": "Alice has a cat."})
    await ForgetTool(memory=memory).ainvoke({"text": "cat"})

    assert memory.version == 2
    assert held(memory) == []


# --- imports ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["tools", "retriever", "journal", "store"])
def test_no_module_imports_torch(module: str) -> None:
    code = f"import sys, langchain_plume.{module}; sys.exit('torch' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
