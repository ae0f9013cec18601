"""A memory's log as a timeline: what each version did, what of its text still holds, and what took its place. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from plume_memory.records import History, Replacement, Version
from plume_memory.server.page.words import Piece, compared

EntryKind = Literal["update", "rollback", "forget", "erase"]
Standing = Literal["holds", "partly", "gone", "erased", "none"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One version of a timeline."""

    number: int
    kind: EntryKind
    created_at: datetime
    chain_hash: str
    pieces: tuple[Piece, ...]
    """The text; what of it does not hold any more is removed. Empty for what has no text."""
    standing: Standing
    """Whether its text holds at the newest version; `none` for what has no text."""
    about: int | None
    """The version that a rollback goes back to, or whose text a forget or an erase takes."""
    is_part: bool
    """A forget or an erase of a part of a text."""
    reason: str | None
    erased_by: int | None
    is_inherited: bool
    """It was copied by the fork that the memory began as."""
    replaces: tuple[Replacement, ...]
    replaced_by: tuple[Replacement, ...]


def timeline(
    versions: Sequence[Version], held: History, *, origin_version: int | None, replaced: Sequence[Replacement]
) -> list[Entry]:
    """Return entries of a log, the newest first."""
    texts = {one.version: one.text for one in held.transitions}
    return [_entry(one, texts.get(one.number), origin_version, replaced) for one in reversed(versions)]


def _entry(one: Version, held: str | None, origin_version: int | None, replaced: Sequence[Replacement]) -> Entry:
    reason = one.metadata.get("reason") if one.kind in ("forget", "erase") else None
    return Entry(
        number=one.number,
        kind=one.kind,
        created_at=one.created_at,
        chain_hash=one.chain_hash,
        pieces=_pieces(one, held),
        standing=_standing(one, held),
        about=one.restores if one.kind == "rollback" else one.forgets,
        is_part=one.span is not None,
        reason=reason if isinstance(reason, str) else None,
        erased_by=one.erased_by,
        is_inherited=origin_version is not None and one.number <= origin_version,
        replaces=tuple(each for each in replaced if each.later.version == one.number),
        replaced_by=tuple(each for each in replaced if each.earlier.version == one.number),
    )


def _pieces(one: Version, held: str | None) -> tuple[Piece, ...]:
    if one.kind != "update" or not one.text:
        return ()
    if held is None:
        return (Piece("removed", one.text),)
    return compared(one.text, held)


def _standing(one: Version, held: str | None) -> Standing:
    if one.kind != "update":
        return "none"
    if not one.text and one.erased_by is not None:
        return "erased"
    if held is None:
        return "gone"
    return "holds" if held == one.text and one.erased_by is None else "partly"
