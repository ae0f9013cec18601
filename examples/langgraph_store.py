"""LangGraph's long-term store on a memory: what a node puts is searched by routing and answered from the weights."""

from langchain_plume import ChatPlume, PlumeStore
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.store.base import BaseStore

from plume_memory import Engine, ParametricMemory


def note(state: MessagesState, *, store: BaseStore) -> None:
    """Keep what the user says about a server, one item per server."""
    text = state["messages"][-1].text
    if not text.endswith("?"):
        store.put(("ops", "servers"), text.split()[0], {"fact": text})


engine = Engine.load("smollm2-135m")
with ParametricMemory.open("ops", url="sqlite:///ops.db", engine=engine) as memory:
    store = PlumeStore(memory, url="sqlite:///ops.db")
    llm = ChatPlume(memory=memory, max_tokens=24)
    graph = StateGraph(MessagesState)
    graph.add_node("note", note)
    graph.add_node("answer", lambda state: {"messages": [llm.invoke(state["messages"][-1:])]})
    graph.add_edge(START, "note")
    graph.add_edge("note", "answer")
    app = graph.compile(store=store)

    for text in (
        "kiln-node20 is backed up at 10:05.",
        "wren-db37 is racked in room G463.",
        "kiln-node20 is backed up at 22:30.",  # the same key: the store replaces the item, the weights forget the old
    ):
        app.invoke({"messages": [("user", text)]})

    for item in store.search(("ops",), query="When is kiln-node20 backed up?", limit=2):
        print(f"{item.score:.2f} {item.key}: {item.value['fact']}")
    print(app.invoke({"messages": [("user", "When is kiln-node20 backed up?")]})["messages"][-1].text)
    print([f"{version.kind} {version.forgets or version.number}" for version in memory.history()])
    store.close()
