"""What is PostgreSQL's own: servers that go away, victims of conflicts, limits, and the raw SQL it alone knows."""

import re
import sys
import threading
import time
from typing import Any

import pytest
import sqlalchemy as sa

from plume_memory.errors import (
    CommitUnknown,
    IntegrityError,
    InvalidInput,
    MissingExtra,
    StoreUnavailable,
    TransactionUndone,
)
from plume_memory.store import schema
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.store.tables import MemoryRow

DATABASES = ("postgresql",)


def through(cutter: Any, url: str) -> str:
    return f"{url.partition('?')[0]}?host={cutter.folder}"


def terminate(connection: sa.Connection, url: str) -> None:
    """Cut a connection from the server's side, as its administrator may."""
    number = connection.exec_driver_sql("SELECT pg_backend_pid()").scalar_one()
    with Database(url) as database, database.write() as other:
        other.exec_driver_sql(f"SELECT pg_terminate_backend({number}, 5000)")


def with_option(url: str, setting: str) -> str:
    return f"{url}&options=-c%20{setting}"


# --- a server that goes away ------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_server_that_was_restarted_is_used_again_unnoticed(log: Log, postgres: Any, how: str):
    log.append("alice", "x")
    getattr(postgres, how)()
    postgres.start()
    assert log.head("alice").text == "x"
    getattr(postgres, how)()
    postgres.start()
    assert log.append("alice", "y").number == 2
    assert log.verify("alice") == 2


def test_reads_and_writes_wait_for_a_server_that_is_restarting(log: Log, postgres: Any):
    log.append("alice", "x")
    for call in (lambda: log.head("alice").text, lambda: log.append("alice", "x").text):
        postgres.kill()
        later = threading.Timer(0.5, postgres.start)
        later.start()
        assert call() == "x"
        later.join()
    assert log.verify("alice") == 2


def test_a_server_that_stays_away_is_an_error_that_says_what_to_check(url: str, postgres: Any):
    with Database(url, busy_timeout_s=0.2) as database:
        log = Log(database)
        log.append("alice", "x")
        postgres.stop()
        try:
            with Database(url) as other, pytest.raises(StoreUnavailable, match=r"cannot be reached.*the server runs"):
                Log(other).names()
            for call in (lambda: log.head("alice"), lambda: log.append("alice", "y")):
                with pytest.raises(StoreUnavailable, match="cannot be reached"):
                    call()
        finally:
            postgres.start()
        assert log.append("alice", "y").number == 2


def test_a_connection_lost_in_a_read_is_an_error_and_the_next_read_works(log: Log, database: Database, url: str):
    log.append("alice", "x")

    def read() -> None:
        with database.read() as connection:
            terminate(connection, url)
            connection.execute(sa.select(MemoryRow.name))

    with pytest.raises(TransactionUndone, match=r"lost before a commit.*may be repeated"):
        read()
    assert log.head("alice").text == "x"


def test_a_connection_lost_before_the_commit_is_repeated(log: Log, database: Database, url: str):
    log.append("alice", "x")
    attempts = []

    def work(connection: sa.Connection) -> None:
        connection.execute(sa.update(MemoryRow).values(origin_name=f"attempt {len(attempts)}"))
        attempts.append(connection)
        if len(attempts) < 3:
            terminate(connection, url)
            connection.execute(sa.select(MemoryRow.name))

    database.transact(work)
    with database.read() as connection:
        assert connection.execute(sa.select(MemoryRow.origin_name)).scalar_one() == "attempt 2"


@pytest.mark.parametrize(("cut", "written"), [("before", 1), ("after", 2)])
def test_a_write_whose_commit_was_not_answered_is_not_repeated(url: str, log: Log, cutter: Any, cut: str, written: int):
    log.append("alice", "x")
    with Database(through(cutter, url)) as database:
        log_through = Log(database)
        assert log_through.head_number("alice") == 1
        cutter.cuts.append(cut)
        with pytest.raises(CommitUnknown, match=r"while a commit was under way.*repeat it with the idempotency key"):
            log_through.append("alice", "y")
        assert log.head_number("alice") == written
        assert log_through.verify("alice") == written


@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_write_with_a_key_is_repeated_and_written_once(url: str, log: Log, cutter: Any, cut: str):
    log.append("alice", "x")
    with Database(through(cutter, url)) as database:
        cutter.cuts += [cut, cut]
        appended = Log(database).append("alice", "y", idempotency_key="k", expected_version=1)
    assert cutter.cuts == []
    assert (appended.number, appended.text) == (2, "y")
    assert log.verify("alice") == 2


def test_repetitions_of_a_commit_that_is_never_answered_end(url: str, log: Log, cutter: Any):
    log.append("alice", "x")
    with Database(through(cutter, url)) as database:
        cutter.cuts += ["before"] * 50
        with pytest.raises(CommitUnknown):
            Log(database).append("alice", "y", idempotency_key="k")
    assert len(cutter.cuts) == 45
    assert log.verify("alice") == 1


# --- conflicts, limits, settings --------------------------------------------------------------------


def test_two_that_wait_for_each_other_both_get_through(log: Log, database: Database):
    """A deadlock: the server undoes one of them, which is repeated."""
    for name in ("alice", "bob"):
        log.create(name)
    met, attempts = threading.Barrier(2, timeout=20), []

    def swap(first: str, second: str) -> None:
        def work(connection: sa.Connection) -> None:
            attempts.append(first)
            moved = sa.update(MemoryRow).values(head_number=MemoryRow.head_number + 1)
            connection.execute(moved.where(MemoryRow.name == first))
            if attempts.count(first) == 1:
                met.wait()
            connection.execute(moved.where(MemoryRow.name == second))

        database.transact(work)

    threads = [threading.Thread(target=swap, args=names) for names in (("alice", "bob"), ("bob", "alice"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(attempts) == 3
    with database.read() as connection:
        assert connection.execute(sa.select(MemoryRow.head_number)).scalars().all() == [2, 2]


@pytest.mark.parametrize("code", ["40001", "40P01"])
def test_a_serialization_failure_is_repeated_a_few_times(database: Database, code: str):
    attempts = []

    def work(connection: sa.Connection) -> None:
        attempts.append(code)
        connection.exec_driver_sql(f"DO $$ BEGIN RAISE EXCEPTION 'victim' USING ERRCODE = '{code}'; END $$")

    with pytest.raises(TransactionUndone, match=r"undid the transaction.*victim.*may be repeated"):
        database.transact(work)
    assert len(attempts) == 5


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_writers_lose_nothing_whatever_the_servers_default_isolation(url: str, level: str):
    """An append reads what was committed while it waited for its memory; a migration likewise."""
    url = with_option(url, f"default_transaction_isolation={level.replace(' ', '%5C%20')}")
    databases = [Database(url) for _ in range(4)]

    def append(database: Database) -> None:
        for _ in range(10):
            Log(database).append("alice", "x")

    threads = [threading.Thread(target=append, args=(each,)) for each in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with databases[0].read() as connection:
        assert connection.exec_driver_sql("SHOW default_transaction_isolation").scalar_one() == level
    assert Log(databases[0]).verify("alice") == 40
    for each in databases:
        each.close()


def test_a_statement_that_runs_too_long_is_stopped(url: str):
    with Database(url, statement_timeout_s=0.2) as database:
        with pytest.raises(StoreUnavailable, match="longer than the statement timeout"), database.read() as connection:
            connection.exec_driver_sql("SELECT pg_sleep(20)")


def test_limits_reach_the_server_and_those_in_the_url_win(url: str):
    def limits(database: Database) -> list[str]:
        with database.read() as connection:
            return [
                connection.exec_driver_sql(f"SHOW {name}").scalar_one()
                for name in ("lock_timeout", "statement_timeout")
            ]

    with Database(url) as database:
        assert limits(database) == ["30s", "1min"]
    with Database(with_option(url, "statement_timeout=7s"), busy_timeout_s=1.5) as database:
        assert limits(database) == ["1500ms", "7s"]


def test_migrations_may_take_longer_than_the_statement_timeout(url: str, monkeypatch: pytest.MonkeyPatch):
    def upgrade_slowly(connection: sa.Connection, upgrade: Any = schema.upgrade) -> None:
        connection.exec_driver_sql("SELECT pg_sleep(1)")
        upgrade(connection)

    monkeypatch.setattr(schema, "upgrade", upgrade_slowly)
    with Database(url, statement_timeout_s=0.5) as database:
        assert database.upgrade() == schema.latest_revision()
        assert Log(database).names() == []


def test_a_read_only_server_can_be_read_and_says_so_when_written_to(url: str, log: Log):
    log.append("alice", "x")
    with Database(with_option(url, "default_transaction_read_only=on")) as database:
        assert Log(database).head("alice").text == "x"
        with pytest.raises(StoreUnavailable, match="is read-only"):
            Log(database).append("alice", "y")


@pytest.mark.parametrize("takes_readers", [False, True])
def test_a_server_in_recovery_says_so(postgres: Any, takes_readers: bool):
    with type(postgres).running() as server:
        url = server.url(server.create_database())
        with Database(url) as database:
            Log(database).append("alice", "x")
        server.stop()
        server.recover(takes_readers=takes_readers)
        # A standby that takes readers refuses them too until it has read its own log.
        refusal = "is read-only" if takes_readers else "or is in recovery"
        deadline, found = time.monotonic() + 300, ""
        while refusal not in found:
            assert time.monotonic() < deadline, found
            with pytest.raises(StoreUnavailable) as refused, Database(url) as database:
                Log(database).append("alice", "y")
            found = str(refused.value)  # before, that it cannot be reached: it has no socket yet
        if takes_readers:
            with Database(url) as database:
                assert Log(database).head("alice").text == "x"


def test_a_database_that_is_not_there_is_an_error(postgres: Any):
    with (
        pytest.raises(StoreUnavailable, match=r"cannot be reached.*absent"),
        Database(postgres.url("absent")) as database,
    ):
        Log(database).names()


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"plume-memory\[postgres\]"):
        Log(Database("postgresql://user:secret@localhost/x")).names()


@pytest.mark.parametrize("driver", ["psycopg2", "asyncpg", "psycopg_async"])
def test_another_driver_is_refused(driver: str):
    with pytest.raises(InvalidInput, match="write postgresql:// alone"):
        Database(f"postgresql+{driver}://localhost/x")


@pytest.mark.parametrize(
    "given",
    [
        "postgresql://user:secret@host/x",
        *(
            f"postgresql://user@host/x?sslmode=require&{name}=secret"
            for name in ("password", "sslpassword", "oauth_client_secret", "scram_client_key", "anything")
        ),
    ],
)
def test_a_password_is_not_shown(given: str):
    assert not re.search("[:=]secret", Database(given).url)
    assert Database(given).url.startswith("postgresql://user")
    assert "sslmode=require" in Database(given).url or "?" not in given


def test_what_is_no_url_is_not_shown_where_it_may_hold_a_password():
    with pytest.raises(InvalidInput) as raised:
        Database("postgresql:/user:secret@host/x")
    assert "secret" not in str(raised.value)


# --- raw SQL ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE versions",
        "TRUNCATE memories CASCADE",
        "MERGE INTO versions USING memories ON memories.id = versions.memory_id "
        "WHEN MATCHED THEN UPDATE SET text = 'other'",
        "MERGE INTO versions USING memories ON memories.id = versions.memory_id WHEN MATCHED THEN DELETE",
        "WITH gone AS (DELETE FROM versions RETURNING *) SELECT count(*) FROM gone",
        "UPDATE ONLY versions SET text = 'other'",
        "DO $$ BEGIN UPDATE versions SET text = 'other'; END $$",
    ],
)
def test_raw_sql_that_alters_a_version_is_refused(log: Log, database: Database, statement: str):
    log.append("alice", "x")
    with pytest.raises(StoreUnavailable, match="versions are immutable"), database.write() as connection:
        connection.exec_driver_sql(statement)
    assert log.verify("alice") == 1


def test_triggers_that_a_session_switches_off_are_made_up_for_by_verify(log: Log, database: Database):
    """Only the server's administrator may: nothing in a database protects from him, but he is found out."""
    log.append("alice", "x")
    with database.write() as connection:
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        connection.exec_driver_sql("UPDATE versions SET text = 'other'")
    with pytest.raises(IntegrityError, match="version 1: its text"):
        log.verify("alice")


def test_a_history_finds_its_undos_in_their_index(log: Log, database: Database):
    log.append("alice", "x")
    log.forget("alice", 1)
    asked = []
    with database.read() as connection:
        sa.event.listen(connection.engine, "before_cursor_execute", lambda *event: asked.append(event[2:4]))
    log.history("alice")
    [(statement, parameters)] = [each for each in asked if "versions.forgets" in each[0]]
    with database.read() as connection:
        connection.exec_driver_sql("SET LOCAL enable_seqscan = off")  # a table this small would be read whole
        plan = connection.exec_driver_sql(f"EXPLAIN {statement}", parameters).scalars().all()
    assert any("ix_versions_undos" in line for line in plan), plan
