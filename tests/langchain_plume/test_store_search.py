"""PlumeStore's listings and searches: namespaces, filters, and the order that a query gives."""

from typing import Any

import pytest
from langchain_plume.items import matches
from langchain_plume.store import PlumeStore
from langgraph.store.base import InvalidNamespaceError, ListNamespacesOp, MatchCondition, PutOp

from plume_memory.errors import InvalidInput
from plume_memory.memory import ParametricMemory
from plume_memory.policy import AnswerPolicy
from plume_memory.retrieval.retrieve import TIED
from plume_memory.testing import tiny_engine

HOME = ("users", "alice")


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


# --- namespaces -----------------------------------------------------------------------------------


TREE = [("a", "b", "c"), ("a", "b", "d", "e"), ("a", "b", "d", "i"), ("a", "b", "f"), ("a", "c", "f"), ("b", "a", "c")]


@pytest.fixture
def tree(store: PlumeStore) -> PlumeStore:
    store.batch([PutOp(namespace, "k", {"v": 1}, index=False) for namespace in reversed(TREE)])
    return store


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({}, TREE),
        ({"prefix": ("a", "b")}, TREE[:4]),
        ({"prefix": ("a", "*", "f")}, [("a", "b", "f"), ("a", "c", "f")]),
        ({"prefix": ("*", "a")}, [("b", "a", "c")]),
        ({"suffix": ("f",)}, [("a", "b", "f"), ("a", "c", "f")]),
        ({"suffix": ("d", "*")}, [("a", "b", "d", "e"), ("a", "b", "d", "i")]),
        ({"prefix": ("a",), "suffix": ("c",)}, [("a", "b", "c")]),
        ({"prefix": ("a", "b", "c", "d", "e")}, []),
        ({"max_depth": 2}, [("a", "b"), ("a", "c"), ("b", "a")]),
        ({"prefix": ("a", "b"), "max_depth": 3}, [("a", "b", "c"), ("a", "b", "d"), ("a", "b", "f")]),
        ({"limit": 2}, TREE[:2]),
        ({"limit": 2, "offset": 5}, TREE[5:]),
        ({"max_depth": 1, "offset": 1, "limit": 1}, [("b",)]),
    ],
)
def test_namespaces_are_listed_sorted_matched_cut_and_paged(
    tree: PlumeStore, asked: dict[str, Any], expected: list[tuple[str, ...]]
) -> None:
    assert tree.list_namespaces(**asked) == expected


def test_a_namespace_is_below_a_prefix_by_labels_not_by_letters(store: PlumeStore) -> None:
    spaces = [("ab",), ("ab", "c"), ("abc",), ("AB",), ("a%",), ('a","b',), ("a", "b")]
    store.batch([PutOp(space, "k", {"v": 1}, index=False) for space in spaces])

    assert [item.namespace for item in store.search(("ab",))] == [("ab",), ("ab", "c")]
    assert [item.namespace for item in store.search(("a",))] == [("a", "b")]
    assert [item.namespace for item in store.search(("a%",))] == [("a%",)]
    assert [item.namespace for item in store.search(("AB",))] == [("AB",)]
    assert len(store.search(())) == len(spaces)


def test_labels_langgraph_forbids_are_refused_and_its_root_is_open_to_batch(store: PlumeStore) -> None:
    for namespace in [(), ("langgraph", "x"), ("a.b",), ("",), ("a\x00",)]:
        with pytest.raises(InvalidNamespaceError):
            store.put(namespace, "k", {"v": 1})
    store.batch([PutOp(("langgraph", "x"), "k", {"v": 1}, index=False)])

    assert store.get(("langgraph", "x"), "k") is not None


# --- search without a query -----------------------------------------------------------------------


DOCS = {
    "one": {"type": "report", "score": 4.5, "at": "2025-01-02", "by": {"name": "Ann", "team": "x"}, "tags": ["a", "b"]},
    "two": {"type": "report", "score": 4.99, "at": "2025-03-01", "by": {"name": "Bo", "team": "x"}, "tags": ["a"]},
    "three": {"type": "note", "score": 5, "draft": True, "by": None},
    "four": {"type": "note", "score": "7.5"},
}


@pytest.fixture
def docs(store: PlumeStore) -> PlumeStore:
    store.batch([PutOp(("docs", value["type"]), key, value, index=False) for key, value in DOCS.items()])  # type: ignore[arg-type]
    return store


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (None, ["one", "two", "three", "four"]),
        ({"type": "report"}, ["one", "two"]),
        ({"type": "report", "score": 4.99}, ["two"]),
        ({"type": {"$eq": "note"}}, ["three", "four"]),
        ({"type": {"$ne": "note"}}, ["one", "two"]),
        ({"draft": {"$ne": True}}, ["one", "two", "four"]),
        ({"score": {"$gt": 4.99}}, ["three", "four"]),
        ({"score": {"$gte": 4.99, "$lt": 7}}, ["two", "three"]),
        ({"score": {"$lte": 4.5}}, ["one"]),
        ({"at": {"$gt": "2025-02-01"}}, ["two"]),
        ({"by": {"name": "Ann"}}, ["one"]),
        ({"by": {"name": {"$ne": "Ann"}, "team": "x"}}, ["two"]),
        ({"tags": ["a", "b"]}, ["one"]),
        ({"tags": [{"$ne": "b"}]}, ["two"]),
        ({"draft": True}, ["three"]),
        ({"missing": None}, ["one", "two", "three", "four"]),
        ({"missing": {"$gt": 1}}, []),
        ({"type": {"$gt": 1}}, []),
    ],
)
def test_filters_pick_items_by_their_values(docs: PlumeStore, condition: Any, expected: list[str]) -> None:
    found = docs.search(("docs",), filter=condition)

    assert keys(found) == expected
    assert [item.score for item in found] == [None] * len(expected)


def test_search_keeps_to_its_prefix_and_pages_in_the_order_of_creation(docs: PlumeStore) -> None:
    docs.put(("docs", "report"), "one", {"type": "report"}, index=False)  # a change does not move it

    assert keys(docs.search(("docs", "note"))) == ["three", "four"]
    assert keys(docs.search(("docs",), limit=3)) == ["one", "two", "three"]
    assert keys(docs.search(("docs",), limit=3, offset=3)) == ["four"]
    assert keys(docs.search(("docs",), filter={"type": "note"}, limit=1, offset=1)) == ["four"]
    assert docs.search(("doc",)) == []


def test_conditions_that_mean_nothing_are_refused(store: PlumeStore) -> None:
    store.put(HOME, "k", {"v": 1}, index=False)

    with pytest.raises(InvalidInput, match=r"\$like"):
        store.search(HOME, filter={"v": {"$like": 1}})
    with pytest.raises(InvalidInput, match="Unknown filter operator 'plain'"):
        matches(1, {"$gt": 0, "plain": 1})
    with pytest.raises(InvalidInput, match="limit"):
        store.search(HOME, limit=-1)
    with pytest.raises(InvalidInput, match="max_depth"):
        store.list_namespaces(max_depth=0)
    with pytest.raises(InvalidInput, match="infix"):
        store.batch([ListNamespacesOp(match_conditions=(MatchCondition("infix", ("a",)),))])  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="Get, Put, Search"):
        store.batch(["get"])  # type: ignore[list-item]


# --- search with a query --------------------------------------------------------------------------


@pytest.fixture
def facts(store: PlumeStore) -> PlumeStore:
    store.put(HOME, "city", {"text": "Alice lives in Bern.", "topic": "home"})
    store.put(HOME, "pet", {"text": "Alice has a black cat.", "topic": "home"})
    store.put(("users", "bob"), "city", {"text": "Bob lives in Bern too.", "topic": "home"})
    store.put(HOME, "note", {"text": "Alice lives in Bern, in the journal only."}, index=False)
    return store


def test_a_query_orders_by_the_routers_score_and_lists_the_unindexed_last(
    facts: PlumeStore, memory: ParametricMemory
) -> None:
    found = facts.search(HOME, query="a black cat")

    assert keys(found) == ["pet", "city", "note"]
    scores = {one.unit.version: one.score for one in memory.route("a black cat", k=9)}
    assert [item.score for item in found] == [scores[2], scores[1], None]
    assert scores[2] > scores[1] == 0.0


def test_where_a_reader_ranks_items_that_were_not_read_come_behind_those_that_were(url: str) -> None:
    engine = tiny_engine(policy=AnswerPolicy(retrieval="reader"))
    with (
        ParametricMemory.open("alice", url=url, engine=engine) as memory,
        PlumeStore(memory, url=url) as store,
    ):
        store.batch([PutOp(HOME, f"k{n}", {"text": f"Bird {n} sang."}) for n in range(TIED + 3)])
        store.put(HOME, "note", {"text": "In the journal only."}, index=False)
        found = store.search(HOME, query="Which bird sang?", limit=99)
        scores = {one.unit.text: one.score for one in memory.route("Which bird sang?", k=99)}
        read = [one.unit.text for one in memory.route("Which bird sang?", k=99) if one.gain is not None]

    ordered = [item.score for item in found if item.score is not None]
    assert keys(found)[-1] == "note"
    assert found[-1].score is None
    assert ordered == sorted(scores.values(), reverse=True)
    assert sorted(read) == sorted(f"Bird {item.key[1:]} sang." for item in found[:TIED])


def test_a_query_keeps_to_prefix_filter_and_page(facts: PlumeStore) -> None:
    assert keys(facts.search(("users", "bob"), query="Where does Alice live? Bern?")) == ["city"]
    assert keys(facts.search(HOME, query="Bern", filter={"topic": "home"})) == ["city", "pet"]
    assert keys(facts.search(HOME, query="Bern", limit=1)) == ["city"]
    assert keys(facts.search(HOME, query="Bern", limit=2, offset=1)) == ["pet", "note"]
    assert keys(facts.search(HOME, query="")) == ["city", "pet", "note"]
    assert facts.search(("nobody",), query="Bern") == []


def test_an_item_of_several_units_scores_by_its_best(store: PlumeStore, memory: ParametricMemory) -> None:
    long_text = " ".join(f"Paragraph {n} speaks of nothing at all, at length." for n in range(8)) + " A zebra."
    store.put(HOME, "long", {"text": long_text})

    units = memory.route("zebra", k=99)
    (item,) = store.search(HOME, query="zebra")
    assert len(units) > 1
    assert item.score == max(one.score for one in units) > 0


async def test_a_namespace_may_be_a_list(store: PlumeStore) -> None:
    """As LangGraph's stores on a database take it."""
    store.put(["a", "b"], "k", {"text": "Alice sails."})  # type: ignore[arg-type]
    store.batch([PutOp(["a", "b"], "k", {"text": "Alice rows."}), PutOp(("a", "b"), "k", {"text": "She swims."})])  # type: ignore[arg-type]

    for namespace in (["a", "b"], ("a", "b"), ["a"]):
        assert [item.value["text"] for item in store.search(namespace)] == ["She swims."]  # type: ignore[arg-type]
        assert [item.key for item in await store.asearch(namespace, query="swims")] == ["k"]  # type: ignore[arg-type]
    found = store.get(["a", "b"], "k")  # type: ignore[arg-type]
    assert found is not None
    assert found.namespace == ("a", "b")
