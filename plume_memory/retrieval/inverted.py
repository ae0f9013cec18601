"""The inverted file of some consecutive units: which of them hold a term, and how often. Knows no score."""

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plume_memory.records import Unit

Terms = Callable[[str], list[str]]
"""What a text's words are, in order, repeated as they occur."""

Stem = Callable[[str], str]
"""What a term has in common with its other forms."""


class Vocabulary:
    """Numbers for terms, one for all terms of one stem; shared by every index of one lineage, only ever added to.

    A number means nothing without postings, so an index is not changed by terms that a later one brought.
    `setdefault` is atomic: two threads that extend at once cannot give one number to two stems.
    """

    __slots__ = ("_next", "_stem", "_stems", "_terms")

    def __init__(self, stem: Stem) -> None:
        self._stem = stem
        self._stems: dict[str, int] = {}
        self._terms: dict[str, int] = {}
        self._next = count()

    def add(self, term: str) -> int:
        """Return the term's number, a new one if its stem has none."""
        known = self._terms.get(term)
        if known is None:
            known = self._stems.setdefault(self._stem(term), next(self._next))
            self._terms[term] = known
        return known

    def find(self, term: str) -> int:
        """Return the term's number; -1 if no unit has its stem."""
        known = self._terms.get(term)
        return self._stems.get(self._stem(term), -1) if known is None else known


class Postings(NamedTuple):
    """Where one term occurs in a block."""

    units: NDArray[np.int32]
    """Offsets in the block, ascending."""
    counts: NDArray[np.int32]


class Block(NamedTuple):
    """The inverted file of consecutive units; every array is parallel, sorted by term, then unit."""

    units: tuple[Unit, ...]
    terms: NDArray[np.int32]
    at: NDArray[np.int32]
    counts: NDArray[np.int32]

    @classmethod
    def of(cls, units: Sequence[Unit], vocabulary: Vocabulary, terms_of: Terms) -> "Block":
        """Read units, the first at offset 0; the vocabulary learns their terms."""
        terms: list[int] = []
        at: list[int] = []
        counts: list[int] = []
        for offset, unit in enumerate(units):
            for term, times in Counter(vocabulary.add(term) for term in terms_of(unit.text)).items():
                terms.append(term)
                at.append(offset)
                counts.append(times)
        return cls(tuple(units), *_sorted(terms, at, counts))

    def postings(self, term_id: int) -> Postings:
        """Where a term occurs; nowhere for -1, which no term is."""
        # Keys of the array's own type: searchsorted would copy the whole array to a wider one.
        first, last = np.searchsorted(self.terms, np.array([term_id, term_id + 1], dtype=np.int32))
        return Postings(self.at[first:last], self.counts[first:last])


def merged(earlier: Block, later: Block) -> Block:
    """Put two blocks that follow each other into one."""
    return Block(
        earlier.units + later.units,
        *_sorted(
            np.concatenate([earlier.terms, later.terms]),
            np.concatenate([earlier.at, later.at + np.int32(len(earlier.units))]),
            np.concatenate([earlier.counts, later.counts]),
        ),
    )


_Ints = NDArray[np.int32]


def _sorted(*columns: list[int] | _Ints) -> tuple[_Ints, ...]:
    """Sort (terms, offsets, counts) by term; stable, so the units of a term stay ascending."""
    arrays = [np.asarray(column, dtype=np.int32) for column in columns]
    order = np.argsort(arrays[0], kind="stable")
    return tuple(array[order] for array in arrays)
