"""What the tests of readers share: damage to bytes, changes to documents, and what a reader may do with them.

Valid files are damaged: cut, flipped, spliced, blown up; documents of JSON have values replaced, removed and nested.
A short pass by default, `make soak` (PLUME_SOAK=1) takes forty times as many; PLUME_SEED=7 draws others.
"""

import json
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

from plume_memory.errors import PlumeError

SOAK = os.environ.get("PLUME_SOAK") == "1"
SEED = int(os.environ.get("PLUME_SEED", "20261121"))
TIMES = 40 if SOAK else 1

_Test = TypeVar("_Test", bound=Callable[..., None])
LENGTHS = (b"\xff" * 4, b"\xff" * 8, b"\xff\xff\xff\x7f", b"\0\0\0\0\0\0\0\x40", b"\0" * 8)


def fuzzed(examples: int) -> Callable[[_Test], _Test]:
    """Run a test on so many examples, times forty in a soak."""

    def decorate(test: _Test) -> _Test:
        chosen = settings(
            max_examples=examples * TIMES,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        return seed(SEED)(chosen(test))

    return decorate


def places(size: int) -> st.SearchStrategy[int]:
    """Draw a place in bytes; the beginning and the end, where lengths and tables stand, come more often."""
    return st.integers(0, size) | st.integers(0, min(size, 300)) | st.integers(max(0, size - 600), size)


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw a few changes to bytes."""
    for _ in range(draw(st.integers(1, 4))):
        at, end = sorted((draw(places(len(content))), draw(places(len(content)))))
        change = draw(st.sampled_from(["cut", "flip", "overwrite", "insert", "double", "remove", "move", "length"]))
        if change == "cut":
            content = content[:at]
        elif change == "flip" and at < len(content):
            content = content[:at] + bytes([content[at] ^ 1 << draw(st.integers(0, 7))]) + content[at + 1 :]
        elif change in ("overwrite", "insert", "length"):
            new = draw(st.sampled_from(LENGTHS) if change == "length" else st.binary(min_size=1, max_size=12))
            content = content[:at] + new + content[at + (0 if change == "insert" else len(new)) :]
        elif change in ("double", "remove"):
            content = content[:end] + (content[at:] if change == "double" else content[end + (end - at) :])
        else:
            content = content[:at] + content[end:] + content[at:end]
    return content


NESTED = "[" * 100_000 + "]" * 100_000
"""Deeper than any parser's recursion."""
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from([10**40, -1, "\ud800", "a\x00b", "../../x", "9999-12-31T23:59:59-23:59"])
)
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner))


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """Draw a copy of a JSON document with a value somewhere in it replaced, removed, added or doubled."""
    if isinstance(document, dict) and document and draw(st.integers(0, 4)):
        key = draw(st.sampled_from(sorted(document)))
        inside = draw(altered(document[key]))
        rest = {name: value for name, value in document.items() if name != key}
        change = draw(st.sampled_from(["keep", "keep", "keep", "remove", "rename"]))
        return rest if change == "remove" else {**rest, key if change == "keep" else draw(st.text(max_size=5)): inside}
    if isinstance(document, list) and document and draw(st.integers(0, 4)):
        at = draw(st.integers(0, len(document) - 1))
        change = draw(st.sampled_from(["alter", "alter", "remove", "double"]))
        middle = {"remove": [], "double": [document[at]] * 2}.get(change) if change != "alter" else None
        return [*document[:at], *([draw(altered(document[at]))] if middle is None else middle), *document[at + 1 :]]
    return draw(VALUES)


def as_json(document: Any) -> bytes:
    """Write what may hold half a character or NaN, as a hostile file does."""
    return json.dumps(document).encode()


def read_or_refused(read: Callable[[], object]) -> None:
    """The claim of every test of a reader: nothing but one of our errors comes out."""
    with suppress(PlumeError):
        read()
