"""Chooses the unit of a history that bears on a question. Knows no model and no log.

The score is METHOD's (query-activated memory evidence), term by term:

    s(q,i) = ½ · Σ_{t∈Q, c>0} w_t / W  +  ½ · F_i / (F_i + W)     F_i = Σ_{t∈Q, c>0} w_t · c(k1+1)/(c+k1)

with Q the SET of query terms, c the count of t in unit i, w_t the inverse document frequency of t over the
units, W = Σ_{t∈Q} w_t, k1 = 1.5. Candidates are the units with s_i ≥ s_max − δ; the temporally latest one
is activated. With no term to go by (Q empty, or W = 0) every score is 0, and so the latest unit is
activated. That holds for a question in a script outside [a-z0-9] too: terms are METHOD's `[a-z0-9]+` of the
lowercased text.

The paper leaves the IDF and the unit size open. Chosen by `bench/routing_sweep.py` on the MUSE development
data (SmolLM2 tokens, δ = 0.5): w_t = ln(1 + (N−n+½)/(n+½)) for a term in n ≥ 1 of N units, 0 for a term in
no unit, and units of 256 tokens. Share of questions whose routed unit holds the gold evidence, from the
right transition:

    units of 256 tokens               affected (184)  kept (309)  chains of 3-20 updates (503)
    okapi, terms in no unit weigh 0       97.3           88.0         32.2    <- chosen
    okapi, terms in no unit weigh most   100.0           94.2         14.1
    ln((N+1)/(n+1)) + 1, seen terms       99.5           92.6         22.3
    ln(N/n)                               88.0           73.5         35.4
    no IDF, every term                   100.0           94.2         12.3

A term that no unit holds cannot tell units apart, but as the heaviest in W it would press every score under
δ, and the router would answer "the latest unit" (12 % on chains) whatever is asked. ln(N/n) is 0 for a term
in every unit, so with one old and one new unit it forgets what both say. Smaller units lose everywhere: of
the questions on an update, 73 % at 128 tokens and 46 % at 64 find their evidence, because δ = 0.5 takes the
LAST unit of the update that shares a good term with the question, so a transition is best kept in one piece.

What the figures do not say: with one update that fits a unit, always answering "the latest" is right 100 and 94 %,
so the chains decided the IDF. No text there exceeds 256 tokens by much; long documents were not swept. On chains
δ is the lever, not the IDF: 48.5 % at δ = 0, 46.5 % at 0.2, 32.2 % at the paper's 0.5 (the bench's last table).

Beyond the paper, `rerank` orders the best of these units by how likely a language model finds the question
behind each (UPR, Sachan et al. 2022; retrieval/reader.py), so a question may share no word with its answer:

    r(q,i) = (1/|q|) Σ log p(q_j | unit i, q_<j)  +  lexical_weight · s(q,i)

Candidates lie within `MARGIN_NATS` of the best r; again the latest comes first. Measured on SmolLM2-135M (12
records after one update, 72 questions, units of one sentence; 6 points are one standard error), the
current answer is held by the first / one of the first two / one of the first three units in

    lexical, δ = 0 / 0.4                     43 / 60 / 72 %     38 / 56 / 72 %
    likelihood alone, margin 0 / 0.2         64 / 75 / 85 %     69 / 76 / 85 %
    with the lexical score, margin 0 / 0.2   62 / 78 / 89 %     64 / 76 / 89 %    <- chosen

Half the lexical weight is as good on these (67 / 76 / 88 %, margin 0.2): a full weight lets one function word
that few units hold outweigh the likelihood. On two chains of 3-20 updates with units of 32 tokens (171
questions, `bench/routing_sweep.py --likelihood`) the first / one of the first three units is right in 34 / 50 %
with the lexical score at δ = 0.2 and in 40 / 66 % by likelihood.

`retold` is for units of one sentence over a whole history, where an old and a new version of a sentence both rank
high and a margin cannot tell the newer fact from another one: what is retold, and what says the same of somebody else,
is no evidence (likeness.py).
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, takewhile
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plume_memory.errors import InvalidInput
from plume_memory.records import ScoredUnit, Unit
from plume_memory.retrieval.inverted import Block, Vocabulary, merged
from plume_memory.retrieval.supersede import BARE, Likeness, Rules
from plume_memory.segmentation.terms import asks, terms_of

K1 = 1.5
"""Saturation of a term's count (METHOD)."""

SHORTLIST = 32
"""Most units that a model reads: the best by s(q,i). It bounds what a question costs on a long history.

Of `retold` on two chains after 20 updates (106 questions), one of the first three sentences holds the answer in
78 % with 16, 81 % with 32, 84 % with 64.
"""

TIED = 64
"""Most units that `retold` has read, where more share the last one's score: of all items under a heading that the
question names none is better known than another."""

MARGIN_NATS = 0.2
"""Recency margin of `rerank`, in place of δ."""

Likelihoods = Callable[[Sequence[str]], Sequence[float]]
"""Texts -> mean log p of the question's tokens behind each, in nats."""

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
    """

    __slots__ = ("_blocks", "_starts", "_vocabulary", "_weigh")

    def __init__(self, units: Sequence[Unit] = (), *, weigh: Idf = idf) -> None:
        self._weigh = weigh
        self._vocabulary = Vocabulary()
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
            block = Block.of(new_units, self._vocabulary)
            while blocks and len(blocks[-1].units) <= len(block.units):
                block = merged(blocks.pop(), block)
            blocks.append(block)
        index = UnitIndex(weigh=self._weigh)
        index._vocabulary = self._vocabulary
        index._blocks = tuple(blocks)
        lengths = [len(block.units) for block in blocks]
        index._starts = tuple(sum(lengths[:i]) for i in range(len(blocks)))
        return index

    def score(self, query: str) -> NDArray[np.float64]:
        """Return s(q, i) of every unit, by position. Scores lie in [0, 1)."""
        # Sorted, so that sums round the same way in every process.
        known = [self._vocabulary.ids.get(term, -1) for term in sorted(set(terms_of(query)))]
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
        order, candidates = _activation_order(scores, margin=delta, k=k)
        return [ScoredUnit(self[int(i)], float(scores[i]), at < candidates) for at, i in enumerate(order)]

    def rerank(self, query: str, likelihoods: Likelihoods, *, k: int, rules: Rules = BARE) -> list[ScoredUnit]:
        """Return up to `k` units in the order of activation, the best by s(q, i) first ranked by r(q, i).

        At most `SHORTLIST` texts are read. Candidates come first, the latest first; then the others of the
        shortlist by falling r; then the rest by falling s; always the later first when equal. A blank query has
        no likelihood: the units come latest first, and nothing is read. A single unit is read: a store's search
        compares its score with those of other memories.

        Args:
            query: What is asked.
            likelihoods: Called once, with the shortlist's texts in temporal order.
            k: Most units to return.
            rules: Of who reads.

        Raises:
            InvalidInput: If there is no unit, or `k` is below 1.
        """
        if len(self) == 0 or k < 1 or not query.strip():
            return self.rank(query, delta=0.0, k=k)
        read = self._read(query, likelihoods, rules)
        order, candidates = _activation_order(read.r, margin=MARGIN_NATS, k=k)
        return self._ranked(read, [int(i) for i in order], candidates, k)

    def retold(self, query: str, likelihoods: Likelihoods, *, k: int, rules: Rules = BARE) -> list[ScoredUnit]:
        """Return the evidence: up to `k` units by falling r(q, i), each in the place of what it retells.

        At most `SHORTLIST` texts are read, `TIED` where more score as the last of them, and only these are evidence:
        what was not read may be an old telling.
        A unit that another retells, or that says the same of somebody else, is left out, however few remain; so is a
        question, which nothing makes likelier than itself.
        Candidates have r within `MARGIN_NATS` of the best, or stand in for a unit that has. Else as `rerank`.

        Args:
            query: What is asked.
            likelihoods: Called once, with the shortlist's texts in temporal order.
            k: Most units to return.
            rules: Of who reads.

        Raises:
            InvalidInput: If there is no unit, or `k` is below 1.
        """
        if len(self) == 0 or k < 1 or not query.strip():
            return self.rank(query, delta=0.0, k=k)
        read = self._read(query, likelihoods, rules, told=True)
        if not len(read.shortlist):
            return []
        order = self._order_of_retellings(query, read, rules)
        return self._ranked(read, order.first[:k].tolist(), order.candidates, k)[: len(order.first)]

    def ranked_retold(self, query: str, likelihoods: Likelihoods, *, k: int, rules: Rules = BARE) -> list[ScoredUnit]:
        """Return up to `k` units: those of `retold`, behind them what they left out by falling r, then the unread by s.

        No unit is missing: the list is for a reader, who sees the old tellings last. Arguments and errors: `retold`.
        """
        if len(self) == 0 or k < 1 or not query.strip():
            return self.rank(query, delta=0.0, k=k)
        read = self._read(query, likelihoods, rules, told=True)
        if not len(read.shortlist):
            return self.rank(query, delta=0.0, k=k)
        order = self._order_of_retellings(query, read, rules)
        replaced = [i for i in _falling(read.r, np.arange(len(read.r))).tolist() if i not in order.first]
        return self._ranked(read, [*order.first.tolist(), *replaced][:k], order.candidates, k)

    def _order_of_retellings(self, query: str, read: "_Read", rules: Rules) -> "_Order":
        likeness = Likeness([self[int(i)] for i in read.shortlist], query, rules)
        newest = likeness.retellings(read.log_p)
        falling = _falling(read.r, np.arange(len(read.r))).tolist()
        about = likeness.about(newest[i] for i in falling)
        within = [newest[i] for i in falling if newest[i] in about and read.r[i] >= read.r.max() - MARGIN_NATS]
        order = dict.fromkeys([*within, *(newest[i] for i in falling if newest[i] in about)])
        return _Order(np.array(list(order), dtype=np.int64), len(set(within)))

    def _read(self, query: str, likelihoods: Likelihoods, rules: Rules, *, told: bool = False) -> "_Read":
        """Have the best units by s(q, i) read; `told` leaves out those that ask, and takes what ties with the last."""
        lexical = self.score(query)
        best_first = _falling(lexical, np.arange(len(self)))
        eligible = (int(i) for i in best_first if not told or not _asks(self[int(i)]))
        best = list(islice(eligible, SHORTLIST))
        if told and best and lexical[best[-1]] > 0:
            last = lexical[best[-1]]
            best += takewhile(lambda i: lexical[i] == last, islice(eligible, TIED - len(best)))
        shortlist = np.sort(np.array(best, dtype=np.int64))  # by position, which is time
        if not best:
            nothing = np.zeros(0)
            return _Read(shortlist, nothing, nothing, nothing, best_first, lexical)
        log_p = np.asarray(likelihoods([self[int(i)].text for i in shortlist]), dtype=np.float64)
        open_interval = np.finfo(np.float64).tiny, np.nextafter(1.0, 0.0)  # 0 and 1 are rounding
        scores = np.clip(np.exp(log_p), *open_interval)
        r = log_p + rules.lexical_weight * lexical[shortlist]
        return _Read(shortlist, log_p, r, scores, best_first[~np.isin(best_first, shortlist)], lexical)

    def _ranked(self, read: "_Read", order: Sequence[int], candidates: int, k: int) -> list[ScoredUnit]:
        """The shortlist in an order, and behind it the units that were not read."""
        ranked = [
            ScoredUnit(self[int(read.shortlist[i])], float(read.scores[i]), at < candidates)
            for at, i in enumerate(order)
        ]
        unread = read.rest[: k - len(ranked)]
        return ranked + [ScoredUnit(self[int(i)], float(read.lexical[i] * read.scores.min()), False) for i in unread]

    def _take(self, other: "UnitIndex") -> None:
        self._vocabulary, self._blocks, self._starts = other._vocabulary, other._blocks, other._starts


class _Read(NamedTuple):
    """What a reader found."""

    shortlist: NDArray[np.int64]
    """Positions of the units read, in temporal order; the next three are parallel."""
    log_p: NDArray[np.float64]
    r: NDArray[np.float64]
    scores: NDArray[np.float64]
    """exp of the mean log p, within (0, 1)."""
    rest: NDArray[np.int64]
    """Positions of the others, by falling s."""
    lexical: NDArray[np.float64]
    """s of every unit, by position."""


class _Order(NamedTuple):
    """Which of some scores come first."""

    first: NDArray[np.int64]
    """Their indices, in the order of activation."""
    candidates: int
    """How many of all scores lie within the margin; they come first."""


def _asks(unit: Unit) -> bool:
    """Whether a unit's own words are a question; what stands under one in a list may answer it."""
    return asks(unit.text[unit.own :])


def _activation_order(scores: NDArray[np.float64], *, margin: float, k: int) -> _Order:
    """Order `k` of the scores of units in temporal order: candidates latest first, then the others falling."""
    is_candidate = scores >= scores.max() - margin
    first = np.flatnonzero(is_candidate)[::-1]
    candidates = len(first)
    if candidates < k:
        first = np.concatenate([first, _falling(scores, np.flatnonzero(~is_candidate))])
    return _Order(first[:k], candidates)


def _falling(scores: NDArray[np.float64], positions: NDArray[np.int64]) -> NDArray[np.int64]:
    """Sort positions by falling score, the later first when equal."""
    return positions[np.lexsort((-positions, -scores[positions]))]
