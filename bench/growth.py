"""How a memory and a pool grow: `python bench/growth.py [--units 100000] [--memories 10000] [--asked 200]`.

A memory of so many units of a dozen words: seconds to index them, milliseconds to add one more, and to choose by words
those that the reader reads for a question. A pool of so many memories, told one fact each, then asked in a random
order: resident memory before, in the middle and at the end. JSON lines, raw.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from plume_memory import Engine, MemoryPool
from plume_memory.records import Unit
from plume_memory.retrieval.retrieve import SHORTLIST, TIED

NAMES = ["Ann", "Bo", "Cy", "Di", "Eve", "Fay", "Gus", "Hal", "Ida", "Jon"]
PLACES = ["Bern", "Porto", "Lyon", "Graz", "Turin", "Cork", "Bonn", "Nantes", "Ghent", "Leeds"]
WORDS = 20_000
"""Of the vocabulary that units are drawn from."""


def resident_mib() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096 / 2**20


def drawn(chance: random.Random, position: int) -> Unit:
    """A unit of twelve words, the frequent ones as frequent as in a language (Zipf)."""
    text = " ".join(f"w{int(WORDS ** chance.random())}" for _ in range(12))
    return Unit(position, position + 1, 0, len(text), text)


def timed(call: Callable[[], object]) -> float:
    """Milliseconds of a call."""
    begun = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - begun)


def of_units(engine: Engine, count: int) -> dict[str, float]:
    """What words take in one memory."""
    chance = random.Random(0)
    units = [drawn(chance, position) for position in range(count)]
    begun = time.perf_counter()
    index = engine.index(units)
    built = time.perf_counter() - begun
    more = [drawn(chance, count)]
    questions = [drawn(chance, 0).text for _ in range(50)]
    chosen = [timed(partial(index.best, asked, k=SHORTLIST, tied=TIED)) for asked in questions]
    return {
        "units": count,
        "index_s": round(built, 2),
        "extend_ms": round(statistics.median(timed(lambda: index.extended(more)) for _ in range(20)), 2),
        "shortlist_ms": round(statistics.median(chosen), 2),
        "shortlist_max_ms": round(max(chosen), 2),
    }


def of_memories(engine: Engine, count: int, asked: int, folder: str) -> dict[str, object]:
    """What a pool of many memories holds, and how many answers are right."""
    chance = random.Random(0)
    homes = [chance.choice(PLACES) for _ in range(count)]
    with MemoryPool(f"sqlite:///{folder}/plume.db", engine=engine) as pool:
        begun = time.perf_counter()
        for number, home in enumerate(homes):
            name = NAMES[number % len(NAMES)]
            pool.memory(f"owner-{number}").update(f"{name} lives in {home}.", derive=False)
        told = time.perf_counter() - begun
        held = [resident_mib()]
        right, times = 0, []
        for turn, number in enumerate(chance.sample(range(count), asked)):
            begun = time.perf_counter()
            answer = pool.memory(f"owner-{number}").ask(f"Where does {NAMES[number % len(NAMES)]} live?")
            times.append(time.perf_counter() - begun)
            right += homes[number] in answer.text
            if turn + 1 in (asked // 2, asked):
                held.append(resident_mib())
    disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return {
        "memories": count,
        "updates_a_second": round(count / told, 1),
        "asked": asked,
        "right": right,
        "ask_s": round(statistics.median(times), 3),
        "rss_mib": [round(one) for one in held],
        "disk_kb_a_memory": round(disk / count / 1000, 2),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, default=100_000)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--asked", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    engine = Engine.load("smollm2-135m")
    print(json.dumps(of_units(engine, given.units)), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(of_memories(engine, given.memories, given.asked, folder)), flush=True)


if __name__ == "__main__":
    main()
