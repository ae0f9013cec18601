"""JSON, YAML, TOML and INI: each leaf a unit, said with the path that leads to it.

The standard readers and PyYAML say whether a text is such a document. Where its parts stand they do not all say: of a
valid JSON text the marks are enough, of TOML and INI the lines.
"""

import configparser
import json
import re
import tomllib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import yaml

from plume_memory.segmentation.forms.piece import Piece, lines_of
from plume_memory.segmentation.forms.saying import is_code, is_naming, named, said_field, singular, words_of

MOST_DEPTH = 60
"""Of nested values; what is deeper is no document that a person reads."""
_MOST_LISTED = 12
"""Values of a list said together."""
_JSON_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_YAML_KEY = re.compile(r"^( *)(?:- )?[\w][\w .()/-]{0,48}:(?: |$)")
_NESTED = re.compile(rf"(?:.*?[-?] ){{{MOST_DEPTH}}}")
_KEY_LINE = re.compile(r"""^[ \t]*(?:"([^"\n]+)"|'([^'\n]+)'|([\w .-]+?))[ \t]*[=:]""", re.MULTILINE)
_INI_LINE = re.compile(r"\[[^\]\n]+\]$|[#;]|[ \t]+\S|[^\s\[\]=:][^\[\]=:\n]{0,60}[=:]")
_SECTION_LINE = re.compile(r"^[ \t]*\[", re.MULTILINE)
_COMMENT = re.compile(r"(?:^|\s)[#;]\s?(.*)$")


@dataclass(slots=True)
class Node:
    """A value of a document and where it stands, its key included."""

    start: int
    end: int
    scalar: str | None = None
    """As the text writes it, without quotes; None for a mapping or a list."""
    entries: "list[tuple[str | None, Node]]" = field(default_factory=list)
    """Of a mapping with their keys, of a list with None."""
    is_text: bool = False
    """Whether the scalar is a string."""

    def get(self, *keys: str) -> "Node | None":
        """Return the first entry of one of these keys."""
        found = {key: node for key, node in self.entries if key is not None}
        return next((found[key] for key in keys if key in found), None)


def data_pieces(text: str) -> list[Piece] | None:
    """Read JSON, JSON lines, TOML, INI or YAML; None if it is none of them."""
    for read in (json_node, _toml_node, _ini_node, _yaml_node):
        node = read(text)
        if node is not None and (node.entries or node.scalar is None):
            pieces = list(_said(node))
            return _with_comments(text, pieces) if all(piece.start < piece.end for piece in pieces) else None
    return None


def is_data(text: str) -> bool:
    """Whether a text is clearly such a document: it has fields, and if only lines tell so, more than one."""
    node = json_node(text)
    if node is not None:
        return _has_fields(node, 1)
    found = (read(text) for read in (_toml_node, _ini_node, _yaml_node))
    return any(node is not None and _has_fields(node, 2) for node in found)


def _has_fields(root: Node, needed: int) -> bool:
    """Whether so many values have a key."""
    waiting = [root]
    while waiting and needed > 0:
        node = waiting.pop()
        needed -= sum(key is not None and child.scalar is not None for key, child in node.entries)
        waiting += [child for _, child in node.entries]
    return needed <= 0


# --- JSON -----------------------------------------------------------------------------------------


def _json_values(text: str) -> list[str] | None:
    """The text as valid JSON documents: the whole, or one a line; None if it is neither."""
    begun = text.lstrip("\ufeff \t\r\n")
    if not begun.startswith(("{", "[")):
        return None
    try:
        found = json.loads(text.lstrip("\ufeff"))
        return [text] if isinstance(found, (dict, list)) and found else None
    except (ValueError, RecursionError):
        pass
    lines = [line for line in text.lstrip("\ufeff").splitlines() if line.strip()]
    try:
        return lines if len(lines) > 1 and all(isinstance(json.loads(line), dict) for line in lines) else None
    except (ValueError, RecursionError):
        return None


def json_node(text: str) -> Node | None:
    """Read JSON, or a list of what stands line by line, with places; None if it is not valid or nested too deep."""
    if _json_values(text) is None:
        return None
    root = Node(0, len(text))
    open_nodes, key = [root], None
    pending: tuple[str, int] | None = None  # a string that may be a key, and where it begins
    for match in _JSON_MARK.finditer(text.replace("\ufeff", " ", 1) if text.startswith("\ufeff") else text):
        mark = match.group()
        if mark in "}]":
            open_nodes.pop().end = match.end()
        elif mark == ":" and pending is not None:
            open_nodes[-1].entries.pop()
            key = pending
        elif mark not in ",:":
            is_text = mark[0] == '"'
            value = None if mark in "{[" else str(json.loads(mark)) if is_text else mark
            node = Node(key[1] if key else match.start(), match.end(), value, is_text=is_text)
            open_nodes[-1].entries.append((key[0] if key else None, node))
            pending = (value or "", match.start()) if is_text and key is None else None
            key = None
            if value is None:
                open_nodes.append(node)
                if len(open_nodes) > MOST_DEPTH:
                    return None
    return root.entries[0][1] if len(root.entries) == 1 else root


# --- YAML -----------------------------------------------------------------------------------------


def _yaml_node(text: str) -> Node | None:
    """Read YAML: keys with keys below them; what is a list under a title or labelled lines is told as those are."""
    lines = [line for _, line in lines_of(text) if line.strip() and not line.lstrip().startswith("#")]
    if not lines or "\t" in text or not _nests(lines) or max(text.count(mark) for mark in "[{") > MOST_DEPTH:
        return None
    if any(len(line) - len(line.lstrip(" ")) > 4 * MOST_DEPTH or _NESTED.match(line) for line in lines):
        return None
    try:
        found = yaml.compose(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError):
        return None
    return _from_yaml(found, text, set()) if isinstance(found, yaml.MappingNode) else None


def _nests(lines: Sequence[str]) -> bool:
    """Whether a key without a value has keys below it and further in, and most lines begin with a key."""
    keys = [_YAML_KEY.match(line) for line in lines]
    if lines[0].strip() == "---" and sum(key is not None for key in keys) > 1:
        return True
    below = any(
        one.rstrip().endswith(":") and key and after and len(after.group(1)) > len(key.group(1)) and _is_key(one)
        for one, (key, after) in zip(lines, pairwise(keys), strict=False)
    )
    return below and keys[0] is not None and sum(key is not None for key in keys) * 2 > len(keys)


def _is_key(line: str) -> bool:
    return len(line.split()) < 3 and not line.lstrip().startswith("-")


def _from_yaml(found: yaml.Node, text: str, seen: set[int], start: int | None = None) -> Node:
    begun = found.start_mark.index if start is None else start
    node = Node(begun, max(begun, found.end_mark.index))
    if isinstance(found, yaml.ScalarNode):
        node.scalar, node.is_text = str(found.value), found.tag.endswith(":str")
    elif id(found) not in seen:  # an alias is said once: a document could name one a million times
        seen.add(id(found))
        if isinstance(found, yaml.MappingNode):
            for key, value in found.value:
                node.entries.append((str(key.value), _from_yaml(value, text, seen, key.start_mark.index)))
        else:
            node.entries = [(None, _from_yaml(value, text, seen)) for value in found.value]
    while node.end > node.start and text[node.end - 1].isspace():
        node.end -= 1
    return node


# --- TOML and INI ---------------------------------------------------------------------------------


def _toml_node(text: str) -> Node | None:
    try:
        found = tomllib.loads(text.lstrip("\ufeff"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None
    return _Placed(text).node(found) if found else None


def _ini_node(text: str) -> Node | None:
    lines = [line.rstrip() for line in text.lstrip("\ufeff").split("\n") if line.strip()]
    begun = next((line for line in lines if not line.startswith(("#", ";"))), "")
    if not begun.startswith("[") or not all(_INI_LINE.match(line) for line in lines):
        return None
    parser = configparser.RawConfigParser(strict=False, allow_no_value=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # keys keep their case
    try:
        parser.read_string(text.lstrip("\ufeff"))
    except configparser.Error:
        return None
    sections = {name: dict(parser.items(name)) for name in parser.sections()}
    return _Placed(text).node(sections) if any(sections.values()) else None


class _Placed:
    """Finds where the values of a parsed document stand: the lines that begin with their keys, in order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._keys: dict[str, deque[int]] = {}
        starts = []
        for match in _KEY_LINE.finditer(text):
            starts.append(match.start() + len(match.group()) - len(match.group().lstrip()))
            written = match.group(1) or match.group(2) or match.group(3)
            self._keys.setdefault(written.rsplit(".", maxsplit=1)[-1].strip(), deque()).append(starts[-1])
        ends = sorted([*starts, *(match.start() for match in _SECTION_LINE.finditer(text)), len(text)])
        self._ends = dict(pairwise(ends))
        self._last = (0, 0)

    def node(self, value: Any, key: str | None = None, depth: int = 0) -> Node | None:
        """A value as a node; None if it is nested too deep."""
        if depth > MOST_DEPTH:
            return None
        is_group = isinstance(value, dict) or (isinstance(value, list) and any(isinstance(one, dict) for one in value))
        if key is not None and not is_group and (places := self._keys.get(key)):
            start = places.popleft()
            said = self._text[start : self._ends[start]]
            kept = [line.rstrip() for line in said.splitlines() if not line.lstrip().startswith(("#", ";"))]
            self._last = (start, start + len(said[: said.rfind(kept[-1]) + len(kept[-1])].rstrip()) if kept else start)
        node = Node(*self._last)
        if isinstance(value, dict):
            below = [(name, self.node(one, name, depth + 1)) for name, one in value.items()]
            node.entries = [(name, one) for name, one in below if one is not None]
        elif isinstance(value, list):
            found = [self.node(one, None, depth + 1) for one in value]
            node.entries = [(None, one) for one in found if one is not None]
        else:
            node.scalar, node.is_text = str(value).lower() if isinstance(value, bool) else str(value), True
        return node


# --- what a document says -------------------------------------------------------------------------


def _said(root: Node) -> Iterator[Piece]:
    """Yield the leaves, in order, without recursion."""
    waiting: list[tuple[str | None, Node, tuple[str, ...], str]] = [(None, root, (), "")]
    while waiting:
        key, node, above, kind = waiting.pop()
        if node.scalar is not None:
            yield _leaf(node, key or kind or "value", above, [node.scalar])
        elif not node.entries:
            yield _leaf(node, key or kind or "value", above, [])
        elif all(child.scalar is not None for _, child in node.entries) and node.entries[0][0] is None:
            values = [child.scalar or "" for _, child in node.entries]
            if len(values) <= _MOST_LISTED:
                yield _leaf(node, key or kind or "value", above, values)
            else:
                one = singular(key or kind or "value")
                yield from (_leaf(child, one, above, [child.scalar or ""]) for _, child in node.entries)
        else:
            own = _phrase(node, key, kind)
            named_above = (own, *above) if own else above
            naming, plain = _name_key(node), _phrase(node, key, kind, unnamed=True)
            for_name = (plain, *above) if plain else above
            below: list[tuple[str | None, Node, tuple[str, ...], str]] = []
            for number, (name, child) in enumerate(node.entries, start=1):
                if name is not None and child.scalar is not None and name == naming:
                    below.append((name, child, for_name, ""))
                elif name is not None:
                    below.append((name, child, named_above, ""))
                else:
                    below.append((None, child, above, f"{singular(words_of(key or kind or 'entry'))} {number}"))
            waiting += reversed(below)


def _leaf(node: Node, key: str, above: Sequence[str], values: Sequence[str]) -> Piece:
    return Piece(node.start, node.end, said=said_field(key, named(above), values))


def _phrase(node: Node, key: str | None, kind: str, *, unnamed: bool = False) -> str:
    """What a mapping or list is called: "the manager Ada Holm", "Ada Holm", "the address", "employee 3"."""
    chosen = None if unnamed else _name_key(node)
    name = node.get(chosen) if chosen else None
    words = kind.rsplit(" ", maxsplit=1)[0] if name is not None and kind else kind
    words = words or (f"the {words_of(key)}" if key else "")
    if name is None:
        return words
    own = " ".join((name.scalar or "").split())
    codes = (child.scalar for at, child in node.entries if at and child.scalar and is_code(at) and at != chosen)
    code = next(codes, None)
    own = f"{own} ({code})" if code else own
    if kind and words not in ("entry", "value"):
        return f"the {words} {own}"
    return f"{words} {own}".removeprefix("entry ").strip()


def _name_key(node: Node) -> str | None:
    """Under which key a mapping says what it is called."""
    keys = [key for key, child in node.entries if key and child.scalar]
    return next((key for key in keys if is_naming(key)), next((key for key in keys if is_code(key)), None))


def _with_comments(text: str, pieces: list[Piece]) -> list[Piece]:
    """Put comments above what they stand before, and behind a value to that value, as headings."""
    found: list[Piece] = []
    at = 0
    for piece in pieces:
        line_end = text.find("\n", piece.end)
        before, behind = text[at : piece.start], text[piece.end : line_end if line_end >= 0 else len(text)]
        above = [match.group(1).strip() for _, line in lines_of(before) if (match := _COMMENT.search(line))]
        own = _COMMENT.search(behind)
        said = [*above, *([own.group(1).strip()] if own and "#" in behind else [])]
        found.append(Piece(piece.start, piece.end, tuple(one for one in said if one), piece.said))
        at = max(at, piece.end + (len(behind) if own else 0))
    tail = text[at:]
    if any(_COMMENT.search(line) for line in tail.split("\n")):
        found.append(Piece(at + len(tail) - len(tail.lstrip(" \r\n}],")), at + len(tail.rstrip())))
    return found
