"""Whether notes answer a question of anybody's, or only look like it: what gain cannot tell, the judge can.

"What is the capital of France?" gains from any note about a capital, and on a long memory there is one. The judge was
trained on questions, and says of a text whether it answers one (docs/decisions/0055). An order or a statement that a
note helps with is answered by none, and what is asked in the first person is the asker's own: neither is judged.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from plume_memory.answering.evidence import is_relevant
from plume_memory.records import ScoredUnit
from plume_memory.terms import asks, speaks_of_me

ANSWERS_AT = -1.5
"""Least log-odds, of the best of those judged, that it answers the question."""

JUDGED = 3
"""Of the units that gain enough the first so many are judged."""


SURE = 4.0
"""Times `min_gain` from which on a note is not judged."""


class Supports(Protocol):
    """A judge (retrieval/judge.py)."""

    def support(self, claims: Sequence[tuple[str, str, str]]) -> Sequence[float]:
        """Return the log-odds that a text answers a question, of (text, question, nothing)."""


def may_answer(
    units: Sequence[ScoredUnit], question: str, min_gain: float, judge: Supports, text_of: Callable[[ScoredUnit], str]
) -> bool:
    """Return whether one of the best units may answer a question; of what is not judged: True.

    Args:
        units: that gain enough for it, the best first.
        question: or another message.
        min_gain: of the policy.
        judge: asked where the gain leaves a doubt.
        text_of: a unit with what completes it: "At Lotti's." alone answers little.
    """
    if not units or not asks(question) or speaks_of_me(question):
        return True
    if any(is_relevant([one], question, SURE * min_gain) for one in units):
        return True
    return max(judge.support([(text_of(one), question, "") for one in units[:JUDGED]])) >= ANSWERS_AT
