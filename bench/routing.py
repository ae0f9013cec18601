"""Measures the router: `python bench/routing.py [units]` (default 10,000 units of 100 words).

Prints the time to build the index, to extend it by one unit, and the latency of queries of rare words, of
common words, and of 30 common words.
"""

import random
import statistics
import sys
import time
from collections.abc import Sequence

from plume_memory.records import Unit
from plume_memory.retrieval.lexical import UnitIndex

VOCABULARY = 20_000
WORDS_PER_UNIT = 100


def make_units(number: int, *, seed: int = 0) -> list[Unit]:
    """Make units whose words follow Zipf's law: w0 is in nearly every unit, as "the" is."""
    rng = random.Random(seed)
    words = [f"w{rank}" for rank in range(VOCABULARY)]
    weights = [1 / (rank + 1) for rank in range(VOCABULARY)]
    drawn = rng.choices(words, weights, k=number * WORDS_PER_UNIT)
    texts = (" ".join(drawn[i * WORDS_PER_UNIT : (i + 1) * WORDS_PER_UNIT]) for i in range(number))
    return [Unit(position, position + 1, 0, len(text), text) for position, text in enumerate(texts)]


def latencies_ms(index: UnitIndex, queries: Sequence[str]) -> list[float]:
    """Route each query once and return the times."""
    times = []
    for query in queries:
        start = time.perf_counter()
        index.route(query, delta=0.5)
        times.append(1000 * (time.perf_counter() - start))
    return times


def main() -> None:
    """Print the figures."""
    units = make_units(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
    start = time.perf_counter()
    index = UnitIndex(units)
    print(f"build, {len(units)} units: {time.perf_counter() - start:.2f} s")

    times, grown = [], UnitIndex()
    for unit in units:
        start = time.perf_counter()
        grown = grown.extended([unit])
        times.append(1000 * (time.perf_counter() - start))
    print(f"extend by one unit: median {statistics.median(times):.2f} ms, max {max(times):.1f} ms")

    rng = random.Random(1)
    kinds = {
        "10 rare words": [" ".join(f"w{rng.randrange(1000, VOCABULARY)}" for _ in range(10)) for _ in range(200)],
        "10 common words": [" ".join(f"w{rng.randrange(40)}" for _ in range(10)) for _ in range(200)],
        "30 commonest words": [" ".join(f"w{i}" for i in range(30))] * 50,
    }
    for name, searched in (("built at once", index), ("grown unit by unit", grown)):
        for kind, queries in kinds.items():
            found = latencies_ms(searched, queries)
            print(f"{name}, {kind}: median {statistics.median(found):.2f} ms, max {max(found):.2f} ms")


if __name__ == "__main__":
    main()
