"""Seconds of routing as shipped, where the model reads sentences of the history for a question.

    python bench/reading.py [--hypernetwork shipped] [--threads 1] [--questions 6]

The bundled chains after twenty updates. What was read of a sentence is kept for the next question about the same memory
(`Reader`), so the first question of each chain is timed apart from those after it. One JSON line.
"""

import argparse
import json
import statistics
import time

import torch

from eval.caches import CountingCache
from eval.datasets.muse import load
from plume_memory.answering.answer import evidence_of
from plume_memory.engine import Engine
from plume_memory.records import Transition
from plume_memory.retrieval.lexical import UnitIndex


def main() -> None:
    """Time, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hypernetwork", default="shipped")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--questions", type=int, default=6, help="of each chain")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    engine = Engine.load("smollm2-135m", hypernetwork=given.hypernetwork)
    first: list[float] = []
    later: list[float] = []
    for chain in load("muse-chains", steps=(20,)):
        index = UnitIndex(engine.segmenter.units([Transition(n, text) for n, text in enumerate(chain.texts, start=1)]))
        cache = CountingCache()
        for number, question in enumerate(chain.questions[: given.questions]):
            begun = time.perf_counter()
            evidence_of(engine, index, question.question, cache)
            (first if number == 0 else later).append(time.perf_counter() - begun)
    row = {
        "threads": given.threads,
        "dtype": str(engine.base.dtype),
        "chains": len(first),
        "later_questions": len(later),
    }
    medians = {"first_s": round(statistics.median(first), 2), "later_s": round(statistics.median(later), 2)}
    print(json.dumps({**row, **medians}))


if __name__ == "__main__":
    main()
