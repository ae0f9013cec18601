"""After an erasure the bytes are nowhere: not in the database's files, not in the artifacts."""

import threading
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from plume_memory.errors import StoreUnavailable
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.derivations import Derivations
from plume_memory.store.erasure import Erasures
from plume_memory.store.log import Log
from plume_memory.store.purge import unfinished
from plume_memory.store.sources import Sources

SECRET = "Zytgloggelaube-4711"
FILLER = " and it rained that day." * 400
TEXT = f"Alice moved to {SECRET} in Bern.{FILLER}"


def holding(folder: Path, words: str = SECRET) -> list[str]:
    """The files under a folder that hold the words, as they are or with bytes between as UTF-16 has."""
    patterns = [words.encode(), words.encode("utf-16-le")]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sorted(path.name for path in files if any(pattern in path.read_bytes() for pattern in patterns))


def filled(database: Database, folder: Path) -> ArtifactStore:
    """Memory alice, two forks, and an artifact that holds her text as it is."""
    log, artifacts = Log(database), ArtifactStore(str(folder / "artifacts"))
    for number in range(1, 30):
        log.append("alice", f"This is text {number}.{FILLER}")
    log.append("alice", TEXT, metadata={"at": SECRET}, idempotency_key=f"{SECRET}-1")
    log.fork("alice", "fork")
    log.append("alice", "One more.")
    log.fork("alice", "other", at=30)
    key = "ab" * 32
    sha256 = artifacts.put(f"derived from {TEXT}".encode())
    Sources(database, "fork", last_erasure=0).note(key, sha256)
    Derivations(database).record(key, "factors", sha256, 1)
    return artifacts


@pytest.mark.parametrize("target", [{"version": 30}, {"text": SECRET}])
def test_the_bytes_are_gone_from_the_file_the_wal_and_the_artifacts(
    database: Database, tmp_path: Path, target: dict
) -> None:
    artifacts = filled(database, tmp_path)
    log = Log(database)
    with Database(database.url) as other:  # another process would be the same: its connections stay open
        assert Log(other).version("fork", 30).text == TEXT
        before = holding(tmp_path)
        assert "plume.db-wal" in before
        assert len(before) >= 2

        Erasures(database, artifacts).erase("alice", **target)

        assert holding(tmp_path) == []
        assert [log.verify(name) for name in ("alice", "fork", "other")] == [32, 31, 31]
        assert ("Alice moved to" in log.version("fork", 30).text) == ("text" in target)
        log.append("alice", "Another.")
        assert holding(tmp_path) == []


def test_a_reader_that_holds_on_is_an_error_and_the_same_call_completes_it(tmp_path: Path) -> None:
    with Database(f"sqlite:///{tmp_path / 'plume.db'}", busy_timeout_s=0.2) as database:
        artifacts = filled(database, tmp_path)
        begun, done = threading.Event(), threading.Event()

        def read() -> None:
            with database.read() as connection:
                connection.execute(sa.text("SELECT count(*) FROM versions")).scalar_one()
                begun.set()
                done.wait()

        reader = threading.Thread(target=read)
        reader.start()
        begun.wait()
        with pytest.raises(StoreUnavailable, match=r"repeat the call|busy timeout"):
            Erasures(database, artifacts).erase("alice", 30)
        assert Log(database).version("fork", 30).text == ""
        done.set()
        reader.join()

        certificate = Erasures(database, artifacts).erase("alice", 30)

        assert (certificate.version, unfinished(database)) == (32, [])
        assert holding(tmp_path) == []


def test_the_bytes_are_gone_from_postgresqls_tables(postgres: Any, tmp_path: Path) -> None:
    """Not from its write-ahead log, which the certificate says."""
    tables = next(path for path in vars(postgres).values() if isinstance(path, Path) and (path / "data").is_dir())
    name = postgres.create_database()
    with Database(postgres.url(name)) as database:
        artifacts = filled(database, tmp_path)
        with database.write() as connection:
            connection.execute(sa.text("ANALYZE versions"))
            connection.execute(sa.text("CHECKPOINT"))
        assert holding(tables / "data" / "base")

        certificate = Erasures(database, artifacts).erase("alice", 30)

        with database.write() as connection:
            connection.execute(sa.text("CHECKPOINT"))
        assert holding(tables / "data" / "base") == []
        assert holding(tmp_path) == []
        assert "write-ahead log" in certificate.to_json()
    postgres.drop_database(name)
