"""Chooses what of the ranked units becomes the evidence of a question, or that none does. Knows no model."""

import math
from collections.abc import Sequence

from plume_memory.policy import AnswerPolicy
from plume_memory.records import ScoredUnit, best_gain, join_units
from plume_memory.terms import FIRST_PERSON, FUNCTION_WORDS, terms_of

NAMED_SHARE = 0.5
"""Share of `min_gain` that is enough where the question and the evidence name the same."""

LIKE = 0.3
"""Share of two units' words that both have from which on the later one is taken to say the same anew."""


def choose_evidence(ranked: Sequence[ScoredUnit], question: str, policy: AnswerPolicy) -> tuple[ScoredUnit, ...]:
    """Return the units an answer is made from, the first in rank first; none where the memory is not relevant.

    They are the best `evidence_units` that hold; the first alone where it leads.

    Args:
        ranked: of `retrieve`.
        question: what is asked.
        policy: its `retrieval` ranked them.
    """
    current = [one for one in ranked if not one.superseded][: policy.evidence_units]
    if policy.retrieval == "lexical":
        return tuple(current)
    current = [one for one in current if one.gain is not None]
    if not current or not is_relevant(current, question, policy.min_gain):
        return ()
    return (current[0],) if leads(current, policy.lead) else tuple(current)


def choose_relevant(
    ranked: Sequence[ScoredUnit], question: str, policy: AnswerPolicy, *, history: bool = False
) -> list[ScoredUnit]:
    """Return the units that hold and bear on a question, each by itself, in their order: for whoever reads them.

    With `history` those that do not hold any more too. Where words and recency alone found what supersedes what
    (retrieval/recency.py), a unit stays that no later one is like: who reads it can judge.
    """
    current = [one for one in ranked if history or not is_replaced(one, ranked)]
    if policy.retrieval == "lexical":
        return [one for one in current if one.score > 0]
    return [one for one in current if one.gain is not None and is_relevant([one], question, policy.min_gain)]


def is_replaced(unit: ScoredUnit, ranked: Sequence[ScoredUnit]) -> bool:
    """Whether one of some ranked units does not hold for whoever reads them.

    Of a unit that was read, the words told: then a later one has `LIKE` of their words in common with it.
    """
    if not unit.superseded or unit.gain is None:
        return unit.superseded
    own = set(terms_of(unit.unit.words)) - FUNCTION_WORDS
    later = (set(terms_of(one.unit.words)) for one in ranked if one.unit.version > unit.unit.version)
    return any(len(own & said) >= LIKE * len(own | (said - FUNCTION_WORDS)) for said in later)


def leads(ranked: Sequence[ScoredUnit], lead: float | None) -> bool:
    """Return whether the first unit stands before the second by `lead` nats a token, of reader and words."""
    if len(ranked) < 2:
        return True
    return lead is not None and math.log(ranked[0].score / ranked[1].score) >= lead


def is_relevant(units: Sequence[ScoredUnit], question: str, min_gain: float | None) -> bool:
    """Return whether units that were read gain enough for a question (docs/decisions: relevance).

    Half of `min_gain` (`NAMED_SHARE`) is enough where both name the same thing, or both speak in the first person: a
    short question has little to gain. None: always.
    """
    gain = best_gain(units)
    if min_gain is None or gain is None:
        return True
    return gain >= min_gain * share_needed(question, join_units([one.unit for one in units]))


def share_needed(question: str, evidence: str) -> float:
    """Return the share of `min_gain` that the gain must reach: `NAMED_SHARE` or 1."""
    asked, said = set(terms_of(question)), set(terms_of(evidence))
    if (asked & said) - FUNCTION_WORDS:
        return NAMED_SHARE
    return NAMED_SHARE if asked & FIRST_PERSON and said & FIRST_PERSON else 1.0
