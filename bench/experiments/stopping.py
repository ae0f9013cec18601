"""What would be saved by reading no further where a candidate cannot win any more? An exact bound, offline.

    python bench/experiments/stopping.py OUT.jsonl [--questions 60]

Log p of a question behind a text is a sum of token log p, none above 0: half of the tokens bound the whole. The best
`FIRST` candidates by words are scored whole; of the others the first half, and the rest only where the bound reaches
the third best so far, less what a later rule may forgive (`FORGIVEN`). Chains of twenty updates, up to 32 texts.
"""

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path

from policies import transitions

from plume_memory.engine import Engine
from plume_memory.records import Transition
from plume_memory.retrieval.retrieve import SHORTLIST, TIED

FIRST = 4
FORGIVEN = 0.85
"""Nats a token."""


def saved(log_p: Sequence[Sequence[float]]) -> float:
    """Share of the tokens that need not be scored.

    Args:
        log_p: of each token of the question, by candidate, the best by words first.
    """
    tokens = len(log_p[0])
    half = (tokens + 1) // 2
    third = sorted((sum(own) / tokens for own in log_p[:FIRST]), reverse=True)[:3][-1]
    spared = sum(tokens - half for own in log_p[FIRST:] if sum(own[:half]) / tokens < third - FORGIVEN)
    return spared / (tokens * len(log_p))


def main() -> None:
    """Write a line for each question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--questions", type=int, default=60)
    given = parser.parse_args()
    engine, left = Engine.load("smollm2-135m"), given.questions
    with given.out.open("a", encoding="utf-8") as file:
        for name, transition in transitions(None):
            if name != "muse-chains":
                continue
            told = tuple(Transition(number, text) for number, text in enumerate(transition.texts, start=1))
            index = engine.index(engine.segmenter.units(told))
            for question in transition.questions[:left]:
                texts = [one.unit.text for one in index.best(question.question, k=SHORTLIST, tied=TIED)]
                begun = time.perf_counter()
                log_p = engine.reader.log_probs(texts, question.question)
                spent = time.perf_counter() - begun
                line = {"question": question.id, "texts": len(texts), "tokens": len(log_p[0]), "saved": saved(log_p)}
                file.write(json.dumps(line | {"seconds": round(spent, 3)}) + "\n")
                file.flush()
            left -= len(transition.questions)
            if left <= 0:
                return


if __name__ == "__main__":
    main()
