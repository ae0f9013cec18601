"""The tiny task, as a module: it is also a script that tests start and kill. Settings and samples for tiny models."""

import importlib.util
import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from plume_memory.training.samples import Ask, Sample
from plume_memory.training.settings import TrainSettings


@pytest.fixture(scope="session")
def tiny() -> ModuleType:
    """tiny_task.py: `TinyTask`, `CardedTask`, `run_tiny`."""
    spec = importlib.util.spec_from_file_location("tiny_task", Path(__file__).with_name("tiny_task.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["tiny_task"] = module
    spec.loader.exec_module(module)
    return module


@dataclass(frozen=True)
class FixedSource:
    """Draws from a list, evenly; implements `Source`. An update needs a sample that has one."""

    samples: tuple[Sample, ...]
    name: str = "fixed"

    def draw(self, chance: random.Random, *, largest: int, update: bool) -> Sample:
        return chance.choice([s for s in self.samples if (s.update is not None) == update])


NETWORK: dict[str, Any] = {
    "kind": "fast-weight",
    "rank": 16,
    "value_width": 16,
    "taps": 2,
    "mixer_width": 16,
    "mixer_blocks": 1,
}


@pytest.fixture(scope="session")
def small() -> Callable[..., TrainSettings]:
    """Settings of a run on a tiny model; arguments replace parts, a mapping replaces what it names of a part."""

    def make(**parts: Any) -> TrainSettings:
        chosen: dict[str, Any] = {
            "model": "tiny",
            "network": NETWORK,
            "texts": 4,
            "pool": 2,
            "largest_tokens": 64,
            "objectives": {"span_tokens": 12},
            "curriculum": {"largest": [[0, 2]], "asks": 2},
            "evaluation": {"facts": [1], "texts": 3},
            "run": {"steps": 4, "warm_up": 0, "tensorboard": False, "learning_rate": 0.01},
        }
        for name, value in parts.items():
            merged = isinstance(value, dict) and "kind" not in value
            chosen[name] = {**chosen.get(name, {}), **value} if merged else value
        return TrainSettings.model_validate(chosen)

    return make


@pytest.fixture(scope="session")
def fixed() -> type[FixedSource]:
    """`FixedSource(samples)`."""
    return FixedSource


@pytest.fixture(scope="session")
def codes() -> tuple[Sample, ...]:
    """Texts that differ in one letter, and the question for it."""
    return tuple(Sample(f"The code is {c}.", (Ask("What is the code?", c),), "codes", facts=1) for c in "KQWX")


@pytest.fixture(scope="session")
def moves() -> tuple[Sample, ...]:
    """Texts with a correction, an affected question and one that stays."""
    asks = (
        Ask("Where does Al live?", "Rome", affected=True, stale="Bern"),
        Ask("What does Al eat?", "figs"),
        Ask("Who is Al's boss?", "Bo"),
    )
    first = Sample("Al lives in Bern. Al eats figs. Bo is the boss.", asks, "moves", update="Now Al lives in Rome.")
    return first, Sample("Al eats figs. Bo leads. Al is in Bern.", asks, "moves", update="Al went to Rome, Bo said.")
