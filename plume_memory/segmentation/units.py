"""Cuts a history into routable units: segments of a budget, or all that can be told alone in them.

Laws, each held by a test:

- a unit never crosses a transition, and the notice between two transitions belongs to no unit;
- the units lose no word; what is none (unreadable.py) belongs to no unit;
- the text of a unit is its span's, without marks of tool calls (calls.py); an item of a list carries the headings of
  its list before it, if they fit the budget. A text that has a form of its own (forms/) is cut by it: then a cell or a
  field is said as a sentence, and the unit's span still points at it;
- a reply (`Context.in_answer_to`) is one unit as a message of a chat is, or those of its form, of which the first is
  told under what it answers;
- whose words they are and of which day stands in the heading next to them, and a day that is named from there
  ("yesterday") has its date beside it.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from plume_memory.records import Transition, Unit
from plume_memory.segmentation.calls import without_calls
from plume_memory.segmentation.dates import with_dates
from plume_memory.segmentation.forms.email import is_encoded
from plume_memory.segmentation.forms.piece import Piece
from plume_memory.segmentation.forms.recognise import form_of, pieces_of
from plume_memory.segmentation.forms.turns import quoted
from plume_memory.segmentation.sentences import CountTokens, Span, segment
from plume_memory.segmentation.statements import Statement, statements
from plume_memory.segmentation.unreadable import readable_spans

_SIGN = re.compile(r"[^\n]")
_MOST_HEADINGS = 8

UNNAMED = "somebody"
"""The speaker of what is quoted from nobody named: its "I" is not the memory's owner."""


def units_of(
    transitions: Sequence[Transition],
    *,
    budget_tokens: int,
    count_tokens: CountTokens,
    first_position: int = 0,
    single_sentences: bool = False,
) -> tuple[Unit, ...]:
    """Cut each transition into units, oldest first; `position` is the order over the whole history.

    A span of white space alone makes no unit: it says nothing and must never be routed to as "the latest".

    Args:
        transitions: The texts that hold, oldest first.
        budget_tokens: Longest unit, in tokens.
        count_tokens: Number of tokens of a text on its own.
        first_position: Position of the first unit; the number of units before it when a history is extended.
        single_sentences: Cut every unit into what can be told alone: messages, cells and the like of a text that has
            a form, else sentences and the items of lists (`statements_of`).

    Raises:
        InvalidInput: If the budget is below 1.
    """
    cut = _Cut(budget_tokens, count_tokens)
    units: list[Unit] = []
    for transition in transitions:
        asked = transition.context.in_answer_to
        heading = () if asked is None else (quoted(None, asked),)
        text = without_calls(transition.text)
        readable = readable_spans(transition.text)
        if single_sentences:
            seen = _blanked(text, readable)
            form = transition.context.form or form_of(seen)
            if form == "email" and is_encoded(text):
                seen = text
            pieces = None if form is None else pieces_of(seen, form)
            if heading:
                begin, *more = pieces or [Piece(0, len(seen))]
                pieces = [replace(begin, headings=(*heading, *begin.headings)), *more]
            if pieces is not None:
                for piece in pieces:
                    units += cut.units(piece, seen, transition, first_position + len(units))
                continue
        for first, end in readable:
            for piece in cut.plain(text, first, end, single_sentences):
                told = replace(piece, headings=(*heading, *piece.headings))
                units += cut.units(told, text, transition, first_position + len(units), fits=True)
                heading = ()
    return tuple(units)


@dataclass(frozen=True, slots=True)
class _Cut:
    """Makes units of pieces, within a budget."""

    budget: int
    count: CountTokens

    def plain(self, text: str, first: int, end: int, single_sentences: bool) -> Iterator[Piece]:
        """Yield segments of the budget, or the statements in them."""
        part = text[first:end]
        spans = segment(part, budget_tokens=self.budget, count_tokens=self.count)
        cut = statements(part, spans) if single_sentences else [Statement(*span) for span in spans]
        for start, stop, heading, body in cut:
            own = first + body if start < body < stop else 0
            # one heading of several lines, as it is kept or left out whole
            yield Piece(first + start, first + stop, (heading,) if heading else (), body=own)

    def units(
        self, piece: Piece, text: str, transition: Transition, position: int, *, fits: bool = False
    ) -> Iterator[Unit]:
        """Yield what a piece says; several units where it does not fit the budget."""
        speaker = piece.speaker or (UNNAMED if piece.is_of_others else transition.context.speaker)
        time = piece.time or _told_at(transition, piece.days_earlier)
        headings = [*piece.headings, *who_line(speaker, time)]
        room = self.budget if fits else max(self.budget // 2, self.budget - self.count("\n".join(headings[-1:])))
        for start, end, lead, own in self._parts(piece, text, room, fits):
            if not (lead + own).strip():
                continue
            dated = own if time is None or piece.is_of_others else with_dates(own, time)
            if dated is not own and self.count(lead + dated) <= self.budget:
                own = dated
            said = self._headed(headings, lead + own)
            yield Unit(position, transition.version, start, end, said, len(said) - len(own), speaker, time)
            position += 1

    def _parts(self, piece: Piece, text: str, room: int, fits: bool) -> Iterator[tuple[int, int, str, str]]:
        """Yield spans, the headings within them, and what they say of their own."""
        body = piece.body if piece.start < piece.body < piece.end else piece.start
        lead = "" if piece.is_stamped else text[piece.start : body]
        own = text[body : piece.end] if piece.said is None else piece.said
        if fits or self.count(lead + own) <= room:
            yield piece.start, piece.end, lead, own
            return
        for start, end in segment(own, budget_tokens=max(room, 1), count_tokens=self.count):
            if piece.said is None:
                yield (body + start if start else piece.start), body + end, "", own[start:end]
            else:
                yield piece.start, piece.end, "", own[start:end]

    def _headed(self, headings: Sequence[str], said: str) -> str:
        """What is said under as many of its headings, the innermost first, as fit the budget."""
        for first in range(max(0, len(headings) - _MOST_HEADINGS), len(headings)):
            headed = "\n".join([*headings[first:], said])
            if self.count(headed) <= self.budget:
                return headed
        return said


def _told_at(transition: Transition, days_earlier: int) -> datetime | None:
    """When a text was told, or so many days before; what says that it is older is never of the day it is written."""
    told = transition.context.observed_at or (transition.written_at if days_earlier else None)
    return told - timedelta(days=days_earlier) if told else None


def who_line(speaker: str | None, time: datetime | None) -> list[str]:
    """Return the heading that says whose words they are, and of which day."""
    day = f"{time:%Y-%m-%d}" if time else ""
    if speaker:
        return [f"{speaker} ({day}):" if day else f"{speaker}:"]
    return [f"{day}:"] if day else []


def _blanked(text: str, readable: Sequence[Span]) -> str:
    """A text of the same length with blanks where no words stand."""
    if len(readable) == 1 and readable[0] == (0, len(text)):
        return text
    parts, at = [], 0
    for start, end in [*readable, (len(text), len(text))]:
        parts += [_SIGN.sub(" ", text[at:start]), text[start:end]]
        at = end
    return "".join(parts)
