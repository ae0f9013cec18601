"""Scores how files are cut: `python bench/forms.py [--before] [--model] [--show] [FILE …]`, over tests/data/forms.

Of how many questions some unit holds the answer together with what it is about (the words listed beside each question),
and of how many a unit does that says little else: no more than `_MOST_OTHERS` of the answers to the file's other
questions. With `--model` also of how many the unit that is retrieved first does, in the units of the shipped engine.
`--before` cuts every file as a text without a form. `--show` prints units, and what is missing.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from plume_memory.records import Transition, Unit
from plume_memory.segmentation.statements import statements_of
from plume_memory.segmentation.units import units_of

if TYPE_CHECKING:
    from plume_memory.engine import Engine

FILES = Path(__file__).parent.parent / "tests" / "data" / "forms"
_MOST_OTHERS = 2
_WORDS = 190  # of a unit; 256 tokens are about as many


class Question(NamedTuple):
    """One question about a file."""

    asked: str
    answer: str
    context: list[str]
    """Words that the unit with the answer must hold too, to be about what is asked."""


class Row(NamedTuple):
    """What was found of one question."""

    held: bool
    alone: bool
    first: bool


def questions_of() -> dict[str, list[Question]]:
    """Return the questions by file."""
    found = json.loads((FILES / "questions.json").read_text("utf-8"))
    return {file: [Question(*one) for one in questions] for file, questions in found.items()}


def text_of(file: str) -> str:
    """Return a file as an update has it, its line breaks as they are."""
    return (FILES / file).read_bytes().decode("utf-8")


def holds(unit: Unit, question: Question) -> bool:
    """Whether a unit says the answer, and what it is about."""
    text = " ".join(unit.text.split()).lower()
    return all(" ".join(part.split()).lower() in text for part in (question.answer, *question.context))


def cut(text: str, *, before: bool) -> tuple[Unit, ...]:
    """Cut a text into units, counted in words."""
    if before:
        return tuple(Unit(at, 1, 0, len(told), told) for at, told in enumerate(statements_of(text)))
    count = lambda text: len(text.split())  # noqa: E731
    return units_of([Transition(1, text)], budget_tokens=_WORDS, count_tokens=count, single_sentences=True)


def is_first(engine: "Engine", units: Sequence[Unit], questions: Sequence[Question]) -> list[bool]:
    """Whether the unit that an engine retrieves first for each question holds its answer."""
    from eval.caches import CountingCache  # noqa: PLC0415 — torch
    from plume_memory.retrieval.retrieve import retrieve  # noqa: PLC0415

    index, reader = engine.index(units), engine.reader.of(CountingCache())
    return [holds(retrieve(index, one.asked, reader, engine.policy, k=1)[0].unit, one) for one in questions]


def shipped_engine() -> "Engine":
    """Load the engine with the network that the package carries."""
    from plume_memory.engine import Engine  # noqa: PLC0415 — torch

    return Engine.load("smollm2-135m", hypernetwork="shipped")


def main() -> None:
    """Print a row for each form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("--before", "--model", "--show"):
        parser.add_argument(flag, action="store_true")
    parser.add_argument("only", nargs="*", metavar="FILE", help="parts of names")
    options = parser.parse_args()
    engine = shipped_engine() if options.model else None
    rows: dict[str, list[Row]] = defaultdict(list)
    for file, questions in questions_of().items():
        if options.only and not any(one in file for one in options.only):
            continue
        units = cut(text_of(file), before=options.before)
        first = is_first(engine, units, questions) if engine else [False] * len(questions)
        if options.show:
            print(f"--- {file}")
            for unit in units:
                print(f"{unit.start:5} {unit.text!r}")
        for question, retrieved in zip(questions, first, strict=True):
            found = [unit for unit in units if holds(unit, question)]
            alone = any(sum(holds(unit, other) for other in questions) <= 1 + _MOST_OTHERS for unit in found)
            rows[file.split("/", maxsplit=1)[0]].append(Row(bool(found), alone, retrieved))
            if options.show and not (alone and (retrieved or not options.model)):
                print(f"  MISSING {question}")
    rows["all"] = [row for found in rows.values() for row in found]
    print(f"{'':12}  of  held  alone{'  first' if options.model else ''}")
    for form, asked in rows.items():
        sums = [sum(row[at] for row in asked) for at in range(3 if options.model else 2)]
        print(f"{form:12} {len(asked):3}  {sums[0]:4}  {sums[1]:5}{f'  {sums[2]:5}' if options.model else ''}")


if __name__ == "__main__":
    main()
