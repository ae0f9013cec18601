"""Nothing escapes an erasure: what was derived goes too, a call cut short is completed, tampering is named."""

from collections.abc import Callable

import pytest
import sqlalchemy as sa
from sqlalchemy import exc

from plume_memory.errors import IntegrityError, StoreUnavailable
from plume_memory.store import purge
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.chain import sha256_of
from plume_memory.store.database import Database
from plume_memory.store.derivations import Derivations
from plume_memory.store.erasure import Erasures
from plume_memory.store.log import Log
from plume_memory.store.memories import get_memory
from plume_memory.store.purge import unfinished
from plume_memory.store.sources import Sources
from plume_memory.store.verifying import verify_rows

DATABASES = ("sqlite", "postgresql")
BERN = "Alice lives in Bern, Zytgloggelaube 7. She has a cat."
HOME = (0, 38)


def verified(log: Log, **lengths: int) -> None:
    assert {name: log.verify(name) for name in lengths} == lengths


# --- what was derived, and a call that is cut short -----------------------------------------------


def derive(database: Database, artifacts: ArtifactStore, memory: str, key: str, *, last_erasure: int = 0) -> str:
    sha256 = sha256_of(memory + key)
    if memory and not Sources(database, memory, last_erasure=last_erasure).note(key, sha256):
        return ""
    assert artifacts.put((memory + key).encode()) == sha256
    Derivations(database).record(key, "factors", sha256, 10)
    return sha256


def test_artifacts_of_every_copy_go_and_those_of_others_stay(
    filled: Log, database: Database, artifacts: ArtifactStore, erasures: Erasures
) -> None:
    filled.append("bob", "Bob is bald.")
    keys = {name: sha256_of(f"key {name}") for name in ("alice", "before", "bob", "", "cut short")}
    kept = derive(database, artifacts, "bob", keys["bob"])
    gone = [derive(database, artifacts, name, keys[name]) for name in ("alice", "before", "")]  # "": an older release
    orphan = sha256_of("x")
    Sources(database, "fork", last_erasure=0).note(keys["cut short"], orphan)
    artifacts.put(b"x")

    certificate = erasures.erase("alice", 1)

    assert certificate.artifacts == tuple(sorted([*gone, orphan]))
    assert [artifacts.has(sha256) for sha256 in [kept, *gone, orphan]] == [True, False, False, False, False]
    assert Derivations(database).lookup(keys["bob"]) is not None
    assert all(Derivations(database).lookup(keys[name]) is None for name in ("alice", "before", ""))
    assert unfinished(database) == []
    assert erasures.erase("alice", 2).artifacts == ()


def test_what_is_derived_while_its_text_is_erased_is_not_kept(
    filled: Log, database: Database, artifacts: ArtifactStore, erasures: Erasures
) -> None:
    key = sha256_of("key")
    reader = Sources(database, "alice", last_erasure=filled.last_erasure("alice"))
    assert reader.is_current()
    erasures.erase("alice", 1)
    assert not reader.is_current()
    assert not reader.note(key, sha256_of("x"))
    assert derive(database, artifacts, "alice", key, last_erasure=filled.last_erasure("alice"))
    assert filled.last_erasure("alice") == 4


@pytest.mark.parametrize(
    ("step", "target"),
    [
        ("_delete_derivations", {"version": 1}),
        ("delete", {"version": 1, "span": (21, 37), "expected_version": 3}),
        ("_cross_out", {"version": 1, "span": (21, 37), "idempotency_key": "k"}),
        ("compact", {"text": "Zytgloggelaube 7"}),
        ("_cross_out", {"version": 1, "text": "Zytgloggelaube 7"}),
    ],
)
def test_a_call_that_was_cut_short_is_completed_by_the_same_call(
    filled: Log,
    database: Database,
    artifacts: ArtifactStore,
    erasures: Erasures,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    target: dict,
) -> None:
    sha256 = derive(database, artifacts, "alice", sha256_of("key"))

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(artifacts if step == "delete" else purge, step, die)
        with pytest.raises(KeyboardInterrupt):
            erasures.erase("alice", **target)
    assert "Zytgloggelaube" not in filled.version("fork", 1).text
    verified(filled, alice=4, before=2, fork=4)
    assert len(unfinished(database)) == 3

    certificate = erasures.erase("alice", **target)

    assert (certificate.version, len(certificate.erased)) == (4, 3)
    assert certificate.artifacts == (sha256,)
    assert not artifacts.has(sha256)
    assert unfinished(database) == []
    verified(filled, alice=4, before=2, fork=4)


def test_an_erasure_that_is_refused_changes_nothing(filled: Log, database: Database, erasures: Erasures) -> None:
    with database.write() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(
                "CREATE TRIGGER no BEFORE UPDATE ON versions BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        else:
            connection.exec_driver_sql("ALTER TABLE versions ADD CONSTRAINT no CHECK (erased_by IS NULL)")
    with pytest.raises(StoreUnavailable, match="nothing was erased"):
        erasures.erase("alice", 1)
    verified(filled, alice=3, before=1, fork=3)


# --- tampering ------------------------------------------------------------------------------------


def test_raw_sql_erases_nothing_and_restores_nothing(filled: Log, database: Database, erasures: Erasures) -> None:
    erasures.erase("alice", 1, span=HOME, expected_version=3)
    changes = [
        "text = 'x', erased_by = 4",
        "text = ''",
        "text = '', erased_by = 4, metadata_json = '{}', idempotency_key = NULL",
        "text = 'again'",
        "erased_by = NULL",
        "created_at = '2020-01-01 00:00:00'",
    ]
    statements = [f"UPDATE versions SET {change} WHERE number = {number}" for change in changes for number in (1, 2)]
    statements += ["DELETE FROM versions WHERE number = 1", "UPDATE versions SET kind = 'erase' WHERE number = 3"]
    for statement in statements:
        with pytest.raises((exc.DatabaseError, StoreUnavailable), match="immutable"), database.write() as connection:
            connection.exec_driver_sql(statement)
    verified(filled, alice=4, before=2, fork=4)


ALTERED = [
    ("text = 'other'", 1, "version 1: its left_sha256 is not what version 4"),
    (f"text = '{BERN}'", 1, "version 1: its left_sha256"),
    ("text_sha256 = chain_hash", 1, "version 1: its text_sha256"),
    ("chain_hash = text_sha256", 1, "version 1: its chain_hash"),
    ("created_at = '2020-01-01 00:00:00.000000'", 1, "version 1: its created_at"),
    ("metadata_json = '{\"a\":1}'", 1, "version 1: it has metadata or a key"),
    ("idempotency_key = 'k'", 1, "version 1: it has metadata or a key"),
    ("erased_by = NULL", 1, "version 1: version 4 erased it, but it is not marked"),
    ("erased_by = 3", 1, "version 1: it is marked as erased by version 3, and version 4 erased it"),
    ("erased_by = 4", 2, "version 2: it is marked as erased by version 4, and no version erases it"),
    ("erased_by = 4, text = ''", 2, "version 2: it is marked"),
    ("forgets = 2", 4, "version 1: it is marked as erased by version 4, and no version erases it"),
    ("span_end = 30", 4, "version 4: its fields"),
    ("metadata_json = '{}'", 4, "version 1: its"),
    ("metadata_json = 'no JSON'", 4, "version 1: its"),
]


def test_verify_names_an_altered_erasure(filled: Log, database: Database, erasures: Erasures) -> None:
    erasures.erase("alice", 1, span=HOME, expected_version=3)
    with database.write() as connection:
        alice = get_memory(connection, "alice")
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TRIGGER versions_no_update")
            connection.exec_driver_sql("PRAGMA ignore_check_constraints=ON")
        else:
            connection.exec_driver_sql("DROP TRIGGER versions_no_change ON versions")
        for change, number, named in ALTERED:
            savepoint = connection.begin_nested()
            where = f"WHERE memory_id = {alice.id} AND number = {number}"
            connection.exec_driver_sql(f"UPDATE versions SET {change} {where}")
            with pytest.raises(IntegrityError, match=named):
                verify_rows(connection, "alice", alice.id, alice.head_number, alice.head_hash)
            savepoint.rollback()
        assert verify_rows(connection, "alice", alice.id, alice.head_number, alice.head_hash) == 4


@pytest.mark.parametrize(
    ("memory", "change"),
    [
        ("alice", "text = replace(text, 'cat', 'dog')"),
        ("fork", "text = replace(text, 'cat', 'dog')"),
        ("alice", "metadata_json = '{}'"),
        ("alice", "parent_hash = chain_hash"),
    ],
)
def test_an_erasure_vouches_for_no_row_that_was_altered(
    filled: Log, database: Database, erasures: Erasures, tamper: Callable[..., None], change: str, memory: str
) -> None:
    with database.read() as connection:
        where = f"memory_id = {get_memory(connection, memory).id} AND number = 1"
    tamper(f"UPDATE versions SET {change} WHERE {where}")
    for arguments in ({"text": "Zytgloggelaube"}, {}):
        with pytest.raises(IntegrityError, match=f"'{memory}', version 1: its"):
            erasures.erase("alice", 1, **arguments)
    assert [filled.head_number(name) for name in ("alice", "before", "fork")] == [3, 1, 3]


def test_an_erasure_vouches_for_no_rest_that_was_altered(
    filled: Log, database: Database, erasures: Erasures, tamper: Callable[..., None]
) -> None:
    erasures.erase("alice", 1, text="Zytgloggelaube")
    tamper("UPDATE versions SET text = 'Alice lives in Rome.' WHERE number = 1")
    with pytest.raises(IntegrityError, match="version 1: its left_sha256"):
        erasures.erase("alice", 1, text="Rome")
    tamper("DELETE FROM versions WHERE number = 2")
    with pytest.raises(IntegrityError, match="version 2: it is missing"):
        erasures.erase("alice", 3)


def test_the_table_refuses_marks_and_spans_where_none_can_be(filled: Log, database: Database) -> None:
    columns = "text, text_sha256, metadata_json, created_at, parent_hash, chain_hash"
    for fields, name in (
        ("'update', 0, 1, NULL", "ck_versions_span"),
        ("'update', NULL, NULL, 2", "ck_versions_erased_by"),
    ):
        insert = f"INSERT INTO versions (memory_id, number, kind, span_start, span_end, erased_by, {columns}) "
        insert += f"SELECT memory_id, 9, {fields}, {columns} FROM versions WHERE number = 3 AND memory_id = 1"
        with pytest.raises(sa.exc.IntegrityError, match=name), database.write() as connection:
            connection.exec_driver_sql(insert)
