"""Seconds of one answer by stage, and from the start of a process to its first answer.

    python bench/ask.py [--threads 2] [--versions 20] [--questions 12]

A memory of so many versions of some 100 words each about one person; the first question, and those after it, each about
another person. Stages: texts read for the first time, the question scored behind them, H and states of the evidence,
prompts, decode steps, and the rest (SQL, words, fusion, Python). `start`: imports, database, model, one update, one
question, in a new process. One JSON line each; medians.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from plume_memory import Engine, ParametricMemory

NAMES = tuple(first + last for first in "BDGKLMNRST" for last in ("ela", "ita", "osa"))
TOWNS = ("Bern", "Porto", "Lyon", "Graz", "Turin", "Cork", "Bonn", "Nantes", "Ghent", "Leeds")
TRADES = ("pilot", "nurse", "cook", "judge", "baker", "tailor", "welder", "clerk")

START = """
import json, sys, tempfile, time
begun = time.perf_counter()
import plume_memory
imported = time.perf_counter()
with plume_memory.ParametricMemory.open("a", url=f"sqlite:///{tempfile.mkdtemp()}/log.db") as memory:
    memory.engine
    loaded = time.perf_counter()
    memory.update("Alice moved from Bern to Zurich.")
    updated = time.perf_counter()
    memory.ask("Where does Alice live?")
    asked = time.perf_counter()
marks = {"import": imported, "loaded": loaded, "updated": updated, "answered": asked}
print(json.dumps({name: at - begun for name, at in marks.items()}))
"""


def about(name: str, chance: random.Random) -> str:
    """Some hundred words about one person."""
    said = [
        f"{name} lives in {chance.choice(TOWNS)}, on the {chance.choice(['third', 'first', 'top'])} floor.",
        f"{name} works as a {chance.choice(TRADES)} and likes it.",
        f"The code of {name}'s locker is {chance.randint(1000, 9999)}.",
        f"{name} has a dog called {chance.choice(NAMES)}ie, which sleeps under the table most of the day.",
        f"On {chance.choice(('Mondays', 'Fridays'))} {name} plays {chance.choice(('chess', 'tennis'))} near the river.",
    ]
    said += [f"In {year} {name} visited {chance.choice(TOWNS)} for a week in May." for year in range(2018, 2022)]
    return " ".join(said)


class Stages:
    """Adds up what functions take."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def watch(self, owner: Any, name: str, stage: str) -> None:
        """Count a method of an object to a stage."""
        own: Callable[..., Any] = getattr(owner, name)

        def timed(*given: Any, **named: Any) -> Any:
            begun = time.perf_counter()
            try:
                return own(*given, **named)
            finally:
                self.seconds[stage] = self.seconds.get(stage, 0.0) + time.perf_counter() - begun

        setattr(owner, name, timed)


def asked(versions: int, questions: int) -> list[dict[str, float]]:
    """Seconds of each question, by stage and whole."""
    engine, stages, chance = Engine.load("smollm2-135m"), Stages(), random.Random(0)
    stages.watch(engine.reader, "_read", "texts read")
    stages.watch(engine.reader, "_score", "question scored")
    stages.watch(engine.encoder, "_write", "H of evidence")
    stages.watch(engine.encoder, "_compile", "states of evidence")
    stages.watch(engine.scheduler._batch, "admit", "prompts")
    stages.watch(engine.scheduler._batch, "advance", "steps")
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        ParametricMemory.open("a", url=f"sqlite:///{Path(folder) / 'log.db'}", engine=engine) as memory,
    ):
        for n in range(versions):
            memory.update(about(NAMES[n % len(NAMES)], chance))
        for n in range(questions + 1):
            name = NAMES[n % min(versions, len(NAMES))]
            question = (f"Where does {name} live?", f"What is the code of {name}'s locker?", f"What is {name}'s job?")
            stages.seconds.clear()
            begun = time.perf_counter()
            memory.ask(question[n % 3], unknown="bare")
            whole = time.perf_counter() - begun
            found.append({**stages.seconds, "rest": whole - sum(stages.seconds.values()), "whole": whole})
    return found


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--versions", type=int, default=20)
    parser.add_argument("--questions", type=int, default=12, help="after the first")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    row = {"threads": given.threads, "versions": given.versions}
    first, *later = asked(given.versions, given.questions)
    print(json.dumps({**row, "what": "first question", **{k: round(v, 3) for k, v in first.items()}}), flush=True)
    stages = dict.fromkeys(stage for one in later for stage in one)
    medians = {stage: round(statistics.median(one.get(stage, 0.0) for one in later), 3) for stage in stages}
    print(json.dumps({**row, "what": "later questions", "questions": len(later), **medians}), flush=True)
    runs = [
        json.loads(subprocess.run([sys.executable, "-c", START], check=True, capture_output=True, text=True).stdout)
        for _ in range(3)
    ]
    best = {name: round(statistics.median(run[name] for run in runs), 2) for name in runs[0]}
    print(json.dumps({**row, "what": "start", **best}))


if __name__ == "__main__":
    main()
