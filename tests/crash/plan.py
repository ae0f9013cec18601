"""What a memory is made to do, and what it must then hold: a deterministic plan and the simplest model of it.

Every step appends exactly one version, so step n is version n, however often a process was killed in between.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

StepKind = Literal["update", "rollback", "forget", "erase"]
_PEOPLE = ("Alice Keller", "Bob Frei", "Cem Aydin", "Dana Roth", "Elif Kaya", "Finn Moser")
_PLACES = ("Bern", "Zurich", "Chur", "Thun", "Olten", "Aarau", "Basel", "Zug")


@dataclass(frozen=True, slots=True)
class Step:
    """One call."""

    number: int
    """Of the version it appends."""
    kind: StepKind
    text: str = ""
    """Of an update."""
    names: int = 0
    """The version that is restored, forgotten or erased."""


def plan(seed: int, steps: int) -> list[Step]:
    """Draw a valid sequence: what is forgotten holds, what is erased has not been erased."""
    rng = random.Random(seed)
    made: list[Step] = []
    for number in range(1, steps + 1):
        held = holding(made)
        erasable = [s.number for s in made if s.kind == "update" and s.number not in erased(made)]
        kinds: list[StepKind] = ["update"] * 6
        kinds += ["forget"] if held else []
        kinds += ["erase"] if erasable else []
        kinds += ["rollback"] if made else []
        kind = rng.choice(kinds)
        if kind == "update":
            told = f"{rng.choice(_PEOPLE)} lives in {rng.choice(_PLACES)}, room {seed}-{number}-{rng.randrange(10**9)}."
            made.append(Step(number, kind, told))
        else:
            named = {"forget": held, "erase": erasable, "rollback": range(1, number)}[kind]
            made.append(Step(number, kind, names=rng.choice(list(named))))
    return made


def erased(steps: Sequence[Step]) -> set[int]:
    """The versions whose text is gone."""
    return {step.names for step in steps if step.kind == "erase"}


def holding(steps: Sequence[Step], at: int | None = None) -> list[int]:
    """The updates whose text holds at a version, oldest first; what is erased later holds nowhere."""
    histories: list[list[int]] = [[]]
    for step in steps:
        before = histories[-1]
        if step.kind == "update":
            histories.append([*before, step.number])
        elif step.kind == "rollback":
            histories.append(histories[step.names])
        else:
            histories.append([number for number in before if number != step.names])
    gone = erased(steps)
    return [number for number in histories[len(steps) if at is None else at] if number not in gone]
