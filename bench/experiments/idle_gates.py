"""Gates between what a memory read for a message and what it gives: compared on rows of idle.py.

A gate gives every unit a figure, and those that reach the threshold are notes. The threshold is the highest one that
silences at most `SILENCED` of the questions on one memory; it is judged on the others. No idle message chooses one. One
JSON line for each gate and memory.
"""

import json
import math
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

from plume_memory.segmentation import acts
from plume_memory.terms import speaks_of_me

MIN_GAIN = 8.0
"""Of the shipped network."""
ANSWERS_AT = -1.5
"""Log-odds of the gate that was built and taken back."""
SURE = 4.0
"""Times `MIN_GAIN` from which on it judged nothing."""
SILENCED = 0.02
"""Most questions that a threshold may silence where it is chosen."""
READ = 32
"""Units that are read of a long memory."""

HELD_OUT = Path(__file__).parent / "held_out"
WORDS = {
    one["id"]: one["message"]
    for name in ("idle", "idle_more", "helped", "helped_more")
    for one in map(json.loads, (HELD_OUT / f"{name}.jsonl").read_text(encoding="utf-8").splitlines())
}

NOTES = ("notes.jsonl", "notes_more.jsonl", "notes_myself.jsonl")
_TOLD = [
    json.loads(line) for name in NOTES for line in (HELD_OUT.parent / name).read_text(encoding="utf-8").splitlines()
]
WORDS |= {f"note-{number}": one["question"] for number, one in enumerate(_TOLD, start=1)}

Line = dict[str, Any]
Gate = Callable[[Line], list[float]]
NO, YES = -math.inf, math.inf


def margins(line: Line) -> list[float]:
    """Gain over what a shared name leaves of the least: 8 passes today."""
    return [gain / share for gain, share in zip(line.get("gains", []), line.get("shares", []), strict=True)]


def of_passing(line: Line, figures: Sequence[float]) -> list[float]:
    """The figures of the units that pass today, NO for the others."""
    return [own if gain >= MIN_GAIN else NO for gain, own in zip(margins(line), figures, strict=True)]


def judged(line: Line) -> list[float]:
    """The judge's log-odds; NO where it was not asked."""
    return [NO if own is None else own for own in line.get("answerable", [])]


def today(line: Line) -> list[float]:
    """What passes now."""
    return of_passing(line, [YES] * len(margins(line)))


def grown(line: Line) -> list[float]:
    """Nats above `MIN_GAIN` for each unit of ln(units / READ)."""
    growth = math.log(max(1.0, line["units"] / READ))
    return of_passing(line, [(gain - MIN_GAIN) / growth if growth else YES for gain in margins(line)])


def each(line: Line) -> list[float]:
    """Each unit by what the judge says of it."""
    return of_passing(line, judged(line))


def judge_alone(line: Line) -> list[float]:
    """The same whatever the gain."""
    return judged(line)


def best(line: Line) -> list[float]:
    """All that pass by the best of them."""
    own = each(line)
    return of_passing(line, [max(own)] * len(own)) if own else []


def first(line: Line) -> list[float]:
    """All that pass by the first of them."""
    own = each(line)
    return of_passing(line, [next((one for one in own if one > NO), NO)] * len(own))


def joint(line: Line) -> list[float]:
    """All that pass by the first three, read as one."""
    own = margins(line)
    return of_passing(line, [line.get("joint", NO)] * len(own)) if own else []


def stands_out(line: Line) -> list[float]:
    """Gain over the median gain of all that was read."""
    middle = median(line["all_gains"]) if line.get("all_gains") else 0.0
    return of_passing(line, [gain - middle for gain in line.get("gains", [])])


def summed(weight: float) -> Gate:
    """The best of them by the judge's log-odds and some of the gain."""

    def gate(line: Line) -> list[float]:
        both = [odds + weight * gain for odds, gain in zip(judged(line), margins(line), strict=True)]
        own = of_passing(line, both)
        return of_passing(line, [max(own)] * len(own)) if own else []

    return gate


GATES: dict[str, Gate] = {
    "more gain": margins,
    "gain that grows with ln(units)": grown,
    "gain over the median read": stands_out,
    "judge alone, each": judge_alone,
    "gain and judge, each": each,
    "gain and judge, the best for all": best,
    "gain and judge, the first for all": first,
    "gain and judge, three as one": joint,
    "gain and judge + 0.1 gain, the best for all": summed(0.1),
    "gain and judge + 0.3 gain, the best for all": summed(0.3),
}


def in_doubt(line: Line) -> list[float]:
    """What was built and taken back: the best for all, of questions not in the first person whose gain leaves a doubt.

    Every question of LoCoMo counts as one of these: that is the worst case.
    """
    words = WORDS.get(line["id"])
    if words is not None and (acts.acts_of(words).asks < acts.SURE or speaks_of_me(words)):
        return today(line)
    return today(line) if max(margins(line), default=0.0) >= SURE * MIN_GAIN else best(line)


def twice(line: Line) -> list[float]:
    """Instead of the judge twice the gain, of the same questions."""
    words = WORDS.get(line["id"])
    if words is not None and (acts.acts_of(words).asks < acts.SURE or speaks_of_me(words)):
        return today(line)
    return today(line) if max(margins(line), default=0.0) >= 2 * MIN_GAIN else []


def helped(gate: Gate, lines: Sequence[Line], threshold: float) -> int:
    """Messages that get a note that helps."""
    return sum(any(line["holds"][at] for at in notes_of(gate, line, threshold)[:8]) for line in lines)


def notes_of(gate: Gate, line: Line, threshold: float) -> list[int]:
    """Places of the units that are given."""
    return [at for at, own in enumerate(gate(line)) if own > NO and own >= threshold]


def silenced(gate: Gate, lines: Sequence[Line], threshold: float) -> float:
    """Share of the questions that get notes today and none by a gate."""
    asked = [line for line in lines if line["bears"]]
    lost = [line for line in asked if notes_of(today, line, NO) and not notes_of(gate, line, threshold)]
    return len(lost) / max(1, len(asked))


def chosen(gate: Gate, lines: Sequence[Line]) -> float:
    """The highest threshold at which at most `SILENCED` are."""
    found = sorted({own for line in lines if line["bears"] for own in gate(line) if math.isfinite(own)})
    return max((own for own in found if silenced(gate, lines, own) <= SILENCED), default=NO)


def recall_at_5(gate: Gate, line: Line, threshold: float) -> float:
    """Share of the gold turns that the first five notes are of."""
    given = notes_of(gate, line, threshold)[:5]
    return float(len({turn for at in given for turn in line["holds"][at]}) / line["gold"])


def figures(gate: Gate, lines: Sequence[Line], threshold: float) -> dict[str, Any]:
    """What a gate does on some messages of one memory."""
    messages = [line for line in lines if not line["bears"]]
    requests = [line for line in lines if line["kind"].startswith("helped")]
    asked = [line for line in lines if line["bears"] and line not in requests]
    kinds = {kind: [0, 0] for kind in dict.fromkeys(line["kind"] for line in messages)}
    for line in messages:
        kinds[line["kind"]][0] += bool(notes_of(gate, line, threshold))
        kinds[line["kind"]][1] += 1
    found: dict[str, Any] = {"idle": len(messages), "idle_noted": sum(own for own, _ in kinds.values())}
    found |= {kind: f"{own}/{of}" for kind, (own, of) in kinds.items()}
    found |= {"notes_shown": sum(len(notes_of(gate, line, threshold)) for line in messages)}
    found |= {"asked": len(asked), "silenced": round(silenced(gate, asked, threshold), 4)}
    found |= {"without_notes": sum(not notes_of(gate, line, threshold) for line in asked)}
    found |= {"requests": len(requests), "helped": helped(gate, requests, threshold)}
    recalled = [recall_at_5(gate, line, threshold) for line in asked]
    return found | {"recall_at_5": round(sum(recalled) / max(1, len(recalled)), 4)}


def compared(lines: Sequence[Line]) -> None:
    """Choose on each memory in turn, and judge on the others."""
    by_memory = {name: list(own) for name, own in groupby(lines, key=lambda line: str(line["memory"]))}
    for name, own in by_memory.items():
        print(json.dumps({"gate": "before", "judged_on": name, **figures(today, own, NO)}))
        print(json.dumps({"gate": "judge in doubt", "judged_on": name, **figures(in_doubt, own, ANSWERS_AT)}))
        print(json.dumps({"gate": "twice the gain instead", "judged_on": name, **figures(twice, own, NO)}))
    for chosen_on, whole in by_memory.items():
        own = [line for line in whole if not line["kind"].startswith("helped")]
        for name, gate in GATES.items():
            threshold = chosen(gate, own)
            at = {"gate": name, "chosen_on": chosen_on, "threshold": round(threshold, 3)}
            for other, lines_of in by_memory.items():
                print(json.dumps({**at, "judged_on": other, **figures(gate, lines_of, threshold)}))
