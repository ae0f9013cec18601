"""Rows of a LangGraph store's journal beside the log: an erasure reaches the item whose text an update was told from.

The journal (integrations/langchain_plume/journal.py) makes its own tables, perhaps in this database. Each text in it
has a token, and the update that was made of it the idempotency key `store:<token>`: by it an item is found, whatever
its memory is called. Its value holds more than the text, and cannot be cut like it: it goes whole.
"""

import sqlalchemy as sa

from plume_memory.records import Version

_KEY = "store:"
_PLACE = ("store", "namespace", "key")
_ITEMS = sa.table("plume_store_items", *map(sa.column, _PLACE))
_TEXTS = sa.table("plume_store_texts", *map(sa.column, (*_PLACE, "memory", "version", "text", "token", "wanted")))


def journal_tables(connection: sa.Connection) -> list[str]:
    """Return the names of the journal's tables that hold texts; none where no store was made in this database."""
    names = [_ITEMS.name, _TEXTS.name]
    return names if sa.inspect(connection).has_table(_TEXTS.name) else []


def erase_item(connection: sa.Connection, gone: Version, left: str) -> int:
    """Delete the item of an update that is erased, by the update's key; returns how many items.

    An item that has another text by now stays: that one is another update's. Of the text what is `left` is noted, so
    that it goes from the memory too when the item is put again; by its memory and number it is found then, as an
    earlier erasure took the key.
    """
    if not journal_tables(connection):
        return 0
    if gone.idempotency_key is None and gone.erased_by is not None:
        here: sa.ColumnElement[bool] = sa.and_(_TEXTS.c.memory == gone.memory, _TEXTS.c.version == gone.number)
    elif gone.idempotency_key is not None and gone.idempotency_key.startswith(_KEY):
        here = _TEXTS.c.token == gone.idempotency_key.removeprefix(_KEY)
    else:
        return 0
    wanted = sa.select(*(_TEXTS.c[name] for name in _PLACE)).where(here, _TEXTS.c.wanted.is_(True))
    deleted = 0
    for row in connection.execute(wanted).all():
        same = sa.and_(*(_ITEMS.c[name] == value for name, value in zip(_PLACE, row, strict=True)))
        deleted += connection.execute(sa.delete(_ITEMS).where(same)).rowcount
    change = sa.update(_TEXTS).where(here).values(text=left) if left else sa.delete(_TEXTS).where(here)
    connection.execute(change)
    return deleted
