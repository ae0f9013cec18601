"""Passes and seconds of answers, by how many tokens a pass reads at most: `python bench/experiments/drafts.py`.

    [--threads 2] [--dtype bfloat16] [--rounds 3]

A memory of 20 versions of some 100 words (bench/ask.py) is asked twelve questions, with each limit in turn, and again.
0 guesses nothing. One JSON line a limit, medians over rounds; whether the answers are those without guesses.
"""

import argparse
import json
import random
import statistics
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from ask import NAMES, about

import plume_memory.model.running as running
from plume_memory import Engine, ParametricMemory

LIMITS = (0, 4, 8, 16, 32)
QUESTIONS = ("Where does {} live?", "What is the code of {}'s locker?", "What is {}'s job?", "What does {} play?")


def main() -> None:
    """Ask, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    engine, chance = Engine.load("smollm2-135m", dtype=given.dtype), random.Random(0)
    seconds: dict[int, list[float]] = {limit: [] for limit in LIMITS}
    steps: dict[int, int] = {}
    answers: dict[int, list[str]] = {}
    tokens = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        ParametricMemory.open("a", url=f"sqlite:///{Path(folder) / 'log.db'}", engine=engine) as memory,
    ):
        for n in range(20):
            memory.update(about(NAMES[n], chance), derive=False)
        questions = [QUESTIONS[n % len(QUESTIONS)].format(NAMES[n]) for n in range(12)]
        for question in questions:  # what is read of a text is kept
            memory.ask(question, unknown="bare")
        for _ in range(given.rounds):
            for limit in LIMITS:
                running.GUESSED = limit
                before = engine.scheduler.counters()
                said = [memory.ask(question, unknown="bare") for question in questions]
                after = engine.scheduler.counters()
                spent = (after.seconds - after.prompt_seconds) - (before.seconds - before.prompt_seconds)
                seconds[limit].append(spent)
                steps[limit] = after.steps - before.steps
                answers[limit] = [one.text for one in said]
                tokens = sum(one.usage.completion_tokens for one in said)
    for limit in LIMITS:
        same = sum(one == other for one, other in zip(answers[limit], answers[0], strict=True))
        row = {"threads": given.threads, "dtype": str(engine.base.dtype), "tokens": tokens, "tokens_of_a_pass": limit}
        figures = {"steps": steps[limit], "seconds": round(statistics.median(seconds[limit]), 2), "same_answers": same}
        print(json.dumps({**row, **figures}), flush=True)


if __name__ == "__main__":
    main()
