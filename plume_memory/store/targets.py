"""Finds what a forget or an erasure is about: a version, a part of it, or words that stand in one place alone."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from plume_memory.errors import InvalidInput
from plume_memory.records import Span
from plume_memory.store.checks import check_text
from plume_memory.store.memories import FoundMemory, check_number
from plume_memory.store.reading import check_holds, check_is_update, held_updates
from plume_memory.store.spans import occurrences
from plume_memory.store.tables import VersionRow

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


def is_repeated(asked: Wanted, forgets: int | None, span: Span | None) -> bool:
    """Tell whether a version that was appended before may be the answer to the same call."""
    if asked.words is not None:
        length = None if span is None else span.end - span.start
        return length is not None and length >= len(asked.words) and asked.version in (None, forgets)
    return (asked.version, asked.span) == (forgets, span)


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
    return position(column, words) > 0


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
