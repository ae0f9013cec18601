"""JSON, YAML, TOML and INI as values and where they stand. Knows nothing of what they say.

The standard readers and PyYAML say whether a text is such a document. Where its parts stand they do not all say: of a
valid JSON text the marks are enough, of TOML and INI the lines.
"""

import configparser
import json
import re
import tomllib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import yaml

from plume_memory.segmentation.forms.piece import lines_of

_MOST_DEPTH = 60
"""Of nested values; what is deeper is no document that a person reads."""
_JSON_MARK = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_YAML_KEY = re.compile(r"^( *)(?:- )?[\w][\w .()/-]{0,48}:(?: |$)")
_NESTED = re.compile(rf"(?:.*?[-?] ){{{_MOST_DEPTH}}}")
_KEY_LINE = re.compile(r"""^[ \t]*(?:"([^"\n]+)"|'([^'\n]+)'|([\w .-]+?))[ \t]*[=:]""", re.MULTILINE)
_INI_LINE = re.compile(r"\[[^\]\n]+\]$|[#;]|[ \t]+\S|[^\s\[\]=:][^\[\]=:\n]{0,60}[=:]")
_SECTION_LINE = re.compile(r"^[ \t]*\[", re.MULTILINE)


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
                if len(open_nodes) > _MOST_DEPTH:
                    return None
    return root.entries[0][1] if len(root.entries) == 1 else root


# --- YAML -----------------------------------------------------------------------------------------


def yaml_node(text: str) -> Node | None:
    """Read YAML: keys with keys below them; what is a list under a title or labelled lines is told as those are."""
    lines = [line for _, line in lines_of(text) if line.strip() and not line.lstrip().startswith("#")]
    if not lines or "\t" in text or not _nests(lines) or max(text.count(mark) for mark in "[{") > _MOST_DEPTH:
        return None
    if any(len(line) - len(line.lstrip(" ")) > 4 * _MOST_DEPTH or _NESTED.match(line) for line in lines):
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


def toml_node(text: str) -> Node | None:
    """Read TOML; None if it is not valid, or says nothing."""
    try:
        found = tomllib.loads(text.lstrip("\ufeff"))
    except (ValueError, RecursionError):  # not only its own: of a number with too many digits too
        return None
    return _Placed(text).node(found) if found else None


def ini_node(text: str) -> Node | None:
    """Read INI, of which every line is a section, a key or the rest of one; None if it is none."""
    lines = [line.rstrip() for line in text.lstrip("\ufeff").split("\n") if line.strip()]
    begun = next((line for line in lines if not line.startswith(("#", ";"))), "")
    if not begun.startswith("[") or not all(_INI_LINE.match(line) for line in lines):
        return None
    parser = configparser.RawConfigParser(allow_no_value=False)
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
        if depth > _MOST_DEPTH:
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
