"""A long log stays fast: what is not asked for is not read. On SQLite, whose work is done in this process.

Limits are numbers of statements and ratios: what else runs on the machine is no claim of these tests.
"""

import statistics
import time

import pytest
import sqlalchemy as sa

from plume_memory.store.database import Database
from plume_memory.store.log import Log, _Entry


@pytest.fixture
def selects(database: Database) -> list[str]:
    """The SELECT statements that ran since it was last cleared."""
    read: list[str] = []
    with database.read() as connection:
        engine = connection.engine

    def note(*event: object) -> None:
        if str(event[2]).startswith("SELECT"):
            read.append(str(event[2]))

    sa.event.listen(engine, "after_cursor_execute", note)
    return read


def test_ten_thousand_updates_are_read_with_as_few_statements_as_ten(log: Log, database: Database, selects: list[str]):
    fill(log, database, 10, rollback_every=None)
    selects.clear()
    log.history("alice")
    few = len(selects)
    fill(log, database, 9_990, rollback_every=None)
    selects.clear()
    history = log.history("alice")
    assert len(selects) == few == 3
    assert [transition.version for transition in history.transitions] == list(range(1, 10_001))


def test_texts_that_a_rollback_took_back_are_not_read(log: Log, database: Database, selects: list[str]):
    fill(log, database, 2_000, rollback_every=2)
    selects.clear()
    history = log.history("alice")
    assert [transition.version for transition in history.transitions] == [1]
    assert len(selects) == 3


def fill(log: Log, database: Database, count: int, *, rollback_every: int | None) -> None:
    """Append within one transaction: one fsync instead of thousands."""
    with database.write() as connection:
        for i in range(count):
            undo = rollback_every and i % rollback_every == 1
            entry = ("rollback", "", 1, None) if undo else ("update", f"This is update number {i}. " * 5, None, None)
            log._append_row(connection, "alice", _Entry(*entry, None, None, None), "{}", create=True)


def test_a_history_reads_its_undos_from_the_index_alone(log: Log, database: Database):
    log.append("alice", "text 1")
    log.append("alice", "text 2")
    log.forget("alice", 2)
    asked = []
    with database.read() as connection:
        sa.event.listen(connection.engine, "before_cursor_execute", lambda *event: asked.append(event[2:4]))
    log.history("alice")
    [(statement, parameters)] = [each for each in asked if "versions.forgets" in each[0]]
    with database.read() as connection:
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()
    assert [row.detail.split(" (")[0] for row in plan] == ["SEARCH versions USING COVERING INDEX ix_versions_undos"]


def test_hundreds_of_forgets_are_read_with_few_statements(log: Log, database: Database, selects: list[str]):
    with database.write() as connection:
        for i in range(1, 3_001):
            entry = ("update", f"text {i}", None, None) if i <= 2_000 or i % 2 else ("forget", "", None, i - 2_000)
            log._append_row(connection, "alice", _Entry(*entry, None, None, None), "{}", create=True)
    selects.clear()
    held = [transition.version for transition in log.history("alice").transitions]
    assert len(selects) < 10
    assert held == [*range(1, 1_001, 2), *range(1_001, 2_001), *range(2_001, 3_001, 2)]


def append_times_ms(log: Log, count: int) -> list[float]:
    times = []
    for i in range(count):
        start = time.process_time()
        log.append("alice", f"This is update number {i} of many.")
        times.append(1000 * (time.process_time() - start))
    return times


def assert_flat(times: list[float]) -> None:
    tenth = len(times) // 10
    early, late = statistics.median(times[tenth : 2 * tenth]), statistics.median(times[-tenth:])
    assert late < 3 * early + 1, f"{early:.2f} ms at first, {late:.2f} ms at last"


def test_appends_stay_as_fast_as_the_log_grows(log: Log):
    assert_flat(append_times_ms(log, 1_000))


@pytest.mark.slow
def test_ten_thousand_appends_stay_as_fast_as_the_log_grows(log: Log):
    assert_flat(append_times_ms(log, 10_000))
    assert log.verify("alice") == 10_000
