"""Which rule finds the unit that holds now: words at question time, the judge at write time, or both.

    python bench/experiments/superseding.py read OUT.jsonl SET ... [--hypernetwork DIR]
    python bench/experiments/superseding.py compare OUT.jsonl

`read` keeps, of each question, what the reader says of the units that are read, what the words retire and with what
probability the judge says that a unit is replaced; SET is `near` (held_out/near_names.jsonl, told in two updates) or
one of policies.py's. `compare` prints, in per cent and by set, how often the first unit that is left holds the answer,
and of changed questions how often it holds the replaced one. With `names` a unit is not retired for a question by one
that lacks a name of the question which it holds.
"""

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from judgements import read as held_out
from policies import transitions

from eval.caches import CountingCache
from eval.metrics.overlap import says
from plume_memory.engine import Engine
from plume_memory.records import Transition
from plume_memory.retrieval.recency import verdicts
from plume_memory.retrieval.retrieve import SHORTLIST, TIED
from plume_memory.segmentation.told import told_of
from plume_memory.superseding import Superseding
from plume_memory.terms import FUNCTION_WORDS, terms_of

Line = dict[str, Any]
LEAST = 0.02
"""Probability below which a verdict is not kept."""
_NAME = re.compile(r"(?<=[^.!?]\s)(?:[A-Z]\w*|\w*\d\w*)|\w*\d\w*|\b[A-Z]{2,}\b")


def asked(name: str) -> Iterator[tuple[str, list[str], list[Line]]]:
    """(set, texts, questions) of each history."""
    if name == "near":
        for one in held_out("near_names"):
            for side, other in (("first", "second"), ("second", "first")):
                question = {"question": one[f"ask_{side}"], "now": [one[f"answer_{side}"]]}
                yield (
                    f"{one['kind']} {side}",
                    [one["first"], one["second"]],
                    [question | {"old": [one[f"answer_{other}"]]}],
                )
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
    engine = Engine.load("smollm2-135m", hypernetwork=hypernetwork)
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


def by_words(line: Line) -> list[int]:
    """What the words leave, the likeliest first."""
    log_p, found = line["log_p"], line["words"]
    order: dict[int, bool] = {}
    for i in sorted(range(len(log_p)), key=lambda i: (-log_p[i], -i)):
        newest, about = found[i]
        order.setdefault(newest, not about)
        order.setdefault(i, True)
    return [i for i, superseded in order.items() if not superseded] or list(order)


def retired(line: Line, at: float, *, names: bool) -> set[int]:
    """What the judge retires."""
    own = {term for name in _NAME.findall(line["question"]) for term in terms_of(name)} - FUNCTION_WORDS
    held = [set(terms_of(text)) & own for text in line["texts"]]
    return {i for i, j, p in line["judged"] if p >= at and not (names and j is not None and not held[j] >= held[i])}


def rules() -> dict[str, Callable[[Line], list[int]]]:
    """By name, what each leaves of a question's units, the best first."""

    def judged(at: float, names: bool) -> Callable[[Line], list[int]]:
        def left(line: Line) -> list[int]:
            gone = retired(line, at, names=names)
            return sorted(set(range(len(line["log_p"]))) - gone, key=lambda i: (-line["log_p"][i], -i))

        return left

    def both(at: float) -> Callable[[Line], list[int]]:
        def left(line: Line) -> list[int]:
            gone = retired(line, at, names=True)
            return [i for i in by_words(line) if i not in gone] or by_words(line)

        return left

    found = {"none": judged(2.0, False), "words": by_words}
    for at in (0.5, 0.7, 0.8):
        found[f"judge {at}"] = judged(at, False)
        found[f"judge {at}, names"] = judged(at, True)
        found[f"words and judge {at}, names"] = both(at)
    return found


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


def main() -> None:
    """Read or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("read", "compare"))
    parser.add_argument("out", type=Path)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--hypernetwork", default="shipped")
    given = parser.parse_args()
    if given.what == "compare":
        compare(given.out)
    else:
        read(given.out, given.sets, given.hypernetwork)


if __name__ == "__main__":
    main()
