"""Reads LangGraph's long-term stores for an import into a memory; knows no memory.

import_messages(store_messages(store, ("memories", "alice")), source="langgraph", memory="alice")
"""

from collections.abc import Iterator

from langgraph.store.base import BaseStore, SearchItem

from langchain_plume.items import rendered
from plume_memory.importers.messages import Message, Passed, in_order

_PAGE = 100


def store_messages(store: BaseStore, namespace_prefix: tuple[str, ...] = ()) -> Iterator[Message | Passed]:
    """Yield what the items below a namespace say, each once for every state an import met, the oldest change first.

    One field's text stands by itself; of several, each line is `path: text`, as `PlumeStore` tells a memory.
    """
    return in_order(_messages(store, namespace_prefix))


def _messages(store: BaseStore, namespace_prefix: tuple[str, ...]) -> Iterator[Message | Passed]:
    at = 0
    while items := store.search(namespace_prefix, limit=_PAGE, offset=at):
        at += len(items)
        yield from (_message(item) for item in items)


def _message(item: SearchItem) -> Message | Passed:
    text = rendered(item.value, None)
    if text is None:
        return Passed("it has no text")
    own = "/".join([*item.namespace, item.key, item.updated_at.isoformat()])
    return Message(own, text, said_at=item.updated_at)
