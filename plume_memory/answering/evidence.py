"""Chooses what of the ranked units becomes the evidence of a question, or that none does. Knows no model."""

import math
from collections.abc import Sequence

from plume_memory.policy import AnswerPolicy
from plume_memory.records import ScoredUnit, best_gain, join_units
from plume_memory.terms import FIRST_PERSON, FUNCTION_WORDS, terms_of

NAMED_SHARE = 0.5
"""Share of `min_gain` that is enough where the question and the evidence name the same."""


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

    With `history` those that do not hold any more too.
    """
    current = [one for one in ranked if history or not one.superseded]
    if policy.retrieval == "lexical":
        return [one for one in current if one.score > 0]
    return [one for one in current if one.gain is not None and is_relevant([one], question, policy.min_gain)]


def leads(ranked: Sequence[ScoredUnit], lead: float | None) -> bool:
    """Return whether the first unit makes the question likelier than the second by `lead` nats a token."""
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
