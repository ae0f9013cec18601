"""Units as notes: what each says and when, and which of its neighbours in a conversation complete it."""

from collections.abc import Container, Iterator
from datetime import timedelta

from plume_memory.answering.current import Current
from plume_memory.recalling.choosing import Found
from plume_memory.recalling.notes import Note
from plume_memory.records import Span, Unit
from plume_memory.retrieval.asking import only_asks
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.segmentation.forms.turns import ANSWERS
from plume_memory.segmentation.units import who_line

TALK = timedelta(hours=1)
"""Longest time between two messages of a conversation that are updates of their own, for one to complete the other."""


def found_note(
    unit: Unit,
    index: UnitIndex,
    current: Current,
    *,
    memory: str,
    score: float = 0.0,
    is_current: bool = True,
    without: Container[int] = frozenset(),
) -> Found:
    """Return a unit of a history as a note, with those that complete it; of the positions in `without` none does."""
    beside = [one for one in _beside(unit, index) if one.position not in without]
    given = {one.position for one in (unit, *beside)}

    def note(of: Unit, *, completes: bool = False) -> Note:
        return Note(
            memory=memory,
            version=of.version,
            span=Span(of.start, of.end),
            text=_said(of, given=index[of.position - 1] if of.position - 1 in given else None),
            said_at=current.said_at(of),
            speaker=of.speaker,
            score=score,
            is_current=is_current,
            completes=completes,
        )

    return Found(note(unit), tuple(note(one, completes=True) for one in beside))


def _beside(unit: Unit, index: UnitIndex) -> Iterator[Unit]:
    """The question that a message answers, and the message that answers a question: somebody else's, next to it."""
    if unit.position > 0 and _talk(unit, before := index[unit.position - 1]) and _ends_asking(before):
        yield before
    if unit.position + 1 < len(index) and _talk(unit, after := index[unit.position + 1]) and _ends_asking(unit):
        yield after


def _talk(one: Unit, other: Unit) -> bool:
    """Whether two people say them to each other: in one text, or at nearly the same time."""
    if one.speaker == other.speaker:
        return False
    if one.version == other.version:
        return True
    first, second = one.observed_at, other.observed_at
    if first is None or second is None or (first.tzinfo is None) is not (second.tzinfo is None):
        return False
    return abs(first - second) <= TALK


def _quotes(line: str, asked: str) -> bool:
    """Whether a line that quotes what it answers quotes the end of this."""
    return asked.endswith(line.strip().partition('"')[2])


def _ends_asking(unit: Unit) -> bool:
    return unit.words.rstrip().endswith(("?", "\uff1f")) or only_asks(unit)


def _said(unit: Unit, *, given: Unit | None) -> str:
    """Its text without the line that says whose words it is: a note says so beside it.

    And without what it answers, if it is the end of the unit that is given before it.
    """
    heading = unit.text[: unit.own]
    if given is not None:
        asked = f'{" ".join(given.words.split())}"'
        lines = heading.splitlines(keepends=True)
        heading = "".join(one for one in lines if not (one.startswith(ANSWERS) and _quotes(one, asked)))
    for line in who_line(unit.speaker, unit.observed_at):
        before, found, behind = heading.rpartition(f"{line}\n")
        heading = before + behind if found and (not before or before.endswith("\n")) else heading
    return (heading + unit.words).strip()
