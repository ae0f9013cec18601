"""Small derived values, one of each update: read and kept many together, once a stretch of updates is whole.

To find ten thousand values of some hundred bytes one by one takes a process seconds before its first answer. A value is
kept by itself when it is made, and once more in the block of its stretch when a history is read from its beginning:
the block is what is read from then on, the value by itself what is left when another value of the stretch changes.
"""

import hashlib
import itertools
import json
import struct
from collections.abc import Iterator, Sequence

from plume_memory.encoding import Cache

BLOCK = 64
"""Versions whose values lie in one block: those from a multiple of it to the next."""

_LENGTH = struct.Struct("<I")

Keyed = Sequence[tuple[int, str]]
"""(version, derivation key) of values, by rising version."""


def read(keyed: Keyed, cache: Cache) -> list[bytes | None]:
    """Return what is kept under each key; None where nothing is."""
    found: list[bytes | None] = []
    for stretch, key in _stretches(keyed):
        together = None if key is None else _unpacked(cache.get(key), len(stretch))
        found += [cache.get(own) for _, own in stretch] if together is None else together
    return found


def write(keyed: Keyed, values: Sequence[bytes], cache: Cache, kind: str) -> None:
    """Keep the values of every whole stretch together where they are not yet.

    Args:
        keyed: their keys.
        values: in the same order.
        cache: where they are kept.
        kind: of the values.
    """
    at = iter(values)
    for stretch, key in _stretches(keyed):
        own = list(itertools.islice(at, len(stretch)))
        content = b"".join(_LENGTH.pack(len(value)) + value for value in own)
        if key is not None and cache.get(key) != content:
            cache.put(key, kind, content)


def keys(keyed: Keyed) -> list[str]:
    """Return the derivation keys of the blocks."""
    return [key for _, key in _stretches(keyed) if key is not None]


def _stretches(keyed: Keyed) -> Iterator[tuple[Keyed, str | None]]:
    """The values by block, with its key; None where more values may belong to it than are known here."""
    if not keyed:
        return
    first, last = keyed[0][0], keyed[-1][0]
    for number, group in itertools.groupby(keyed, key=lambda one: one[0] // BLOCK):
        stretch = list(group)
        is_whole = first <= max(1, number * BLOCK) and (number + 1) * BLOCK <= last
        named = json.dumps(["block-1", *(key for _, key in stretch)])
        yield stretch, hashlib.sha256(named.encode()).hexdigest() if is_whole and len(stretch) > 1 else None


def _unpacked(content: bytes | None, count: int) -> list[bytes | None] | None:
    """The values of a block; None where it is none of so many: an archive may bring any bytes."""
    found: list[bytes | None] = []
    at = 0
    while content is not None and len(found) < count and at + _LENGTH.size <= len(content):
        (length,) = _LENGTH.unpack_from(content, at)
        found.append(content[at + _LENGTH.size : at + _LENGTH.size + length])
        at += _LENGTH.size + length
    return found if content is not None and len(found) == count and at == len(content) else None
