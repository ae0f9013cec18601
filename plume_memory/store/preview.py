"""What a forget or an erasure would take away, found as they find it, with nothing written."""

from dataclasses import dataclass

import sqlalchemy as sa

from plume_memory.records import Span
from plume_memory.store.checks import check_name
from plume_memory.store.database import Database
from plume_memory.store.erasure import said_by
from plume_memory.store.memories import get_memory
from plume_memory.store.tables import MemoryRow, VersionRow
from plume_memory.store.targets import erase_target, forget_target, wanted


@dataclass(frozen=True, slots=True)
class Preview:
    """What would go."""

    head_number: int
    """The newest version when it was looked up: send it as `expected_version`, and what goes is what was seen."""
    version: int
    """The update that is named."""
    span: Span | None
    """The part of its text; None for the whole."""
    text: str
    """The update's text as the log has it now."""
    copies: tuple[str, ...]
    """Memories, by the log's names, that hold copies of the update: an erasure reaches them, a forget does not."""
    still_said_by: tuple[int, ...]
    """Other versions of the memory that hold the same words: neither reaches them."""

    @property
    def words(self) -> str:
        """What would go of the text."""
        return self.text if self.span is None else self.text[self.span.start : self.span.end]


def previewed(database: Database, memory: str, version: int | None, *, text: str | None, erase: bool) -> Preview:
    """Find what `forget` (with `erase`: `erase`) of the same arguments would take away.

    Raises:
        MemoryNotFound: there is no such memory.
        VersionNotFound: there is no such version.
        InvalidInput: it is no update or does not hold, or the words stand nowhere or in several places.
    """
    check_name(memory)
    asked = wanted(version, text=text, span=None)
    with database.read() as connection:
        found = get_memory(connection, memory)
        target = (erase_target if erase else forget_target)(connection, found, asked)
        own = sa.select(VersionRow.text, VersionRow.chain_hash)
        row = connection.execute(own.where(VersionRow.memory_id == found.id, VersionRow.number == target.version)).one()
        copies = sa.select(MemoryRow.name).join(VersionRow, VersionRow.memory_id == MemoryRow.id)
        copies = copies.where(VersionRow.number == target.version, VersionRow.chain_hash == row.chain_hash)
        names = connection.execute(copies.where(MemoryRow.id != found.id).order_by(MemoryRow.id)).scalars()
        words = row.text if target.span is None else row.text[target.span.start : target.span.end]
        return Preview(
            head_number=found.head_number,
            version=target.version,
            span=target.span,
            text=row.text,
            copies=tuple(names),
            still_said_by=said_by(connection, found, target.version, words),
        )
