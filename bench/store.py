"""Measures the log: `python bench/store.py [--url URL] [--versions 100000] [--memories 10000]`.

Appends versions of 20 words to one memory and prints, at 10, 1,000, 100,000 … of them: the median latency of the last
appends, the database's bytes per version, the time to open the memory and to read its newest history, to read one half
way and to find a version by its time, and the router's index (seconds and MiB). Then the same database holds many
memories. JSON lines, raw; by default a SQLite file in a temporary folder. Every commit is fsynced.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.segmentation.units import units_of
from plume_memory.store.database import Database
from plume_memory.store.log import Log

LAST = 200
"""Appends whose median is taken; as many as there are for the first ten."""


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="an empty database")
    parser.add_argument("--versions", type=int, default=100_000)
    parser.add_argument("--memories", type=int, default=10_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = asked.url or f"sqlite:///{Path(folder) / 'plume.db'}"
        with Database(url) as database:
            for count in [n for n in (10, 1_000, 10_000, 100_000, 1_000_000) if n <= asked.versions]:
                show(grow(database, url, count))
            show(many(database, asked.memories))


def show(found: dict[str, Any]) -> None:
    """One JSON line."""
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()}), flush=True)


def grow(database: Database, url: str, count: int) -> dict[str, Any]:
    """Append up to `count` versions and measure."""
    log = Log(database)
    log.ensure("alice")
    rng = random.Random(count)
    times = []
    for number in range(log.head_number("alice"), count):
        text = " ".join(f"w{rng.randrange(20_000)}" for _ in range(20))
        times.append(1000 * seconds(lambda: log.append("alice", text, idempotency_key=f"k{number}")))  # noqa: B023
    middle = log.version("alice", max(1, count // 2))
    history: list[Any] = []
    found = {
        "versions": count,
        "append_ms": statistics.median(times[-LAST:]),
        "append_p99_ms": sorted(times[-LAST:])[int(0.99 * len(times[-LAST:]))],
        "bytes_per_version": size(database) / count,
        "open_and_append_ms": 1000 * seconds(lambda: reopen_and_append(url)),
        "newest_history_ms": 1000 * seconds(lambda: history.append(log.history("alice"))),
        "history_half_way_ms": 1000 * seconds(lambda: log.history("alice", middle.number)),
        "at_time_ms": 1000 * seconds(lambda: log.at_time("alice", middle.created_at)),
        "verify_s": seconds(lambda: log.verify("alice")),
    }
    return found | index_of(history[0])


def reopen_and_append(url: str) -> None:
    """What a new process does first: connect, check the schema, append."""
    with Database(url) as database:
        Log(database).append("alice", "One more.", idempotency_key="the last one")


def index_of(history: Any) -> dict[str, Any]:
    """Cut a history into units and index them, as the first question of a process does."""
    tracemalloc.start()
    start = time.perf_counter()
    units = units_of(history.transitions, budget_tokens=256, count_tokens=lambda text: len(text.split()))
    index = UnitIndex(units)
    took = time.perf_counter() - start
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return {"index_s_traced": took, "index_mib": held / 2**20, "units": len(index)}


def many(database: Database, memories: int) -> dict[str, Any]:
    """Make many memories of two versions each, beside the long one."""
    log = Log(database)
    times = []
    for number in range(memories):
        name = f"owner-{number:06d}"
        times.append(1000 * seconds(lambda: log.append(name, "Alice lives in Bern.")))  # noqa: B023
        log.append(name, "Alice lives in Zurich.")
    name = f"owner-{memories // 2:06d}"
    return {
        "memories": memories,
        "first_append_ms": statistics.median(times[-LAST:]),
        "append_ms": 1000 * statistics.median(seconds(lambda: log.append(name, "And more.")) for _ in range(50)),
        "history_ms": 1000 * statistics.median(seconds(lambda: log.history(name)) for _ in range(50)),
        "names_ms": 1000 * seconds(log.names),
    }


def size(database: Database) -> int:
    """Bytes of the database."""
    with database.read() as connection:
        if connection.dialect.name == "sqlite":
            pages, page = (connection.exec_driver_sql(f"PRAGMA {p}").scalar_one() for p in ("page_count", "page_size"))
            return int(pages) * int(page)
        return int(connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one())


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
