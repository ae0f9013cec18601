"""Answers a second: many memories asked at once from threads, against one by one, in turns.

    python bench/concurrency.py [--memories 32] [--threads 1] [--rounds 2]

Each memory is told three facts of its own; each is asked one question. A round asks all of them one after another, and
then all at once, a thread each. The answers of both ways are compared. One JSON line.
"""

import argparse
import json
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch

from plume_memory import Engine, MemoryPool

TOWNS = ("Bern", "Porto", "Lyon", "Graz", "Turin", "Cork", "Bonn", "Nantes", "Ghent", "Leeds")
TRADES = ("pilot", "nurse", "cook", "judge", "baker", "tailor", "welder")


def main() -> None:
    """Time, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--memories", type=int, default=32)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch")
    parser.add_argument("--rounds", type=int, default=2)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    engine = Engine.load("smollm2-135m")
    with (
        tempfile.TemporaryDirectory() as folder,
        MemoryPool(f"sqlite:///{Path(folder) / 'log.db'}", engine=engine) as pool,
    ):
        owners = [f"user-{n}" for n in range(asked.memories)]
        for n, owner in enumerate(owners):
            town, trade = TOWNS[n % len(TOWNS)], TRADES[n % len(TRADES)]
            pool.memory(owner).update(f"I live in {town}. I am a {trade}. My locker has the code {1000 + 37 * n}.")
        questions = ["Where do I live?", "What is my trade?", "What is the code of my locker?"]

        def ask(n: int) -> str:
            return pool.memory(owners[n]).ask(questions[n % 3], unknown="bare").text

        order = range(asked.memories)
        for n in order:  # what is read of a text is kept
            ask(n)
        alone: list[float] = []
        together: list[float] = []
        for _ in range(asked.rounds):
            begun = time.perf_counter()
            one_by_one = [ask(n) for n in order]
            alone.append(time.perf_counter() - begun)
            with ThreadPoolExecutor(asked.memories) as threads:
                begun = time.perf_counter()
                at_once = list(threads.map(ask, order))
                together.append(time.perf_counter() - begun)
        counters = engine.scheduler.counters()
    row = {
        "memories": asked.memories,
        "threads": asked.threads,
        "dtype": str(engine.base.dtype),
        "one_by_one_per_s": round(asked.memories / statistics.median(alone), 2),
        "at_once_per_s": round(asked.memories / statistics.median(together), 2),
        "ratio": round(statistics.median(a / b for a, b in zip(alone, together, strict=True)), 2),
        "same_answers": sum(a == b for a, b in zip(one_by_one, at_once, strict=True)),
        "rows_per_step": round(counters.rows / counters.steps, 1),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
