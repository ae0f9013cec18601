"""Reads a text as CommonMark: its titles, lists and tables, and the lines between them. Knows no headings of words.

markdown-it does the reading. Beyond CommonMark an item may begin with a bullet that a person typed (•, –, [x], (1)),
bullets at the margin under a numbered item belong to it, and a heading between two lists needs no blank line. Block
quotes, links and indented code are lines like others: in notes an indent is most often a list.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, NamedTuple

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, table
from markdown_it.tree import SyntaxTreeNode


class Item(NamedTuple):
    """One item of a list, or row of a table."""

    first: int
    """Its first line."""
    body: int
    """First line behind the columns of its table, else `first`."""
    parents: list[str]
    """What it stands under in its own list, outermost first: items, columns."""


class Block(NamedTuple):
    """Some lines of a text, blank ones behind them not counted."""

    kind: Literal["title", "list", "lines", "other"]
    """`lines` are one paragraph of Markdown, `other` is code or a rule."""
    first: int
    end: int
    """One past the last line."""
    depth: int = 0
    """1 to 6 of a title."""
    items: Sequence[Item] = ()
    """Of a list, in order, with those below them."""


_NOT_READ = ["blockquote", "code", "html_block", "inline", "reference"]
_MOST_CHARS = 20_000
"""Given to markdown-it at once: its time and its tokens grow faster than the text."""
_MOST_LINE_CHARS = 1000
"""Read of one line: what a line is, its first characters say."""
_TYPED = re.compile(r"^(?:[•‣▪◦●–]|\(\d{1,3}\)|\[[ xX]\])(?=\s+\S)")
_BULLET = re.compile(r"\s*(?:[-*+]|\d{1,9}[.)])\s+\S")
_TITLE = re.compile(r"\s*#{1,6}\s")
_MOST_INDENT = 40
_CODE_INDENT = 4
_NO_TITLE_ENDS = (".", ",", ";", "!")
COLON = (":", "：")


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Markdown's rule for tables, but for the cells: it fills a short row up to as many as its head has."""
    if not table(state, start, end, True):
        return False
    if silent:
        return True
    outer, state.parentType = state.parentType, "table"
    enders = state.md.block.ruler.getRules("blockquote")
    line = start + 2
    while line < end and not (
        state.isEmpty(line)
        or state.sCount[line] < state.blkIndent
        or state.is_code_block(line)
        or any(ends(state, line, end, True) for ends in enders)
    ):
        line += 1
    state.push("table_open", "table", 1).map = [start, line]
    state.push("table_close", "table", -1)
    state.parentType, state.line = outer, line
    return True


_MARKDOWN = MarkdownIt("commonmark", {"maxNesting": 100}).enable("table").disable(_NOT_READ)
_MARKDOWN.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})


class _Source(NamedTuple):
    """Where the parsed lines are in the text."""

    lines: Sequence[str]
    origin: Sequence[int]
    """Of each line that was read, which one it is in the text."""

    def span(self, node: SyntaxTreeNode) -> tuple[int, int]:
        """First line of a node, and one past its last that is not blank."""
        first, end = (self.origin[line] for line in node.map or (0, 0))
        while end > first and not self.lines[end - 1].strip():
            end -= 1
        return first, end

    def first_line(self, node: SyntaxTreeNode) -> str:
        return self.lines[self.span(node)[0]].rstrip()


def blocks_of(lines: Sequence[str]) -> list[Block]:
    """Return the blocks of a text's lines, in order; they do not overlap.

    A long text is read part by part, cut at blank lines where there are any: linear in the text.
    """
    return [block for first, end in _parts(lines) for block in _blocks(lines, first, end)]


def _parts(lines: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield ranges of lines of `_MOST_CHARS` together, or of a single line."""
    first, blank, chars = 0, 0, 0
    for at, line in enumerate(lines):
        chars += min(len(line), _MOST_LINE_CHARS) + 1
        if chars > _MOST_CHARS and at > first:
            end = blank if blank > first else at
            yield first, end
            first, chars = end, sum(min(len(one), _MOST_LINE_CHARS) + 1 for one in lines[end : at + 1])
        if not line.strip():
            blank = at + 1
    yield first, len(lines)


def _blocks(lines: Sequence[str], first: int, end: int) -> list[Block]:
    plain = [_plain(line[:_MOST_LINE_CHARS]) for line in lines[first:end]]
    numbers, read = zip(*_separated(list(_at_the_margin(plain))), strict=True)
    source = _Source(lines, [*(first + number for number in numbers), end])
    blocks: list[Block] = []
    numbered: SyntaxTreeNode | None = None  # the last item of a numbered list that ends here
    for node in SyntaxTreeNode(_MARKDOWN.parse("\n".join(read))).children:
        follows = numbered and node.type == "bullet_list" and source.span(numbered)[1] == source.span(node)[0]
        blocks.append(_block(node, source, [source.first_line(numbered)] if numbered and follows else []))
        numbered = node.children[-1] if node.type == "ordered_list" else None
    return blocks


def _block(node: SyntaxTreeNode, source: _Source, above: list[str]) -> Block:
    first, end = source.span(node)
    if node.type.endswith("_list"):
        return Block("list", first, end, items=list(_bullets(node, source, above)))
    if node.type == "table" and end - first > 2:
        columns = [line.rstrip() for line in source.lines[first : first + 2]]
        rows = [Item(line, line, columns) for line in range(first + 3, end)]
        return Block("list", first, end, items=[Item(first, first + 2, []), *rows])
    underlined = end - first == 2 and not source.lines[first].rstrip().endswith(_NO_TITLE_ENDS)
    if node.type == "heading" and (node.markup.startswith("#") or underlined):
        return Block("title", first, end, depth=int(node.tag[1:]))
    if node.type == "heading":  # lines above a rule: front matter, or prose
        return Block("lines", first, end - 1)
    if node.type in ("paragraph", "table"):
        return Block("lines", first, end)
    return Block("other", first, end)


def _bullets(node: SyntaxTreeNode, source: _Source, above: list[str]) -> Iterator[Item]:
    for item in node.children:
        first, _ = source.span(item)
        below = [child for child in item.children if child.type.endswith("_list")]
        parents = above
        if not any(source.span(child)[0] == first for child in below):  # "- - Bern" has no words of its own
            yield Item(first, first, above)
            parents = [*above, source.first_line(item)]
        for child in below:
            yield from _bullets(child, source, parents)


def _separated(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield each line with its number; before a heading between two lists, a blank one that has the same number.

    A heading is what announces a list with a colon, or words alone where words head the first list too; other words
    behind an item go on with it.
    """
    indent = -1  # of the item before, in this paragraph
    named = False
    for number, line in enumerate(lines):
        if not line.strip():
            indent, named = -1, False
        elif _BULLET.match(line):
            indent = _indent(line)
        elif indent < 0:
            named = not _TITLE.match(line)
        elif _indent(line) <= indent and number + 1 < len(lines) and _BULLET.match(lines[number + 1]):
            words = line.strip()
            if words.endswith(COLON) or (named and not words[0].islower() and not words.endswith((".", "!", "?"))):
                yield number, ""
                indent, named = -1, True
        yield number, line


def _at_the_margin(lines: Iterable[str]) -> Iterator[str]:
    """Yield lines without the indent of a list that begins so far in that Markdown takes it for code."""
    outer = -1  # indent of the outermost item of the list that is open
    for line in lines:
        words = line.lstrip()
        indent = len(line) - len(words)
        if _BULLET.match(line):
            outer = indent if outer < 0 else min(outer, indent)
        elif words and indent <= outer:
            outer = -1
        yield line[outer:] if words and outer >= _CODE_INDENT else line


def is_bullet(line: str) -> bool:
    """Whether a line begins an item."""
    return bool(_BULLET.match(_plain(line)))


def _plain(line: str) -> str:
    """A line with a bullet of Markdown; no further in than parsing takes time for each level."""
    line = line.replace("\r", " ").expandtabs(_CODE_INDENT)
    words = line.lstrip()
    indent = line[: len(line) - len(words)]
    return indent[-_MOST_INDENT:] + _TYPED.sub("-", words)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
