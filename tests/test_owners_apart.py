"""No owner can tell what another was told: not by how much work a guess costs, not by what an import leaves behind."""

from pathlib import Path

import pytest

from plume_memory.engine import Engine
from plume_memory.importers.archive import import_archive
from plume_memory.memory import ParametricMemory
from plume_memory.pool import MemoryPool
from plume_memory.testing import HashParameterizer, tiny_engine

SECRET = "Alice is being treated for gout."


def written(engine: Engine) -> list[str]:
    """The texts that its parameterizer was asked for since the list was cleared: the work that takes the time."""
    assert isinstance(engine.parameterizer, HashParameterizer)
    return engine.parameterizer.calls


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "another process"])
def test_a_guess_at_what_another_owner_said_costs_as_much_right_as_wrong(tmp_path: Path, restarts: bool) -> None:
    url = f"sqlite:///{tmp_path / 'plume.db'}"
    engine = tiny_engine()
    with MemoryPool(url, engine=engine) as pool:
        pool.memory("alice").update(SECRET)
        pool.memory("alice").ask("What is Alice treated for?")
    engine = tiny_engine() if restarts else engine
    with MemoryPool(url, engine=engine) as pool:
        for account, guess in (("mallory 1", SECRET), ("mallory 2", "Alice is being treated for acne.")):
            written(engine).clear()
            pool.memory(account).update(guess)
            assert guess in written(engine), "it was there already"


def test_an_owner_finds_what_was_derived_for_it(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'plume.db'}"
    with ParametricMemory.open("alice", url=url, engine=tiny_engine()) as memory:
        memory.update(SECRET)
    engine = tiny_engine()
    with ParametricMemory.open("alice", url=url, engine=engine) as memory:
        memory.at().derive()
        assert written(engine) == []


@pytest.mark.parametrize(("at", "shares"), [(None, True), (1, False)], ids=["whole", "a part"])
def test_a_fork_of_the_whole_memory_shares_what_was_derived(tmp_path: Path, at: int | None, shares: bool) -> None:
    """It holds every text; a fork of a part could be asked whether the rest says this or that."""
    url = f"sqlite:///{tmp_path / 'plume.db'}"
    with ParametricMemory.open("alice", url=url, engine=tiny_engine()) as memory:
        memory.update("Alice sails.")
        memory.update(SECRET)
        memory.fork("copy", at=at)
    engine = tiny_engine()
    with ParametricMemory.open("copy", url=url, engine=engine) as copy:
        copy.at().derive()
        assert (written(engine) == []) is shares


def test_what_an_import_brings_along_is_no_other_owners(tmp_path: Path) -> None:
    """An archive may hold whatever its maker calls the factors of a text."""
    url = f"sqlite:///{tmp_path / 'plume.db'}"
    with ParametricMemory.open("mallory", url=f"sqlite:///{tmp_path / 'other.db'}", engine=tiny_engine()) as memory:
        memory.update(SECRET)
        memory.export_archive(tmp_path / "forged.plume", artifacts=True)
    engine = tiny_engine()
    with MemoryPool(url, engine=engine) as pool:
        assert import_archive(tmp_path / "forged.plume", url=url, with_artifacts=True).artifacts == 1
        pool.memory("alice").update(SECRET)
        assert SECRET in written(engine), "alice's factors are those of the archive"
