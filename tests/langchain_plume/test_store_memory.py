"""PlumeStore and the memories behind it: they are told what the store holds, once and in order, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from langchain_plume.items import rendered
from langchain_plume.journal import Journal
from langchain_plume.store import PlumeStore
from langgraph.store.base import PutOp

from plume_memory.errors import InvalidInput, MemoryClosed, StoreUnavailable
from plume_memory.memory import ParametricMemory
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()
HOME = ("users", "alice")


def held(memory: ParametricMemory) -> list[str]:
    return [transition.text for transition in memory.text_at().transitions]


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


# --- one memory -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "index", "expected"),
    [
        ({"content": "Alice lives in Bern."}, None, "Alice lives in Bern."),
        ({"name": "Alice", "age": 7, "pet": None}, None, "name: Alice\nage: 7"),
        ({"who": {"name": "Al"}, "tags": ["a", "b"]}, None, "who.name: Al\ntags: a\ntags: b"),
        ({"content": "x", "note": "y"}, ["content"], "x"),
        ({"a": {"b": "x"}, "c": [{"d": "y"}, {"d": "z"}]}, ["a.b", "c[*].d"], "a.b: x\nc[*].d: y\nc[*].d: z"),
        ({"content": "x", "n": 1}, ["$"], "content: x\nn: 1"),
        ({"content": "x"}, ["missing"], None),
        ({"content": "x"}, [], None),
        ({"content": "x"}, False, None),
        ({"content": " ", "pet": None}, None, None),
        ({}, None, None),
    ],
)
def test_a_memory_is_told_the_fields_that_index_names(value: dict[str, Any], index: Any, expected: str | None) -> None:
    assert rendered(value, index) == expected


def test_a_put_is_an_update_that_names_its_item(store: PlumeStore, memory: ParametricMemory) -> None:
    store.put(HOME, "city", {"text": "Alice lives in Bern.", "source": "chat"}, index=["text"])

    (version,) = memory.history()
    assert (version.kind, version.text) == ("update", "Alice lives in Bern.")
    assert version.metadata == {"namespace": ["users", "alice"], "key": "city"}
    assert memory.ask("Where does Alice live?").version == 1


def test_index_false_stays_in_the_journal_and_takes_an_indexed_text_back(
    store: PlumeStore, memory: ParametricMemory
) -> None:
    store.put(HOME, "k", {"text": "secret words"}, index=False)
    assert memory.version == 0
    store.put(HOME, "k", {"text": "public words"})
    assert held(memory) == ["public words"]
    store.put(HOME, "k", {"text": "secret again"}, index=False)

    assert held(memory) == []
    assert keys(store.search(HOME)) == ["k"]


def test_the_memory_forgets_with_the_store(store: PlumeStore, memory: ParametricMemory) -> None:
    store.put(HOME, "city", {"text": "Alice lives in Bern."})
    store.put(HOME, "pet", {"text": "Alice has a cat."})
    store.put(HOME, "city", {"text": "Alice lives in Zurich."})
    assert held(memory) == ["Alice has a cat.", "Alice lives in Zurich."]
    store.delete(HOME, "pet")

    assert held(memory) == ["Alice lives in Zurich."]
    assert [version.kind for version in memory.history()] == ["update", "update", "forget", "update", "forget"]
    assert [one.unit.text for one in memory.route("Alice", k=9)] == ["Alice lives in Zurich."]


def test_putting_the_same_text_again_writes_no_version_but_a_returning_text_does(
    store: PlumeStore, memory: ParametricMemory
) -> None:
    for value in ({"text": "a fact"}, {"text": "a fact", "seen": None}, {"text": "another"}, {"text": "a fact"}):
        store.put(HOME, "k", value)

    assert held(memory) == ["a fact"]
    assert [version.kind for version in memory.history()] == ["update", "forget", "update", "forget", "update"]


@pytest.mark.parametrize("lose", [lambda m: m.forget(2), lambda m: m.rollback(to=1)], ids=["forgotten", "rolled back"])
def test_a_text_the_memory_has_lost_is_told_again_when_it_is_put_again(
    store: PlumeStore, memory: ParametricMemory, lose: Callable[[ParametricMemory], Any]
) -> None:
    memory.update("Something else.", derive=False)
    store.put(HOME, "k", {"text": "a fact"})
    lose(memory)

    for _ in range(2):
        store.put(HOME, "k", {"text": "a fact"})
    assert held(memory) == ["Something else.", "a fact"]
    assert [version.text for version in memory.history()].count("a fact") == 2
    assert [item.score is not None for item in store.search(HOME, query="fact")] == [True]
    store.delete(HOME, "k")
    assert held(memory) == ["Something else."]


def test_a_text_that_another_process_has_told_again_meanwhile_is_not_told_twice(
    store: PlumeStore, memory: ParametricMemory, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(HOME, "k", {"text": "a fact"})
    memory.forget(1)
    apply = Journal.apply

    def overtaken(journal: Journal, writes: Any) -> None:
        monkeypatch.setattr(Journal, "apply", apply)
        with PlumeStore(memory, url=url) as other:
            other.put(HOME, "k", {"text": "a fact"})
        apply(journal, writes)

    monkeypatch.setattr(Journal, "apply", overtaken)
    store.put(HOME, "k", {"text": "a fact"})

    assert held(memory) == ["a fact"]
    assert [version.kind for version in memory.history()] == ["update", "forget", "update"]


def test_a_text_the_memory_has_lost_already_can_be_deleted(store: PlumeStore, memory: ParametricMemory) -> None:
    store.put(HOME, "k", {"text": "a fact"})
    store.put(HOME, "other", {"text": "one more"})
    memory.forget(1)
    assert [(item.key, item.score) for item in store.search(HOME, query="fact")][1] == ("k", None)

    store.delete(HOME, "k")
    assert held(memory) == ["one more"]
    assert keys(store.search(())) == ["other"]


def test_a_memory_is_told_in_order_also_after_a_text_that_failed(
    store: PlumeStore, memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    update, failures = ParametricMemory.update, [StoreUnavailable("locked")]

    def failing_once(own: ParametricMemory, text: str, **options: Any) -> Any:
        if failures:
            raise failures.pop()
        return update(own, text, **options)

    monkeypatch.setattr(ParametricMemory, "update", failing_once)
    with pytest.raises(StoreUnavailable, match="'0' of"):
        store.batch([PutOp(HOME, str(n), {"text": f"fact {n}"}) for n in range(3)])
    store.settle()

    assert held(memory) == ["fact 0", "fact 1", "fact 2"]


# --- a memory per namespace -----------------------------------------------------------------------


def test_a_memory_per_namespace_keeps_owners_apart(url: str) -> None:
    with (
        ParametricMemory.open("alice", url=url, engine=ENGINE) as alice,
        ParametricMemory.open("bob", url=url, engine=ENGINE) as bob,
        PlumeStore(lambda space: {"alice": alice, "bob": bob}[space[1]], url=url, name="all") as store,
    ):
        store.put(("users", "alice"), "city", {"text": "Alice lives in Bern."})
        store.put(("users", "bob"), "city", {"text": "Bob lives in Rome."})

        assert (held(alice), held(bob)) == (["Alice lives in Bern."], ["Bob lives in Rome."])
        assert store.search(("users",), query="Who is in Rome?")[0].namespace == ("users", "bob")
        assert all(item.score is not None for item in store.search((), query="Bern"))

    with pytest.raises(InvalidInput, match="needs a name"):
        PlumeStore(lambda space: alice, url=url)


def test_a_namespace_may_not_change_its_memory(url: str) -> None:
    with (
        ParametricMemory.open("old", url=url, engine=ENGINE) as old,
        ParametricMemory.open("new", url=url, engine=ENGINE) as new,
    ):
        with PlumeStore(old, url=url, name="s") as store:
            store.put(HOME, "k", {"text": "a fact"})
        with PlumeStore(new, url=url, name="s") as store, pytest.raises(InvalidInput, match="'old'"):
            store.delete(HOME, "k")
        assert held(old) == ["a fact"]


@pytest.mark.parametrize(
    ("lose", "error"),
    [(lambda alice: alice.close(), MemoryClosed), (lambda alice: setattr(alice, "name", "alicia"), InvalidInput)],
    ids=["closed", "renamed"],
)
def test_a_memory_that_cannot_be_told_holds_up_no_other_and_is_named(
    url: str, lose: Callable[[ParametricMemory], None], error: type[Exception]
) -> None:
    with (
        ParametricMemory.open("alice", url=url, engine=ENGINE) as alice,
        ParametricMemory.open("bob", url=url, engine=ENGINE) as bob,
        PlumeStore(lambda space: {"alice": alice, "bob": bob}[space[1]], url=url, name="all") as store,
    ):
        store.put(HOME, "city", {"text": "Alice lives in Bern."})
        lose(alice)
        with pytest.raises(error, match=r"'city' of \('users', 'alice'\)"):
            store.delete(HOME, "city")
        with pytest.raises(error, match=r"'city' of \('users', 'alice'\)"):
            store.put(("users", "bob"), "city", {"text": "Bob lives in Rome."})

        assert held(bob) == ["Bob lives in Rome."]


# --- erasure --------------------------------------------------------------------------------------


def test_an_item_whose_text_was_erased_can_be_deleted_and_holds_up_no_other(
    store: PlumeStore, memory: ParametricMemory
) -> None:
    store.put(HOME, "code", {"text": "The badge code is 4471."})
    memory.erase(1, derive=False)

    store.delete(HOME, "code")
    store.put(HOME, "city", {"text": "Alice lives in Bern."})

    assert held(memory) == ["Alice lives in Bern."]
    assert store.get(HOME, "code") is None
    assert keys(store.search(HOME, query="Where does Alice live?")) == ["city"]


def test_an_item_whose_text_was_erased_is_told_anew_when_it_is_put_again(
    store: PlumeStore, memory: ParametricMemory
) -> None:
    store.put(HOME, "city", {"text": "Alice lives in Bern."})
    memory.erase(1, derive=False)
    store.put(HOME, "city", {"text": "Alice lives in Bern."})
    assert held(memory) == ["Alice lives in Bern."]


@pytest.mark.parametrize("again", ["Alice lives in Bern; her code is 4471.", "Alice lives in Bern."])
def test_of_a_text_erased_in_part_the_rest_goes_when_the_item_is_put_again(
    store: PlumeStore, memory: ParametricMemory, again: str
) -> None:
    store.put(HOME, "city", {"text": "Alice lives in Bern; her code is 4471."})
    memory.erase(1, text="; her code is 4471", derive=False)
    assert held(memory) == ["Alice lives in Bern."]

    store.put(HOME, "city", {"text": again})
    store.put(HOME, "pet", {"text": "Alice has a cat."})

    assert held(memory) == [again, "Alice has a cat."]


def test_a_text_erased_before_its_version_was_noted_holds_up_nothing(
    store: PlumeStore, memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process stopped between telling the memory and noting it, and an erasure came before the next one."""

    def stop(*_: object) -> None:
        raise StoreUnavailable("stopped")

    with monkeypatch.context() as stopping:
        stopping.setattr(Journal, "written", stop)
        with pytest.raises(StoreUnavailable):
            store.put(HOME, "code", {"text": "The badge code is 4471."})
    memory.erase(1, derive=False)

    store.put(HOME, "city", {"text": "Alice lives in Bern."})
    assert held(memory) == ["Alice lives in Bern."]
