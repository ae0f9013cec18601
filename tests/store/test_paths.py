"""Which file a URL names, and where what is derived goes."""

from pathlib import Path

import pytest

from plume_memory.errors import StoreUnavailable
from plume_memory.memory import ParametricMemory
from plume_memory.pool import MemoryPool
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.store.paths import database_file, default_artifacts, is_missing_file


@pytest.mark.parametrize("written", ["~/own.db", "file:~/own.db?uri=true"])
def test_a_tilde_in_a_url_is_the_users_folder(tmp_path: Path, workdir: Path, monkeypatch, written: str):
    home = tmp_path / "home dir"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    url = f"sqlite:///{written}"
    assert is_missing_file(url)
    with Database(url) as database:
        Log(database).create("alice")
    assert (home / "own.db").exists()
    assert not is_missing_file(url)
    assert default_artifacts(url) == f"{home / 'own.db'}.artifacts"


@pytest.mark.parametrize("written", ["own.db", "file:own.db?uri=true"])
def test_a_relative_url_is_that_of_the_folder_it_was_opened_in(tmp_path: Path, monkeypatch, written: str):
    """Whatever folder the program works in when the database is first used."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with Database(f"sqlite:///{written}") as database, MemoryPool(f"sqlite:///{written}") as pool:
        monkeypatch.chdir(tmp_path / "elsewhere")
        Log(database).create("alice")
        pool.memory("bob")
    assert (tmp_path / "own.db").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_missing_folder_is_said_with_the_command_that_makes_it(workdir: Path):
    with Database("sqlite:///not there/own.db") as database:
        with pytest.raises(StoreUnavailable, match=rf"mkdir -p '{workdir}/not there'$"):
            Log(database).names()


@pytest.mark.parametrize("url", ["sqlite:///own.db", "postgresql://plume@db.example/plume"])
def test_a_variable_names_where_what_is_derived_goes(workdir: Path, monkeypatch, url: str):
    monkeypatch.setenv("PLUME_ARTIFACTS", "s3://bucket/plume")
    assert default_artifacts(url) == "s3://bucket/plume"
    assert default_artifacts("sqlite://").startswith("memory://")
    monkeypatch.setenv("PLUME_ARTIFACTS", "kept")
    assert default_artifacts(url) == str(workdir / "kept")


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory&uri=true"])
def test_a_database_in_memory_names_no_file(url: str):
    assert database_file(url) is None
    assert default_artifacts(url).startswith("memory://")
    assert default_artifacts(url) != default_artifacts(url)


def test_what_databases_in_memory_derive_goes_with_them():
    import fsspec

    kept = fsspec.filesystem("memory").store
    before = set(kept)
    with ParametricMemory.open("alice", url="sqlite://") as one, MemoryPool("sqlite://") as pool:
        one._artifacts.put(b"bytes")
        pool.memory("bob")._artifacts.put(b"bytes")
        assert len(set(kept) - before) == 2
    assert set(kept) == before
