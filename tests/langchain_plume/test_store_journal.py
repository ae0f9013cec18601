"""PlumeStore's journal: what stops half way is finished once, threads lose nothing, and its schema is its own."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from langchain_plume.journal import Journal, Write
from langchain_plume.store import PlumeStore
from langgraph.store.base import PutOp

from plume_memory.errors import MemoryClosed, SchemaError, StoreUnavailable
from plume_memory.memory import ParametricMemory

HOME = ("users", "alice")


def held(memory: ParametricMemory) -> list[str]:
    return [transition.text for transition in memory.text_at().transitions]


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


# --- crashes and threads --------------------------------------------------------------------------


class Stop(Exception):
    """A process that ends here."""


def stopping(*args: Any, **options: Any) -> Any:
    raise Stop


@pytest.mark.parametrize(
    "where",
    [(ParametricMemory, "update"), (Journal, "written")],
    ids=["before the memory is told", "after, before the journal knows"],
)
def test_a_put_that_stops_half_way_is_finished_once_by_the_next_process(
    memory: ParametricMemory, url: str, monkeypatch: pytest.MonkeyPatch, where: tuple[type, str]
) -> None:
    with PlumeStore(memory, url=url) as store:
        with monkeypatch.context() as patch:
            patch.setattr(*where, stopping)
            with pytest.raises(Stop):
                store.put(HOME, "k", {"text": "a fact"})
        assert keys(store.search(HOME)) == ["k"]  # the item was acknowledged by the journal, and stays
    with PlumeStore(memory, url=url) as store:
        assert [item.score is not None for item in store.search(HOME, query="fact")] == [True]
        store.put(HOME, "k", {"text": "a fact"})  # and so does the retry of whoever saw the error

    assert [version.text for version in memory.history()] == ["a fact"]


@pytest.mark.parametrize(
    "where",
    [(ParametricMemory, "forget"), (Journal, "forgotten")],
    ids=["before the memory forgets", "after, before the journal knows"],
)
def test_a_delete_that_stops_half_way_is_finished_once_by_the_next_call(
    store: PlumeStore, memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch, where: tuple[type, str]
) -> None:
    store.put(HOME, "k", {"text": "a fact"})
    store.put(HOME, "other", {"text": "one more"})
    with monkeypatch.context() as patch:
        patch.setattr(*where, stopping)
        with pytest.raises(Stop):
            store.delete(HOME, "k")
    assert store.get(HOME, "k") is None

    store.put(HOME, "new", {"text": "the last"})
    assert held(memory) == ["one more", "the last"]
    assert [version.kind for version in memory.history()].count("forget") == 1


@pytest.mark.parametrize("where", [(ParametricMemory, "update"), (Journal, "written")])
def test_a_text_replaced_before_its_put_was_finished_is_not_held(
    store: PlumeStore, memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch, where: tuple[type, str]
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(*where, stopping)
        with pytest.raises(Stop):
            store.put(HOME, "k", {"text": "a mistake"})

    store.put(HOME, "k", {"text": "a fact"})
    assert held(memory) == ["a fact"]
    store.delete(HOME, "k")
    assert held(memory) == []


def test_an_item_and_its_text_are_journaled_together_or_not_at_all(
    store: PlumeStore, memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(HOME, "k", {"text": "a fact"})
    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_write_text", stopping)
        with pytest.raises(Stop):
            store.batch([PutOp(HOME, "k", None), PutOp(HOME, "new", {"text": "x"})])

    store.settle()
    assert keys(store.search(())) == ["k"]
    assert held(memory) == ["a fact"]


def test_a_database_that_refuses_is_an_error_and_the_next_call_catches_up(
    store: PlumeStore, memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*args: Any, **options: Any) -> Any:
        raise StoreUnavailable("locked")

    with monkeypatch.context() as patch:
        patch.setattr(ParametricMemory, "update", refusing)
        for n in range(3):
            with pytest.raises(StoreUnavailable):
                store.put(HOME, str(n), {"text": f"fact {n}"})

    store.settle()
    assert held(memory) == ["fact 0", "fact 1", "fact 2"]


def in_threads(count: int, work: Callable[[int], None]) -> None:
    gate = threading.Barrier(count)

    def one(n: int) -> None:
        gate.wait()
        work(n)

    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(one, n) for n in range(count)]:
            future.result()


def test_concurrent_puts_lose_no_row_and_the_memory_holds_what_the_journal_holds(
    store: PlumeStore, memory: ParametricMemory, url: str
) -> None:
    with PlumeStore(memory, url=url) as second:  # as another process would, with locks of its own

        def work(n: int) -> None:
            own = (store, second)[n % 2]
            own.put(("own", str(n)), "k", {"text": f"mine {n}"})
            own.put(("all",), "shared", {"text": f"by {n}"})

        in_threads(8, work)
        store.settle()

    shared = store.get(("all",), "shared")
    assert shared is not None
    assert len(store.search(("own",))) == 8
    assert sorted(held(memory)) == sorted([shared.value["text"], *(f"mine {n}" for n in range(8))])
    texts = [version.text for version in memory.history() if version.kind == "update"]
    assert len(texts) == len(set(texts)) == 16


async def test_async_calls_made_at_once_happen_in_the_order_they_were_made(
    store: PlumeStore, memory: ParametricMemory
) -> None:
    calls: list[Any] = []
    for n in range(5):
        calls += [store.aput(HOME, "k", {"text": f"words {n}"}), store.adelete(HOME, "k"), store.aget(HOME, "k")]
    *earlier, last = await asyncio.gather(*calls, store.aput(HOME, "k", {"text": "the last"}), store.aget(HOME, "k"))

    assert [one for one in earlier if one is not None] == []
    assert last.value == {"text": "the last"}
    assert held(memory) == ["the last"]
    store.close()
    with pytest.raises(MemoryClosed):
        await store.aget(HOME, "k")


# --- the journal's schema -------------------------------------------------------------------------


def test_the_journal_lies_beside_the_log_and_a_newer_one_is_refused(url: str, tmp_path: Path) -> None:
    first = Journal(url, "s")
    first.apply([Write(("a",), "k", {"v": 1})])
    first.close()
    with ParametricMemory.open("alice", url=url) as memory:  # the log finds its own schema, made by the journal
        memory.update("A fact.", derive=False)
    with sqlite3.connect(tmp_path / "plume.db") as connection:
        connection.execute("UPDATE plume_store_schema SET version = 99")
    connection.close()

    with pytest.raises(SchemaError, match="version 99"), Journal(url, "s").read():
        pass


def test_an_items_times_are_the_clocks(url: str) -> None:
    times = iter(datetime(2025, 1, day, tzinfo=UTC) for day in (5, 6))
    journal = Journal(url, "s", clock=lambda: next(times))
    for value in (1, 2):
        journal.apply([Write(("a",), "k", {"v": value})])

    with journal.read() as reader:
        item = reader.item(("a",), "k")
    journal.close()
    assert item is not None
    assert (item.value, item.updated_at - item.created_at) == ({"v": 2}, timedelta(days=1))
