"""ChatPlume against langchain-tests and against what that suite misses."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, SystemMessage, ToolMessage
from langchain_plume import ChatPlume
from langchain_tests.unit_tests import ChatModelUnitTests

from plume_memory import ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=ENGINE) as opened:
        opened.update("Alice lives in Bern.")
        yield opened


class TestChatPlumeUnit(ChatModelUnitTests):
    """LangChain's own suite."""

    chat_model_class = ChatPlume

    @property
    def chat_model_params(self) -> dict[str, object]:
        return {"memory": ParametricMemory.open("suite", url="sqlite://", engine=ENGINE)}


def test_invoke_answers_with_usage_version_evidence_and_trace(memory: ParametricMemory) -> None:
    message = memory.as_chat_model().invoke("Where does Alice live?")

    answer = memory.ask("Where does Alice live?")
    assert message.content == answer.text
    assert message.usage_metadata == {
        "input_tokens": answer.usage.prompt_tokens,
        "output_tokens": answer.usage.completion_tokens,
        "total_tokens": answer.usage.total_tokens,
    }
    plume = message.response_metadata["plume"]
    assert plume["version"] == 1
    assert plume["evidence"]["unit"]["text"] == "Alice lives in Bern."
    assert [t["weight"] for t in plume["trace"]] == [t.weight for t in answer.trace]
    assert message.response_metadata["model_name"] == "tiny-llama"


def test_stream_joins_to_invoke_and_metadata_comes_once_at_the_end(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    chunks = list(model.stream("Where does Alice live?"))

    assert "".join(c.text for c in chunks) == model.invoke("Where does Alice live?").text
    assert len(chunks) > 2
    assert [c.chunk_position for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].chunk_position == "last"
    assert not any(c.usage_metadata for c in chunks[:-1])
    merged = chunks[0]
    for chunk in chunks[1:]:
        merged += chunk
    assert isinstance(merged, AIMessageChunk)
    assert merged.response_metadata["model_name"] == "tiny-llama"


def test_a_cached_answer_does_not_survive_an_update(memory: ParametricMemory) -> None:
    set_llm_cache(InMemoryCache())
    try:
        model = memory.as_chat_model()
        first = model.invoke("Where does Alice live?")
        assert model.invoke("Where does Alice live?").response_metadata["plume"]["version"] == 1
        memory.update("Alice lives in Zurich.")
        second = model.invoke("Where does Alice live?")
    finally:
        set_llm_cache(None)

    assert second.response_metadata["plume"]["version"] == 2
    assert second.content != first.content


def test_a_cached_answer_is_not_given_for_another_memory_of_the_same_name(tmp_path: Path) -> None:
    set_llm_cache(InMemoryCache())
    try:
        texts = []
        for place, city in (("a", "Bern"), ("b", "Zurich")):
            with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / place}.db", engine=ENGINE) as opened:
                opened.update(f"Alice lives in {city}.")
                texts.append((opened.as_chat_model().invoke("Where?").content, opened.ask("Where?").text))
    finally:
        set_llm_cache(None)

    assert texts[0][0] != texts[1][0]
    assert all(cached == direct for cached, direct in texts)


def test_a_streamed_reply_can_be_sent_back(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    chunks = list(model.stream("Hi"))
    reply = chunks[0]
    for chunk in chunks[1:]:
        reply += chunk

    assert model.invoke([HumanMessage("Hi"), reply, HumanMessage("And now?")]).content


def test_stop_of_the_call_and_of_the_constructor_end_the_answer(memory: ParametricMemory) -> None:
    text = memory.ask("Where?").text
    stop = text[2:4]

    for model, call in ((memory.as_chat_model(stop=[stop]), {}), (memory.as_chat_model(), {"stop": [stop]})):
        assert model.invoke("Where?", **call).content == text[: text.index(stop)]


def test_the_conversation_reaches_the_model(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    alone = model.invoke("And now?")
    after = model.invoke([HumanMessage("Hi"), AIMessage("Hello"), HumanMessage("And now?")])

    assert after.usage_metadata is not None
    assert alone.usage_metadata is not None
    assert after.usage_metadata["input_tokens"] > alone.usage_metadata["input_tokens"] + 7


def test_neighbours_of_one_role_are_one_turn(memory: ParametricMemory) -> None:
    double = [SystemMessage("a"), SystemMessage("b"), HumanMessage("c"), HumanMessage("d")]
    single = [SystemMessage("a\nb"), HumanMessage("c\nd")]
    model = memory.as_chat_model()

    assert model.invoke(double).content == model.invoke(single).content


def test_what_the_model_cannot_read_is_refused(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    with pytest.raises(InvalidInput, match="'tool' message"):
        model.invoke([HumanMessage("x"), ToolMessage("y", tool_call_id="1")])
    with pytest.raises(InvalidInput, match="type 'image_url'"):
        model.invoke([HumanMessage([{"type": "image_url", "image_url": {"url": "http://x"}}])])
    with pytest.raises(InvalidInput, match="logit_bias"):
        model.invoke("x", logit_bias={})


async def test_async_and_batch_give_the_same_answers(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    questions = ["Where?", "Who is Alice?", "Bern?"]
    expected = [model.invoke(q).content for q in questions]

    assert [m.content for m in model.batch(questions)] == expected
    assert [m.content for m in await model.abatch(questions)] == expected
    streamed = [chunk.text async for chunk in model.astream(questions[0])]
    assert "".join(streamed) == expected[0]


def test_the_memory_stays_out_of_repr(memory: ParametricMemory) -> None:
    assert "ParametricMemory" not in repr(memory.as_chat_model())


def test_importing_the_integration_does_not_import_torch() -> None:
    import subprocess
    import sys

    code = "import sys, langchain_plume; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.model
def test_the_real_model_answers_through_langchain(smollm2: object, tmp_path: Path) -> None:
    """Compiled evidence needs no hypernetwork and no training, so this is quick."""
    from plume_memory import Engine
    from plume_memory.model.base import BaseModel

    assert isinstance(smollm2, BaseModel)
    engine = Engine(smollm2, None)
    with ParametricMemory.open("bridge", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as memory:
        memory.update("The Quillon Bridge was designed by Maren Holt and opened in 1911.")
        message = memory.as_chat_model(max_tokens=24).invoke("In what year did the bridge open?")

    assert "1911" in message.text
