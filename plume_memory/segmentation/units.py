"""Cuts a history into routable units: segments of a budget, or all that can be told alone in them.

Laws, each held by a test:

- a unit never crosses a transition, and the notice between two transitions belongs to no unit;
- the spans of the units lose no word; what is none (unreadable.py) belongs to no unit;
- the text of a unit is its span's, without marks of tool calls (calls.py); an item of a list carries the headings of
  its list before it, if both fit the budget.
"""

from collections.abc import Sequence
from typing import NamedTuple

from plume_memory.records import Transition, Unit
from plume_memory.segmentation.calls import without_calls
from plume_memory.segmentation.lists import list_items
from plume_memory.segmentation.sentences import CountTokens, Span, segment, sentence_spans
from plume_memory.segmentation.unreadable import readable_spans


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
        single_sentences: Cut every unit into sentences and the items of lists too (`statements_of`).

    Raises:
        InvalidInput: If the budget is below 1.
    """
    units: list[Unit] = []
    for transition in transitions:
        for first, behind in readable_spans(transition.text):
            whole = without_calls(transition.text[first:behind])
            spans = segment(whole, budget_tokens=budget_tokens, count_tokens=count_tokens)
            pieces = _statements(whole, spans) if single_sentences else [_Piece(*span) for span in spans]
            for start, end, heading, body in pieces:
                text = whole[start:end]
                if text.isspace():
                    continue
                headed = f"{heading}\n{text}"
                told = headed if heading and count_tokens(headed) <= budget_tokens else text
                own = len(told) - (end - (body if start < body < end else start))
                place = first_position + len(units)
                units.append(Unit(place, transition.version, first + start, first + end, told, own))
    return tuple(units)


def statements_of(text: str) -> list[str]:
    """Return what of a text can be told alone, in order, without the white space around it.

    Its sentences, and the items of its lists, each with the headings it stands under. Where nothing ends a sentence
    (a program, a list of bare names) the paragraph stays whole; a piece without a letter goes with the next.
    """
    pieces = _statements(text, [Span(0, len(text))])
    told = (f"{heading}\n{text[start:end]}" if heading else text[start:end] for start, end, heading, _ in pieces)
    return [words.strip() for words in told if words.strip()]


class _Piece(NamedTuple):
    """A range of characters, and the headings it stands under: none, if it is prose."""

    start: int
    end: int
    heading: str = ""
    body: int = 0
    """First character behind headings that are part of the range."""


def _statements(text: str, spans: Sequence[Span]) -> list[_Piece]:
    """Cut each span at its sentence ends and around the items of lists; the ranges join to the spans."""
    items = list_items(text)
    pieces: list[_Piece] = []
    at = 0
    for start, end in spans:
        while start < end:
            while at < len(items) and items[at].end <= start:
                at += 1
            if at == len(items) or items[at].start >= end:
                pieces += _sentences(text, start, start, end)
                break
            item = items[at]
            if start < item.start and any(char.isalpha() for char in text[start : item.start]):
                pieces += _sentences(text, start, start, item.start)
                start = item.start
            stop = min(item.end, end)
            first, *others = _sentences(text, start, min(max(start, item.body), stop), stop)
            whole = start <= item.start  # its headings are there
            pieces.append(first._replace(heading=item.before if whole else item.heading, body=item.body))
            pieces += [piece._replace(heading=item.heading) for piece in others]
            start = stop
    return pieces


def _sentences(text: str, start: int, body: int, end: int) -> list[_Piece]:
    """Cut `text[start:end]` at the sentence ends behind `body`; one piece at least."""
    pieces: list[_Piece] = []
    for sentence in sentence_spans(text[body:end]):
        stop = body + sentence.end
        if any(char.isalpha() for char in text[body + sentence.start : stop]):  # "1. " goes with what it numbers
            pieces.append(_Piece(start, stop))
            start = stop
    if pieces and not any(char.isalnum() for char in text[start:end]):  # a rule goes with what it is drawn under
        pieces[-1] = pieces[-1]._replace(end=end)
    elif start < end:
        pieces.append(_Piece(start, end))
    return pieces
