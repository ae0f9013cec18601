"""What a rule or number of the answer policy is worth, on questions that chose none: the rule of worth's own command.

    python bench/experiments/policies.py decode OUT.jsonl ['{"evidence_units": 3}'] [--records FILE]
    python bench/experiments/policies.py compare A.jsonl B.jsonl

The last 24 records of `mini-squad`, the last 6 of `mini-ropes`, all of `mini-multihop` (half of which chose earlier
settings) and four chains after twenty updates; or the records of a file. `decode` overrides the shipped network's
policy and goes on where it was killed, a line per question; `compare` prints recall and stale answers of both on the
questions that both have, with a paired sign-flip test over records.
"""

import argparse
import json
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from eval.caches import CountingCache
from eval.datasets.muse import load
from eval.methods.decoding import Answerer
from eval.methods.parametric import Plume
from eval.metrics.overlap import overlap, says
from eval.records import MuseTransition
from plume_memory.answering.options import settings_of
from plume_memory.engine import Engine
from plume_memory.policy import AnswerPolicy

Line = dict[str, Any]
DRAWS = 5000


def transitions(records: Path | None) -> Iterator[tuple[str, MuseTransition]]:
    """The file's, or what chose nothing."""
    if records is not None:
        yield from ((one.dataset, one) for one in load(str(records)))
        return
    for name, chosen in (
        ("mini-squad", load("mini-squad")[12:]),
        ("mini-ropes", load("mini-ropes")[8:]),
        ("mini-multihop", load("mini-multihop")),
        ("muse-chains", load("muse-chains", steps=(20,))[2:]),
    ):
        yield from ((name, one) for one in chosen)


def decode(out: Path, overrides: dict[str, Any], records: Path | None, hypernetwork: str) -> None:
    """Answer every question that has no line yet."""
    engine = Engine.load("smollm2-135m", hypernetwork=hypernetwork, policy=AnswerPolicy(**overrides))
    cache = CountingCache()
    answerer = Answerer(engine.scheduler, settings_of(engine.policy, {"max_new_tokens": 64}), 1)
    done = {line["record"] for line in read(out)} if out.exists() else set()
    with out.open("a", encoding="utf-8") as file:
        for name, transition in transitions(records):
            if transition.id in done:
                continue
            prepared = Plume(engine, cache, answerer).prepare(transition)
            lines = []
            for question in transition.questions:
                begun = time.perf_counter()
                said = prepared.answer([question])[0].text
                current, replaced = question.answers, question.old_answers
                lines.append(
                    {
                        "set": name,
                        "record": transition.id,
                        "question": question.question,
                        "said": said,
                        "recall": round(overlap(said, current).recall, 4),
                        "changed": question.affected,
                        "stale": question.affected and says(said, replaced) and not says(said, current),
                        "seconds": round(time.perf_counter() - begun, 2),
                    }
                )
            file.write("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
            file.flush()
            print(f"{name} {transition.id}", flush=True)


def read(path: Path) -> list[Line]:
    """The whole lines of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def compare(first: Path, second: Path) -> None:
    """Print both on the questions they share."""
    one, other = ({(line["record"], line["question"]): line for line in read(path)} for path in (first, second))
    shared = [(one[key], other[key]) for key in one.keys() & other.keys()]
    for name in ("all", *dict.fromkeys(a["set"] for a, _ in shared)):
        pairs = [(a, b) for a, b in shared if name in ("all", a["set"])]
        changed = [(a, b) for a, b in pairs if a["changed"]]
        row = {"set": name, "questions": len(pairs), "changed": len(changed), "p": p_value(pairs)}
        for at, side in enumerate(("first", "second")):
            row[f"{side} recall"] = round(100 * mean([pair[at]["recall"] for pair in pairs]), 1)
            row[f"{side} stale"] = round(100 * mean([pair[at]["stale"] for pair in changed]), 1)
        print(json.dumps(row))


def p_value(pairs: Sequence[tuple[Line, Line]]) -> float:
    """Two-sided sign-flip test of the recall, over records."""
    by_record: dict[str, float] = defaultdict(float)
    for a, b in pairs:
        by_record[a["record"]] += a["recall"] - b["recall"]
    sums, chance = sorted(by_record.values()), random.Random(0)
    found = abs(sum(sums)) - 1e-9
    flipped = (abs(sum(s if chance.random() < 0.5 else -s for s in sums)) for _ in range(DRAWS))
    return round(sum(value >= found for value in flipped) / DRAWS, 3)


def mean(values: Sequence[float]) -> float:
    """0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def main() -> None:
    """Decode or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    first = commands.add_parser("decode")
    first.add_argument("out", type=Path)
    first.add_argument("overrides", type=json.loads, nargs="?", default={})
    first.add_argument("--records", type=Path)
    first.add_argument("--hypernetwork", default="shipped")
    second = commands.add_parser("compare")
    second.add_argument("first", type=Path)
    second.add_argument("second", type=Path)
    given = parser.parse_args()
    if given.command == "decode":
        decode(given.out, given.overrides, given.records, given.hypernetwork)
    else:
        compare(given.first, given.second)


if __name__ == "__main__":
    main()
