"""Cases to be judged: what a text does to earlier ones, and whether answers hold. Knows no tokens, models or losses.

They are drawn in sets that share a text: what tells a near name from the name, or a value from another, is learnt from
the contrast, and the text is read once.
"""

import random
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["unrelated", "adds", "replaces", "not replaces"]
"""`not replaces`: one of the first two, whichever."""


@dataclass(frozen=True, slots=True)
class PairSet:
    """What one later text does to some earlier ones of other updates."""

    later: str
    earlier: tuple[tuple[str, Verdict], ...]


@dataclass(frozen=True, slots=True)
class ClaimSet:
    """Questions and answers, said of one text."""

    text: str
    claims: tuple[tuple[str, str, bool], ...]
    """(question, answer, whether the text says so); of an empty answer, whether it answers the question at all."""


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
