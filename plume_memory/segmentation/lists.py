"""Finds the lists of a text: which lines are items that can be told alone, and under which heading. Knows texts only.

Notes of agents and of people are lists more often than prose, and a line of one has no full stop:

    Alice:                          User profile
    - Lives in: Bern                name: Alice
    - Works at: Acme                city: Bern

An item without its heading says of nobody that it lives in Bern, so each carries what it stands under: titles, words
that announce its list, items above it, the columns of its table, the name its record begins with. Blocks are those of
CommonMark, read by markdown-it; lines that Markdown takes for one paragraph are a list too, if each is a label and its
value or begins and ends like a note of its own. A program, a list of bare names and prose broken into lines are none.
"""

import re
from collections import Counter
from collections.abc import Container, Iterator, Sequence
from itertools import accumulate, pairwise, zip_longest
from typing import NamedTuple

from plume_memory.segmentation.blocks import COLON, Item, blocks_of, is_bullet
from plume_memory.segmentation.sentences import sentence_spans


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


class _Heading(NamedTuple):
    depth: int
    """1 to 6 of a title; words in bold, words alone and words that announce stand below all titles."""
    start: int
    """First character."""
    text: str


_LABELLED = re.compile(r"\s*(?:(?:[-*+•]|\d{1,9}[.)])\s+)?[*_]{0,2}(\w[^:|{}=;<>\n]{0,60}?)(?::[*_]{0,2}| [|–—])\s+\S")
_NOTE = re.compile(r"""["“'‘(]?(?:[^\W\d_]|\d)""")
_CODE = re.compile(r"[{}=;<>]")
_BLOCK = re.compile(r"\s*(?:class|def|if|elif|else|for|while|try|with|except|finally)\b")
_BOLD = re.compile(r"\s*(\*\*|__)(?:(?!\1).)+\1:?$")
_SENTENCE_END = (".", "!", "?", "…", ",", "。", "！", "？", "।", "؟", "۔")
_RULE = re.compile(r"\s*(?:([-*_=])[ \t]*(?:\1[ \t]*){2,})?$")
_BOLD_DEPTH, _WORDS_DEPTH, _COLON_DEPTH = 7, 8, 9
_LEADS_ON = re.compile(r"[,;(–—-]$|\b(?:a|an|the|and|or|but|of|to|in|on|at|for|from|with|by|as|that|which|who|my|our)$")
"""How a line ends that the next one goes on with."""
_GOES_ON = re.compile(r"(?:and|or|but|nor|because|which|that|who|whose|of|than|to|with|from|in|on|at|for|by|as)\b")
"""How a line begins that goes on with the one before."""
_LEAST_WIDTH = 40
"""Characters; nobody's lines are cut at fewer."""
_HEADING_WORDS = 8
_NOTE_WORDS = 3
_MOST_HEADINGS = 6
_HEADING_CHARS = 200
_KEYS = frozenset(["name", "full name", "first name", "title", "subject", "project", "company", "id"])
"""Labels with which a record says whom or what it is about."""
_SPEAKERS = frozenset(["user", "assistant", "human", "ai", "system", "me", "you", "q", "a"])
"""Labels that say who speaks, not what of."""


def list_items(text: str) -> list[ListItem]:
    """Return the items of all lists of a text, in order; they do not overlap.

    Headings directly before a list are part of its first item, so that none is told alone. Linear in the text: a
    heading is repeated before every item, but only if it is short, and of six headings at most.
    """
    return _Reader(text).items()


class _Reader:
    """Goes through the blocks of one text; keeps which headings hold where it is."""

    def __init__(self, text: str) -> None:
        lines = text.split("\n")
        self._text = text
        self._starts = [0, *accumulate(len(line) + 1 for line in lines)]
        self._starts[-1] = len(text)
        self._lines = [line.rstrip() for line in lines]
        self._outline: list[_Heading] = []  # outermost first
        self._waiting: int | None = None  # where headings begin behind which nothing stands yet
        self._found: list[ListItem] = []
        self._repeated = _repeated_labels(self._lines)

    def items(self) -> list[ListItem]:
        """Read all blocks."""
        blocks = blocks_of(self._lines)
        for block, follower in zip_longest(blocks, blocks[1:]):
            if block.kind == "list":
                self._list(block.items, block.end)
            elif block.kind == "title":
                self._head(block.depth, self._starts[block.first], self._lines[block.first])
            elif block.kind == "lines":
                before_list = follower is not None and follower.kind == "list" and follower.first == block.end
                self._paragraph(block.first, block.end, before_list)
            else:
                self._prose()
        return self._found

    def _paragraph(self, first: int, end: int, before_list: bool) -> None:
        """Take lines as a list, as headings, or as prose, of which the last words may announce a list."""
        lines = self._lines
        heads = first
        while heads < min(end, first + _MOST_HEADINGS) and _is_heading(lines[heads]):
            heads += 1
        labelled = end - heads > 1 and all(_LABELLED.match(lines[i]) for i in range(heads, end))
        announced = heads == end and (before_list or all(_is_marked(lines[i]) for i in range(first, end)))
        if labelled or announced:
            for i in range(first, heads):
                self._head(_depth_of(lines[i]), self._starts[i], lines[i])
            if labelled:
                self._list([Item(i, i, []) for i in range(heads, end)], end)
        elif not before_list and _are_notes(lines[first:end]):
            self._list([Item(i, i, []) for i in range(first, end)], end)
        else:
            self._prose()
            self._last_words(first, end, before_list)

    def _last_words(self, first: int, end: int, before_list: bool) -> None:
        """Take as a heading the last sentence of prose if it announces, or its last line if that stands alone."""
        last = self._lines[end - 1]
        if last.endswith(COLON):
            begin, stop = self._starts[first], self._starts[end - 1] + len(last)
            begin += sentence_spans(self._text[begin:stop])[-1].start
            self._head(_COLON_DEPTH, begin, self._text[begin:stop])
        elif before_list and end - first > 1 and _is_heading(last) and self._lines[end - 2].endswith(_SENTENCE_END):
            self._head(_depth_of(last), self._starts[end - 1], last)

    def _head(self, depth: int, start: int, text: str) -> None:
        kept = [one for one in self._outline if one.depth < depth]
        ended = self._outline[len(kept) :]
        if self._waiting is None or (ended and ended[-1].start >= self._waiting):
            self._waiting = start
        self._outline = [*kept, _Heading(depth, start, text)]

    def _prose(self) -> None:
        """What was announced ends; the titles hold."""
        self._outline = [one for one in self._outline if one.depth < _BOLD_DEPTH]
        self._waiting = None

    def _says(self, first: int, stop: int) -> bool:
        return any(char.isalnum() for line in self._lines[first:stop] for char in line)

    def _list(self, items: Sequence[Item], end: int) -> None:
        ends = [*(item.first for item in items[1:]), end]
        items = [item for item, stop in zip(items, ends, strict=True) if self._says(item.first, stop)]
        if not items:
            return
        ends = [*(item.first for item in items[1:]), end]
        while ends[-1] < len(self._lines) and _RULE.match(self._lines[ends[-1]]):
            ends[-1] += 1
        for item, stop in zip(_under_their_keys(items, self._lines, _KEYS | self._repeated), ends, strict=True):
            start = self._starts[item.first] if self._waiting is None else self._waiting
            outer = [one.text for one in self._outline if one.start < start]
            every = [one.text for one in self._outline]
            before, heading = _joined([*outer, *item.parents]), _joined([*every, *item.parents])
            self._found.append(ListItem(start, self._starts[item.body], self._starts[stop], before, heading))
            self._waiting = None


def _under_their_keys(items: Sequence[Item], lines: Sequence[str], labels: Container[str]) -> Iterator[Item]:
    """Yield items of a list; those of a record ("City: Bern") under the lines that say whose record it is."""
    keys: list[str] = []  # the record's first line, and the next if it names, too
    begun = -1  # which item has the first
    for at, item in enumerate(items):
        label = "" if item.parents else label_of(lines[item.body])
        if label and ((keys and label == label_of(keys[0])) or (at == 0 and label in labels)):
            keys, begun = [lines[item.body]], at
        elif keys:
            item = item._replace(parents=[*keys, *item.parents])
            if label in _KEYS and at == begun + 1:
                keys = [*keys, lines[item.body]]
        yield item


def _repeated_labels(lines: Sequence[str]) -> frozenset[str]:
    """Labels with which more than one paragraph under a title begins: those of records, one after the other.

    What somebody says is labelled too, with the name of who says it, and is a sentence or more.
    """
    found: set[str] = set()
    times: Counter[str] = Counter()
    for line, above in zip(lines, ["", *lines], strict=False):
        if line.startswith("#"):
            times.clear()
        label = "" if above or is_bullet(line) or line.endswith(_SENTENCE_END) else label_of(line)
        times[label] += 1
        if label and label not in _SPEAKERS and times[label] > 1:
            found.add(label)
    return frozenset(found)


def label_of(line: str) -> str:
    """Return what stands before the colon of a line that says "City: Bern", in small letters; empty if it does not."""
    match = _LABELLED.match(line)
    return match.group(1).strip("* _").lower() if match else ""


def _is_heading(line: str) -> bool:
    """Whether a line may announce a list: few words that end no sentence, or any before a colon."""
    if line.lstrip().startswith("|") or _CODE.search(line) or _BLOCK.match(line):
        return False
    if _is_marked(line):
        return True
    return len(line.split()) <= _HEADING_WORDS and not line.endswith(_SENTENCE_END) and not _LABELLED.match(line)


def _is_marked(line: str) -> bool:
    return bool(_BOLD.match(line)) or (line.endswith(COLON) and len(sentence_spans(line)) == 1)


def _depth_of(line: str) -> int:
    if _BOLD.match(line):
        return _BOLD_DEPTH
    return _COLON_DEPTH if line.endswith(COLON) else _WORDS_DEPTH


def _joined(headings: Sequence[str]) -> str:
    """Join the innermost headings; no more and no longer ones, as every item repeats them."""
    return "\n".join(one for one in headings[-_MOST_HEADINGS:] if len(one) <= _HEADING_CHARS)


def _are_notes(lines: Sequence[str]) -> bool:
    """Whether each line of a paragraph says something of its own, and none goes on with the one before.

    Lines of one sentence end with a word that asks for another, begin with one that joins, or are cut where the next
    word had no room: then each, with that word, is longer than the longest of them.
    """
    if len(lines) < 2 or not all(_is_note(line) for line in lines):
        return False
    ends = [line.endswith(_SENTENCE_END) for line in lines]
    if all(ends) or any(ended and not before for before, ended in pairwise(ends)):
        return False  # prose; or a sentence that ends a line below
    if not any(ends) and not any(line.lstrip("\"“‘'([")[0].islower() for line in lines):
        return True
    goes_on = (_LEADS_ON.search(line) or _GOES_ON.match(after) or after[0].isspace() for line, after in pairwise(lines))
    if any(goes_on):
        return False
    longest = max(map(len, lines))
    full = all(len(line) + 1 + len(after.split()[0]) > longest for line, after in pairwise(lines))
    return not full or longest < _LEAST_WIDTH


def _is_note(line: str) -> bool:
    """Whether a line begins with a word, is long enough to say something, and is no line of a program."""
    is_code = _CODE.search(line) or _BLOCK.match(line)
    return _NOTE.match(line) is not None and len(line.split()) >= _NOTE_WORDS and not is_code
