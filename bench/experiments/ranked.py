"""How a reader ranks what is proposed: of what answers, which share stands among the first.

    python bench/experiments/ranked.py read OUT.jsonl [--hypernetwork DIR] [--proposing DIR] [--locomo FILE]
        [--passages squad_v1.1_trainpart4.jsonl.gz] [--every 1] [--dtype float32] [--replies]
    python bench/experiments/ranked.py report BEFORE.jsonl AFTER.jsonl ... [--words shared]

`read` writes for every question, by its number and a hash, the log p of each unit that `proposed` shows (by words and
the vectors of `--proposing`, so that two readers can be asked about the same units), its lexical score, the share of
the question's words that it holds, and which of them answer. The memories: LoCoMo's conversations, the conversations
and notes of `held_out/`, each file told as one memory (`--replies`: what a message answers is told with it), and the
first passages of a file, told as one. `report` prints recall at 1, 3, 5 and 10 with a weight of the words (`--words`)
beside log p, and the difference from the first file without words, paired, with 95 % intervals over questions. One JSON
line a figure.
"""

import argparse
import gzip
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from common import mean, say
from locomo import interval
from proposed import HELD_OUT, Memory, of_held_out, of_locomo

from eval.caches import CountingCache
from plume_memory.answering.embedded import Embedded
from plume_memory.engine import Engine
from plume_memory.records import Transition
from plume_memory.retrieval.retrieve import proposed
from plume_memory.segmentation.told import told_of
from plume_memory.training.sources.matching import holds

PASSAGES = 30
AT = (1, 3, 5, 10)
WEIGHTS = (0.0, 0.3, 0.6, 1.0)
"""Nats that words count at most beside log p."""
Line = dict[str, Any]


def of_passages(engine: Engine, path: Path) -> Memory:
    """The first passages of a file as one memory; a sentence that holds an answer answers."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        passages = [json.loads(line) for _, line in zip(range(PASSAGES), file, strict=False)]
    transitions = [Transition(version, one["context"]) for version, one in enumerate(passages, start=1)]
    parts = told_of(transitions, engine.segmenter.units(transitions))
    asked = []
    for passage, part in zip(passages, parts, strict=True):
        for one in passage["qas"]:
            gold = {unit.position for unit in part.units if any(holds(unit.text, said) for said in one["answers"])}
            asked += [(one["question"], [gold])] if gold else []
    return Memory("passages", list(parts), asked)


def memories(engine: Engine, locomo: Path | None, passages: Path | None, *, replies: bool) -> Iterator[Memory]:
    """All that there are files for."""
    yield from of_locomo(engine, locomo) if locomo else ()
    for path in (HELD_OUT, HELD_OUT.with_stem("conversations_long")):
        yield of_held_out(engine, path, replies=replies)._replace(name=path.stem)
    if passages:
        yield of_passages(engine, passages)


def read(given: argparse.Namespace) -> None:
    """Propose with one network, read with the other."""
    proposing = Engine.load("smollm2-135m", hypernetwork=given.proposing, dtype=given.dtype)
    reading = proposing
    if given.hypernetwork != given.proposing:
        reading = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork, dtype=given.dtype)
    asked: Counter[str] = Counter()
    with given.out.open("w", encoding="utf-8") as out:
        for memory in memories(proposing, given.locomo, given.passages, replies=given.replies):
            cache = CountingCache()
            near = Embedded(proposing.embedding, cache, memory.told)
            index = proposing.index([unit for one in memory.told for unit in one.units])
            reader = reading.reader.of(cache)
            for at in range(0, len(memory.asked), given.every):
                question, gold = memory.asked[at]
                words, shared = index.score(question), index.shared(question)
                units = proposed(index, question, near)
                log_p = [round(one.log_p, 3) for one in reader.read([unit.text for unit in units], question)]
                places = {unit.position: at for at, unit in enumerate(units)}
                line = {
                    "set": memory.name,
                    "question": asked[memory.name] + at,
                    "asked": hashlib.sha256(question.encode()).hexdigest()[:8],
                    "log_p": log_p,
                    "lexical": [round(float(words[position]), 3) for position in places],
                    "shared": [round(float(shared[position]), 3) for position in places],
                    "answering": [sorted(places[position] for position in own if position in places) for own in gold],
                }
                out.write(json.dumps(line, ensure_ascii=False) + "\n")
            asked[memory.name] += len(memory.asked)
            print(memory.name, len(range(0, len(memory.asked), given.every)), flush=True)


def recall(line: Line, words: str, weight: float, k: int) -> float:
    """Share of what answers one question that stands among the first k."""
    scores = [p + weight * held for p, held in zip(line["log_p"], line[words], strict=True)]
    first = set(sorted(range(len(scores)), key=lambda at: (-scores[at], -at))[:k])  # the later first, as in retrieve
    return mean([float(bool(first.intersection(own))) for own in line["answering"]])


def report(given: argparse.Namespace) -> None:
    """Print recall, and what it gains on the first file without words; of the questions that all files have."""
    files = {path.stem: _by_question(path) for path in given.files}
    before = next(iter(files.values()))
    shared = [key for key in before if all(key in own for own in files.values())]
    for kind in dict.fromkeys(kind for kind, *_ in shared):
        keys = [key for key in shared if key[0] == kind]
        for name, own in files.items():
            for weight in WEIGHTS:
                row: Line = {"what": "ranked", "set": kind, "reader": name, "words": weight, "questions": len(keys)}
                for k in AT:
                    found = [recall(own[key], given.words, weight, k) for key in keys]
                    gained = [
                        new - recall(before[key], given.words, 0.0, k) for new, key in zip(found, keys, strict=True)
                    ]
                    row[f"@{k}"] = mean(found)
                    row[f"gained@{k}"] = [mean(gained), *interval(gained)]
                say(row)


def _by_question(path: Path) -> dict[tuple[str, int, str], Line]:
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return {(line["set"], line["question"], line["asked"]): line for line in lines}


def main() -> None:
    """Read or report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    reads = commands.add_parser("read")
    reads.add_argument("out", type=Path)
    reads.add_argument("--hypernetwork", default="shipped")
    reads.add_argument("--proposing", default="shipped")
    reads.add_argument("--locomo", type=Path)
    reads.add_argument("--passages", type=Path)
    reads.add_argument("--every", type=int, default=1, help="every which question of a memory is asked")
    reads.add_argument("--replies", action="store_true", help="told with what is answered")
    reads.add_argument("--dtype")
    reads.set_defaults(run=read)
    reports = commands.add_parser("report")
    reports.add_argument("files", type=Path, nargs="+")
    reports.add_argument("--words", choices=("shared", "lexical"), default="lexical")
    reports.set_defaults(run=report)
    given = parser.parse_args()
    given.run(given)


if __name__ == "__main__":
    main()
