"""Scores the units of a history for a question by their words, and picks one as METHOD does. Knows no model and no log.

The score is METHOD's (query-activated memory evidence), term by term:

    s(q,i) = ½ · Σ_{t∈Q, c>0} w_t / W  +  ½ · F_i / (F_i + W)     F_i = Σ_{t∈Q, c>0} w_t · c(k1+1)/(c+k1)

with Q the SET of query terms, c the count of t in unit i, w_t the inverse document frequency of t over the
units, W = Σ_{t∈Q} w_t, k1 = 1.5. Candidates are the units with s_i ≥ s_max − δ; the temporally latest one
is activated. With no term to go by (Q empty, or W = 0) every score is 0, and so the latest unit is
activated. Terms are words of any script (`terms_of`); for `paper()` METHOD's `[a-z0-9]+` of the lowercased text, and
a question in another script has none.

The paper leaves the IDF and the unit size open: docs/decisions says what was measured and chosen.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import islice, takewhile

import numpy as np
from numpy.typing import NDArray

from plume_memory.errors import InvalidInput
from plume_memory.records import ScoredUnit, Unit
from plume_memory.retrieval.asking import only_asks
from plume_memory.retrieval.inverted import Block, Stem, Terms, Vocabulary, merged
from plume_memory.terms import FUNCTION_WORDS, terms_of

K1 = 1.5
"""Saturation of a term's count (METHOD)."""

Idf = Callable[[int, int], float]
"""(number of units N, number n of them that contain the term) -> weight of the term."""


def idf(units: int, containing: int) -> float:
    """Weigh a term that `containing` of `units` units contain: ln(1 + (N−n+½)/(n+½)), or 0 when none does.

    Above 0 for every term that occurs, also in all of one or two units.
    """
    return math.log(1 + (units - containing + 0.5) / (containing + 0.5)) if containing else 0.0


class UnitIndex:
    """The units of one history, ready for routing. Immutable: `extended` returns another index.

    The units lie in blocks of falling size, each an immutable inverted file; an extension adds a block and
    merges it with the blocks before that are not larger, so a history that grows by one unit at a time
    costs an amortised O(new units · log units) in array operations and shares every other block with its
    predecessor.

    Args:
        units: The units in temporal order; positions must be 0, 1, 2, …
        weigh: The inverse document frequency.
        terms: What the words of units and questions are.
        stem: What the forms of a word share; each for itself when not given.
    """

    __slots__ = ("_blocks", "_starts", "_stem", "_terms", "_vocabulary", "_weigh")

    def __init__(
        self, units: Sequence[Unit] = (), *, weigh: Idf = idf, terms: Terms = terms_of, stem: Stem = str
    ) -> None:
        self._weigh = weigh
        self._terms = terms
        self._stem = stem
        self._vocabulary = Vocabulary(stem)
        self._blocks: tuple[Block, ...] = ()
        self._starts: tuple[int, ...] = ()
        if units:
            self._take(self.extended(units))

    def __len__(self) -> int:
        return self._starts[-1] + len(self._blocks[-1].units) if self._blocks else 0

    def __getitem__(self, position: int) -> Unit:
        block = bisect_right(self._starts, position) - 1
        if not 0 <= position < len(self):
            raise IndexError(position)
        return self._blocks[block].units[position - self._starts[block]]

    def __iter__(self) -> Iterator[Unit]:
        return (unit for block in self._blocks for unit in block.units)

    def extended(self, new_units: Sequence[Unit]) -> "UnitIndex":
        """Return the index of the history with `new_units` behind it; this one stays as it is.

        Raises:
            InvalidInput: If the positions do not go on where this index ends.
        """
        for expected, unit in enumerate(new_units, start=len(self)):
            if unit.position != expected:
                raise InvalidInput(f"The next unit must have position {expected}, got {unit.position}.")
        blocks = list(self._blocks)
        if new_units:
            block = Block.of(new_units, self._vocabulary, self._terms)
            while blocks and len(blocks[-1].units) <= len(block.units):
                block = merged(blocks.pop(), block)
            blocks.append(block)
        index = UnitIndex(weigh=self._weigh, terms=self._terms, stem=self._stem)
        index._vocabulary = self._vocabulary
        index._blocks = tuple(blocks)
        lengths = [len(block.units) for block in blocks]
        index._starts = tuple(sum(lengths[:i]) for i in range(len(blocks)))
        return index

    def score(self, query: str) -> NDArray[np.float64]:
        """Return s(q, i) of every unit, by position. Scores lie in [0, 1)."""
        # In the order of the words, so that sums round the same way in every process.
        known = list(dict.fromkeys(self._vocabulary.find(term) for term in sorted(set(self._terms(query)))))
        postings = [[block.postings(term_id) for block in self._blocks] for term_id in known]
        units = len(self)
        weights = [self._weigh(units, sum(len(p.units) for p in parts)) for parts in postings]
        total = sum(weights)
        if units == 0 or total <= 0:
            return np.zeros(units)
        covered, saturated = np.zeros(units), np.zeros(units)
        for weight, parts in zip(weights, postings, strict=True):
            for start, part in zip(self._starts, parts, strict=True):
                at = part.units + start
                covered[at] += weight
                saturated[at] += weight * (part.counts * (K1 + 1) / (part.counts + K1))
        return 0.5 * covered / total + 0.5 * saturated / (saturated + total)

    def shared(self, query: str) -> NDArray[np.float64]:
        """Return the share of a query's words, function words apart, that each unit holds, by position; 0 to 1.

        Each word counts alike, however rare: of several memories none is favoured because it has few words.
        """
        terms = {term for term in self._terms(query) if term not in FUNCTION_WORDS}
        held = np.zeros(len(self))
        for term_id in {self._vocabulary.find(term) for term in terms}:
            for start, block in zip(self._starts, self._blocks, strict=True):
                held[block.postings(term_id).units + start] += 1
        return held / max(1, len({self._stem(term) for term in terms}))

    def route(self, query: str, *, delta: float) -> ScoredUnit:
        """Return the unit to activate: the latest whose score is within `delta` of the best.

        Raises:
            InvalidInput: If there is no unit, or `delta` is negative.
        """
        return self.rank(query, delta=delta, k=1)[0]

    def rank(self, query: str, *, delta: float, k: int) -> list[ScoredUnit]:
        """Return up to `k` units in the order of activation.

        Candidates come first, the latest first; then the others, by falling score, the later first when
        equal. So `rank(...)[0]` is `route(...)`.

        Raises:
            InvalidInput: If there is no unit, `k` is below 1, or `delta` is negative.
        """
        if len(self) == 0:
            raise InvalidInput("There is no unit to route to: the history is empty.")
        if k < 1 or not delta >= 0:
            raise InvalidInput(f"k must be at least 1 and delta at least 0, got k={k}, delta={delta}.")
        scores = self.score(query)
        is_candidate = scores >= scores.max() - delta
        order = np.flatnonzero(is_candidate)[::-1]
        if len(order) < k:
            order = np.concatenate([order, _falling(scores, np.flatnonzero(~is_candidate))])
        return [ScoredUnit(self[int(i)], float(scores[i])) for i in order[:k]]

    def best(self, query: str, *, k: int, tied: int, without: Container[int] = ()) -> list[ScoredUnit]:
        """Return the `k` best units that are no questions, by falling score, and up to `tied` that equal the last.

        Those at the positions in `without` are left out.

        Of all items under a heading that the query names none is better than another, so none is left out by its
        place alone.
        """
        scores = self.score(query)
        order = (int(i) for i in _falling(scores, np.arange(len(self))))
        eligible = (i for i in order if i not in without and not only_asks(self[i]))
        best = list(islice(eligible, k))
        if best and scores[best[-1]] > 0:
            last = scores[best[-1]]
            best += takewhile(lambda i: bool(scores[i] == last), islice(eligible, tied - len(best)))
        return [ScoredUnit(self[i], float(scores[i])) for i in best]

    def _take(self, other: "UnitIndex") -> None:
        self._vocabulary, self._blocks, self._starts = other._vocabulary, other._blocks, other._starts


def _falling(scores: NDArray[np.float64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort positions by falling score, the later first when equal."""
    return positions[np.lexsort((-positions, -scores[positions]))]
