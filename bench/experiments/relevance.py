"""Which questions a memory is relevant to: the gain in likelihood by the evidence, and the threshold `min_gain` on it.

    python bench/experiments/relevance.py [--hypernetwork shipped] [--seed 0]

Memories of bundled records, chains after five updates, invented facts and two short notes are asked their own
questions and general ones (none of them among those that hypernetwork.py counts damage on), each plainly and in
a polite frame. Gain is what `min_gain` is compared with (answering/evidence.py), in nats, twice as much where half
of it is enough: the question and its evidence name the same. One JSON line
per kind of memory with the gain's quantiles, then one per threshold: the share of own questions that would lose memory,
and of general ones that would keep it, plain and polite.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from common import NEWER

from eval.caches import CountingCache
from eval.datasets.muse import load
from plume_memory.answering.answer import evidence_of
from plume_memory.answering.evidence import share_needed
from plume_memory.engine import Engine
from plume_memory.records import Transition, best_gain, join_units
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.training.facts import FactSource

GENERAL = (
    "Who discovered penicillin?",
    "What is the chemical symbol for gold?",
    "Write a haiku about autumn.",
    "How do I boil an egg?",
    "Translate 'good morning' to Spanish.",
    "What is the tallest mountain in the world?",
    "Explain photosynthesis in one sentence.",
    "What year did World War II end?",
    "What is 12 times 8?",
    "Who wrote Pride and Prejudice?",
    "How many continents are there?",
    "What is the speed of light?",
    "Give me a synonym for happy.",
    "What is the currency of Japan?",
    "Summarize the plot of Hamlet.",
    "What causes rain?",
    "Who is the president of France?",
    "Tell me a joke.",
    "What is Python used for?",
    "List three kinds of pasta.",
    "How far is the moon from the earth?",
    "What is a prime number?",
    "When was the Eiffel Tower built?",
    "Hello, how are you?",
    "Thanks!",
    "Can you help me write an email to my boss?",
    "What does HTTP stand for?",
    "Which gas do plants absorb?",
)
RECORDS = {"mini-squad": 8, "mini-ropes": 5, "mini-multihop": 6, "mini-math": 4, "mini-code": 4, "muse-chains": 3}
NOTES = ("Alice lives in Bern.", "Alice moved to Zurich.")
ABOUT_NOTES = ("Where does Alice live?", "Where does she live now?", "What do you know about Alice?")


def memories(chance: random.Random) -> list[tuple[str, Sequence[str], Sequence[str]]]:
    """(kind, texts, own questions) of every memory."""
    found: list[tuple[str, Sequence[str], Sequence[str]]] = [("notes", NOTES, ABOUT_NOTES)]
    for name, records in RECORDS.items():
        for transition in load(name, limit=records, steps=(5,)):
            found.append((name, transition.texts, [q.question for q in transition.questions[:4]]))
    source = FactSource("facts", smallest=4, exclude_families=NEWER)
    notes = (json.loads(line) for line in (Path(__file__).parent / "notes.jsonl").read_text("utf-8").splitlines())
    found += [("one note", (own["note"],), (own["question"],)) for own in notes]
    for sample in (source.draw(chance, largest=4, update=False) for _ in range(8)):
        found.append(("facts", [sample.text], [ask.question for ask in sample.asks]))
    return found


FRAMES = {"plain": "{}", "polite": "I hope you are well. I forgot something and need your help: {}"}


def gain(engine: Engine, index: UnitIndex, question: str, cache: CountingCache) -> float:
    """How much likelier the best unit of the evidence makes the question."""
    evidence = evidence_of(engine, index, question, cache)
    found = best_gain(evidence)
    assert found is not None, "the shipped router reads the units"
    return found / share_needed(question, join_units([one.unit for one in evidence]))


def main() -> None:
    """Measure gains, then thresholds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypernetwork", default="shipped", help="its settings choose the evidence")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    loaded = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    engine = loaded.composed_with(loaded.policy.model_copy(update={"min_gain": None, "lead": None}))
    chance = random.Random(f"bench:relevance:{given.seed}")
    gains: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for kind, texts, own in memories(chance):
        index = UnitIndex(
            engine.segmenter.units([Transition(number, text) for number, text in enumerate(texts, start=1)])
        )
        cache = CountingCache()
        for asked, questions in (("own", own), ("general", chance.sample(GENERAL, 3))):
            for frame, words in FRAMES.items():
                gains[kind, asked, frame] += [
                    gain(engine, index, words.format(question), cache) for question in questions
                ]
    for (kind, asked, frame), values in sorted(gains.items()):
        ordered = sorted(values)
        quantiles = {f"q{100 * q:.0f}": round(ordered[int(q * (len(ordered) - 1))], 2) for q in (0, 0.05, 0.5, 0.95, 1)}
        row = {"memory": kind, "asked": asked, "frame": frame, "questions": len(values)}
        print(json.dumps({**row, **quantiles}), flush=True)
    every: dict[tuple[str, str], list[float]] = defaultdict(list)
    for (_, asked, frame), values in gains.items():
        every[asked, frame] += values
    for threshold in (5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0):
        row = {"min_gain": threshold}
        for (asked, frame), values in sorted(every.items()):
            kept = sum(value >= threshold for value in values) / len(values)
            share = 1 - kept if asked == "own" else kept
            row[f"{asked}_{'without' if asked == 'own' else 'with'}_memory_{frame}"] = round(share, 3)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
