"""Whether notes answer a question of anybody's, or only look like it: what gain cannot tell, the judge can.

"What is the capital of France?" gains from any note about a capital, and on a long memory there is one. The judge was
trained on questions, and says of a text whether it answers one (docs/decisions/0055). An order or a statement that a
note helps with is answered by none, and what is asked in the first person is the asker's own: neither is judged.
"""

from collections.abc import Sequence
from typing import Protocol

from plume_memory.terms import asks, speaks_of_me

ANSWERS_AT = -1.5
"""Least log-odds, of the best of those judged, that it answers the question."""

JUDGED = 3
"""Of the notes that gain enough the first so many are judged."""


class Supports(Protocol):
    """A judge (retrieval/judge.py)."""

    def support(self, claims: Sequence[tuple[str, str, str]]) -> Sequence[float]:
        """Return the log-odds that a text answers a question, of (text, question, nothing)."""


def may_answer(notes: Sequence[str], question: str, judge: Supports) -> bool:
    """Return whether one of the best notes may answer a question; of what is not judged: True.

    Args:
        notes: that gain enough for it, each with what completes it ("At Lotti's." alone answers little), best first.
        question: or another message.
        judge: not asked without notes.
    """
    if not notes or not asks(question) or speaks_of_me(question):
        return True
    return max(judge.support([(text, question, "") for text in notes[:JUDGED]])) >= ANSWERS_AT
