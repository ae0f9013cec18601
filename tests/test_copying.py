"""What holds connections and weights says so when it is copied; what holds none is copied."""

import copy
import pickle  # noqa: TID251 — what a program that starts another one does
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_plume import ChatPlume, PlumeMemoryMiddleware, PlumeRetriever, PlumeStore, memory_tools

from plume_memory.errors import InvalidInput
from plume_memory.memory import ParametricMemory
from plume_memory.pool import MemoryPool
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()
WAYS: dict[str, Callable[[Any], Any]] = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda it: pickle.loads(pickle.dumps(it)),
}


@pytest.fixture
def holders(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """Everything that a user may hold, on one memory."""
    url = f"sqlite:///{tmp_path / 'plume.db'}"
    with (
        ParametricMemory.open("alice", url=url, engine=ENGINE) as memory,
        MemoryPool(url, engine=ENGINE) as pool,
        PlumeStore(memory, url=url) as store,
    ):
        memory.update("Alice sails.")
        yield {
            "memory": memory,
            "pool": pool,
            "engine": ENGINE,
            "chat model": memory.as_chat_model(),
            "snapshot": memory.at(),
            "store": store,
            "retriever": PlumeRetriever(memory=memory),
            "tool": memory_tools(memory)[0],
            "middleware": PlumeMemoryMiddleware(memory),
        }


@pytest.mark.parametrize("way", WAYS)
def test_what_cannot_be_copied_says_so_in_a_sentence(holders: dict[str, Any], way: str) -> None:
    for holder in holders.values():
        with pytest.raises(InvalidInput, match=r"^A \w+ cannot be copied or pickled: .*\. \w.*\.$"):
            WAYS[way](holder)


@pytest.mark.parametrize("way", WAYS)
def test_a_chat_model_without_a_memory_is_copied(way: str) -> None:
    model = ChatPlume(max_tokens=7, stop=["x"])
    made = WAYS[way](model)
    assert made.model_dump() == model.model_dump()
    assert (made._shared is model._shared) == (way == "deepcopy"), "copies in one process load one engine"
    assert made.with_memory(None).max_tokens == 7
