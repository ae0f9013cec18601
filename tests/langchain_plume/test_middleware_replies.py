"""What a user answers is written with what the assistant has just asked: "Bern." alone says nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_plume.middleware import PlumeMemoryMiddleware

from plume_memory import ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("one", url=f"sqlite:///{tmp_path / 'one.db'}", engine=ENGINE) as opened:
        yield opened


def told(memory: ParametricMemory, *messages: Any) -> list[tuple[str, str | None]]:
    """Say something to an agent; what is in the log then, with what it answers."""
    agent = create_agent(
        GenericFakeChatModel(messages=iter([AIMessage("Noted.")])), middleware=[PlumeMemoryMiddleware(memory)]
    )
    agent.invoke({"messages": list(messages)})
    return [(one.text, one.metadata.get("plume", {}).get("in_answer_to")) for one in memory.history()]


def test_a_reply_is_written_with_its_question(memory: ParametricMemory) -> None:
    asked = AIMessage("Nice to meet you! Which city do you live in?")
    assert told(memory, HumanMessage("Hello"), asked, HumanMessage("In Bern")) == [
        ("In Bern", "Which city do you live in?")
    ]
    (found,) = memory.route("Which city do I live in?")
    assert found.unit.text == 'In answer to "Which city do you live in?"\nIn Bern'
    assert (found.unit.start, found.unit.end) == (0, 7)


@pytest.mark.parametrize(
    "before",
    [
        [],
        [AIMessage("Nice to meet you!")],
        [HumanMessage("Who owns billing?")],
        [AIMessage("Noted! Is there anything else I can help you with?")],
        [AIMessage("What can I do for you?")],
    ],
)
def test_what_answers_nothing_stands_alone(memory: ParametricMemory, before: list[Any]) -> None:
    assert told(memory, *before, HumanMessage("I live in Bern.")) == [("I live in Bern.", None)]


def test_a_question_that_no_log_can_hold_holds_up_nothing(memory: ParametricMemory) -> None:
    asked = AIMessage("Which city\x00 do you live in?")
    assert told(memory, asked, HumanMessage("In Bern")) == [("In Bern", "Which city  do you live in?")]
    asked = AIMessage("Which city?" + "\x00" * 1200)
    assert told(memory, asked, HumanMessage("In Oslo"))[1] == ("In Oslo", "Which city?")


def test_of_two_messages_and_of_the_parts_of_a_long_one_the_first_answers(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'short.db'}"
    with ParametricMemory.open("short", url=url, engine=ENGINE, max_update_chars=20) as short:
        asked = AIMessage("Which city do you live in?")
        found = told(short, asked, HumanMessage("In Bern, the capital."), HumanMessage("I have a boat."))
    assert found == [
        ("In Bern, the capital", "Which city do you live in?"),
        (".", None),
        ("I have a boat.", None),
    ]


class Foreign(BaseChatModel):
    """A chat model of someone else's: says how many notes it was shown."""

    @property
    def _llm_type(self) -> str:
        return "foreign"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        notes = sum(one.text.count("Nora has a flat") for one in messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(str(notes)))])


def test_a_foreign_model_is_shown_no_more_tokens_of_notes_than_allowed(memory: ParametricMemory) -> None:
    with pytest.raises(InvalidInput, match="max_tokens=0"):
        PlumeMemoryMiddleware(memory, max_tokens=0)
    for place in ("Bern", "Geneva", "Oslo"):
        memory.update(f"Nora has a flat in {place}.", derive=False)

    def shown(limit: int) -> str:
        middleware = PlumeMemoryMiddleware(memory, max_tokens=limit, write="off")
        said = create_agent(Foreign(), middleware=[middleware]).invoke({"messages": [HumanMessage("Nora has what?")]})
        return str(said["messages"][-1].text)

    assert shown(1024) == "3"
    assert shown(memory.recall("Nora has what?", k=1).tokens) == "1"
