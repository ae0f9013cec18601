"""What ChatPlume is bound to: its memory or none, the engine it loads and when, and what LangChain is told of it."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.caches import InMemoryCache
from langchain_core.globals import set_llm_cache
from langchain_plume import ChatPlume
from pydantic import ValidationError

from plume_memory import Engine, ParametricMemory
from plume_memory.answering.options import settings_of
from plume_memory.model.queries import Query
from plume_memory.model.streams import Row
from plume_memory.pool import MemoryPool
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=ENGINE) as opened:
        opened.update("Alice lives in Bern.")
        yield opened


# --- memories and engines -------------------------------------------------------------------------


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
    expected = ENGINE.scheduler.decode([query], settings_of(ENGINE.policy, {}))[0]
    assert message.content == expected.text
    assert {key: message.response_metadata["plume"][key] for key in ("memory", "version", "evidence")} == {
        "memory": None,
        "version": None,
        "evidence": None,
    }
    assert copy.invoke("Where?").content == message.content
    assert loaded == [("some-model", {"hypernetwork": "none", "device": "cpu"})]


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


def test_a_pool_is_no_memory(tmp_path: Path) -> None:
    with MemoryPool(f"sqlite:///{tmp_path / 'log.db'}") as pool, pytest.raises(ValidationError, match=r"pool\.memory"):
        ChatPlume(memory=pool)


def in_a_fresh_process(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_importing_and_constructing_imports_no_torch() -> None:
    code = (
        "import sys, langchain_plume\n"
        "langchain_plume.ChatPlume().with_memory(None)\n"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )

    assert in_a_fresh_process(code) == ["False", "False"]


def test_importing_the_package_imports_none_of_its_modules() -> None:
    code = "import sys, langchain_plume; print(sum(name.startswith('langchain_plume.') for name in sys.modules))"
    assert in_a_fresh_process(code) == ["0"]


# --- what LangChain is told -----------------------------------------------------------------------


def test_an_unknown_parameter_and_a_temperature_are_refused_at_construction() -> None:
    with pytest.raises(ValidationError, match=r"decodes greedily; got temperature=0\.7"):
        ChatPlume(temperature=0.7)
    with pytest.raises(ValidationError, match="top_p"):
        ChatPlume(top_p=0.9)  # type: ignore[call-arg]


def test_the_memory_stays_out_of_repr(memory: ParametricMemory) -> None:
    assert "ParametricMemory" not in repr(memory.as_chat_model())


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


# --- LangChain's caches ---------------------------------------------------------------------------


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
