"""`plume demo`: the main job on original text, with the real model, printing what it really got."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from plume_memory.answering.pinned import Snapshot
from plume_memory.cli.output import ERR, OUT, add_row, emit, table
from plume_memory.engine import Engine, Progress
from plume_memory.memory import ParametricMemory
from plume_memory.records import Answer

HISTORY = (
    "The Harrow Lane Archive keeps the papers of the town of Brennick. Its director is Odile Farrant, who came "
    "from the Museum of Clocks. The reading room opens on Tuesdays and Thursdays. The oldest paper is a ferry "
    "licence from 1634. Visitors must leave their bags in a green locker. The roof was paid for by the bakers' guild."
)
UPDATE = (
    "The Harrow Lane Archive of Brennick has a new director: Tomas Velling, who came from the School of Maps. "
    "The reading room now opens on Mondays and Saturdays."
)


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
    Question("What is the oldest paper in the archive?", ("ferry licence",), ("ferry licence",)),
    Question("Where must visitors leave their bags?", ("green locker",), ("green locker",)),
    Question("Who paid for the roof?", ("bakers",), ("bakers",)),
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


def run_demo(model: str, hypernetwork: str, progress: Progress, as_json: bool) -> None:
    """Write a history into weights, update it, ask before and after, and go back in time."""
    started = time.monotonic()
    _say(f"Loading {model} ...")
    engine = Engine.load(model, hypernetwork=hypernetwork, progress=progress)
    with tempfile.TemporaryDirectory(prefix="plume-demo-") as folder:
        url = f"sqlite:///{Path(folder) / 'demo.db'}"
        with ParametricMemory.open("archive", url=url, engine=engine) as memory:
            outcomes, past, seconds = _play(memory)
            _report(outcomes, past, seconds, time.monotonic() - started, as_json)


def _play(memory: ParametricMemory) -> tuple[list[Outcome], list[Answer], dict[str, float]]:
    seconds = {}
    begun = time.monotonic()
    _say("Writing the history into the weights ...")
    memory.update(HISTORY)
    seconds["history"] = time.monotonic() - begun
    first = _answers(memory.at())
    _say("Writing the update into the weights ...")
    begun = time.monotonic()
    memory.update(UPDATE)
    seconds["update"] = time.monotonic() - begun
    begun = time.monotonic()
    second = _answers(memory.at())
    seconds["five answers"] = time.monotonic() - begun
    outcomes = [
        Outcome(q.text, q.affected, a, _right(a, q.before), b, _right(b, q.after))
        for q, a, b in zip(QUESTIONS, first, second, strict=True)
    ]
    _say("Going back to version 1 ...")
    past = [memory.at(version=1).ask(q.text, max_new_tokens=48) for q in QUESTIONS if q.affected]
    return outcomes, past, seconds


def _answers(snapshot: Snapshot) -> list[Answer]:
    return snapshot.ask_many([q.text for q in QUESTIONS], max_new_tokens=48)


def _right(answer: Answer, needed: tuple[str, ...]) -> bool:
    return all(part.lower() in answer.text.lower() for part in needed)


def _report(
    outcomes: list[Outcome], past: list[Answer], seconds: dict[str, float], total: float, as_json: bool
) -> None:
    same = [p.text == o.before.text for p, o in zip(past, [o for o in outcomes if o.affected], strict=True)]
    score = {
        "before": sum(o.before_right for o in outcomes),
        "after": sum(o.after_right for o in outcomes),
        "affected followed": sum(o.after_right for o in outcomes if o.affected),
        "kept": sum(o.after_right for o in outcomes if not o.affected),
        "time travel identical": sum(same),
        "seconds": {**{k: round(v, 1) for k, v in seconds.items()}, "total": round(total, 1)},
    }
    emit({"outcomes": outcomes, "time_travel": past, "score": score}, as_json, lambda: _tables(outcomes, score))


def _tables(outcomes: list[Outcome], score: dict[str, object]) -> None:
    rows = table("question", "before the update", "after the update", "evidence", "λ")
    for o in outcomes:
        evidence = f"version {o.after.evidence.unit.version}" if o.after.evidence else "none"
        add_row(
            rows,
            f"{'affected' if o.affected else 'kept'}: {o.question}",
            f"{'✓' if o.before_right else '✗'} {o.before.text.strip()}",
            f"{'✓' if o.after_right else '✗'} {o.after.text.strip()}",
            evidence,
            f"{o.after.mean_weight:.2f}",
        )
    OUT.print(rows)
    affected = sum(o.affected for o in outcomes)
    OUT.print(
        f"\nbefore {score['before']}/{len(outcomes)} right · after {score['after']}/{len(outcomes)} right "
        f"({score['affected followed']}/{affected} followed, {score['kept']}/{len(outcomes) - affected} kept) · "
        f"version 1 answers as before: {score['time travel identical']}/{affected}"
    )
    OUT.print(f"seconds: {score['seconds']}")
    OUT.print(
        '\nNow yours:\n  plume update "Alice lives in Bern."\n  plume ask "Where does Alice live?"\n  plume history'
    )


def _say(line: str) -> None:
    ERR.print(line, style="dim")
