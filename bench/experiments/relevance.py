"""Which questions a memory is relevant to: the gain in likelihood by the evidence, or what the judge says of it.

    python bench/experiments/relevance.py [--hypernetwork shipped] [--seed 0]

Memories of bundled records, chains after five updates, invented facts and two short notes are asked their own
questions and general ones (none of them among those that hypernetwork.py counts damage on), each plainly and in
a polite frame. Two signals: the gain in nats, doubled where question and evidence name the same (as `min_gain` was
compared with until 2026-11-25), and the judge's log-odds that the evidence answers the question. One JSON line per kind
of memory with a signal's quantiles, then one per threshold: the share of own questions that would lose memory, and of
general ones that would keep it, plain and polite.
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
from plume_memory.engine import Engine
from plume_memory.records import Transition, best_gain, join_units
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.terms import FUNCTION_WORDS, terms_of
from plume_memory.training.facts import FactSource

GENERAL = (
    "Who discovered penicillin?",
    "What is the chemical symbol for gold?",
    "Write a haiku about autumn.",
    "How do I boil an egg?",
    "Translate 'thank you' to Portuguese.",
    "What is the tallest mountain in the world?",
    "Explain photosynthesis in one sentence.",
    "What year did the Berlin Wall fall?",
    "What is 12 times 8?",
    "Who wrote Pride and Prejudice?",
    "How many continents are there?",
    "What is the speed of light?",
    "Give me a rhyme for orange.",
    "What is the currency of Japan?",
    "Summarize the plot of Hamlet.",
    "What causes rain?",
    "Who is the president of France?",
    "Make up a riddle for a child.",
    "What is Python used for?",
    "List three kinds of pasta.",
    "How deep is the Mariana Trench?",
    "What is a prime number?",
    "When was the Eiffel Tower built?",
    "Good evening! What can you do?",
    "Thanks!",
    "Can you help me write an email to my boss?",
    "What does DNA stand for?",
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


UNGATED = {"min_gain": None, "lead": None}
FRAMES = {"plain": "{}", "polite": "I hope you are well. I forgot something and need your help: {}"}


def signals(engine: Engine, index: UnitIndex, question: str, cache: CountingCache) -> dict[str, float]:
    """What the evidence of a question is worth to it, by each signal."""
    evidence = evidence_of(engine, index, question, cache)
    found, text = best_gain(evidence), join_units([one.unit for one in evidence])
    assert found is not None, "the shipped router reads the units"
    assert engine.judge is not None, "the shipped network has a judge"
    named = set(terms_of(question)) & set(terms_of(text)) - FUNCTION_WORDS
    return {"gain": found * (2 if named else 1), "answerable": engine.judge.support([(text, question, "")])[0]}


THRESHOLDS = {"gain": (5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 12.0), "answerable": (-4.0, -3.0, -2.0, -1.5, -1.0, -0.5, 0.0)}


def main() -> None:
    """Measure signals, then thresholds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypernetwork", default="shipped", help="its settings choose the evidence")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    loaded = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    engine = loaded.composed_with(loaded.policy.model_copy(update=UNGATED))
    chance = random.Random(f"bench:relevance:{given.seed}")
    found: dict[tuple[str, str, str, str], list[float]] = defaultdict(list)
    for kind, texts, own in memories(chance):
        index = UnitIndex(
            engine.segmenter.units([Transition(number, text) for number, text in enumerate(texts, start=1)])
        )
        cache = CountingCache()
        for asked, questions in (("own", own), ("general", chance.sample(GENERAL, 3))):
            for frame, words in FRAMES.items():
                for question in questions:
                    for name, value in signals(engine, index, words.format(question), cache).items():
                        found[name, kind, asked, frame].append(value)
    for (name, kind, asked, frame), values in sorted(found.items()):
        ordered = sorted(values)
        quantiles = {f"q{100 * q:.0f}": round(ordered[int(q * (len(ordered) - 1))], 2) for q in (0, 0.05, 0.5, 0.95, 1)}
        row = {"signal": name, "memory": kind, "asked": asked, "frame": frame, "questions": len(values)}
        print(json.dumps({**row, **quantiles}), flush=True)
    every: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for (name, _, asked, frame), values in found.items():
        every[name, asked, frame] += values
    for name, thresholds in THRESHOLDS.items():
        for threshold in thresholds:
            row = {"signal": name, "at": threshold}
            for (own_name, asked, frame), values in sorted(every.items()):
                if own_name == name:
                    kept = sum(value >= threshold for value in values) / len(values)
                    share = 1 - kept if asked == "own" else kept
                    row[f"{asked}_{'without' if asked == 'own' else 'with'}_memory_{frame}"] = round(share, 3)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
