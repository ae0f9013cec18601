"""Answers in statements: of a relation's own phrasings, the one that is most like the question.

Each ends with the answer, so that everything that leads to it has been said before it.
"""

import re
from collections.abc import Iterable

from plume_memory.training.facts.draw import Fact
from plume_memory.training.facts.relation import SELF
from plume_memory.training.statements import as_statement


def value_reply(question: str, fact: Fact) -> str:
    """State the fact so that its value comes last."""
    relation = fact.relation
    if relation.subject == SELF:
        told = [addressed(phrasing) for phrasing in relation.statements if phrasing.endswith("{v}.")]
        replies = [relation.fill(own, "", fact.value) for own in told] or [f"Your {relation.label} is {fact.value}."]
        return _nearest(addressed(question), replies, fact.value)
    named = f"The {relation.label} of {fact.subject} is {fact.value}."
    told = [
        relation.fill(phrasing, fact.subject, fact.value)
        for phrasing in relation.statements
        if phrasing.endswith("{v}.") and phrasing.index("{s}") < phrasing.index("{v}")
    ]
    return _nearest(question, [named, *told], fact.value)


def subject_reply(question: str, fact: Fact) -> str | None:
    """State the fact so that its subject comes last; None where no phrasing does."""
    told = [
        fact.relation.fill(phrasing, fact.subject, fact.value)
        for phrasing in fact.relation.statements
        if phrasing.endswith("{s}.") and phrasing.find("{v}") >= 0
    ]
    return _nearest(question, told, fact.subject) if told else as_statement(question, fact.subject)


def addressed(phrasing: str) -> str:
    """Say to the user what the user says of themselves: "I live in {v}." becomes "You live in {v}."."""
    turned = _FIRST_PERSON.sub(lambda found: _TO_THE_USER[found[0].lower()], phrasing)
    return turned[0].upper() + turned[1:]


_TO_THE_USER = {
    "i am": "you are",
    "i'm": "you are",
    "am i": "are you",
    "i was": "you were",
    "was i": "were you",
    "i": "you",
    "we": "you",
    "me": "you",
    "us": "you",
    "my": "your",
    "our": "your",
    "mine": "yours",
    "myself": "yourself",
}
_FIRST_PERSON = re.compile(rf"\b(?:{'|'.join(sorted(_TO_THE_USER, key=len, reverse=True))})\b", re.IGNORECASE)


def _nearest(question: str, told: Iterable[str], answer: str) -> str:
    """The statement whose words, beside the answer, are the question's most; the first of equals."""
    asked = _stems(question)

    def likeness(statement: str) -> float:
        own = _stems(statement.replace(answer, ""))
        return len(own & asked) / max(1, len(own | asked))

    return max(told, key=likeness)


def _stems(text: str) -> set[str]:
    """First letters of each word: "lives" and "live" are one."""
    return {word[:4] for word in re.findall(r"\w+", text.lower())}
