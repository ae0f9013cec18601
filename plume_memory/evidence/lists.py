"""Finds the lists of a text: which lines are items that can be told alone, and under which heading. Knows texts only.

Notes of agents and of people are lists more often than prose, and a line of one has no full stop:

    Alice:                          User profile
    - Lives in: Bern                name: Alice
    - Works at: Acme                city: Bern

An item without its heading says of nobody that it lives in Bern, so each carries the headings it stands under. Only
what is surely a list counts, a paragraph at a time: lines behind bullets or numbers, rows of a Markdown table, or
lines of which each is a label and its value or begins and ends like a note of its own. A program, a
fenced block, a list of bare names and prose that is broken into lines are no lists.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple


class ListItem(NamedTuple):
    """One item of a list."""

    start: int
    """First character; headings directly before a list are part of its first item."""
    body: int
    """First character behind such headings."""
    end: int
    """One past the last character, line breaks behind the item included."""
    before: str
    """The headings it stands under that are no part of it, outermost first; empty where there are none."""
    heading: str
    """All headings it stands under."""


class _Line(NamedTuple):
    start: int
    end: int
    text: str
    """Without the white space at its end."""


_BULLET = re.compile(r"\s*(?:[-*+•‣▪◦]|\(?\d{1,3}[.)]|\[[ xX]\])\s+\S")
_TITLE = re.compile(r"(#{1,6})\s+\S")
_LABELLED = re.compile(r"\s*\w[^:|{}=;<>\n]{0,60}?(?::| [|–—])\s+\S")
_NOTE = re.compile(r"""["“'‘(]?(?:[^\W\d_]|\d)""")
_ROW, _RULE = re.compile(r"\s*\|.*\|$"), re.compile(r"\s*\|[\s:|-]+\|$")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_CODE = re.compile(r"[{}=;<>]")
_BLOCK = re.compile(r"\s*(?:class|def|if|elif|else|for|while|try|with|except|finally)\b")
_SENTENCE_END = (".", "!", "?", "…", ",", "。", "！", "？")
_HEADING_WORDS = 8
_NOTE_WORDS = 3
_MOST_HEADINGS = 6
_HEADING_CHARS = 200


def list_items(text: str) -> list[ListItem]:
    """Return the items of all lists of a text, in order; they do not overlap.

    Headings directly before a list are part of its first item, so that none is told alone. Linear in the text: a
    heading is repeated before every item, but only if it is short, and of six headings at most.
    """
    items: list[ListItem] = []
    outline: list[_Line] = []  # the headings that hold here, outermost first
    waiting: int | None = None  # where headings begin behind which nothing stands yet
    fenced = False  # inside a block of code
    for lines in (section for paragraph in _paragraphs(text) for section in _sections(paragraph)):
        fences = sum(1 for line in lines if _FENCE.match(line.text))
        if fenced or fences:
            fenced ^= fences % 2 == 1
            outline, waiting = _titles(outline), None
            continue
        listed = sum(1 for line in lines if _BULLET.match(line.text)) > 1
        at = 0
        while at < len(lines) and not _BULLET.match(lines[at].text):
            if _is_heading(lines, at):
                heading = lines[at]
                outline = [one for one in outline if _depth(one) < _depth(heading)] + [heading]
                waiting = heading.start if waiting is None else waiting
            elif listed:  # prose before the bullets of its paragraph
                waiting = None
            else:
                break
            at += 1
        if at == len(lines):
            continue
        found = _items(lines[at:])
        for own, parents in found:
            begins = own[0].start if waiting is None else waiting
            outer = [line.text for line in outline if line.start < begins]
            under = [line.text for line in outline]
            before, heading = _heading_of([*outer, *parents]), _heading_of([*under, *parents])
            items.append(ListItem(begins, own[0].start, own[-1].end, before, heading))
            waiting = None
        if not found:  # prose ends what was announced, not the title it stands under
            outline, waiting = _titles(outline), None
    return items


def _titles(outline: Sequence[_Line]) -> list[_Line]:
    return [heading for heading in outline if _TITLE.match(heading.text)]


def _paragraphs(text: str) -> Iterator[list[_Line]]:
    """Yield runs of lines that are not blank; what is blank behind a line belongs to it."""
    lines: list[_Line] = []
    start = 0
    for match in re.finditer(r"\n(?:[^\S\n]*\n)*|\Z", text):
        if start < match.end() or not lines:
            lines.append(_Line(start, match.end(), text[start : match.start()].rstrip()))
        start = match.end()
        if match.group().count("\n") != 1:
            lines = [line for line in lines if line.text]
            if lines:
                yield lines
            lines = []


def _sections(lines: list[_Line]) -> Iterator[list[_Line]]:
    """Cut a paragraph of several lists before the heading of each: a title, what announces it, or words as the first's.

    Other words behind an item go on with it.
    """
    named = not _BULLET.match(lines[0].text) and _is_heading(lines, 0)
    start, indent = 0, -1
    for at, line in enumerate(lines):
        if _BULLET.match(line.text):
            indent = _indent(line)
        elif _indent(line) <= indent and at + 1 < len(lines) and _BULLET.match(lines[at + 1].text):
            marked = _TITLE.match(line.text) or line.text.endswith((":", "："))
            if _is_heading(lines, at) and (marked or (named and not line.text.lstrip()[0].islower())):
                yield lines[start:at]
                start, indent = at, -1
    yield lines[start:]


def _is_heading(lines: Sequence[_Line], at: int) -> bool:
    """Whether a line of a paragraph is a title, or announces a list in a few words."""
    text = lines[at].text
    if _TITLE.match(text):
        return True
    if _ROW.match(text) or _CODE.search(text) or _BLOCK.match(text):
        return False
    if text.endswith((":", "：")):
        return True
    if len(text.split()) > _HEADING_WORDS or text.endswith(_SENTENCE_END) or _LABELLED.match(text):
        return False
    if at + 1 == len(lines) or _BULLET.match(lines[at + 1].text):
        return True
    return all(_LABELLED.match(lines[i].text) for i in range(at + 1, len(lines)))  # no slice: called for every line


def _heading_of(lines: Sequence[str]) -> str:
    """Join the innermost headings; no more and no longer ones, as every item repeats them."""
    return "\n".join(line for line in lines[-_MOST_HEADINGS:] if len(line) <= _HEADING_CHARS)


def _depth(heading: _Line) -> int:
    """How deep a title is; one that is only words stands below all with a mark."""
    title = _TITLE.match(heading.text)
    return len(title.group(1)) if title else 7


def _items(lines: Sequence[_Line]) -> list[tuple[list[_Line], list[str]]]:
    """Return a paragraph's items, each as its lines and the words above it in this list; none if it is no list."""
    if _BULLET.match(lines[0].text):
        return _bulleted(lines)
    if len(lines) > 2 and _ROW.match(lines[0].text) and _RULE.match(lines[1].text):
        columns = [lines[0].text, lines[1].text]
        return [(list(lines[:3]), []), *(([line], columns) for line in lines[3:])]
    labelled = all(_LABELLED.match(line.text) for line in lines)
    if len(lines) > 1 and (labelled or all(_is_note(line.text) for line in lines)):
        return [([line], []) for line in lines]
    return []


def _bulleted(lines: Sequence[_Line]) -> list[tuple[list[_Line], list[str]]]:
    """Return a bulleted list's items: a line behind a bullet with all that is no bullet after it."""
    items: list[list[_Line]] = []
    for line in lines:
        if _BULLET.match(line.text):
            items.append([line])
        else:
            items[-1].append(line)
    told: list[tuple[list[_Line], list[str]]] = []
    parents: list[_Line] = []
    for item in items:
        parents = [line for line in parents if _indent(line) < _indent(item[0])]
        told.append((item, [line.text for line in parents]))
        parents.append(item[0])
    return told


def _indent(line: _Line) -> int:
    return len(line.text) - len(line.text.lstrip())


def _is_note(line: str) -> bool:
    """Whether a line begins as a sentence, is long enough to be one, and has no end."""
    begins = _NOTE.match(line)
    first = begins.group()[-1] if begins else ""
    spoken = not line.endswith(_SENTENCE_END) and not _CODE.search(line)
    return bool(first) and not first.islower() and len(line.split()) >= _NOTE_WORDS and spoken
