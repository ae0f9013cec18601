"""A case to be judged: a pair of texts, or an answer to a question. Knows no tokens, models or losses."""

import random
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["unrelated", "adds", "replaces", "not replaces"]
"""`not replaces`: one of the first two, whichever."""


@dataclass(frozen=True, slots=True)
class Pair:
    """Two texts of one memory, told in two updates."""

    earlier: str
    later: str
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Claim:
    """An answer to a question, said of a text."""

    text: str
    question: str
    answer: str
    """Empty: whether the text answers the question at all is what is judged."""
    supported: bool


UNSAID = 0.35
"""Share of claims without an answer."""


def garbled(chance: random.Random, value: str) -> str:
    """A value with a digit or letter changed, left out or said twice, as a small model miscopies it."""
    at = chance.randrange(len(value))
    roll = chance.random()
    if value[at].isdigit() and roll < 0.5:
        wrong = value[:at] + str((int(value[at]) + chance.randint(1, 9)) % 10) + value[at + 1 :]
    elif roll < 0.7:
        wrong = value[:at] + value[at + 1 :]
    else:
        wrong = value[:at] + value[at] + value[at:]
    return wrong.strip() or f"{value}0"
