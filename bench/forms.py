"""Scores how files are cut: `python bench/forms.py [--before] [--model] [--show]`, over tests/data/forms.

Without a model: of how many questions some unit holds the answer together with what it is about (every word of context
listed beside the question). With `--model`: of how many the first unit that is retrieved does. `--before` cuts as texts
without a form are. `--show` prints the units and what is missing.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from plume_memory.records import Context, ScoredUnit, Transition, Unit
from plume_memory.segmentation.units import units_of

FILES = Path(__file__).parent.parent / "tests" / "data" / "forms"


class Question(NamedTuple):
    """One question about a file."""

    asked: str
    answer: str
    context: list[str]
    """Words that the unit with the answer must hold too, to be about what is asked."""


def questions_of() -> dict[str, list[Question]]:
    """Return the questions by file."""
    found = json.loads((FILES / "questions.json").read_text("utf-8"))
    return {file: [Question(*one) for one in questions] for file, questions in found.items()}


def text_of(file: str) -> str:
    """The file as an update has it, its line breaks as they are."""
    return (FILES / file).read_bytes().decode("utf-8")


def holds(unit: Unit, question: Question) -> bool:
    """Whether a unit says the answer, and what it is about."""
    text = " ".join(unit.text.split()).lower()
    return all(" ".join(part.split()).lower() in text for part in (question.answer, *question.context))


def units(file: str, *, before: bool) -> tuple[Unit, ...]:
    """Cut a file, in words: a word is at most 1.3 tokens."""
    context = Context(form="prose") if before and not file.endswith(".none") else Context()
    return units_of(
        [Transition(1, text_of(file), context=context)],
        budget_tokens=190,
        count_tokens=lambda text: len(text.split()),
        single_sentences=True,
    )


def first_units(files: Sequence[str], *, before: bool) -> dict[tuple[str, str], ScoredUnit | None]:
    """Return what the shipped reader retrieves first for each question."""
    from plume_memory.engine import Engine  # noqa: PLC0415 — torch
    from plume_memory.retrieval.retrieve import retrieve  # noqa: PLC0415

    raise NotImplementedError(Engine, retrieve, files, before)


def main() -> None:
    """Print a row for each form."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--before", action="store_true")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    rows: dict[str, list[bool]] = defaultdict(list)
    for file, questions in questions_of().items():
        if options.only and not any(one in file for one in options.only):
            continue
        cut = units(file, before=options.before)
        if options.show:
            print(f"--- {file}")
            for unit in cut:
                print(f"{unit.start:5} {unit.text!r}")
        for question in questions:
            found = any(holds(unit, question) for unit in cut)
            rows[file.split("/", maxsplit=1)[0]].append(found)
            if options.show and not found:
                print(f"  MISSING {question}")
    for form, found in rows.items():
        print(f"{form:12} {sum(found):3} of {len(found)}")
    print(f"{'all':12} {sum(map(sum, rows.values())):3} of {sum(map(len, rows.values()))}")


if __name__ == "__main__":
    main()
