"""Recall of the gold turns of LoCoMo conversations: what retrieval finds, and what words alone find.

    python bench/experiments/locomo.py [--hypernetwork shipped] [--conversations 2] [--questions 40]

Each session of a conversation is one update, its date a heading, a turn a line "Speaker: words". A question's gold
turns are named by the data (categories 1 to 4; 5 is unanswerable). Units are ranked, and turned into turns in that
order, each once; the recall at k is the share of a question's gold turns among the first k turns. One JSON line for
each ranking, with 95 % intervals over questions. Data: LoCoMo (CC BY-NC 4.0, evaluation only) in $PLUME_DATA or
../shared/data.
"""

import argparse
import gzip
import json
import random
from collections.abc import Iterator, Sequence
from typing import Any

from common import data_folder, mean, say

from eval.caches import CountingCache
from plume_memory.answering.embedded import Embedded
from plume_memory.engine import Engine
from plume_memory.records import ScoredUnit, Transition
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.retrieve import retrieve
from plume_memory.retrieval.supersede import retired
from plume_memory.segmentation.told import told_of

AT = (1, 5, 10, 32)
Turns = list[tuple[int, int, int, str]]
"""(version, first character, one past the last, name) of every turn."""


def told(conversation: dict[str, Any]) -> tuple[list[Transition], Turns]:
    """The sessions as updates, and where each turn stands."""
    transitions: list[Transition] = []
    turns: Turns = []
    number = 1
    while f"session_{number}" in conversation:
        text = f"{conversation[f'session_{number}_date_time']}\n\n"
        for turn in conversation[f"session_{number}"]:
            start = len(text)
            text += f"{turn['speaker']}: {turn['text']}\n"
            turns.append((number, start, len(text), turn["dia_id"]))
        transitions.append(Transition(number, text))
        number += 1
    return transitions, turns


def turns_of(ranked: Sequence[ScoredUnit], turns: Turns) -> list[str]:
    """Names of the turns that units lie in, in their order, each once."""
    by_version: dict[int, Turns] = {}
    for turn in turns:
        by_version.setdefault(turn[0], []).append(turn)
    found: dict[str, None] = {}
    for one in ranked:
        unit = one.unit
        for _, start, end, name in by_version[unit.version]:
            if start < unit.end and unit.start < end:
                found[name] = None
    return list(found)


def asked(entries: Sequence[dict[str, Any]], count: int, name: str) -> Iterator[tuple[str, list[str]]]:
    """(question, gold turns) of some questions, drawn evenly."""
    usable = [qa for qa in entries if qa.get("category") != 5 and qa.get("evidence")]
    chosen = random.Random(f"bench:locomo:{name}").sample(usable, min(count, len(usable)))
    for qa in chosen:
        yield qa["question"], list(dict.fromkeys(qa["evidence"]))


def interval(values: Sequence[float]) -> list[float]:
    """95 % bootstrap interval of a mean."""
    chance = random.Random(0)
    means = sorted(sum(chance.choices(values, k=len(values))) / len(values) for _ in range(2000))
    return [round(means[50], 3), round(means[1949], 3)]


def main() -> None:
    """Tell, rank, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--conversations", type=int, default=2)
    parser.add_argument("--questions", type=int, default=40, help="of each conversation")
    given = parser.parse_args()
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    recalls: dict[str, dict[int, list[float]]] = {}
    with gzip.open(data_folder() / "qa" / "locomo_dev5.json.gz", "rt", encoding="utf-8") as file:
        entries = json.load(file)[: given.conversations]
    for entry in entries:
        transitions, turns = told(entry["conversation"])
        units = engine.segmenter.units(transitions)
        index, unstemmed = engine.index(units), UnitIndex(units)
        cache = CountingCache()
        own = told_of(transitions, units)
        near = Embedded(engine.embedding, cache, own)
        gone = retired(engine.superseding.found(own, engine.index(()), cache))
        say({"what": "locomo", "conversation": entry["sample_id"], "units": len(units), "retired": len(gone)})
        for question, gold in asked(entry["qa"], given.questions, entry["sample_id"]):
            reader = engine.reader.of(cache)
            ranked = retrieve(index, question, reader, engine.policy, k=len(index), near=near, retired=gone)
            unjudged = retrieve(index, question, reader, engine.policy, k=len(index), near=near)
            by_words = retrieve(index, question, reader, engine.policy, k=len(index))
            read = [one for one in ranked if one.gain is not None]
            rankings = {
                "retrieve": ranked,
                "retrieve, nothing judged": unjudged,
                "retrieve, nothing judged, proposed by words alone": by_words,
                "the reader's score alone": sorted(read, key=lambda one: -one.score),
                "without what is superseded": [one for one in read if not one.superseded],
                "lexical": index.rank(question, delta=0.0, k=len(index)),
                "lexical, without stems": unstemmed.rank(question, delta=0.0, k=len(index)),
            }
            for name, some in rankings.items():
                found = turns_of(some, turns)
                for k in AT:
                    share = sum(one in found[:k] for one in gold) / len(gold)
                    recalls.setdefault(name, {}).setdefault(k, []).append(share)
    for name, by_k in recalls.items():
        shares = {f"@{k}": [mean(values), *interval(values)] for k, values in by_k.items()}
        say({"what": "locomo", "ranking": name, "questions": len(by_k[1]), **shares})


if __name__ == "__main__":
    main()
