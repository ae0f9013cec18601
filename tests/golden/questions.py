"""What the golden answers are asked: some of every bundled set, notes of one person, and six people told in a row."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from eval.datasets.muse import load

_BENCH = Path(__file__).parents[2] / "bench" / "experiments"
_PER_RECORD = 3


class Asked(NamedTuple):
    """A history, told one update after another, and what is asked about it."""

    name: str
    updates: tuple[str, ...]
    questions: tuple[str, ...]


def histories() -> Iterator[Asked]:
    """The same in every run: 37 questions about 11 histories."""
    for dataset, records in (
        ("mini-squad", 2),
        ("mini-multihop", 2),
        ("mini-ropes", 2),
        ("mini-math", 1),
        ("mini-code", 1),
    ):
        for one in load(dataset, limit=records):
            yield Asked(one.id, one.texts, tuple(q.question for q in one.questions[:_PER_RECORD]))
    chain = load("muse-chains", limit=1, steps=(5,))[0]
    yield Asked(f"{chain.id}@5", chain.texts, tuple(q.question for q in chain.questions[:_PER_RECORD]))
    notes = [json.loads(line) for line in (_BENCH / "notes.jsonl").read_text("utf-8").splitlines()[:8]]
    yield Asked("notes", tuple(note["note"] for note in notes), tuple(note["question"] for note in notes))
    sys.path.insert(0, str(_BENCH))
    import people

    text, asked = next(people.histories())
    yield Asked("people", (text,), tuple(question for question, _ in asked))
