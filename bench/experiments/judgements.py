"""How often the two judgements are right: what an update replaces, and what the memory knows.

    python bench/experiments/judgements.py pairs [--hypernetwork DIR]      520 pairs of texts in five styles
    python bench/experiments/judgements.py passages [--hypernetwork DIR]   bundled records: units retired, by question
    python bench/experiments/judgements.py near [--hypernetwork DIR]       80 pairs of near names and owners, told twice
    python bench/experiments/judgements.py known OUT.jsonl [--hypernetwork DIR]    40 memories, told and never told
    python bench/experiments/judgements.py fit OUT.jsonl                   calibration, judged on the kind left out
    python bench/experiments/judgements.py cost                            seconds of a verdict and of `known`

The files in `held_out/` were written one by one for this, by a language model; no number was chosen on them but the
three of the calibration, each kind of text judged by what the other four give, which signals it weighs, and `known_at`.
One JSON line per figure; intervals are 95 %, resampled over pairs or memories.
"""

import argparse
import json
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import say, with_interval
from numpy.typing import NDArray

from eval.caches import CountingCache
from eval.datasets.muse import load
from eval.metrics.overlap import says
from plume_memory.engine import Engine
from plume_memory.memory import ParametricMemory
from plume_memory.policy import Calibration
from plume_memory.records import Answer, Transition
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.segmentation.told import told_of
from plume_memory.superseding import Superseding

Line = dict[str, Any]
HELD_OUT = Path(__file__).parent / "held_out"
ODDS = ("answerable", "support")
"""What the calibration weighs."""


def read(name: str) -> list[Line]:
    """The lines of a held-out file."""
    return [json.loads(line) for line in (HELD_OUT / f"{name}.jsonl").read_text("utf-8").splitlines()]


def pairs(engine: Engine) -> None:
    """Precision and recall of `replaces`."""
    assert engine.judge is not None, "the network has a judge"
    for name in ("supersession", "other_subjects", "series", "other_properties"):
        told = read(name)
        found = [one.replaces for one in engine.judge.verdicts([(one["earlier"], one["later"]) for one in told])]
        wanted = [one["verdict"] == "replaces" for one in told]
        at = engine.policy.supersedes_at or 0.5
        for key in ("style", "kind"):
            for each in ("all", *dict.fromkeys(one[key] for one in told)):
                own = [i for i, one in enumerate(told) if each in ("all", one[key])]
                rates = _rates([found[i] for i in own], [wanted[i] for i in own], at)
                say({"what": "pairs", "set": name, key: each, "at": at, **rates})
        for at in (0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98):
            say({"what": "pairs at", "set": name, "at": at, **_rates(found, wanted, at)})
        for one, p in zip(told, found, strict=True):
            say({"what": "pair", "set": name, "p": round(p, 3), **one})


def _rates(found: Sequence[float], wanted: Sequence[bool], at: float) -> Line:
    said = [p >= at for p in found]
    right = [float(w) for s, w in zip(said, wanted, strict=True) if s]
    caught = [float(s) for s, w in zip(said, wanted, strict=True) if w]
    row: Line = {"pairs": len(found), "replaced": len(right), "wrongly": right.count(0.0)}
    row |= with_interval("precision", right, range(len(right))) if right else {"precision": None}
    return row | (with_interval("recall", caught, range(len(caught))) if caught else {"recall": None})


def passages(engine: Engine, limit: int | None) -> None:
    """Of the bundled records: is the unit with the replaced answer retired, and the one with a current answer not?"""
    for name in ("mini-squad", "mini-ropes", "mini-multihop", "muse-chains"):
        rows: dict[float, list[tuple[bool, bool, bool]]] = {at: [] for at in PASSAGES_AT}
        for transition in load(name, limit=limit, steps=(20,)):
            transitions = tuple(Transition(n, text) for n, text in enumerate(transition.texts, start=1))
            units = engine.segmenter.units(transitions)
            found = Superseding(engine.base, engine.judge, min(PASSAGES_AT)).found(
                told_of(transitions, units), UnitIndex(), CountingCache()
            )
            for question in transition.questions:
                old = [u.position for u in units if question.affected and says(u.text, question.old_answers)]
                new = [u.position for u in units if says(u.text, question.answers)]
                for at, own in rows.items():
                    gone = {one.earlier.position for one in found if one.probability >= at}
                    stale = [p for p in old if p not in new]
                    own.append(
                        (question.affected and bool(stale), all(p in gone for p in stale), bool(set(new) - gone))
                    )
        for at, own in rows.items():
            stale = [retired for affected, retired, _ in own if affected]
            kept = [left for _, _, left in own]
            row = {"what": "passages", "set": name, "at": at, "changed": len(stale), "questions": len(own)}
            say({**row, "old_retired": round(float(np.mean(stale)), 3), "current_left": round(float(np.mean(kept)), 3)})


PASSAGES_AT = (0.3, 0.5, 0.7, 0.8, 0.9)


def near(engine: Engine) -> None:
    """Asked about the earlier and the later of two statements told in two updates."""
    hits: dict[tuple[str, str], list[float]] = {}
    for one in read("near_names"):
        with _opened(engine, [one["first"], one["second"]]) as memory:
            for side, other in (("first", "second"), ("second", "first")):
                answer = memory.ask(one[f"ask_{side}"], unknown="bare")
                right = says(answer.text, [one[f"answer_{side}"]]) and not says(answer.text, [one[f"answer_{other}"]])
                hits.setdefault((one["kind"], side), []).append(float(right))
                line = {
                    "what": "near",
                    "right": right,
                    "known": answer.known,
                    "confidence": round(answer.confidence, 3),
                }
                say({**line, "asked": one[f"ask_{side}"], "said": answer.text, "wanted": one[f"answer_{side}"]})
            say({"what": "near replaced", "first": one["first"], "replaced": len(memory.replacements())})
    for (kind, side), own in hits.items():
        say({"what": "near right", "kind": kind, "asked": side, **with_interval("right", own, range(len(own)))})


def known(engine: Engine, out: Path) -> None:
    """What every memory says of what it was told and of what it never was, with its signals; goes on where killed."""
    done = {line["memory"] for line in _lines(out)} if out.exists() else set()
    for number, one in enumerate(read("told")):
        if number in done:
            continue
        lines = []
        with _opened(engine, one["updates"]) as memory:
            asked = [(q["question"], q["answer"]) for q in one["told"]] + [(q, None) for q in one["never"]]
            for question, wanted in asked:
                answer = memory.ask(question, unknown="bare", max_new_tokens=64)
                lines.append({"memory": number, "kind": one["kind"], **_line(question, wanted, answer)})
        with out.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
        print(f"memory {number}", flush=True)
    report(out, engine.policy.known_at or 0.5)


def _line(question: str, wanted: str | None, answer: Answer) -> Line:
    signals = answer.signals
    mean = signals.mean_log_prob if signals else -9.0
    return {
        "question": question,
        "wanted": wanted,
        "said": answer.text,
        "right": wanted is not None and says(answer.text, [wanted]),
        "evidence": [one.unit.text for one in answer.evidence_units],
        "known": answer.known,
        "confidence": round(answer.confidence, 4),
        "plain": round(mean - math.log(-math.expm1(mean)), 4),
        "gain": signals and signals.gain,
        "answerable": signals and signals.answerable,
        "support": signals and signals.support,
    }


def report(out: Path, at: float) -> None:
    """Rates of what is answered as known, by kind of text."""
    lines = _lines(out)
    for kind in ("all", *dict.fromkeys(line["kind"] for line in lines)):
        own = [line for line in lines if kind in ("all", line["kind"])]
        _rates_known(kind, own, [line["confidence"] if line["evidence"] else 0.0 for line in own], at)


def _rates_known(kind: str, own: Sequence[Line], sure: Sequence[float], at: float) -> None:
    never = [(float(p >= at), line["memory"]) for line, p in zip(own, sure, strict=True) if line["wanted"] is None]
    right = [(float(p >= at), line["memory"]) for line, p in zip(own, sure, strict=True) if line["right"]]
    told = [(float(line["right"]), line["memory"]) for line in own if line["wanted"] is not None]
    row: Line = {
        "what": "known",
        "kind": kind,
        "at": round(at, 4),
        "right_of_told": round(float(np.mean([a for a, _ in told])), 4),
    }
    row |= with_interval("never_told_known", [a for a, _ in never], [b for _, b in never])
    row |= with_interval("right_known", [a for a, _ in right], [b for _, b in right])
    row["auroc"] = round(auroc(np.array(sure), np.array([bool(line["right"]) for line in own])), 4)
    say(row)


def fit(out: Path) -> None:
    """Fit the calibration on four kinds of text and judge the fifth; then on all."""
    lines = [line for line in _lines(out) if line["evidence"] and line["support"] is not None]
    rest = [line for line in _lines(out) if not line["evidence"]]
    kinds = list(dict.fromkeys(line["kind"] for line in lines))
    sure: dict[int, float] = {}
    for kind in kinds:
        fitted = fitted_to([line for line in lines if line["kind"] != kind])
        sure |= {id(line): _sure(line, fitted) for line in lines if line["kind"] == kind}
    both = [*lines, *rest]
    values = [sure.get(id(line), 0.0) for line in both]
    for at in (0.3, 0.4, 0.5, 0.6, 0.7):
        _rates_known("all, each kind left out", both, values, at)
    for kind in kinds:
        own = [i for i, line in enumerate(both) if line["kind"] == kind]
        for at in (0.4, 0.5):
            _rates_known(f"{kind}, left out", [both[i] for i in own], [values[i] for i in own], at)
    say({"what": "fit", "calibration": fitted_to(lines).model_dump()})


def fitted_to(lines: Sequence[Line]) -> Calibration:
    """Platt's logistic fit (1999) of "the answer is right" by the two signals, ridge 1 on scaled signals."""
    x = np.array([[line[name] for name in ODDS] for line in lines], dtype=float)
    y = np.array([float(line["right"]) for line in lines])
    centre, scale = x.mean(0), x.std(0) + 1e-9
    z = np.hstack([(x - centre) / scale, np.ones((len(x), 1))])
    w = np.zeros(z.shape[1])
    for _ in range(200):
        p = 1 / (1 + np.exp(-z @ w))
        ridge = np.array([1.0] * len(ODDS) + [0.0])
        gradient = z.T @ (p - y) + ridge * w
        hessian = (z * (p * (1 - p))[:, None]).T @ z + np.diag(ridge + 1e-9)
        w -= np.linalg.solve(hessian, gradient)
    own = w[:-1] / scale
    offset = float(w[-1] - own @ centre)
    answerable, support = (round(float(v), 4) for v in own)
    return Calibration(slope=0.0, offset=round(offset, 4), answerable=answerable, support=support)


def _sure(line: Line, own: Calibration) -> float:
    weights = (own.answerable, own.support)
    odds = own.offset + sum(w * line[name] for w, name in zip(weights, ODDS, strict=True))
    return float(1 / (1 + math.exp(-odds)))


def auroc(scores: NDArray[np.float64], right: NDArray[np.bool_]) -> float:
    """Chance that a right answer has the higher score of two; ties count half."""
    good, bad = scores[right], scores[~right]
    if not len(good) or not len(bad):
        return float("nan")
    return float(((good[:, None] > bad[None]) + 0.5 * (good[:, None] == bad[None])).mean())


def cost(engine: Engine) -> None:
    """Seconds of the verdicts on one sentence, and of `known`, on as many threads as torch has."""
    told = read("supersession")
    judge = engine.judge
    assert judge is not None, "the network has a judge"
    sentence, others = told[0]["later"], [one["earlier"] for one in told[:8]]
    judge.verdicts([(one, sentence) for one in others])
    times, claims = [], []
    for _ in range(9):
        begun = time.perf_counter()
        judge.verdicts([(one, sentence) for one in others])
        times.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        judge.support([(" ".join(others[:3]), sentence, ""), (" ".join(others[:3]), sentence, others[0])])
        claims.append(time.perf_counter() - begun)
    say({"what": "cost", "verdicts_of_a_sentence": round(sorted(times)[4], 4), "known": round(sorted(claims)[4], 4)})


def _opened(engine: Engine, updates: Sequence[str]) -> "_Opened":
    return _Opened(engine, updates)


class _Opened:
    """A memory of some updates, one after another, in a folder of its own."""

    def __init__(self, engine: Engine, updates: Sequence[str]) -> None:
        self._engine, self._updates = engine, updates

    def __enter__(self) -> ParametricMemory:
        self._folder = tempfile.TemporaryDirectory()
        url = f"sqlite:///{self._folder.name}/memory.db"
        self._memory = ParametricMemory.open("bench", url=url, engine=self._engine)
        for text in self._updates:
            self._memory.update(text, derive=False)
        return self._memory

    def __exit__(self, *_: object) -> None:
        self._memory.close()
        self._folder.cleanup()


def _lines(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def main() -> None:
    """Run one of the measurements."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("pairs", "passages", "near", "known", "fit", "cost"))
    parser.add_argument("out", type=Path, nargs="?")
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--limit", type=int, help="records of each set, for `passages`")
    given = parser.parse_args()
    if given.what in ("known", "fit") and given.out is None:
        parser.error(f"{given.what} needs a file")
    if given.what == "fit":
        fit(given.out)
        return
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork, dtype=given.dtype)
    if given.what == "known":
        known(engine, given.out)
        return
    if given.what == "passages":
        passages(engine, given.limit)
        return
    {"pairs": pairs, "near": near, "cost": cost}[given.what](engine)


if __name__ == "__main__":
    main()
