"""Which rule finds the unit that holds now: words at question time, the judge at write time, or both.

    python bench/experiments/superseding.py read OUT.jsonl SET ... [--hypernetwork DIR]
    python bench/experiments/superseding.py compare OUT.jsonl
    python bench/experiments/superseding.py retire OUT.jsonl SET ... [--limit N]
    python bench/experiments/superseding.py count OUT.jsonl

`read` keeps, of each question, what the reader says of the units that are read, what the words supersede and with what
probability the judge says that a unit is replaced; SET is `near_names`, `owners`, `other_subjects`, `series`, `retold`
or `told` (of held_out/) or one of policies.py's. `compare` prints, in per cent and by set, how often the first unit
that is left holds the answer, and of changed questions how often it holds the replaced one. `retire` keeps, of each
question, whether the first unit that `retrieve` returns holds the answer and the replaced one: with and without words,
for several thresholds, and whether the judge is asked again if what replaced a unit answers the question. `count`
prints, by set and way, how often each was so.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import patch

from judgements import read as held_out
from policies import transitions

from eval.caches import CountingCache
from eval.metrics.overlap import says
from plume_memory.engine import Engine
from plume_memory.records import Transition, Unit
from plume_memory.retrieval import retrieve
from plume_memory.retrieval.reader import Reading
from plume_memory.retrieval.recency import Verdict, verdicts
from plume_memory.retrieval.retrieve import SHORTLIST, TIED, Reads
from plume_memory.retrieval.supersede import retired
from plume_memory.segmentation.told import told_of
from plume_memory.superseding import Superseding

Line = dict[str, Any]
LEAST = 0.02
"""Probability below which a verdict is not kept."""


def asked(name: str) -> Iterator[tuple[str, list[str], list[Line]]]:
    """(set, texts, questions) of each history."""
    if name in ("near_names", "owners"):
        for one in held_out(name):
            texts = [one["first"], one["second"]]
            for side, other in (("first", "second"), ("second", "first")):
                if f"ask_{side}" in one:  # what was replaced is asked of no more
                    question = {"question": one[f"ask_{side}"], "now": [one[f"answer_{side}"]]}
                    yield f"{one['kind']} {side}", texts, [question | {"old": [one[f"answer_{other}"]]}]
        return
    if name in ("other_subjects", "series", "other_properties"):
        for one in held_out(name):
            question = {"question": one["ask"], "now": [one["answer"]], "old": []}
            yield f"{name} {one['kind']}", [one["earlier"], one["later"]], [question]
        return
    if name in ("told", "retold"):
        for one in held_out(name):
            own = one.get("questions") or [{"question": q["question"], "now": [q["answer"]]} for q in one["told"]]
            yield f"{name} {one['kind']}", one.get("texts") or one["updates"], [{"old": []} | q for q in own]
        return
    for found, transition in transitions(None):
        if found == name:
            questions = [
                {"question": q.question, "now": list(q.answers), "old": list(q.old_answers or ()) if q.affected else []}
                for q in transition.questions
            ]
            yield name, list(transition.texts), questions


def read(out: Path, sets: Sequence[str], hypernetwork: str) -> None:
    """Write a line for each question."""
    engine = Engine.load("smollm2-135m", hypernetwork=hypernetwork, dtype="float32")
    superseding = Superseding(engine.base, engine.judge, LEAST)
    with out.open("a", encoding="utf-8") as file:
        for name, texts, questions in (own for one in sets for own in asked(one)):
            told = tuple(Transition(number, text) for number, text in enumerate(texts, start=1))
            units = engine.segmenter.units(told)
            index = engine.index(units)
            found = superseding.found(told_of(told, units), engine.index(()), CountingCache())
            for one in questions:
                best = index.best(one["question"], k=SHORTLIST, tied=TIED)
                own = sorted((scored.unit for scored in best), key=lambda unit: unit.position)
                log_p = [reading.log_p for reading in engine.reader.read([u.text for u in own], one["question"])]
                places = {unit.position: at for at, unit in enumerate(own)}
                line = {
                    "set": name,
                    "question": one["question"],
                    "texts": [unit.text for unit in own],
                    "log_p": log_p,
                    "words": [list(verdict) for verdict in verdicts(own, one["question"], log_p)],
                    "now": [says(unit.text, one["now"]) for unit in own],
                    "old": [says(u.text, one["old"]) and not says(u.text, one["now"]) for u in own],
                    "judged": [
                        (places[pair.earlier.position], places.get(pair.later.position), round(pair.probability, 4))
                        for pair in found
                        if pair.earlier.position in places
                    ],
                }
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()
            print(name, len(units), flush=True)


class _Remembering:
    """A reader that reads nothing twice."""

    def __init__(self, reader: Reads) -> None:
        self._reader = reader
        self._kept: dict[tuple[str, str], Reading] = {}

    def read(self, texts: Sequence[str], question: str) -> Sequence[Reading]:
        """See `Reads`."""
        missing = [text for text in dict.fromkeys(texts) if (text, question) not in self._kept]
        if missing:
            self._kept |= {(t, question): r for t, r in zip(missing, self._reader.read(missing, question), strict=True)}
        return [self._kept[text, question] for text in texts]


def retire(out: Path, sets: Sequence[str], hypernetwork: str, limit: int | None) -> None:
    """Write a line for each question: by way, whether the first unit holds the answer, and whether the replaced one."""
    engine = Engine.load("smollm2-135m", hypernetwork=hypernetwork, dtype="float32")
    judge = engine.judge
    superseding = Superseding(engine.base, judge, min(at for _, at, _ in WAYS if at))
    with out.open("a", encoding="utf-8") as file:
        for name, texts, questions in islice((own for one in sets for own in asked(one)), limit):
            told = tuple(Transition(number, text) for number, text in enumerate(texts, start=1))
            units = engine.segmenter.units(told)
            found = superseding.found(told_of(told, units), engine.index(()), CountingCache())
            index, reader = engine.index(units), _Remembering(engine.reader)
            for one in questions:
                line: Line = {"set": name, "question": one["question"], "changed": bool(one["old"])}
                for words, at, again in WAYS:
                    gone = retired([pair for pair in found if at and pair.probability >= at])
                    with patch.object(retrieve, "verdicts", verdicts if words else _no_verdicts):
                        first = retrieve.retrieve(
                            index,
                            one["question"],
                            reader,
                            engine.policy,
                            k=1,
                            judge=judge if again else None,
                            retired=gone,
                        )
                    text = first[0].unit.text
                    now = says(text, one["now"])
                    line[f"{words} {at} {again}"] = [now, bool(one["old"]) and says(text, one["old"]) and not now]
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
            file.flush()


def _no_verdicts(units: Sequence[Unit], *_: object) -> list[Verdict]:
    return [Verdict(at, True) for at in range(len(units))]


WAYS = tuple(
    (words, at, again)
    for words in (True, False)
    for at, again in ((0.0, False), *((at, again) for at in (0.5, 0.7, 0.8, 0.9) for again in (True, False)))
)
"""Whether words decide too, from which probability the judge retires (0: never), and whether it is asked again."""


def by_words(line: Line) -> list[int]:
    """What the words leave, the likeliest first."""
    log_p, found = line["log_p"], line["words"]
    order: dict[int, bool] = {}
    for i in sorted(range(len(log_p)), key=lambda i: (-log_p[i], -i)):
        newest, about = found[i]
        order.setdefault(newest, not about)
        order.setdefault(i, True)
    return [i for i, superseded in order.items() if not superseded] or list(order)


def rules() -> dict[str, Callable[[Line], list[int]]]:
    """By name, what each leaves of a question's units, the best first."""

    def judged(at: float, ranked: Callable[[Line], list[int]]) -> Callable[[Line], list[int]]:
        def left(line: Line) -> list[int]:
            gone = {i for i, _, p in line["judged"] if p >= at}
            return [i for i in ranked(line) if i not in gone] or ranked(line)

        return left

    found: dict[str, Callable[[Line], list[int]]] = {"none": by_reader, "words": by_words}
    for at in (0.5, 0.7, 0.8, 0.9):
        found[f"judge {at}"] = judged(at, by_reader)
        found[f"words and judge {at}"] = judged(at, by_words)
    return found


def by_reader(line: Line) -> list[int]:
    """Every unit, the likeliest first."""
    return sorted(range(len(line["log_p"])), key=lambda i: (-line["log_p"][i], -i))


def compare(path: Path) -> None:
    """Print a JSON line for each rule and set."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for name, rule in rules().items():
        for kind in dict.fromkeys(line["set"] for line in lines):
            own = [line for line in lines if line["set"] == kind and any(line["now"])]
            first = [(line, rule(line)[:1]) for line in own]
            holds = [any(line["now"][i] for i in left) for line, left in first]
            stale = [any(line["old"][i] for i in left) for line, left in first if any(line["old"])]
            row = {"rule": name, "set": kind, "questions": len(own), "holds": round(100 * sum(holds) / len(own), 1)}
            print(json.dumps(row | {"changed": len(stale), "stale": round(100 * sum(stale) / max(1, len(stale)), 1)}))


def count(path: Path) -> None:
    """Print a JSON line for each set and way of `retire`'s rows."""
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for name, changed in dict.fromkeys((line["set"], line["changed"]) for line in lines):
        own = [line for line in lines if (line["set"], line["changed"]) == (name, changed)]
        for way in (key for key, value in own[0].items() if isinstance(value, list)):
            right, replaced = (sum(line[way][at] for line in own) for at in (0, 1))
            row = {"set": name, "changed": changed, "way": way, "questions": len(own)}
            print(json.dumps(row | {"right": right, "replaced": replaced}))


def main() -> None:
    """Read or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("read", "compare", "retire", "count"))
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--limit", type=int, help="histories, for `retire`")
    given = parser.parse_args()
    if given.what in ("compare", "count"):
        {"compare": compare, "count": count}[given.what](given.out)
    elif given.what == "read":
        read(given.out, given.sets, given.hypernetwork)
    else:
        retire(given.out, given.sets, given.hypernetwork, given.limit)


if __name__ == "__main__":
    main()
