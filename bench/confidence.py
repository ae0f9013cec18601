"""How well `Answer.confidence` tells right answers from invented ones, and the calibration that makes it a probability.

    python bench/confidence.py [--hypernetwork shipped] [--memories 32] [--passages 36] [--seed 0]

Each memory takes three updates of one to four invented facts, or one `mini_squad` passage, and is asked what it was
told and what it was never told (questions about another memory's texts: any answer to those is wrong). The
log-odds are fitted on half of the memories (Platt 1999) and judged on the other half. One JSON line per row; `fit`
holds the two numbers for `confidence` in the network's `answers`. Data: $PLUME_DATA or ../shared/data.
"""

import argparse
import json
import math
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hypernetwork import NEWER

from plume_memory.engine import Engine
from plume_memory.memory import ParametricMemory
from plume_memory.records import Answer
from plume_memory.training.facts import FactSource
from plume_memory.training.sources.matching import holds

STATISTICS: dict[str, Callable[[Answer], float]] = {
    "mean log p": lambda a: sum(t.log_prob for t in a.trace) / len(a.trace),
    "least log p": lambda a: min(t.log_prob for t in a.trace),
    "mean JS": lambda a: -sum(t.js for t in a.trace) / len(a.trace),
    "router score": lambda a: a.evidence.score if a.evidence else 0.0,
}


@dataclass(frozen=True, slots=True)
class Told:
    """What one memory is told, and asked about it: (question, accepted answers)."""

    kind: str
    texts: tuple[str, ...]
    asks: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """One answer, judged."""

    memory: int
    kind: str
    said: bool
    right: bool
    answer: Answer


def invented(count: int, seed: int) -> list[Told]:
    """Memories of three texts of invented facts, six questions each."""
    chance = random.Random(f"bench:confidence:{seed}")
    source = FactSource("facts", smallest=1, exclude_families=NEWER)
    told = []
    for _ in range(count):
        samples = [source.draw(chance, largest=4, update=False) for _ in range(3)]
        asks = tuple(
            (ask.question, (ask.answer,)) for s in samples for ask in chance.sample(s.asks, min(2, len(s.asks)))
        )
        told.append(Told("facts", tuple(s.text for s in samples), asks))
    return told


def passages(data: Path) -> list[Told]:
    """The original records before their update."""
    lines = (data / "muse" / "mini_squad_dev.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    return [
        Told("mini_squad", (r["context_old"],), tuple((qa["question"], tuple(qa["old_answers"])) for qa in r["qas"]))
        for r in records
    ]


def answers(engine: Engine, told: Sequence[Told]) -> list[Asked]:
    """Ask every memory about its own texts and about the next one's."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for i, own in enumerate(told):
            other = told[(i + 1) % len(told)]
            with ParametricMemory.open(f"m{i}", url=f"sqlite:///{folder}/bench.db", engine=engine) as memory:
                for text in own.texts:
                    memory.update(text)
                replies = memory.ask_many([q for q, _ in own.asks + other.asks], max_new_tokens=48)
            for n, (reply, (_, accepted)) in enumerate(zip(replies, own.asks + other.asks, strict=True)):
                said = n < len(own.asks)
                right = said and any(holds(reply.text, answer) for answer in accepted)
                found.append(Asked(i, own.kind, said, right, reply))
    return found


def auroc(values: Sequence[float], right: Sequence[bool]) -> float:
    """Probability that a right answer has the larger value than a wrong one; ties count half."""
    hits = [v for v, r in zip(values, right, strict=True) if r]
    misses = [v for v, r in zip(values, right, strict=True) if not r]
    pairs = sum((h > m) + 0.5 * (h == m) for h in hits for m in misses)
    return pairs / max(1, len(hits) * len(misses))


def log_odds(mean: float) -> float:
    """ln(p / (1 − p)) of a probability given by its logarithm, as `Answer.confidence` takes it."""
    mean = min(mean, -1e-9)
    return mean - math.log(-math.expm1(mean))


def platt(odds: Sequence[float], right: Sequence[bool]) -> tuple[float, float]:
    """Slope and offset of the most likely logistic curve; targets drawn in as Platt (1999) does. Newton's method."""
    hits = sum(right)
    high, low = (hits + 1) / (hits + 2), 1 / (len(right) - hits + 2)
    targets = [high if r else low for r in right]
    slope, offset = 1.0, 0.0
    for _ in range(50):
        p = [1 / (1 + math.exp(-min(500.0, max(-500.0, slope * x + offset)))) for x in odds]
        errors = [t - q for t, q in zip(targets, p, strict=True)]
        weights = [q * (1 - q) + 1e-9 for q in p]
        ga, gb = sum(e * x for e, x in zip(errors, odds, strict=True)), sum(errors)
        haa = sum(w * x * x for w, x in zip(weights, odds, strict=True))
        hab, hbb = sum(w * x for w, x in zip(weights, odds, strict=True)), sum(weights)
        determinant = haa * hbb - hab * hab
        slope += (hbb * ga - hab * gb) / determinant
        offset += (haa * gb - hab * ga) / determinant
    return slope, offset


def report(name: str, asked: Sequence[Asked], fit: tuple[float, float]) -> None:
    """Print what a threshold of one half does to some answers."""
    means = [log_odds(STATISTICS["mean log p"](one.answer)) for one in asked]
    p = [1 / (1 + math.exp(-(fit[0] * x + fit[1]))) for x in means]
    right = [one.right for one in asked]
    kept = [i for i, value in enumerate(p) if value >= 0.5]
    unsaid = [i for i, one in enumerate(asked) if not one.said]
    said = [i for i, one in enumerate(asked) if one.said]
    bins = [[i for i, v in enumerate(p) if b / 10 <= v < (b + 1) / 10 + (b == 9)] for b in range(10)]
    error = sum(abs(sum(p[i] - right[i] for i in some)) for some in bins) / len(p)
    say(
        what=name,
        questions=len(asked),
        right=share(right),
        auroc=round(auroc(p, right), 3),
        calibration_error=round(error, 3),
        brier=round(sum((v - r) ** 2 for v, r in zip(p, right, strict=True)) / len(p), 3),
        answered=share([v >= 0.5 for v in p]),
        right_of_answered=share([right[i] for i in kept]),
        said_right_before=share([right[i] for i in said]),
        said_right_and_answered=share([right[i] and p[i] >= 0.5 for i in said]),
        never_said_answered=share([p[i] >= 0.5 for i in unsaid]),
        confident_wrong=share([p[i] >= 0.5 and not right[i] for i in range(len(p))]),
    )


def share(values: Sequence[bool]) -> float | None:
    """Of true ones, rounded for print; None of nothing."""
    return round(sum(values) / len(values), 3) if values else None


def say(**row: object) -> None:
    """Print one measurement."""
    print(json.dumps(row), flush=True)


def main() -> None:
    """Ask, fit, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--memories", type=int, default=32)
    parser.add_argument("--passages", type=int, default=36, help="memories of one mini_squad passage, at most 36")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    data = Path(os.environ.get("PLUME_DATA", "../shared/data"))
    told = invented(given.memories, given.seed) + passages(data)[: given.passages]
    asked = answers(engine, told)
    for name, statistic in STATISTICS.items():
        say(
            what="statistic",
            name=name,
            auroc=round(auroc([statistic(o.answer) for o in asked], [o.right for o in asked]), 3),
        )
    fitted, judged = ([one for one in asked if one.memory % 2 == side] for side in (0, 1))
    fit = platt([log_odds(STATISTICS["mean log p"](one.answer)) for one in fitted], [one.right for one in fitted])
    say(what="fit", questions=len(fitted), confidence=[round(number, 3) for number in fit])
    report("judged", judged, fit)
    for kind in ("facts", "mini_squad"):
        report(kind, [one for one in judged if one.kind == kind], fit)


if __name__ == "__main__":
    main()
