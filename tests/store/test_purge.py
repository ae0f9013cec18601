"""An erasure is finished when nothing holds the text, and says so only then; until then it says what is left."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from plume_memory.errors import ArtifactError, StoreUnavailable
from plume_memory.store import purge
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.derivations import Derivations
from plume_memory.store.erasure import Erasures
from plume_memory.store.log import Log
from plume_memory.store.paths import default_artifacts
from plume_memory.store.purge import unfinished
from plume_memory.store.sources import Sources

SECRET = "Zytgloggelaube-4711"
KEYS = ("ab" * 32, "cd" * 32)


@pytest.fixture
def server(postgres: Any, migrated: str) -> Iterator[str]:
    """The URL of a PostgreSQL database that has the schema, with two roles: keeper, who owns it, and clerk, a user."""
    name = postgres.create_database(template=migrated)
    with psycopg.connect(postgres.url(name)) as connection:
        connection.execute("CREATE ROLE keeper LOGIN; CREATE ROLE clerk LOGIN")
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in tables:
            connection.execute(f"ALTER TABLE {table} OWNER TO keeper; GRANT ALL ON {table} TO clerk")
    yield postgres.url(name)
    postgres.drop_database(name)
    with psycopg.connect(postgres.url("postgres")) as connection:
        connection.execute("DROP ROLE keeper; DROP ROLE clerk")


def as_role(url: str, role: str) -> str:
    return url.replace("//plume@", f"//{role}@")


def artifacts_in(folder: Path) -> ArtifactStore:
    return ArtifactStore(str(folder / "artifacts"))


def stored(connection: psycopg.Connection, postgres: Any) -> bool:
    """Whether the file of the table of versions holds the words, alive or dead."""
    with psycopg.connect(postgres.url("postgres"), autocommit=True) as other:
        other.execute("CHECKPOINT")
    [path] = connection.execute("SELECT pg_relation_filepath('versions')").fetchone()
    [file] = postgres.folder.glob(f"data/{path}")
    return SECRET.encode() in file.read_bytes()


@pytest.mark.parametrize("holder", ["reader", "writer"])
def test_postgresql_keeps_the_row_for_an_older_transaction_and_the_erasure_is_not_certified(
    postgres: Any, server: str, tmp_path: Path, holder: str
) -> None:
    """It holds no lock on the table that VACUUM would wait for; a writer even is of another database.

    Who owns the tables need not be one who may see all of another's session.
    """
    with Database(as_role(server, "keeper"), busy_timeout_s=0.3) as database:
        Log(database).append("alice", SECRET)
        with psycopg.connect(postgres.url("postgres") if holder == "writer" else server) as other:
            other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            other.execute("SELECT pg_current_xact_id()" if holder == "writer" else "SELECT name FROM memories")
            erasures = Erasures(database, artifacts_in(tmp_path))
            with pytest.raises(
                StoreUnavailable, match=r"began before the erasure: (session|a transaction that writes)"
            ):
                erasures.erase("alice", 1)
            assert len(unfinished(database)) == 1
        assert erasures.erase("alice", 1).version == 2
        assert unfinished(database) == []
        with psycopg.connect(server) as connection:
            assert not stored(connection, postgres)


def test_who_does_not_own_postgresqls_table_gets_no_certificate(postgres: Any, server: str, tmp_path: Path) -> None:
    with Database(server) as database:
        Log(database).append("alice", SECRET)
        with Database(as_role(server, "clerk")) as clerks:
            with pytest.raises(StoreUnavailable, match=r"version 2 of memory.*run as the table's owner"):
                Erasures(clerks, artifacts_in(tmp_path)).erase("alice", 1)
            assert len(unfinished(clerks)) == 1
        assert Erasures(database, artifacts_in(tmp_path)).erase("alice", 1).version == 2
        with psycopg.connect(server) as connection:
            assert not stored(connection, postgres)


def test_what_an_older_release_let_postgresql_sample_goes_with_the_upgrade(postgres: Any, tmp_path: Path) -> None:
    name = postgres.create_database()
    script = Path(__file__).with_name("schema_0002_postgresql.sql").read_text(encoding="utf-8")
    columns = ["idempotency_key", "metadata_json", "text"]
    query = "SELECT attname FROM pg_stats WHERE tablename = 'versions' AND attname = ANY(%s) ORDER BY 1"
    with psycopg.connect(postgres.url(name), autocommit=True) as connection:
        connection.execute(script)
        connection.execute("SET search_path TO public")
        connection.execute("ANALYZE versions")
        assert [row[0] for row in connection.execute(query, [columns])] == columns
        with Database(postgres.url(name)) as database:
            database.upgrade()
        assert connection.execute(query, [columns]).fetchall() == []
        connection.execute("ANALYZE versions")
        assert connection.execute(query, [columns]).fetchall() == []
    postgres.drop_database(name)


def test_only_artifacts_that_were_found_are_certified_and_of_the_others_the_note_stays(
    database: Database, tmp_path: Path
) -> None:
    here, there = (ArtifactStore(str(tmp_path / name)) for name in ("here", "there"))
    log = Log(database)
    log.append("alice", SECRET)
    log.append("alice", "Alice paints.")
    shas = []
    for store, key in zip((here, there), KEYS, strict=True):
        shas.append(store.put(f"{SECRET} {key}".encode()))
        assert Sources(database, "alice", last_erasure=0).note(key, shas[-1])
        Derivations(database).record(key, "factors", shas[-1], 1)

    assert Erasures(database, here).erase("alice", 1).artifacts == (shas[0],)
    assert there.has(shas[1])
    assert Erasures(database, there).erase("alice", 2).artifacts == (shas[1],)
    assert not there.has(shas[1])


def test_a_call_that_was_cut_short_in_one_place_claims_nothing_when_it_is_completed_in_another(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = (ArtifactStore(str(tmp_path / name)) for name in ("here", "there"))
    log = Log(database)
    log.append("alice", SECRET)
    log.append("alice", "Alice paints.")
    sha256 = here.put(SECRET.encode())
    assert Sources(database, "alice", last_erasure=0).note(KEYS[0], sha256)

    def die(_sha256: str) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(here, "delete", die)
        with pytest.raises(KeyboardInterrupt):
            Erasures(database, here).erase("alice", 1)

    assert Erasures(database, there).erase("alice", 1).artifacts == ()
    assert here.has(sha256)
    assert Erasures(database, here).erase("alice", 2).artifacts == (sha256,)
    assert not here.has(sha256)


def test_an_artifact_whose_writer_was_killed_behind_an_erasure_goes_with_the_next(
    database: Database, tmp_path: Path
) -> None:
    """It was noted, the erasure passed by, it was written, and the process died before it looked again."""
    artifacts, log = artifacts_in(tmp_path), Log(database)
    log.append("alice", SECRET)
    log.append("alice", "Alice paints.")
    content = f"derived from {SECRET}".encode()
    sha256 = ArtifactStore(str(tmp_path / "elsewhere")).put(content)
    assert Sources(database, "alice", last_erasure=0).note(KEYS[0], sha256)
    assert Erasures(database, artifacts).erase("alice", 1).artifacts == ()
    artifacts.put(content)

    assert Erasures(database, artifacts).erase("alice", 2).artifacts == (sha256,)
    assert not artifacts.has(sha256)


def test_what_a_killed_write_left_goes_and_what_is_being_written_stays(database: Database, tmp_path: Path) -> None:
    artifacts = artifacts_in(tmp_path)
    sha256 = artifacts.put(b"of another memory")
    folder = tmp_path / "artifacts" / sha256[:2] / sha256[2:4]
    left, written = folder / ".tmp-left", folder / ".tmp-written"
    for path in (left, written):
        path.write_text(SECRET)
    os.utime(left, (time.time() - 3600, time.time() - 3600))
    Log(database).append("alice", SECRET)

    Erasures(database, artifacts).erase("alice", 1)

    assert sorted(path.name for path in folder.iterdir()) == sorted([".tmp-written", sha256])


def test_a_folder_that_does_not_exist_and_a_bucket_have_nothing_to_sweep(tmp_path: Path) -> None:
    assert ArtifactStore(str(tmp_path / "none")).sweep(older_than_s=0) == 0
    assert ArtifactStore("memory://plume-sweep").sweep(older_than_s=0) == 0


@pytest.mark.parametrize("url", ["sqlite:///log.db", "sqlite:///sub/log.db", "postgresql://host/db"])
def test_the_default_place_of_artifacts_is_named_in_full(url: str, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    place = Path(default_artifacts(url))
    assert place.is_relative_to(tmp_path)
    assert default_artifacts(f"sqlite:///{tmp_path}/log.db") == f"{tmp_path}/log.db.artifacts"


def test_an_error_after_the_commit_says_that_the_text_is_erased(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(database)
    log.append("alice", SECRET)

    def full(_database: Database) -> None:
        raise StoreUnavailable("no room left: nothing was written")

    monkeypatch.setattr(purge, "compact", full)
    said = r"erased from the log \(version 2 of memory 'alice'\).*repeat the call.*room"
    with pytest.raises(StoreUnavailable, match=said):
        Erasures(database, artifacts_in(tmp_path)).erase("alice", 1)
    assert log.version("alice", 1).text == ""


def test_an_artifact_that_cannot_be_deleted_is_an_error_of_artifacts_that_says_that_the_text_is_erased(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    artifacts = artifacts_in(tmp_path)
    Log(database).append("alice", SECRET)
    sha256 = artifacts.put(b"derived")
    Sources(database, "alice", last_erasure=0).note(KEYS[0], sha256)

    def refused(_sha256: str) -> None:
        raise ArtifactError("no permission")

    with monkeypatch.context() as context:
        context.setattr(artifacts, "delete", refused)
        with pytest.raises(ArtifactError, match=r"erased from the log \(version 2 of.*repeat the call.*no permission"):
            Erasures(database, artifacts).erase("alice", 1)
    assert Erasures(database, artifacts).erase("alice", 1).artifacts == (sha256,)
