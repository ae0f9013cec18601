"""A memory with vectors: of each version as many as units, and none of an erased text."""

import sqlite3
from pathlib import Path

import pytest
import torch

from plume_memory.answering.pinned import Snapshot
from plume_memory.engine import Engine
from plume_memory.hypernet.embedding import EmbeddingWeights
from plume_memory.memory import ParametricMemory
from plume_memory.policy import AnswerPolicy
from plume_memory.testing import HashParameterizer, tiny_base

TOLD = 40


@pytest.fixture(scope="module")
def engine() -> Engine:
    base = tiny_base()
    E, chance = base.config.hidden_size, torch.Generator().manual_seed(3)
    text, question = (torch.randn(8, E, generator=chance) for _ in range(2))
    embedding = EmbeddingWeights(text, torch.zeros(8), question, torch.zeros(8), "of no file")
    policy = AnswerPolicy(max_new_tokens=4, unit_tokens=64, retrieval="reader")
    return Engine(base, HashParameterizer(base, shares_a=True, additive=True), policy, embedding=embedding)


def ranked(pinned: Snapshot) -> set[int]:
    """Positions of all units, as a question ranks them."""
    found = pinned.route("Who lives in Bern?", k=999)
    assert sorted(pinned._embedded.nearest("Who lives in Bern?")) == sorted(one.unit.position for one in found)
    return {one.unit.version for one in found}


def kept(folder: Path) -> int:
    with sqlite3.connect(folder / "plume.db") as database:
        return int(database.execute("select count(*) from derivations where kind = 'vectors'").fetchone()[0])


def test_every_version_has_the_vectors_of_its_units_and_an_erasure_takes_them(engine: Engine, tmp_path: Path) -> None:
    with ParametricMemory.open("a", url=f"sqlite:///{tmp_path}/plume.db", engine=engine) as memory:
        for number in range(TOLD):
            memory.update(f"Person{number} lives in town{number}.\n\n# Pets\n- a cat\n- {number} fish", derive=False)
        assert ranked(memory.at()) == set(range(1, TOLD + 1))
        assert kept(tmp_path) == TOLD
        assert ranked(memory.at(version=20)) == set(range(1, 21))
        memory.rollback(to=30)
        memory.update("Ida lives in Bern.")
        assert ranked(memory.at()) == {*range(1, 31), TOLD + 2}
        memory.forget(3)
        assert 3 not in ranked(memory.at())
        fork = memory.fork("b")
        assert ranked(fork.at()) == ranked(memory.at())
        memory.erase(6, derive=False)
        assert kept(tmp_path) == 0, "whose text it was, nobody can tell from a vector: all are made again"
        for one in (memory, fork):
            assert 6 not in ranked(one.at())


def test_a_small_memory_has_no_vectors(engine: Engine, tmp_path: Path) -> None:
    with ParametricMemory.open("a", url=f"sqlite:///{tmp_path}/plume.db", engine=engine) as memory:
        memory.update("Ida lives in Bern.")
        memory.ask("Who lives in Bern?")
        assert kept(tmp_path) == 0
