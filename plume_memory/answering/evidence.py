"""Chooses what of a history becomes the evidence of a question. Knows no model and no log.

The paper's router picks one unit (route.py). Beyond the paper, each a setting of its own: the router `sentences`,
several units as one evidence, each of them as a rival of all together, and `relevance`, by which a question that the
evidence hardly makes likelier than no text does is not about this memory: it gets no evidence, and the engine answers
it without the global adapter too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from plume_memory.answering.grounding import log_score
from plume_memory.answering.relevance import gain_of, share_needed
from plume_memory.policy import AnswerPolicy
from plume_memory.records import ScoredUnit, best_gain, join_units
from plume_memory.retrieval.lexical import Likelihoods, UnitIndex
from plume_memory.retrieval.supersede import BARE, Rules

QuestionLogProbs = Callable[[Sequence[str], str], Sequence[Sequence[float]]]
"""(texts, question) -> log p of each of the question's tokens behind each text, in nats."""


@dataclass(frozen=True, slots=True)
class Activation:
    """Routes a question to its evidence, by the settings."""

    settings: AnswerPolicy
    read: QuestionLogProbs
    """By a trained reranker, or by the bare model."""
    rules: Rules = BARE
    """Of who reads."""

    def rank(self, index: UnitIndex, question: str, *, k: int) -> list[ScoredUnit]:
        """Return up to `k` units in the order of activation, by the router of the settings; none is missing.

        Raises:
            InvalidInput: the index is empty, k is below 1, or the question has half a character.
        """
        settings = self.settings
        if settings.router == "lexical":
            return index.rank(question, delta=settings.delta, k=k)

        if settings.router == "likelihood":
            return index.rerank(question, self._read_for(question), k=k, rules=self.rules)
        return index.ranked_retold(question, self._read_for(question), k=k, rules=self.rules)

    def activate(self, index: UnitIndex, question: str) -> list[ScoredUnit]:
        """Return the evidence of a question, the first in rank first; none where memory does not bear on it.

        Where units are read, by the router or for `relevance`, each says what the question gains by it
        (`ScoredUnit.gain`).

        Raises:
            InvalidInput: the index is empty, or the question has half a character.
        """
        k = self.settings.evidence_units
        if self.settings.router == "sentences":  # without what is retold
            chosen = index.retold(question, self._read_for(question), k=k, rules=self.rules)
        else:
            chosen = self.rank(index, question, k=k)
        unread = self.settings.router == "lexical" and self.settings.relevance is None
        if not chosen or unread or not question.strip():
            return chosen
        nothing, *behind = self.read(["", *(one.unit.text for one in chosen)], question)
        gaining = [replace(one, gain=gain_of(nothing, own)) for one, own in zip(chosen, behind, strict=True)]
        return gaining if self._bears_on(gaining, question) else []

    def sides(self, routed: Sequence[ScoredUnit]) -> list[list[ScoredUnit]]:
        """Return the evidences that may answer: all activated units together, then each alone if it is to answer too.

        Without activated units the only side is empty; one that leads the others by `alone_lead` is the only side.
        """
        together = [list(routed)]
        if self.settings.alone_margin is None or len(routed) < 2:
            return together
        leader = leader_of(routed, self.settings.alone_lead)
        return together + [[one] for one in routed] if leader is None else [[leader]]

    def _read_for(self, question: str) -> Likelihoods:
        return lambda texts: [sum(each) / len(each) for each in self.read(texts, question)]

    def _bears_on(self, gaining: Sequence[ScoredUnit], question: str) -> bool:
        gain = best_gain(gaining)
        if self.settings.relevance is None or gain is None:
            return True
        evidence = join_units([one.unit for one in gaining])
        return gain >= self.settings.relevance * share_needed(question, evidence)


def leader_of(routed: Sequence[ScoredUnit], lead: float | None) -> ScoredUnit | None:
    """Return the first of ranked units if it is surely the evidence, else None.

    Who ranks the units was not taught which of two tellings is the newer one, so one that was told later counts for
    more than its score says.

    Args:
        routed: at least one unit, in the router's order.
        lead: nats a token by which it must be likelier than every other, and twice as many where that one was told
            later; None: none ever is.
    """
    if lead is None:
        return None
    first, *others = routed
    for other in others:
        needed = 2 * lead if other.unit.version > first.unit.version else lead
        if log_score([first]) - log_score([other]) < needed:
            return None
    return first
