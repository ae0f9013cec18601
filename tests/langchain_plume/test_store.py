"""PlumeStore keeps LangGraph's semantics: get, put, delete and batch, in a graph and under langmem."""

import warnings
from datetime import UTC, datetime
from typing import Any

import pytest
from langchain_plume.store import PlumeStore
from langgraph.graph import START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from plume_memory.errors import InvalidInput, MemoryClosed
from plume_memory.memory import ParametricMemory

HOME = ("users", "alice")


def held(memory: ParametricMemory) -> list[str]:
    return [transition.text for transition in memory.text_at().transitions]


def keys(found: list[Any]) -> list[str]:
    return [item.key for item in found]


# --- get, put, delete -----------------------------------------------------------------------------


def test_get_returns_what_was_put_and_none_for_what_was_not(store: PlumeStore) -> None:
    value = {"text": "Alice lives in Bern.", "n": 1.5, "tags": ["home", {"deep": [None, True]}], "ü": "\u2028"}
    before = datetime.now(UTC)
    store.put(HOME, "city", value)

    item = store.get(HOME, "city")
    assert item is not None
    assert (item.namespace, item.key, item.value) == (HOME, "city", value)
    assert before <= item.created_at == item.updated_at <= datetime.now(UTC)
    assert store.get(HOME, "town") is None
    assert store.get(("users",), "city") is None
    assert store.get((*HOME, "x"), "city") is None


def test_a_changed_item_keeps_created_at_and_moves_updated_at(store: PlumeStore) -> None:
    store.put(HOME, "city", {"text": "Bern"})
    first = store.get(HOME, "city")
    store.put(HOME, "city", {"text": "Zurich"})
    second = store.get(HOME, "city")

    assert first is not None
    assert second is not None
    assert second.value == {"text": "Zurich"}
    assert second.created_at == first.created_at
    assert second.updated_at > first.updated_at


def test_what_a_caller_does_to_a_value_does_not_reach_the_store(store: PlumeStore) -> None:
    value = {"tags": ["a"]}
    store.put(HOME, "k", value)
    value["tags"].append("b")
    found = store.get(HOME, "k")
    assert found is not None
    found.value["tags"].append("c")

    again = store.get(HOME, "k")
    assert again is not None
    assert again.value == {"tags": ["a"]}


def test_a_deleted_item_is_gone_and_deleting_nothing_is_no_error(store: PlumeStore) -> None:
    store.put(HOME, "city", {"text": "Bern"})
    store.delete(HOME, "city")
    store.delete(HOME, "city")

    assert store.get(HOME, "city") is None
    assert store.search(HOME) == []
    assert store.list_namespaces() == []


def test_the_store_outlives_its_process(memory: ParametricMemory, url: str) -> None:
    with PlumeStore(memory, url=url) as first:
        first.put(HOME, "city", {"text": "Alice lives in Bern."})
    with PlumeStore(memory, url=url) as second:
        assert [(item.key, item.score is not None) for item in second.search(HOME, query="Bern")] == [("city", True)]
    with pytest.raises(MemoryClosed):
        second.get(HOME, "city")


def test_stores_of_two_names_share_a_database_and_nothing_else(memory: ParametricMemory, url: str) -> None:
    with PlumeStore(memory, url=url, name="one") as one, PlumeStore(memory, url=url, name="two") as two:
        one.put(HOME, "k", {"v": 1}, index=False)
        assert two.get(HOME, "k") is None
        assert two.list_namespaces() == []


# --- batch ----------------------------------------------------------------------------------------


def test_reads_of_a_batch_see_the_store_before_its_writes(store: PlumeStore) -> None:
    store.put(HOME, "k", {"text": "old words"})

    results = store.batch(
        [
            PutOp(HOME, "k", {"text": "new words"}),
            PutOp(("new",), "k", {"text": "other"}),
            GetOp(HOME, "k"),
            SearchOp(("new",)),
            ListNamespacesOp(),
            PutOp(HOME, "k", None),
        ]
    )

    assert results[0] is results[1] is results[5] is None
    assert results[2].value == {"text": "old words"}  # type: ignore[union-attr]
    assert results[3:5] == [[], [HOME]]
    assert store.get(HOME, "k") is None
    assert store.list_namespaces() == [("new",)]


def test_of_two_writes_of_one_key_in_a_batch_the_last_wins_and_only_it_reaches_the_memory(
    store: PlumeStore, memory: ParametricMemory
) -> None:
    store.batch([PutOp(HOME, "k", {"text": f"words {n}"}) for n in range(3)])

    found = store.get(HOME, "k")
    assert found is not None
    assert found.value == {"text": "words 2"}
    assert [version.text for version in memory.history()] == ["words 2"]


def test_a_batch_with_one_bad_operation_writes_nothing(store: PlumeStore, memory: ParametricMemory) -> None:
    with pytest.raises(InvalidInput, match="JSON"):
        store.batch([PutOp(HOME, "good", {"text": "x"}), PutOp(HOME, "bad", {"text": {1, 2}})])

    assert store.search(()) == []
    assert memory.version == 0


async def test_the_async_methods_do_the_same(store: PlumeStore, memory: ParametricMemory) -> None:
    await store.aput(HOME, "city", {"text": "Alice lives in Bern."})
    await store.aput(HOME, "pet", {"text": "Alice has a cat."})
    await store.adelete(HOME, "pet")

    item = await store.aget(HOME, "city")
    assert item == store.get(HOME, "city")
    assert keys(await store.asearch(("users",), query="Where is Bern?")) == ["city"]
    assert await store.alist_namespaces() == [HOME]
    assert await store.abatch(iter([GetOp(HOME, "pet")])) == [None]
    assert held(memory) == ["Alice lives in Bern."]


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (PutOp(HOME, "k", ["list"]), "dict; got list"),  # type: ignore[arg-type]
        (PutOp(HOME, "k", {"at": datetime(2025, 1, 1, tzinfo=UTC)}), "must be JSON"),
        (PutOp(HOME, "k", {"n": float("nan")}), "must be JSON"),
        (PutOp(HOME, "k", {"t": (1, 2)}), "lists instead of tuples"),
        (PutOp(HOME, "k", {1: "x"}), "text keys"),  # type: ignore[dict-item]
        (PutOp(HOME, "k", {"text": "a\x00b"}), "cannot be stored"),
        (PutOp(HOME, "k\x00", {"v": 1}), "cannot be stored"),
        (PutOp(HOME, "", {"v": 1}), "key must have"),
        (PutOp("users", "k", {"v": 1}), "tuple of texts"),  # type: ignore[arg-type]
        (PutOp(("users", 7), "k", {"v": 1}), "tuple of texts"),  # type: ignore[arg-type]
        (PutOp(HOME, "k", {"v": 1}, index="text"), "list of paths"),  # type: ignore[arg-type]
        (PutOp(HOME, "k", {"v": 1}, ttl=5.0), "does not expire"),
    ],
)
def test_what_cannot_be_kept_is_refused_and_blocks_nothing(store: PlumeStore, operation: PutOp, said: str) -> None:
    with pytest.raises(InvalidInput, match=said):
        store.batch([operation])

    store.put(HOME, "next", {"text": "fine"})
    assert keys(store.search(())) == ["next"]


def test_a_ttl_is_refused_as_langgraph_refuses_it(store: PlumeStore) -> None:
    assert store.supports_ttl is False
    with pytest.raises(NotImplementedError):
        store.put(HOME, "k", {"v": 1}, ttl=5.0)


# --- in a graph, and under langmem ----------------------------------------------------------------


async def test_a_graph_hands_it_to_its_nodes(store: PlumeStore, memory: ParametricMemory) -> None:
    def note(state: dict[str, Any], runtime: Runtime[None]) -> dict[str, Any]:
        assert runtime.store is not None
        runtime.store.put(HOME, state["key"], {"text": state["text"]})
        return {"found": keys(runtime.store.search(HOME, query=state["text"]))}

    builder = StateGraph(dict)
    builder.add_node("note", note)
    builder.add_edge(START, "note")
    graph = builder.compile(store=store)

    assert graph.invoke({"key": "pet", "text": "Alice has a cat."})["found"] == ["pet"]
    assert (await graph.ainvoke({"key": "city", "text": "Alice lives in Bern."}))["found"] == ["city", "pet"]
    assert held(memory) == ["Alice has a cat.", "Alice lives in Bern."]


async def test_langmems_tools_work_on_it_unchanged(store: PlumeStore, memory: ParametricMemory) -> None:
    with warnings.catch_warnings():  # it imports names that LangGraph 1 has moved
        warnings.simplefilter("ignore", DeprecationWarning)
        from langmem import create_manage_memory_tool, create_search_memory_tool
    manage = create_manage_memory_tool(namespace=("memories", "{langgraph_user_id}"), store=store)
    search = create_search_memory_tool(
        namespace=("memories", "{langgraph_user_id}"), store=store, response_format="content_and_artifact"
    )
    config: Any = {"configurable": {"langgraph_user_id": "alice"}}

    said = manage.invoke({"content": "Alice lives in Bern."}, config)
    await manage.ainvoke({"content": "Alice has a cat."}, config)
    own_id = said.removeprefix("created memory ")
    manage.invoke({"content": "Alice lives in Zurich.", "action": "update", "id": own_id}, config)

    call = {"name": "search_memory", "args": {"query": "Zurich", "limit": 1}, "id": "1", "type": "tool_call"}
    (found,) = (await search.ainvoke(call, config)).artifact
    assert (found.key, found.value) == (own_id, {"content": "Alice lives in Zurich."})
    assert search.invoke(call, {"configurable": {"langgraph_user_id": "bob"}}).artifact == []
    assert sorted(held(memory)) == ["Alice has a cat.", "Alice lives in Zurich."]

    manage.invoke({"action": "delete", "id": own_id}, config)
    assert held(memory) == ["Alice has a cat."]
