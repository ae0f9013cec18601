"""Finds what a forget or an erasure is about: a version, a part of it, or words that stand in one place alone."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from plume_memory.errors import InvalidInput
from plume_memory.records import Span, Version
from plume_memory.store.chain import sha256_of
from plume_memory.store.checks import check_text
from plume_memory.store.memories import FoundMemory, check_number
from plume_memory.store.reading import check_holds, check_is_update, erasures_of, held_updates
from plume_memory.store.spans import occurrences, shifted, spellings
from plume_memory.store.tables import IS_ERASURE, VersionRow

_SHOWN = 5


class Wanted(NamedTuple):
    """What a caller names."""

    version: int | None
    span: Span | None
    words: str | None


class Target(NamedTuple):
    """What that is in the log."""

    version: int
    span: Span | None
    """In the text as the log holds it; None for the whole text."""


def wanted(version: int | None, *, text: str | None, span: tuple[int, int] | None) -> Wanted:
    """Check that a call names one thing: a version, a part of it, or words (of a version or wherever they stand).

    Raises:
        InvalidInput: If it names nothing, or two things, or the span is none.
    """
    if span is not None and (version is None or text is not None):
        raise InvalidInput("span=(start, end) is a part of one version's text: give the version with it, and no text.")
    if version is None and text is None:
        raise InvalidInput("Name what to forget: a version, a version with span=(start, end), or text='exact words'.")
    if text is not None:
        check_text(text, what="The text to forget")
    if span is None:
        return Wanted(version, None, text)
    is_span = isinstance(span, tuple) and len(span) == 2 and all(type(each) is int for each in span)
    if not is_span or not 0 <= span[0] < span[1]:
        raise InvalidInput(f"span is (first character, one past the last), from 0 and not empty; got {span!r}.")
    return Wanted(version, Span(*span), None)


def is_repeated(connection: sa.Connection, found: FoundMemory, asked: Wanted, before: Version) -> bool:
    """Tell whether a forget or an erasure that was appended before is of the target that is asked for.

    Words are compared, not their number alone. When they cannot be, the answer is no: words of which the log has
    erased something since, and erased ones that reached across a forgotten part.
    """
    if asked.words is None:
        return (asked.version, asked.span) == (before.forgets, before.span)
    if before.span is None or before.forgets is None or asked.version not in (None, before.forgets):
        return False
    compare = _erased_these if before.kind == "erase" else _forgot_these
    return compare(connection, found, asked.words, before.number, before.forgets, before.span)


def _forgot_these(
    connection: sa.Connection, found: FoundMemory, words: str, number: int, forgets: int, span: Span
) -> bool:
    """Look for the words where they were when they were forgotten: in what held until then."""
    there = span
    for cut in erasures_of(connection, found.id, forgets).get(forgets, []):
        if cut.number > number:
            there = shifted(there, cut.span)
    if there.end - there.start != span.end - span.start:
        return False
    held = held_updates(connection, found.name, found.id, number - 1, only={forgets})
    return any(there in occurrences(words, each.text, each.slices) for each in held)


def _erased_these(
    connection: sa.Connection, found: FoundMemory, words: str, number: int, forgets: int, span: Span
) -> bool:
    """Put the words back where they were: the text then has the hash that the log had for it before."""
    as_long = [spelt for spelt in spellings(words) if len(spelt) == span.end - span.start]
    if not as_long:
        return False
    query = sa.select(VersionRow.text, VersionRow.text_sha256, VersionRow.erased_by)
    row = connection.execute(query.where(VersionRow.memory_id == found.id, VersionRow.number == forgets)).one()
    if row.erased_by != number:  # more of it was erased since: the text to put them back into is gone
        return False
    earlier = sa.select(VersionRow.metadata_json).where(VersionRow.memory_id == found.id, IS_ERASURE)
    earlier = earlier.where(VersionRow.forgets == forgets, VersionRow.number < number)
    voucher = connection.execute(earlier.order_by(VersionRow.number.desc()).limit(1)).scalar()
    expected: str = row.text_sha256 if voucher is None else json.loads(voucher)["erased"]["left_sha256"]
    return any(sha256_of(row.text[: span.start] + spelt + row.text[span.start :]) == expected for spelt in as_long)


def forget_target(connection: sa.Connection, found: FoundMemory, asked: Wanted) -> Target:
    """Return what is to be forgotten; it must hold at the head.

    Raises:
        VersionNotFound: If there is no such version.
        InvalidInput: If it is no update or does not hold, or the words stand nowhere or in several places.
    """
    if asked.version is not None:
        check_number(found, asked.version)
        check_holds(connection, found.name, found.id, found.head_number, asked.version)
        if asked.words is None and asked.span is None:
            return Target(asked.version, None)
    only = None if asked.version is None else {asked.version}
    held = held_updates(connection, found.name, found.id, found.head_number, only=only)
    if asked.words is not None:
        places = ((each.number, span) for each in held for span in occurrences(asked.words, each.text, each.slices))
        return _only_one(found, asked, places, where="that hold now")
    [one] = held
    span = _inside(found, one.number, one.text, asked.span)
    parts = (one.text[max(span.start, start) : min(span.end, end)] for start, end in one.slices)
    if not any(part.strip() for part in parts):
        raise InvalidInput(
            f"Memory {found.name!r}: nothing of characters {span.start} to {span.end} of version {one.number} holds "
            "any more, white space aside: there is nothing to forget."
        )
    return Target(one.number, span)


def erase_target(connection: sa.Connection, found: FoundMemory, asked: Wanted) -> Target:
    """Return what is to be erased; the log must hold it still, whether or not it holds at the head.

    Raises:
        VersionNotFound: If there is no such version.
        InvalidInput: If it is no update, or the words stand nowhere or in several places.
    """
    if asked.version is not None:
        check_number(found, asked.version)
        check_is_update(connection, found.name, found.id, asked.version)
        if asked.words is None and asked.span is None:
            return Target(asked.version, None)
    query = sa.select(VersionRow.number, VersionRow.text).where(VersionRow.memory_id == found.id)
    if asked.version is not None:
        query = query.where(VersionRow.number == asked.version)
    if asked.words is not None:
        texts = query.where(is_in(connection, asked.words, VersionRow.text)).order_by(VersionRow.number)
        stored = {
            (number, span) for number, text in connection.execute(texts) for span in occurrences(asked.words, text)
        }
        only = None if asked.version is None else {asked.version}
        held = held_updates(connection, found.name, found.id, found.head_number, only=only)
        read = {(each.number, span) for each in held for span in occurrences(asked.words, each.text, each.slices)}
        return _only_one(found, asked, sorted(stored | read), where="of the log, whether they hold or not,")
    number, text = connection.execute(query).one()
    return Target(number, _inside(found, number, text, asked.span))


def is_in(connection: sa.Connection, words: str, column: sa.ColumnExpressionArgument[Any]) -> sa.ColumnElement[bool]:
    """Return the condition that a column holds these words exactly: not LIKE, whose `_` and case are not exact."""
    position = sa.func.instr if connection.dialect.name == "sqlite" else sa.func.strpos
    return sa.or_(*(position(column, spelt) > 0 for spelt in spellings(words)))


def _inside(found: FoundMemory, number: int, text: str, span: Span | None) -> Span:
    assert span is not None, "callers come here with a span"
    if span.end > len(text):
        raise InvalidInput(
            f"Memory {found.name!r}: version {number} has {len(text)} characters, span ({span.start}, {span.end}) "
            "reaches past them: count in the text as the log holds it now."
        )
    return span


def _only_one(found: FoundMemory, asked: Wanted, places: Iterable[tuple[int, Span]], *, where: str) -> Target:
    """Return the only place, or say where the words stand. They are not repeated: errors end in other logs."""
    listed = list(places)
    if len(listed) == 1:
        return Target(*listed[0])
    length = len(asked.words or "")
    if not listed:
        inside = "the updates" if asked.version is None else f"version {asked.version}"
        raise InvalidInput(
            f"Memory {found.name!r}: the words asked for ({length} characters) are not in {inside} {where} letter for "
            "letter: check them against the history."
        )
    shown = ", ".join(f"version {number} at {span.start}" for number, span in listed[:_SHOWN])
    more = f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else ""
    raise InvalidInput(
        f"Memory {found.name!r}: the words asked for ({length} characters) stand in {len(listed)} places {where}: "
        f"{shown}{more}. Name one: the version and span=(start, end), or more of the words around it."
    )
