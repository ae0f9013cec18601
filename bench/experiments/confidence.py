"""How well `Answer.confidence` tells right answers from invented ones, and the calibration that makes it a probability.

    python bench/experiments/confidence.py [--hypernetwork shipped] [--memories 32] [--passages 36] [--notes 32]

Each memory takes three updates of one to four invented facts, one `mini_squad` passage, or six notes of one person
(`notes_more.jsonl`), and is asked what it was told and what it was never told (questions about another memory's
texts: any answer to those is wrong). Of notes that is the hard case: told "I am 52 years old.", asked "How old is my
daughter?". Log-odds and gain are fitted on half of the memories (Platt 1999) and judged on the other half. One JSON
line per answer, then per row; `fit` holds the network's `calibration`. Data:
$PLUME_DATA or ../shared/data.
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

import numpy as np
from common import NEWER

from plume_memory.answering.calibration import confidence
from plume_memory.engine import Engine
from plume_memory.memory import ParametricMemory
from plume_memory.policy import Calibration
from plume_memory.records import Answer, best_gain
from plume_memory.training.facts import FactSource
from plume_memory.training.sources.matching import holds

STATISTICS: dict[str, Callable[[Answer], float]] = {
    "mean log p": lambda a: sum(t.log_prob for t in a.trace) / len(a.trace),
    "least log p": lambda a: min(t.log_prob for t in a.trace),
    "mean JS": lambda a: -sum(t.js for t in a.trace) / len(a.trace),
    "router score": lambda a: a.evidence.score if a.evidence else 0.0,
    "gain": lambda a: best_gain(a.evidence_units) or 0.0,
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


def noted(count: int, seed: int) -> list[Told]:
    """Memories of six notes, each about another thing; the next one's are about still others."""
    chance = random.Random(f"bench:confidence:notes:{seed}")
    lines = (Path(__file__).parent / "notes_more.jsonl").read_text(encoding="utf-8").splitlines()
    by_topic: dict[str, list[dict[str, str]]] = {}
    for note in map(json.loads, lines):
        by_topic.setdefault(note["about"], []).append(note)
    told: list[Told] = []
    drawn: list[list[str]] = []
    for number in range(count):
        beside = {topic for one in (drawn[-1:] + drawn[:1] * (number == count - 1)) for topic in one}
        topics = chance.sample(sorted(set(by_topic) - beside), 6)
        drawn.append(topics)
        notes = [chance.choice(by_topic[topic]) for topic in topics]
        asks = tuple((note["question"], (note["answer"],)) for note in notes)
        told.append(Told("notes", tuple(note["note"] for note in notes), asks))
    return told


def answers(engine: Engine, told: Sequence[Told]) -> list[Asked]:
    """Ask every memory about its own texts and about the next one's."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for i, own in enumerate(told):
            alike = [one for one in told if one.kind == own.kind]
            other = alike[(alike.index(own) + 1) % len(alike)]
            with ParametricMemory.open(f"m{i}", url=f"sqlite:///{folder}/bench.db", engine=engine) as memory:
                for text in own.texts:
                    memory.update(text)
                replies = memory.ask_many([q for q, _ in own.asks + other.asks], max_new_tokens=48, unknown="bare")
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


def features(answer: Answer) -> tuple[float, float]:
    """What the calibration weighs: the log-odds of the plain confidence, and the best gain of the evidence."""
    signals = answer.signals
    plain = confidence(signals, Calibration()) if signals else 0.0
    p = min(max(plain, 1e-12), 1 - 1e-12)
    return math.log(p / (1 - p)), best_gain(answer.evidence_units) or 0.0


def platt(found: Sequence[tuple[float, float]], right: Sequence[bool]) -> tuple[float, float, float]:
    """The most likely logistic curve over both features: weight of the log-odds, offset, weight of the gain.

    Targets are drawn in as Platt (1999) does. Newton's method, with a touch of ridge for features that part all.
    """
    hits = sum(right)
    high, low = (hits + 1) / (hits + 2), 1 / (len(right) - hits + 2)
    targets = np.array([high if r else low for r in right])
    columns = np.array([(odds, 1.0, gain) for odds, gain in found])
    weights = np.array([1.0, 0.0, 0.0])
    for _ in range(50):
        p = 1 / (1 + np.exp(-np.clip(columns @ weights, -500, 500)))
        hessian = columns.T @ (columns * (p * (1 - p))[:, None]) + 1e-6 * np.eye(3)
        weights = weights + np.linalg.solve(hessian, columns.T @ (targets - p))
    slope, offset, of_gain = (float(weight) for weight in weights)
    return slope, offset, of_gain


def report(name: str, asked: Sequence[Asked], fit: tuple[float, float, float]) -> None:
    """Print what a threshold of one half does to some answers."""
    fitted = Calibration(slope=fit[0], offset=fit[1], per_nat=fit[2])
    p = [confidence(one.answer.signals, fitted) if one.answer.signals else 0.0 for one in asked]
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
    parser.add_argument("--notes", type=int, default=32, help="memories of six notes")
    given = parser.parse_args()
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    data = Path(os.environ.get("PLUME_DATA", "../shared/data"))
    told = invented(given.memories, given.seed) + passages(data)[: given.passages]
    told += noted(given.notes, given.seed)
    asked = answers(engine, told)
    for one in asked:
        odds, gain = (round(number, 3) for number in features(one.answer))
        judged_as = {"memory": one.memory, "kind": one.kind, "said": one.said, "right": one.right}
        say(what="answer", **judged_as, odds=odds, gain=gain, text=one.answer.text.strip())
    for name, statistic in STATISTICS.items():
        say(
            what="statistic",
            name=name,
            auroc=round(auroc([statistic(o.answer) for o in asked], [o.right for o in asked]), 3),
        )
    fitted, judged = ([one for one in asked if one.memory % 2 == side] for side in (0, 1))
    fit = platt([features(one.answer) for one in fitted], [one.right for one in fitted])
    slope, offset, of_gain = (round(number, 3) for number in fit)
    say(what="fit", questions=len(fitted), slope=slope, offset=offset, per_nat=of_gain)
    report("judged", judged, fit)
    for kind in ("facts", "mini_squad", "notes"):
        report(kind, [one for one in judged if one.kind == kind], fit)


if __name__ == "__main__":
    main()
