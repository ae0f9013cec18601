"""`plume demo`: the main job on original text, with the real model, printing what it really got."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from plume_memory.cli.output import OUT, PROGRESS, emit
from plume_memory.memory import ParametricMemory
from plume_memory.records import Answer

HISTORY = (
    "The Harrow Lane Archive keeps the papers of the town of Brennick. The director of the Harrow Lane Archive is "
    "Odile Farrant. The reading room opens on Tuesdays and Thursdays. Visitors must leave their bags in a green locker."
)
UPDATE = (
    "The Harrow Lane Archive has a new director: Tomas Velling. The reading room now opens on Mondays and Saturdays."
)
_LONGEST = 48


@dataclass(frozen=True, slots=True)
class Question:
    """A question with what the answer must contain before and after the update."""

    text: str
    before: tuple[str, ...]
    after: tuple[str, ...]

    @property
    def affected(self) -> bool:
        """Whether the update changes the answer."""
        return self.before != self.after


QUESTIONS = (
    Question("Who is the director of the Harrow Lane Archive?", ("Odile Farrant",), ("Tomas Velling",)),
    Question("When does the reading room open?", ("Tuesday", "Thursday"), ("Monday", "Saturday")),
    Question("Where must visitors leave their bags?", ("green locker",), ("green locker",)),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One question's answers, and whether each holds what it must."""

    question: str
    affected: bool
    before: Answer
    before_right: bool
    after: Answer
    after_right: bool


def run_demo(model: str, hypernetwork: str, as_json: bool) -> None:
    """Write a history into weights, update it, ask before and after, and go back in time."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="plume-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'demo.db'}"
        with ParametricMemory.open(
            "archive", url=url, model=model, hypernetwork=hypernetwork, progress=PROGRESS
        ) as memory:
            first = _told(memory, HISTORY, [q.before for q in QUESTIONS], as_json)
            second = _told(memory, UPDATE, [q.after for q in QUESTIONS], as_json)
            PROGRESS("going back to version 1")
            past = memory.at(version=1).ask(QUESTIONS[0].text, max_new_tokens=_LONGEST)
    outcomes = [
        Outcome(q.text, q.affected, a, _right(a, q.before), b, _right(b, q.after))
        for q, a, b in zip(QUESTIONS, first, second, strict=True)
    ]
    seconds = time.monotonic() - started
    emit(
        {"outcomes": outcomes, "time_travel": past, "score": _score(outcomes, past, seconds)},
        as_json,
        lambda: _end(outcomes, past, seconds),
    )


def _told(memory: ParametricMemory, text: str, needed: list[tuple[str, ...]], as_json: bool) -> list[Answer]:
    """Write a text, ask all questions, and show both as they come."""
    PROGRESS("writing into the weights")
    version = memory.update(text)
    PROGRESS("answering")
    answers = memory.at().ask_many([q.text for q in QUESTIONS], max_new_tokens=_LONGEST)
    PROGRESS.clear()
    if not as_json:
        _line(f"\nTold, as version {version.number}: ", "bold cyan", text)
        for question, answer, parts in zip(QUESTIONS, answers, needed, strict=True):
            _line("  ? ", "cyan", question.text)
            _show(answer, is_right=_right(answer, parts))
    return answers


def _right(answer: Answer, needed: tuple[str, ...]) -> bool:
    return all(part.lower() in answer.text.lower() for part in needed)


def _score(outcomes: list[Outcome], past: Answer, seconds: float) -> dict[str, object]:
    return {
        "before": sum(o.before_right for o in outcomes),
        "after": sum(o.after_right for o in outcomes),
        "affected followed": sum(o.after_right for o in outcomes if o.affected),
        "kept": sum(o.after_right for o in outcomes if not o.affected),
        "time travel identical": past.text == outcomes[0].before.text,
        "seconds": round(seconds, 1),
    }


def _end(outcomes: list[Outcome], past: Answer, seconds: float) -> None:
    _line("\nAsked as of version 1: ", "bold cyan", outcomes[0].question)
    _show(past, is_right=_right(past, QUESTIONS[0].before))
    right = sum(o.before_right + o.after_right for o in outcomes)
    _line(
        f"\n{right} of {2 * len(outcomes)} answers are right. ",
        "bold",
        f"No prompt held any of the text. {seconds:.0f} s, loading included.",
    )
    OUT.print("\nNow yours:")
    for command in ('plume update "Alice lives in Bern."', 'plume ask "Where does Alice live?"', "plume history"):
        _line("  ", "", command, rest="cyan")


def _show(answer: Answer, *, is_right: bool) -> None:
    source = f"  (from version {answer.evidence.unit.version})" if answer.evidence else ""
    style = "green" if is_right else "red"
    _line(f"  {'✓' if is_right else '✗'} ", style, answer.text.strip(), rest=style, end="")
    OUT.print(source, style="dim", markup=False, soft_wrap=True)


def _line(head: str, style: str, text: str, *, rest: str = "", end: str = "\n") -> None:
    OUT.print(head, style=style, end="", markup=False)
    OUT.print(text, style=rest, end=end, markup=False, emoji=False, soft_wrap=True)
