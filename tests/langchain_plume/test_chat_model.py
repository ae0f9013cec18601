"""ChatPlume against what LangChain's own suites (test_standard.py) miss."""

import asyncio
import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.globals import set_llm_cache
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage, SystemMessage
from langchain_plume import ChatPlume
from langchain_plume.messages import conversation
from pydantic import ValidationError

from plume_memory import Engine, ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.model.decode import Query
from plume_memory.model.streams import GrowingRows, Row
from plume_memory.pool import MemoryPool
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
    with pytest.raises(InvalidInput, match="'remove' message"):
        model.invoke([HumanMessage("x"), RemoveMessage(id="1")])
    for block in ({"type": "image_url", "image_url": {"url": "http://x"}}, {"type": "audio", "base64": "", "id": "1"}):
        with pytest.raises(InvalidInput, match=f"type '{block['type']}'"):
            model.invoke([HumanMessage([{"type": "text", "text": "Look:"}, block])])
    with pytest.raises(InvalidInput, match="needs a user turn at its end"):
        model.invoke([HumanMessage("x"), AIMessage("y")])
    with pytest.raises(InvalidInput, match="logit_bias"):
        model.invoke("x", logit_bias={})
    with pytest.raises(InvalidInput, match="greedily"):
        model.invoke("x", temperature=0.7)


def test_an_unknown_parameter_and_a_temperature_are_refused_at_construction() -> None:
    with pytest.raises(ValidationError, match=r"decodes greedily; got temperature=0\.7"):
        ChatPlume(temperature=0.7)
    with pytest.raises(ValidationError, match="top_p"):
        ChatPlume(top_p=0.9)  # type: ignore[call-arg]


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


def in_a_fresh_process(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_and_constructing_imports_no_torch_and_takes_no_half_second() -> None:
    code = (
        "import sys, time, langchain_core.language_models.chat_models, langchain_core.output_parsers, "
        "langchain_core.tools\n"
        "start = time.process_time()\n"
        "import langchain_plume\n"
        "langchain_plume.ChatPlume().with_memory(None)\n"
        "print(time.process_time() - start, 'torch' in sys.modules, 'transformers' in sys.modules)"
    )

    seconds, torch, transformers = in_a_fresh_process(code)

    assert float(seconds) < 0.5
    assert (torch, transformers) == ("False", "False")


def test_importing_the_package_imports_none_of_its_modules() -> None:
    code = "import sys, langchain_plume; print(sum(name.startswith('langchain_plume.') for name in sys.modules))"
    assert in_a_fresh_process(code) == ["0"]


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


# --- versions, threads, abandoned streams --------------------------------------------------------------


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

    assert not [kept for kept in gc.get_objects() if type(kept) is GrowingRows]
    assert not [m for m in ENGINE.base.model.modules() if m._forward_hooks]
    with ThreadPoolExecutor(1) as other:
        assert other.submit(ENGINE.base.lock.acquire, blocking=False).result()
        other.submit(ENGINE.base.lock.release).result()
    assert model.invoke("Where?").content == expected


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


# --- memories, engines, and what LangChain is told -----------------------------------------------------


def test_with_memory_is_a_copy_that_shares_the_engine(memory: ParametricMemory, tmp_path: Path) -> None:
    with ParametricMemory.open("bob", url=f"sqlite:///{tmp_path / 'b.db'}", engine=ENGINE) as other:
        other.update("Bob lives in Oslo.")
        model = memory.as_chat_model(max_tokens=5)
        copy = model.with_memory(other)

        assert copy.invoke("Where?").response_metadata["plume"]["memory"] == "bob"
        assert model.invoke("Where?").response_metadata["plume"]["memory"] == "alice"
        assert copy.engine is model.engine
        assert copy.max_tokens == 5


def test_without_a_memory_the_bare_model_answers_and_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []

    def load(name: str, **options: object) -> Engine:
        loaded.append((name, options))
        return ENGINE

    monkeypatch.setattr(Engine, "load", load)
    model = ChatPlume(model="some-model", hypernetwork="none", device="cpu")
    copy = model.with_memory(None)
    assert model._identifying_params["model"] == "some-model"
    assert loaded == []

    message = model.invoke("Where?")
    query = Query(Row(tuple(ENGINE.base.chat.prompt_ids("Where?"))))
    expected = ENGINE.decoder.decode([query], ENGINE.decode_settings())[0]
    assert message.content == expected.text
    assert {key: message.response_metadata["plume"][key] for key in ("memory", "version", "evidence")} == {
        "memory": None,
        "version": None,
        "evidence": None,
    }
    assert copy.invoke("Where?").content == message.content
    assert loaded == [("some-model", {"hypernetwork": "none", "device": "cpu"})]


def test_what_changes_an_answer_changes_the_cache_key(memory: ParametricMemory) -> None:
    model = memory.as_chat_model()
    keys = [model._get_llm_string()]
    memory.update("Alice lives in Zurich.")
    keys.append(model._get_llm_string())
    for options in ({"max_tokens": 3}, {"min_tokens": 3}, {"stop": ["x"]}, {"max_string_chars": 9}):
        keys.append(memory.as_chat_model(**options)._get_llm_string())
    keys.append(model._get_llm_string(tools=[]))

    assert len(set(keys)) == len(keys)
    assert not model.is_lc_serializable()


async def test_an_async_call_loads_no_weights_on_the_event_loop(tmp_path: Path) -> None:
    loaded_by: list[str] = []

    def load() -> Any:
        loaded_by.append(threading.current_thread().name)
        return ENGINE

    with MemoryPool(f"sqlite:///{tmp_path / 'log.db'}") as pool:
        memory = pool.memory("alice")
        memory._engine = load
        model = memory.as_chat_model(max_tokens=2, min_tokens=1)
        key = model._get_llm_string()
        await model.ainvoke("Where?")
        assert model._get_llm_string() != key, "what was answered before is kept under a key that never comes again"

    assert len(loaded_by) == 1
    assert loaded_by[0] != threading.main_thread().name


def test_the_trace_can_be_left_out(memory: ParametricMemory) -> None:
    plume = memory.as_chat_model(trace=False).invoke("Where?").response_metadata["plume"]
    assert "trace" not in plume
    assert plume["version"] == 1


def test_a_pool_is_no_memory(tmp_path: Path) -> None:
    with MemoryPool(f"sqlite:///{tmp_path / 'log.db'}") as pool, pytest.raises(ValidationError, match=r"pool\.memory"):
        ChatPlume(memory=pool)


def test_a_summary_in_the_users_mouth_is_not_what_is_routed(memory: ParametricMemory) -> None:
    memory.update("Bob plays the cello.", derive=False)
    summary = HumanMessage("So far Alice and Bern came up.", additional_kwargs={"lc_source": "summarization"})
    message = memory.as_chat_model().invoke([summary, HumanMessage("Who plays the cello?")])

    assert message.response_metadata["plume"]["evidence"]["unit"]["text"] == "Bob plays the cello."


def test_the_profile_says_what_is_known_without_loading(memory: ParametricMemory) -> None:
    default, other = ChatPlume().profile, ChatPlume(model="org/other").profile
    assert default is not None
    assert other is not None

    assert default["max_input_tokens"] == 8192
    assert default["structured_output"]
    assert default["tool_calling"]
    assert "max_input_tokens" not in other
    bound = memory.as_chat_model().profile
    assert bound is not None
    assert (bound["name"], bound["max_input_tokens"]) == ("tiny-llama", 2048), "the memory's engine is there already"
    rebound = ChatPlume(model="org/other").with_memory(memory).profile
    assert rebound == bound


def test_tracing_parameters_name_the_model_or_the_memory(memory: ParametricMemory) -> None:
    bare = ChatPlume(model="org/other", max_tokens=5, stop=["a"])._get_ls_params(stop=["b"])

    assert bare["ls_model_name"] == "org/other"
    assert (bare["ls_max_tokens"], bare["ls_stop"], bare["ls_temperature"]) == (5, ["a", "b"], 0.0)
    assert memory.as_chat_model()._get_ls_params()["ls_model_name"] == "plume/alice"


def test_tokens_are_counted_by_the_models_own_tokenizer(memory: ParametricMemory) -> None:
    assert memory.as_chat_model().get_num_tokens("Zürich") == len("Zürich".encode())


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
