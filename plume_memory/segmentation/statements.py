"""Cuts a text into what can be told alone: its sentences, and the items of its lists under their headings."""

from collections.abc import Sequence
from typing import NamedTuple

from plume_memory.segmentation.lists import list_items
from plume_memory.segmentation.sentences import Span, sentence_spans


class Statement(NamedTuple):
    """A range of characters, and the headings it stands under: none, if it is prose."""

    start: int
    end: int
    heading: str = ""
    body: int = 0
    """First character behind headings that are part of the range."""


def statements(text: str, spans: Sequence[Span] | None = None) -> list[Statement]:
    """Cut a text, or each of its spans, at sentence ends and around items of lists; the ranges join to the spans."""
    spans = [Span(0, len(text))] if spans is None else spans
    items = list_items(text)
    pieces: list[Statement] = []
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


def _sentences(text: str, start: int, body: int, end: int) -> list[Statement]:
    """Cut `text[start:end]` at the sentence ends behind `body`; one piece at least."""
    pieces: list[Statement] = []
    for sentence in sentence_spans(text[body:end]):
        stop = body + sentence.end
        if any(char.isalpha() for char in text[body + sentence.start : stop]):  # "1. " goes with what it numbers
            pieces.append(Statement(start, stop))
            start = stop
    if pieces and not any(char.isalnum() for char in text[start:end]):  # a rule goes with what it is drawn under
        pieces[-1] = pieces[-1]._replace(end=end)
    elif start < end:
        pieces.append(Statement(start, end))
    return pieces


def statements_of(text: str) -> list[str]:
    """Return what of a text can be told alone, in order, without the white space around it.

    Its sentences, and the items of its lists, each with the headings it stands under. Where nothing ends a sentence
    (a program, a list of bare names) the paragraph stays whole; a piece without a letter goes with the next.
    """
    told = (f"{heading}\n{text[a:b]}" if heading else text[a:b] for a, b, heading, _ in statements(text))
    return [words.strip() for words in told if words.strip()]
