"""Ranks the units of a history for a question: words propose, a reader decides."""

import math
from collections.abc import Sequence
from itertools import islice
from typing import Protocol

from plume_memory.errors import InvalidInput
from plume_memory.policy import AnswerPolicy
from plume_memory.records import ScoredUnit
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.reader import Reading
from plume_memory.retrieval.supersede import verdicts

SHORTLIST = 32
"""Units that are read: the best by their words. It bounds what a question costs on a long history."""

TIED = 64
"""Most units that are read, where more share the last one's lexical score."""


class Reads(Protocol):
    """A reader (retrieval/reader.py), of one owner's texts."""

    def read(self, texts: Sequence[str], question: str) -> Sequence[Reading]:
        """Return what each text does for the question."""


def retrieve(index: UnitIndex, question: str, reader: Reads, policy: AnswerPolicy, *, k: int) -> list[ScoredUnit]:
    """Return units by falling score; with `retrieval="lexical"` in METHOD's order of activation.

    Of the reader's, a unit that supersedes others stands just before the likeliest of them, and these are flagged
    `superseded`; behind all that were read come the others, by their words. Questions are not read. A blank question
    has no likelihood: the units come latest first.

    Args:
        index: the units of a history.
        question: what is asked.
        reader: not called with `retrieval="lexical"`, nor for a blank question.
        policy: `retrieval` and `delta` count.
        k: most units to return; those that were read are all returned.

    Raises:
        InvalidInput: `k` is below 1, or half a character is asked and read.
    """
    if k < 1:
        raise InvalidInput(f"k must be at least 1, got {k}.")
    if len(index) == 0:
        return []
    if policy.retrieval == "lexical" or not question.strip():
        return index.rank(question, delta=policy.delta if policy.retrieval == "lexical" else 0.0, k=k)
    shortlist = index.best(question, k=SHORTLIST, tied=TIED)
    read = _read(shortlist, question, reader)
    if len(read) >= k:
        return read
    seen = {one.unit.position for one in read}
    least = min((one.score for one in read), default=1.0)
    rest = (one for one in index.rank(question, delta=0.0, k=k + len(read)) if one.unit.position not in seen)
    unread = (ScoredUnit(one.unit, one.score * least) for one in rest)
    return read + list(islice(unread, k - len(read)))


def _read(shortlist: Sequence[ScoredUnit], question: str, reader: Reads) -> list[ScoredUnit]:
    """The shortlist as the reader ranks it."""
    if not shortlist:
        return []
    units = sorted((one.unit for one in shortlist), key=lambda unit: unit.position)  # which is time
    readings = reader.read([unit.text for unit in units], question)
    log_p = [one.log_p for one in readings]
    found = verdicts(units, question, log_p)
    order: dict[int, bool] = {}
    for i in sorted(range(len(units)), key=lambda i: (-log_p[i], -i)):
        newest, about = found[i]
        order.setdefault(newest, not about)
        order.setdefault(i, True)
    return [
        ScoredUnit(units[i], _probability(log_p[i]), readings[i].gain, superseded) for i, superseded in order.items()
    ]


def _probability(log_p: float) -> float:
    """Exp of it, within (0, 1): 0 and 1 are rounding."""
    return min(max(math.exp(log_p), 5e-324), math.nextafter(1.0, 0.0))
