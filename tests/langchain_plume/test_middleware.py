"""PlumeMemoryMiddleware inside real agents: whose memory, written once, foreign models, both kinds of hook."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_plume import ChatPlume
from langchain_plume.middleware import PlumeMemoryMiddleware, corrections_in, everything_said
from langgraph.checkpoint.memory import InMemorySaver

from plume_memory import ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.pool import MemoryPool
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()


@dataclass
class User:
    user_id: str


class Foreign(BaseChatModel):
    """A chat model of someone else's: says what it was shown."""

    @property
    def _llm_type(self) -> str:
        return "foreign"

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **_: Any) -> ChatResult:
        shown = "|".join(f"{m.type}: {m.text}" for m in messages)
        return ChatResult(generations=[ChatGeneration(message=AIMessage(shown))])


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[MemoryPool]:
    with MemoryPool(f"sqlite:///{tmp_path / 'log.db'}", engine=ENGINE) as opened:
        yield opened


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("one", url=f"sqlite:///{tmp_path / 'one.db'}", engine=ENGINE) as opened:
        yield opened


def said(text: str, **options: Any) -> dict[str, Any]:
    return {"messages": [HumanMessage(text, **options)]}


def test_each_user_is_answered_from_their_own_memory_and_only_their_words_are_written(pool: MemoryPool) -> None:
    middleware = PlumeMemoryMiddleware(pool)
    agent = create_agent(ChatPlume(max_tokens=4, min_tokens=1), middleware=[middleware], context_schema=User)

    agent.invoke(said("I live in Bern."), context=User("alice"))
    agent.invoke(said("I live in Oslo."), context=User("bob"))
    answer = agent.invoke(said("Where do I live?"), context=User("alice"))["messages"][-1]

    assert [v.text for v in pool.memory("alice").history()] == ["I live in Bern."]
    assert [v.text for v in pool.memory("bob").history()] == ["I live in Oslo."]
    plume = answer.response_metadata["plume"]
    assert (plume["memory"], plume["version"]) == ("alice", 1)
    assert plume["evidence"]["unit"]["text"] == "I live in Bern."
    middleware.flush()


async def test_the_async_hooks_do_the_same(pool: MemoryPool) -> None:
    agent = create_agent(
        ChatPlume(max_tokens=4, min_tokens=1), middleware=[PlumeMemoryMiddleware(pool)], context_schema=User
    )

    await agent.ainvoke(said("I live in Bern."), context=User("alice"))
    result = await agent.ainvoke(said("Where do I live?"), context=User("alice"))

    assert [v.text for v in pool.memory("alice").history()] == ["I live in Bern."]
    assert result["messages"][-1].response_metadata["plume"]["version"] == 1


def test_a_message_is_written_once_however_often_the_run_is_resumed(memory: ParametricMemory) -> None:
    class Failing(AgentMiddleware):
        """Fails behind the memory's hook once, as a crash would: the node is run again on resuming."""

        failures = 1

        def after_agent(self, state: Any, runtime: Any) -> None:
            if self.failures:
                self.failures -= 1
                raise RuntimeError("the process died here")

    # after_agent runs from the last to the first: the memory writes, then the other one fails
    agent = create_agent(
        ChatPlume(max_tokens=4, min_tokens=1),
        middleware=[Failing(), PlumeMemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )
    thread: Any = {"configurable": {"thread_id": "t"}}
    with pytest.raises(RuntimeError, match="died"):
        agent.invoke(said("I live in Bern."), thread)
    assert memory.version == 1
    agent.invoke(None, thread)
    assert memory.version == 1

    middleware = PlumeMemoryMiddleware(memory)
    state: Any = agent.get_state(thread).values
    middleware.after_agent(state, None)  # type: ignore[arg-type]
    assert memory.version == 1, "the same message again, by another instance: one update"


def test_a_thread_writes_only_what_is_new_in_each_turn(memory: ParametricMemory) -> None:
    agent = create_agent(
        ChatPlume(max_tokens=4, min_tokens=1),
        middleware=[PlumeMemoryMiddleware(memory)],
        checkpointer=InMemorySaver(),
    )
    thread: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke(said("I live in Bern."), thread)
    agent.invoke(said("Where do I live?"), thread)
    agent.invoke({"messages": [HumanMessage("I moved to Zurich."), HumanMessage("My cat is Mistral.")]}, thread)

    assert [v.text for v in memory.history()] == ["I live in Bern.", "I moved to Zurich.", "My cat is Mistral."]


def test_an_edited_message_is_a_new_update(memory: ParametricMemory) -> None:
    middleware = PlumeMemoryMiddleware(memory)
    for text in ("I live in Bern.", "I live in Basel.", "I live in Bern."):
        middleware.after_agent({"messages": [HumanMessage(text, id="m1"), AIMessage("ok")]}, None)  # type: ignore[typeddict-item,arg-type]

    assert [v.text for v in memory.history()] == ["I live in Bern.", "I live in Basel."]


def test_a_foreign_model_is_shown_the_routed_evidence_in_the_system_message(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.", derive=False)
    memory.update("Alice moved to Zurich.", derive=False)
    agent = create_agent(Foreign(), system_prompt="Be short.", middleware=[PlumeMemoryMiddleware(memory, write="off")])

    shown = agent.invoke(said("Where does Alice live?"))["messages"][-1].text

    assert shown.startswith("system: Be short.\n\nWhat is known from earlier")
    assert shown.index("(version 1) Alice lives in Bern.") < shown.index("(version 2) Alice moved to Zurich.")
    assert shown.endswith("|human: Where does Alice live?")
    assert memory.version == 2


def test_a_foreign_model_without_anything_known_sees_its_own_prompt(memory: ParametricMemory) -> None:
    agent = create_agent(Foreign(), middleware=[PlumeMemoryMiddleware(memory, write="off")])

    assert agent.invoke(said("Hello"))["messages"][-1].text == "human: Hello"


@pytest.mark.parametrize(
    ("text", "turns", "corrections"),
    [
        ("I live in Bern.", "I live in Bern.", None),
        ("Where do I live?", None, None),
        ("Hi! I moved to Oslo. Where do I live?", "Hi! I moved to Oslo. Where do I live?", "I moved to Oslo."),
        ("No, the code is 4471.", "No, the code is 4471.", "No, the code is 4471."),
        ("Has it changed?", None, None),
    ],
)
def test_policies_choose_what_is_written(text: str, turns: str | None, corrections: str | None) -> None:
    assert everything_said(text) == turns
    assert corrections_in(text) == corrections


def test_a_policy_of_ones_own_and_off(memory: ParametricMemory) -> None:
    state: Any = {"messages": [HumanMessage("note: the code is 4471", id="m"), AIMessage("ok")]}
    PlumeMemoryMiddleware(memory, write="off").after_agent(state, None)  # type: ignore[arg-type]
    assert memory.version == 0
    PlumeMemoryMiddleware(memory, write=lambda text: text.partition("note: ")[2]).after_agent(state, None)  # type: ignore[arg-type]
    assert memory.history()[0].text == "the code is 4471"


def test_a_pool_without_a_user_in_the_context_is_a_clear_error(pool: MemoryPool) -> None:
    agent = create_agent(ChatPlume(), middleware=[PlumeMemoryMiddleware(pool)], context_schema=User)
    with pytest.raises(InvalidInput, match="no 'user_id'"):
        agent.invoke(said("Hello"))


def test_unknown_options_are_refused(memory: ParametricMemory) -> None:
    for options in ({"write": "all"}, {"derive": "never"}, {"units": 0}):
        with pytest.raises(InvalidInput):
            PlumeMemoryMiddleware(memory, **options)  # type: ignore[arg-type]


def test_flush_waits_for_the_adapters_and_raises_what_went_wrong(
    memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    middleware = PlumeMemoryMiddleware(memory)
    middleware.after_agent({"messages": [HumanMessage("I live in Bern.", id="a")]}, None)  # type: ignore[arg-type]
    middleware.flush()
    assert memory.at(version=1)._derived

    def fail(_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("plume_memory.snapshot.Snapshot.derive", fail)
    middleware.after_agent({"messages": [HumanMessage("I live in Oslo.", id="b")]}, None)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="out of memory"):
        middleware.flush()
    middleware.close()
    assert "the log is whole" in caplog.text
    assert memory.version == 2


def test_the_system_message_of_a_plume_model_is_left_alone(memory: ParametricMemory) -> None:
    memory.update("Alice lives in Bern.", derive=False)
    seen: list[Any] = []

    class Looking(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            seen.append(request.system_message)
            return handler(request)

    agent = create_agent(
        ChatPlume(max_tokens=2, min_tokens=1),
        system_prompt=SystemMessage("Be short."),
        middleware=[PlumeMemoryMiddleware(memory, write="off"), Looking()],
    )
    agent.invoke(said("Where does Alice live?"))

    assert [m.text for m in seen] == ["Be short."]
