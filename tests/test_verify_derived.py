"""Factors that were derived wrongly are found, though their bytes are whole and lie under the right key."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from plume_memory.errors import ArtifactDamaged
from plume_memory.lora.files import to_bytes
from plume_memory.memory import ParametricMemory
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.derivations import Derivations
from plume_memory.testing import tiny_engine

TEXTS = ("Alice lives in Bern.", "Bob has a boat.", "Carol paints.")


@pytest.fixture
def memory(tmp_path: Path) -> ParametricMemory:
    engine = tiny_engine(additive=True)
    opened = ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine)
    for text in TEXTS:
        opened.update(text)
    return opened


def test_what_is_kept_rightly_is_compared_and_counted(memory: ParametricMemory) -> None:
    assert memory.verify().derived == 0
    assert memory.verify(derived=2).derived == 2
    assert memory.verify(derived=99).derived == len(TEXTS)


def test_what_was_derived_wrongly_is_found_and_built_anew(memory: ParametricMemory, tmp_path: Path) -> None:
    engine, database, place = memory.engine, memory._database, memory._artifacts.root_url
    key = engine.encoder.factors_key(TEXTS[1])
    another = engine.parameterizer.parameterize(["Somebody else's."])[0]  # type: ignore[union-attr]
    content = to_bytes(another)
    known = Derivations(database).lookup(key)
    assert known is not None
    sha256 = ArtifactStore(place).put(content)
    with database.write() as connection:
        for table in ("derivations", "derivation_sources"):
            connection.exec_driver_sql(f"UPDATE {table} SET sha256 = ? WHERE key = ?", (sha256, key))
    with pytest.raises(ArtifactDamaged, match="1 of 3 texts"):
        memory.verify(derived=3)
    assert memory.rebuild() == len(TEXTS)
    assert memory.verify(derived=3).derived == 3


@pytest.mark.model
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_real_network_gives_the_same_factors_again(tmp_path: Path, dtype: str) -> None:
    from plume_memory.engine import Engine

    engine = Engine.load("smollm2-135m", dtype=dtype)
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as opened:
        for text in TEXTS:
            opened.update(text)
        assert opened.verify(derived=3).derived >= 1


def test_the_command_says_how_many(tmp_path: Path) -> None:
    from plume_memory.cli.main import app

    url = f"sqlite:///{tmp_path / 'log.db'}"
    with ParametricMemory.open("default", url=url, engine=tiny_engine()) as opened:
        opened.update("Alice lives in Bern.", derive=False)
    found = CliRunner().invoke(app, ["verify", "--db", url])
    assert found.exit_code == 0, found.output
    assert "1 version verifies" in found.output
