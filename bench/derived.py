"""Measures what an update derives: `python bench/derived.py [--versions 10,100,1000,10000] [--threads 1]`.

Memories of these many versions, each in a database of its own, with the shipped network. In each of twenty rounds every
memory is told the same new text, so what else the machine does falls on all of them: the median seconds of an update
(append, index, network, running sum, disk), of the network alone, and the bytes on disk that an update leaves. The
updates before the rounds are appended without deriving and then derived in one go with one text's factors in place of
each of theirs, so that ten thousand versions take minutes: what the network costs depends on its text alone.

Then 500 facts of one line in 500 updates, `derive="later"`: seconds until all are appended, and until all are derived.
JSON lines, raw.
"""

import argparse
import json
import random
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import torch

from plume_memory.engine import Engine
from plume_memory.hypernet.parameterizer import Parameterizer
from plume_memory.lora.factors import LoraFactors
from plume_memory.memory import ParametricMemory

WORDS = [
    "river",
    "stone",
    "garden",
    "letter",
    "window",
    "copper",
    "winter",
    "basket",
    "market",
    "harbour",
    "ladder",
    "violin",
    "orchard",
    "lantern",
]
PLACES = ["Bern", "Zurich", "Basel", "Chur", "Zug", "Olten", "Thun", "Sion", "Lugano", "Aarau"]
NAMES = ["Ann", "Bo", "Cy", "Di", "Eve", "Fay", "Gus", "Hal", "Ida", "Jon"]


class Stood:
    """A parameterizer that may give out one text's factors for every text."""

    additive = True

    def __init__(self, real: Parameterizer) -> None:
        self._real = real
        self._same = real.parameterize(["Somebody said something."])[0]
        self.stands_in = False
        self.fingerprint, self.max_tokens, self.bias, self.shared_a = (
            real.fingerprint,
            real.max_tokens,
            real.bias,
            real.shared_a,
        )

    def parameterize(self, texts: Sequence[str]) -> list[LoraFactors]:
        """The factors of each text, or the same for all."""
        return [self._same] * len(texts) if self.stands_in else self._real.parameterize(texts)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--versions", default="10,100,1000,10000")
    parser.add_argument("--words", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--facts", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    loaded = Engine.load()
    assert loaded.parameterizer is not None, "the default model has a network"
    stood = Stood(loaded.parameterizer)
    engine = Engine(loaded.base, stood, loaded.policy)
    with ExitStack() as stack:
        grown = [Grown(stack, engine, int(count)) for count in asked.versions.split(",")]
        for one in grown:
            one.grow(stood, asked.words)
        rng, network = random.Random(0), []
        for _ in range(asked.rounds):
            text = text_of(rng, asked.words)
            network.append(seconds(lambda: stood.parameterize([text])))  # noqa: B023
            for one in rng.sample(grown, len(grown)):
                one.times.append(seconds(lambda: one.memory.update(text)))  # noqa: B023
        for one in grown:
            found = one.found() | {"over_first": statistics.median(one.times) / statistics.median(grown[0].times)}
            show(found | {"network_s": statistics.median(network), "words": asked.words, "threads": asked.threads})
    if asked.facts:
        with tempfile.TemporaryDirectory() as folder:
            show(facts(Path(folder), loaded, asked.facts) | {"threads": asked.threads})


class Grown:
    """A memory of many versions, and what its updates took."""

    def __init__(self, stack: ExitStack, engine: Engine, count: int) -> None:
        self.folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = f"sqlite:///{self.folder / 'plume.db'}"
        self.memory = stack.enter_context(ParametricMemory.open("alice", url=url, engine=engine))
        self.times: list[float] = []
        self._count = count

    def grow(self, stood: Stood, words: int) -> None:
        """Bring it to its number of versions."""
        rng = random.Random(self._count)
        while self.memory.version < self._count - 1:
            self.memory.update(text_of(rng, words), derive=False)
        stood.stands_in = True
        self.memory.at().derive()
        stood.stands_in = False
        self.memory.update(text_of(rng, words))
        self._bytes = self._size()

    def found(self) -> dict[str, Any]:
        """The figures."""
        artifacts = [path for path in (self.folder / "plume.db.artifacts").rglob("*") if path.is_file()]
        return {
            "versions": self._count,
            "update_s": statistics.median(self.times),
            "bytes_per_update": (self._size() - self._bytes) / len(self.times),
            "artifacts": len(artifacts),
            "artifact_bytes": sum(path.stat().st_size for path in artifacts),
        }

    def _size(self) -> int:
        with closing(sqlite3.connect(self.folder / "plume.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return size(self.folder)


def facts(folder: Path, engine: Engine, count: int) -> dict[str, Any]:
    """Facts of one line, an update each."""
    rng = random.Random(0)
    lines = [f"{rng.choice(NAMES)} {i} keeps a {rng.choice(WORDS)} in {rng.choice(PLACES)}." for i in range(count)]
    with ParametricMemory.open("alice", url=f"sqlite:///{folder / 'plume.db'}", engine=engine) as memory:
        start = time.perf_counter()
        for line in lines:
            memory.update(line, derive="later")
        told = time.perf_counter() - start
        memory.flush()
        whole = time.perf_counter() - start
        found = {"facts": count, "appended_s": told, "derived_s": whole, "artifact_bytes": size(folder)}
        return found | {"update_s": statistics.median(seconds(lambda: memory.update("And more.")) for _ in range(5))}


def text_of(rng: random.Random, words: int) -> str:
    """Sentences of about ten words."""
    sentences = []
    for _ in range(max(1, words // 10)):
        said = " ".join(rng.choice(WORDS) for _ in range(5))
        sentences.append(f"{rng.choice(NAMES)} in {rng.choice(PLACES)} has the {said}.")
    return " ".join(sentences)


def size(folder: Path) -> int:
    """Bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def show(found: dict[str, Any]) -> None:
    """One JSON line."""
    print(json.dumps({k: round(v, 4) if isinstance(v, float) else v for k, v in found.items()}), flush=True)


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
