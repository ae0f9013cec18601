"""Ranks the units of a history for a question: words and vectors propose, a reader decides."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Protocol

from plume_memory.errors import InvalidInput
from plume_memory.policy import AnswerPolicy
from plume_memory.records import Overrules, ScoredUnit, Unit
from plume_memory.retrieval.asking import only_asks
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.reader import Reading
from plume_memory.retrieval.recency import verdicts
from plume_memory.retrieval.supersede import Retired

SHORTLIST = 40
"""Units that are read: the best by words and vectors. It bounds what a question costs on a long history."""

TIED = 64
"""Most units that are read without vectors, where more share the last one's lexical score."""

WORDS_NATS = 0.6
"""What it costs a unit to hold none of the question's words, in nats a token: of units that are alike for the reader,
which takes paraphrases in its stride, the one with the words asked for is more often meant."""

NOTHING_RETIRED: Retired = {}

FUSED = 64
"""Places of each ranking that count, where words and vectors propose together."""


class Nears(Protocol):
    """Finds what is like a question, whatever its words (retrieval/vectors.py); of one owner's units."""

    def nearest(self, question: str) -> Iterator[int]:
        """Yield the positions of the units, those most like a question first."""


class Judges(Protocol):
    """A judge (retrieval/judge.py)."""

    def support(self, claims: Sequence[tuple[str, str, str]]) -> Sequence[float]:
        """Return the log-odds that a text answers a question, for each (text, question, "")."""
        ...


class Reads(Protocol):
    """A reader (retrieval/reader.py), of one owner's texts."""

    def read(self, texts: Sequence[str], question: str) -> Sequence[Reading]:
        """Return what each text does for the question."""


def retrieve(
    index: UnitIndex,
    question: str,
    reader: Reads,
    policy: AnswerPolicy,
    *,
    k: int,
    near: Nears | None = None,
    judge: Judges | None = None,
    retired: Retired = NOTHING_RETIRED,
    without: frozenset[int] = frozenset(),
    overrules: Mapping[int, Overrules] | None = None,
) -> list[ScoredUnit]:
    """Return units by falling score; with `retrieval="lexical"` in METHOD's order of activation.

    The reader reads those that hold and are no questions, the best by words and vectors, and ranks them with their
    words (`WORDS_NATS`); behind them come the others, by their words. A blank question has no likelihood: the units
    come latest first. What the judge retired is read too, beside what took its place: it still holds for a question
    that this, says the judge, does not answer; that is asked where it would stand among the best `k`. What no judge
    retired may be superseded for this question (recency.py): such a unit stands just before the best of those it
    supersedes, and these are flagged.

    Args:
        index: the units of a history.
        question: what is asked.
        reader: not called with `retrieval="lexical"`, nor for a blank question.
        policy: `retrieval` and `delta` count.
        k: most units to return; those that were read are all returned.
        near: proposes units beside those that the words propose, where there are more than are read.
        judge: asked whether what took a unit's place answers the question; None: it does.
        retired: units that no longer hold, flagged `superseded`; what a caller retired is not read.
        without: positions of units that are left out.
        overrules: what callers decided of their updates, by version.

    Raises:
        InvalidInput: `k` is below 1, or half a character is asked and read.
    """
    if k < 1:
        raise InvalidInput(f"k must be at least 1, got {k}.")
    if len(index) == 0:
        return []
    if policy.retrieval == "lexical" or not question.strip():
        delta = policy.delta if policy.retrieval == "lexical" else 0.0
        found = index.rank(question, delta=delta, k=k + len(retired) + len(without))
        ranked = [_flagged(one, retired) for one in found if one.unit.position not in without]
        return sorted(ranked, key=lambda one: one.superseded)[:k]  # stable
    said = {at for at, by in retired.items() if not by}
    units = proposed(index, question, near, retired, without | said)
    readings = reader.read([unit.text for unit in units], question) if units else []
    shared = index.shared(question)
    scored = [_scored(unit, reading, shared[unit.position]) for unit, reading in zip(units, readings, strict=True)]
    log_p = [reading.log_p for reading in readings]

    def ordered(holding: Sequence[int]) -> list[ScoredUnit]:
        return _by_recency([scored[i] for i in holding], question, [log_p[i] for i in holding], overrules)

    holding = _holding(scored, question, retired, judge, k, ordered)
    gone = [replace(one, superseded=True) for i, one in enumerate(scored) if i not in holding]
    read = ordered(holding) + gone
    if len(read) >= k:
        return read
    seen = without | {one.unit.position for one in read}
    least = min((one.score for one in read), default=1.0)
    rest = (one for one in index.rank(question, delta=0.0, k=k + len(seen)) if one.unit.position not in seen)
    unread = (_flagged(ScoredUnit(one.unit, one.score * least), retired) for one in rest)
    return read + list(islice(unread, k - len(read)))


def proposed(
    index: UnitIndex,
    question: str,
    near: Nears | None,
    retired: Retired = NOTHING_RETIRED,
    without: frozenset[int] = frozenset(),
) -> list[Unit]:
    """Return what is read, in temporal order: by words and vectors where not all is, else by words alone.

    And what took the place of one of them, whatever its words. By words alone those that equal the last are read too;
    vectors tell them apart. See `retrieve` for the arguments.
    """
    like: list[int] = []
    if near is not None and len(index) > SHORTLIST:
        eligible = (at for at in near.nearest(question) if at not in without and not only_asks(index[at]))
        like = list(islice(eligible, FUSED))
    if like:
        words = index.best(question, k=FUSED, tied=FUSED, without=without)
        chosen = _fused([one.unit.position for one in words if one.score > 0], like)[:SHORTLIST]
    else:
        words = index.best(question, k=SHORTLIST, tied=TIED, without=without)
        chosen = [one.unit.position for one in words]
    heirs = {later for position in chosen for later in retired.get(position, ())} - without
    return [index[position] for position in sorted(heirs.union(chosen))]


def _fused(*rankings: Sequence[int]) -> list[int]:
    """Return the positions in several rankings by reciprocal rank fusion (Cormack et al. 2009, and their 60).

    Of equals the one in the first ranking comes first.
    """
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, position in enumerate(ranking, start=1):
            scores[position] = scores.get(position, 0.0) + 1 / (60 + rank)
    return sorted(scores, key=lambda position: -scores[position])


def _holding(
    scored: Sequence[ScoredUnit],
    question: str,
    retired: Retired,
    judge: Judges | None,
    k: int,
    ordered: Callable[[Sequence[int]], Sequence[ScoredUnit]],
) -> list[int]:
    """Which of the units that were read hold for this question, in their order.

    What something took the place of is asked about where it would else stand among the best `k` that hold; behind them
    it does not hold.
    """
    texts = {one.unit.position: one.unit.text for one in scored}
    heirs = {i: retired.get(position, frozenset()) & texts.keys() for i, position in enumerate(texts)}
    places = {position: i for i, position in enumerate(texts)}
    doubted, holding = {i for i, own in heirs.items() if own}, list(range(len(scored)))
    answering: dict[int, bool] = {}
    while doubted:
        best = [places[one.unit.position] for one in ordered(holding) if not one.superseded][:k]
        asked = doubted.intersection(best)
        if not asked:
            break
        new = sorted(frozenset().union(*(heirs[i] for i in asked)) - answering.keys())
        odds = judge.support([(texts[at], question, "") for at in new]) if judge and new else [0.0] * len(new)
        answering |= {at: own >= 0 for at, own in zip(new, odds, strict=True)}
        gone = {i for i in asked if any(answering[at] for at in heirs[i])}
        holding = [i for i in holding if i not in gone]
        doubted -= asked
    return [i for i in holding if i not in doubted]


def _by_recency(
    scored: Sequence[ScoredUnit], question: str, log_p: Sequence[float], overrules: Mapping[int, Overrules] | None
) -> list[ScoredUnit]:
    """As reader and words rank them; units in temporal order."""
    found = verdicts([one.unit for one in scored], question, log_p, overrules)
    order: dict[int, bool] = {}
    for i in sorted(range(len(scored)), key=lambda i: (-scored[i].score, -i)):
        newest, about = found[i]
        order.setdefault(newest, not about)
        order.setdefault(i, True)
    return [replace(scored[i], superseded=superseded) for i, superseded in order.items()]


def _scored(unit: Unit, reading: Reading, shared: float) -> ScoredUnit:
    """Exp of log p, less what the words lack, within (0, 1): 0 and 1 are rounding."""
    score = math.exp(reading.log_p - WORDS_NATS * (1 - shared))
    return ScoredUnit(unit, min(max(score, 5e-324), math.nextafter(1.0, 0.0)), reading.gain)


def _flagged(one: ScoredUnit, retired: Retired) -> ScoredUnit:
    return replace(one, superseded=True) if one.unit.position in retired else one
