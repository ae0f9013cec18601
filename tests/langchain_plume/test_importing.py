"""What LangGraph's stores hold comes into a memory, each item once."""

from langchain_plume.importing import store_messages
from langgraph.store.memory import InMemoryStore

from plume_memory import ParametricMemory
from plume_memory.importers.messages import import_messages


def test_the_items_below_a_namespace_are_told_once_and_again_when_they_change(url: str) -> None:
    store = InMemoryStore()
    for number in range(120):
        store.put(("memories", "alice"), f"k{number}", {"content": f"Fact {number}."})
    store.put(("memories", "alice"), "empty", {})
    store.put(("memories", "bob"), "k", {"content": "Bob's."})

    def brought() -> tuple[int, int, int]:
        found = store_messages(store, ("memories", "alice"))
        done = import_messages(found, source="langgraph", memory="alice", url=url)
        return done.written, done.unchanged, sum(one.count for one in done.left_out)

    assert brought() == (120, 0, 1)
    assert brought() == (0, 120, 1)
    store.put(("memories", "alice"), "k7", {"content": "Fact 7 is another.", "of": "May"})
    assert brought() == (1, 119, 1)
    with ParametricMemory.open("alice", url=url) as memory:
        held = memory.text_at().transitions
        assert held[-1].text == "content: Fact 7 is another.\nof: May"
        assert held[-1].context.observed_at is not None
        assert not any("Bob" in one.text for one in held)
