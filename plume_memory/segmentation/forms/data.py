"""What JSON, YAML, TOML and INI say: each leaf a unit, said with the path that leads to it."""

import re
from collections.abc import Iterator, Sequence

from plume_memory.segmentation.forms.nodes import Node, ini_node, json_node, toml_node, yaml_node
from plume_memory.segmentation.forms.piece import Piece, lines_of
from plume_memory.segmentation.forms.saying import is_code, is_naming, named, said_field, singular, words_of

_MOST_LISTED = 12
"""Values of a list said together."""
_COMMENT = re.compile(r"(?:^|\s)[#;]\s?(.*)$")


def data_pieces(text: str) -> list[Piece] | None:
    """Read JSON, JSON lines, TOML, INI or YAML; None if it is none of them."""
    for read in (json_node, toml_node, ini_node, yaml_node):
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
    found = (read(text) for read in (toml_node, ini_node, yaml_node))
    return any(node is not None and _has_fields(node, 2) for node in found)


def _has_fields(root: Node, needed: int) -> bool:
    """Whether so many values have a key."""
    waiting = [root]
    while waiting and needed > 0:
        node = waiting.pop()
        needed -= sum(key is not None and child.scalar is not None for key, child in node.entries)
        waiting += [child for _, child in node.entries]
    return needed <= 0


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
