"""What `memory.recall` gives of LoCoMo conversations: the share of gold turns in its notes, and how often it is silent.

    python bench/experiments/recalled.py [--conversations 1] [--questions 25]

Each session of a conversation is one update, as in locomo.py. Three selections from one ranking: what recall gives;
what holds by words and recency alone (recency.py), where the relevance gate passes it; and the ranking's head without
a gate. Silence is counted on questions that the conversation answers, on unanswerable ones (category 5), and on
messages that ask nothing of a memory. Data: see locomo.py.
"""

import argparse
import gzip
import json
import random
import time

from common import data_folder, mean, say
from locomo import asked, told, turns_of

from plume_memory import ParametricMemory
from plume_memory.engine import Engine
from plume_memory.recalling.notes import Note
from plume_memory.records import ScoredUnit, Unit

AT = (5, 10)
IDLE = (
    "Hi!",
    "Thanks, that helps a lot!",
    "Write me a haiku about rain",
    "What is 17 times 23?",
    "Who won the world cup in 1998?",
    "Explain quicksort",
    "How are you today?",
    "Translate good morning to French",
    "What is the capital of Peru?",
    "ok",
)


def main() -> None:
    """Tell, recall, count."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conversations", type=int, default=1)
    parser.add_argument("--questions", type=int, default=25, help="of each conversation, and half as many unanswerable")
    given = parser.parse_args()
    engine = Engine.load("smollm2-135m")
    with gzip.open(data_folder() / "qa" / "locomo_dev5.json.gz", "rt", encoding="utf-8") as file:
        entries = json.load(file)[: given.conversations]
    found: dict[str, list[float]] = {}
    silent: dict[str, list[float]] = {"answerable": [], "unanswerable": [], "idle": []}
    seconds: list[float] = []
    for entry in entries:
        transitions, turns = told(entry["conversation"])
        with ParametricMemory.open(entry["sample_id"], url="sqlite://", engine=engine) as memory:
            for transition in transitions:
                memory.update(transition.text, derive=False)
            for question, gold in asked(entry["qa"], given.questions, entry["sample_id"]):
                begun = time.monotonic()
                recalled = {k: memory.recall(question, k=k, max_tokens=10**6).notes for k in AT}
                seconds.append((time.monotonic() - begun) / len(AT))
                silent["answerable"].append(not recalled[AT[-1]])
                ranked = memory.route(question, k=AT[-1])
                for k in AT:
                    selections = {
                        "recall": [_unit(note) for note in recalled[k]],
                        "what holds by words and recency": [one for one in ranked[:k] if not one.superseded],
                        "no gate": ranked[:k],
                    }
                    for name, some in selections.items():
                        names = set(turns_of(some, turns))
                        found.setdefault(f"{name} @{k}", []).append(mean([one in names for one in gold]))
            unasked = [qa["question"] for qa in entry["qa"] if qa.get("category") == 5]
            for question in random.Random(0).sample(unasked, min(given.questions // 2, len(unasked))):
                silent["unanswerable"].append(not memory.recall(question))
            silent["idle"] += [not memory.recall(said) for said in IDLE]
    say({"questions": len(seconds), "seconds": round(mean(seconds), 2)})
    say({"gold turns": {name: round(mean(values), 3) for name, values in found.items()}})
    say({"silent": {name: round(mean(values), 3) for name, values in silent.items()}})


def _unit(note: Note) -> ScoredUnit:
    return ScoredUnit(Unit(0, note.version, note.span.start, note.span.end, note.text), note.score)


if __name__ == "__main__":
    main()
