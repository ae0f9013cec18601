"""ChatPlume's answers against what LangChain's own suites (test_standard.py) miss."""

import asyncio
import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.exceptions import ContextOverflowError
from langchain_core.globals import set_llm_cache
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    trim_messages,
)
from langchain_plume import ChatPlume
from langchain_plume.messages import conversation

from plume_memory import Engine, ParametricMemory
from plume_memory.errors import InvalidInput, PromptTooLong
from plume_memory.forks import Lock
from plume_memory.model.running import RunningQueries
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=ENGINE) as opened:
        opened.update("Alice lives in Bern.")
        yield opened


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
    with pytest.raises(InvalidInput, match="'remove' message"):
        model.invoke([HumanMessage("x"), RemoveMessage(id="1")])
    with pytest.raises(InvalidInput, match="needs a user turn at its end"):
        model.invoke([HumanMessage("x"), AIMessage("y")])
    with pytest.raises(InvalidInput, match="logit_bias"):
        model.invoke("x", logit_bias={})
    with pytest.raises(InvalidInput, match="greedily"):
        model.invoke("x", temperature=0.7)


BLOCKS: list[dict[str, Any]] = [
    {"type": "image_url", "image_url": {"url": "http://x"}},
    {"type": "image", "base64": "", "mime_type": "image/png"},
    {"type": "audio", "base64": "", "id": "1"},
    {"type": "file", "url": "http://x"},
    {"no": "type"},
]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: str(block.get("type")))
def test_the_text_beside_an_image_is_read_at_this_turn_and_every_later_one(
    memory: ParametricMemory, block: dict[str, Any]
) -> None:
    """In whosever message it stands; what was left out is noted."""
    model = memory.as_chat_model()
    shown = HumanMessage(["Where?", block, {"type": "text", "text": " Look."}, block])
    said = HumanMessage("Where? Look.")
    call = {"name": "look", "args": {}, "id": "1"}

    first = model.invoke([shown])
    assert first.content == model.invoke([said]).content
    assert first.response_metadata["plume"]["left_out"] == {str(block.get("type")): 2}
    later = [AIMessage("Bern."), HumanMessage("And Bob?")]
    assert model.invoke([shown, *later]).content == model.invoke([said, *later]).content
    tools = [AIMessage("", tool_calls=[call]), ToolMessage([block], tool_call_id="1")]
    assert model.invoke([said, *tools]).response_metadata["plume"]["left_out"] == {str(block.get("type")): 1}
    assert "left_out" not in model.invoke([said]).response_metadata["plume"]


def test_a_question_of_an_image_alone_is_refused_and_does_not_stay_in_the_way(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    alone = HumanMessage([BLOCKS[0]])

    with pytest.raises(InvalidInput, match=r"the question has no text; .* 1 of type 'image_url'"):
        model.invoke([alone])
    assert model.invoke([alone, HumanMessage("Where?")]).response_metadata["plume"]["left_out"] == {"image_url": 1}
    with pytest.raises(InvalidInput, match=r"ChatPlume reads text; the messages hold .* 1 of type 'image_url'"):
        memory.as_chat_model(unreadable="refuse").invoke([alone, HumanMessage("Where?")])


def look(place: str) -> str:
    """Look around a place."""
    return place


CONVERSATIONS: dict[str, list[BaseMessage]] = {
    "a question": [HumanMessage("Where does Alice live?")],
    "a system text": [SystemMessage("Be brief."), HumanMessage("Where?")],
    "several turns": [HumanMessage("Hi"), AIMessage("Hello there."), HumanMessage("Where?"), HumanMessage("And when?")],
    "an image": [HumanMessage([{"type": "text", "text": "Where?"}, BLOCKS[0]])],
    "a tool": [
        HumanMessage("Where?"),
        AIMessage("", tool_calls=[{"name": "look", "args": {"place": "Bern"}, "id": "1"}]),
        ToolMessage("It rains.", tool_call_id="1"),
    ],
}


@pytest.mark.parametrize("name", CONVERSATIONS)
@pytest.mark.parametrize("tools", [[], [look]], ids=["", "bound tools"])
def test_tokens_are_counted_as_the_prompt_has_them(memory: ParametricMemory, name: str, tools: list[Any]) -> None:
    model, messages = memory.as_chat_model(), CONVERSATIONS[name]
    told = (model.bind_tools(tools) if tools else model).invoke(messages).usage_metadata

    assert told is not None
    assert model.get_num_tokens_from_messages(messages, tools=tools) == told["input_tokens"]


def test_trimmed_messages_are_a_prompt_of_the_size_that_was_asked_for(memory: ParametricMemory) -> None:
    """Of short messages the frame around them is most of it."""
    model = memory.as_chat_model()
    messages: list[BaseMessage] = [SystemMessage("Be brief.")]
    for number in range(20):
        messages += [HumanMessage(f"{number}?"), AIMessage("Yes.")]
    messages.append(HumanMessage("Where?"))

    for most in (150, 400):
        kept = trim_messages(messages, max_tokens=most, token_counter=model, include_system=True, start_on="human")
        told = model.invoke(kept).usage_metadata
        assert told is not None
        assert most // 2 < told["input_tokens"] <= most
    assert model.get_num_tokens_from_messages([]) == 0
    for part in ([AIMessage("Yes.")], [SystemMessage("Be brief.")], [ToolMessage("x", tool_call_id="1")]):
        assert model.get_num_tokens_from_messages(list(part)) > 0


def test_a_prompt_that_is_too_long_is_langchain_s_error_too(memory: ParametricMemory) -> None:
    """Its middlewares catch that one and shorten the conversation."""
    with pytest.raises(ContextOverflowError, match="reads at most") as raised:
        memory.as_chat_model().invoke("word " * 5000)
    assert isinstance(raised.value, PromptTooLong)


async def test_async_and_batch_give_the_same_answers(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    questions = ["Where?", "Who is Alice?", "Bern?"]
    expected = [model.invoke(q).content for q in questions]

    assert [m.content for m in model.batch(questions)] == expected
    assert [m.content for m in await model.abatch(questions)] == expected
    streamed = [chunk.text async for chunk in model.astream(questions[0])]
    assert "".join(streamed) == expected[0]


def test_the_trace_can_be_left_out(memory: ParametricMemory) -> None:
    plume = memory.as_chat_model(trace=False).invoke("Where?").response_metadata["plume"]
    assert "trace" not in plume
    assert plume["version"] == 1


def test_a_summary_in_the_users_mouth_is_not_what_is_routed(memory: ParametricMemory) -> None:
    memory.update("Bob plays the cello.", derive=False)
    summary = HumanMessage("So far Alice and Bern came up.", additional_kwargs={"lc_source": "summarization"})
    message = memory.as_chat_model().invoke([summary, HumanMessage("Who plays the cello?")])

    assert message.response_metadata["plume"]["evidence"]["unit"]["text"] == "Bob plays the cello."


def test_content_blocks_names_and_repeated_calls_are_read(memory: ParametricMemory) -> None:
    blocks: list[str | dict[str, object]] = [{"type": "text", "text": "Where"}, {"type": "text", "text": "?"}]
    thought = AIMessage([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "Here."}])

    turns = conversation([HumanMessage(blocks, name="ann"), thought])

    assert turns == [
        {"role": "user", "content": "Where?", "name": "ann"},
        {"role": "assistant", "content": "Here."},
    ]
    model = memory.as_chat_model()
    assert model.invoke([HumanMessage(blocks, name="ann")]).content == model.invoke("Where?").content


# --- what LangChain's suite does not notice (its fakes pass with each of these broken) ----------------


@pytest.mark.parametrize("question", ["Where does Alice live?", "Hi", "Wer?"])
def test_streaming_inside_invoke_gives_the_same_message(memory: ParametricMemory, question: str) -> None:
    plain = memory.as_chat_model().invoke(question)
    streamed = memory.as_chat_model(streaming=True).invoke(question)

    assert streamed.content == plain.content
    assert streamed.usage_metadata == plain.usage_metadata
    assert streamed.response_metadata == plain.response_metadata


def test_usage_counts_real_tokens(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    message = model.invoke("Where does Alice live?")

    assert message.usage_metadata is not None
    assert message.usage_metadata["input_tokens"] > len("Where does Alice live?")
    assert 0 < message.usage_metadata["output_tokens"] <= 8
    assert message.usage_metadata["output_tokens"] == len(message.response_metadata["plume"]["trace"])


def test_a_stop_text_over_several_tokens_is_held_back_while_streaming(memory: ParametricMemory) -> None:
    """Every token of the tiny model is one byte, so three characters are three tokens."""
    text = memory.ask("Where?", max_new_tokens=24).text
    stop = text[6:9]

    chunks = list(memory.as_chat_model(max_tokens=24, stop=[stop]).stream("Where?"))

    assert "".join(c.text for c in chunks) == text[: text.index(stop)]
    assert chunks[-1].response_metadata["finish_reason"] == "stop"


def test_max_tokens_of_a_call_and_of_the_constructor_cut_the_answer(memory: ParametricMemory) -> None:
    for message in (
        memory.as_chat_model(max_tokens=3).invoke("Where?"),
        memory.as_chat_model().invoke("Where?", max_tokens=3),
    ):
        assert message.usage_metadata is not None
        assert message.usage_metadata["output_tokens"] == 3
        assert message.response_metadata["finish_reason"] == "length"


# --- versions, threads, abandoned streams ---------------------------------------------------------


def test_answers_of_a_batch_beside_updates_belong_to_exactly_one_version_each(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    cities = iter(("Zurich", "Basel", "Geneva"))

    class Updating(BaseCallbackHandler):
        """Writes an update in the middle of the batch: when some of its answers begin."""

        def on_chat_model_start(self, serialized: Any, messages: Any, **_: Any) -> None:
            if messages[0][0].text.startswith("Now"):
                memory.update(f"Alice lives in {next(cities)}.")

    questions = [f"{'Now' if i % 4 == 2 else 'Question'} {i}?" for i in range(12)]
    messages = model.batch(questions, {"callbacks": [Updating()], "max_concurrency": 3})

    versions = [message.response_metadata["plume"]["version"] for message in messages]
    for question, message, version in zip(questions, messages, versions, strict=True):
        assert message.content == memory.at(version=version).ask(question).text
    assert memory.version == 4
    assert len(set(versions)) > 1


@pytest.mark.parametrize("end", ["close", "break"])
def test_an_abandoned_stream_frees_everything(memory: ParametricMemory, end: str) -> None:
    model = memory.as_chat_model()
    expected = model.invoke("Where?").content
    if end == "close":
        stream = model.stream("Where?")
        next(stream)
        stream.close()  # type: ignore[attr-defined]
    else:
        for _ in model.stream("Where?"):
            break
    gc.collect()

    assert not [kept for kept in gc.get_objects() if type(kept) is RunningQueries and len(kept)]
    with ThreadPoolExecutor(1) as other:
        other.submit(_take, ENGINE.base.lock).result(timeout=60)
    assert model.invoke("Where?").content == expected


def _take(lock: Lock) -> None:
    with lock:
        pass


async def test_an_abandoned_async_stream_blocks_nobody(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    async for _ in model.astream("Where?"):
        break

    assert (await model.ainvoke("Where?")).content == memory.ask("Where?").text


async def test_fifty_concurrent_async_streams_each_give_their_own_answer(memory: ParametricMemory) -> None:
    model = memory.as_chat_model(max_tokens=4)
    questions = [f"{i}?" for i in range(50)]

    async def streamed(question: str) -> str:
        return "".join([chunk.text async for chunk in model.astream(question)])

    found = await asyncio.gather(*map(streamed, questions))

    assert found == [a.text for a in memory.ask_many(questions, max_new_tokens=4)]


# --- the real model -------------------------------------------------------------------------------


@pytest.mark.model
def test_the_real_model_answers_through_langchain(smollm2: object, tmp_path: Path) -> None:
    """Compiled evidence needs no hypernetwork and no training, so this is quick."""
    from plume_memory.model.base import BaseModel

    assert isinstance(smollm2, BaseModel)
    assert smollm2.context_window == (ChatPlume().profile or {})["max_input_tokens"]
    engine = Engine(smollm2, None)
    with ParametricMemory.open("bridge", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as memory:
        memory.update("The Quillon Bridge was designed by Maren Holt and opened in 1911.")
        message = memory.as_chat_model(max_tokens=24).invoke("In what year did the bridge open?")

    assert "1911" in message.text


@pytest.fixture
def cached() -> Iterator[InMemoryCache]:
    """LangChain's cache of every answer of the process."""
    cache = InMemoryCache()
    set_llm_cache(cache)
    yield cache
    set_llm_cache(None)


@pytest.mark.parametrize("is_async", [False, True])
async def test_the_first_call_of_a_process_leaves_an_entry_that_is_found(
    tmp_path: Path, cached: InMemoryCache, is_async: bool
) -> None:
    url = f"sqlite:///{tmp_path / 'log.db'}"
    with ParametricMemory.open("alice", url=url, engine=ENGINE) as memory:
        memory.update("Alice lives in Bern.")
        parts = {"database": memory._database, "artifacts": memory._artifacts}
        lazily = ParametricMemory("alice", engine=lambda: ENGINE, **parts)  # type: ignore[arg-type]
        for _ in range(2):
            model = lazily.as_chat_model()
            answer = await model.ainvoke("Where?") if is_async else await asyncio.to_thread(model.invoke, "Where?")
            assert answer.response_metadata["plume"]["version"] == 1
            assert len(cached._cache) == 1, "the second call finds what the first left"
        memory.update("Alice moved to Zug.")
        await lazily.as_chat_model().ainvoke("Where?")
        assert len(cached._cache) == 2
