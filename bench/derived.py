"""Measures what an update derives: `python bench/derived.py [--versions 10,100,1000,10000] [--threads 1]`.

One memory with the shipped network. At each number of versions: the median seconds of the last ten updates (append,
index, network, running sum, disk), of the network alone on the same texts, and the bytes on disk. The updates before
those are appended without deriving and then derived in one go with one text's factors in place of each of theirs, so
that ten thousand versions take minutes: what the network costs depends on its text alone, and it is timed on the last
ten.

Then 500 facts of one line in 500 updates: derived together at the end (`derive="later"`), and a second process's first
reading. JSON lines, raw.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from plume_memory.engine import Engine
from plume_memory.hypernet.parameterizer import Parameterizer
from plume_memory.lora.factors import LoraFactors
from plume_memory.memory import ParametricMemory

MEASURED = 10
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
    parser.add_argument("--facts", type=int, default=500)
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    torch.set_num_threads(asked.threads)
    loaded = Engine.load()
    assert loaded.parameterizer is not None, "the default model has a network"
    stood = Stood(loaded.parameterizer)
    engine = Engine(loaded.base, stood, loaded.policy)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'plume.db'}"
        with ParametricMemory.open("alice", url=url, engine=engine) as memory:
            for count in (int(number) for number in asked.versions.split(",")):
                show(grow(memory, stood, Path(folder), count, asked.words) | {"threads": asked.threads})
        show(reopened(url, engine))
    if asked.facts:
        with tempfile.TemporaryDirectory() as folder:
            show(facts(Path(folder), loaded, asked.facts) | {"threads": asked.threads})


def grow(memory: ParametricMemory, stood: Stood, folder: Path, count: int, words: int) -> dict[str, Any]:
    """Bring a memory to `count` versions and measure the last of them."""
    rng = random.Random(count)
    while memory.version < count - MEASURED:
        memory.update(text_of(rng, words), derive=False)
    stood.stands_in = True
    memory.at().derive()
    stood.stands_in = False
    memory.update(text_of(rng, words))  # the first after a pause warms what a process warms
    disk, version = size(folder), memory.version
    texts = [text_of(rng, words) for _ in range(MEASURED)]
    network = [seconds(lambda: stood.parameterize([text])) for text in texts]  # noqa: B023
    times = [seconds(lambda: memory.update(text)) for text in texts]  # noqa: B023
    return {
        "versions": memory.version,
        "update_s": statistics.median(times),
        "network_s": statistics.median(network),
        "bytes_per_update": (size(folder) - disk) / (memory.version - version),
        "artifact_bytes": size(folder / "plume.db.artifacts"),
        "artifacts": sum(1 for path in (folder / "plume.db.artifacts").rglob("*") if path.is_file()),
    }


def reopened(url: str, engine: Engine) -> dict[str, Any]:
    """What the first reading of a process pays: the log, the units and the sum from disk."""
    other = Engine(engine.base, engine.parameterizer, engine.policy)
    with ParametricMemory.open("alice", url=url, engine=other) as memory:
        return {"reopened_at": memory.version, "derive_s": seconds(lambda: memory.at().derive())}


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
