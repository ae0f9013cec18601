"""What a process refuses to serve with: another engine than its peers', another clock than the database's."""

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from plume_memory.errors import ModelError, StoreUnavailable
from plume_memory.policy import AnswerPolicy
from plume_memory.pool import MemoryPool
from plume_memory.server import running
from plume_memory.server.app import create_app
from plume_memory.server.running import warm
from plume_memory.store import announcing, peers
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.testing import tiny_engine

DATABASES = ("postgresql",)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine is waited for; a server that was refused is not."""
    monkeypatch.setattr(announcing, "TOLD_S", 300.0)
    monkeypatch.setattr(running, "LOOKED_AGAIN_S", 0.2)


def pool_of(url: str, folder: Path, *, family: str = "llama", tokens: int = 8) -> MemoryPool:
    engine = tiny_engine(family, policy=AnswerPolicy(max_new_tokens=tokens, unit_tokens=64))
    return MemoryPool(url, engine=engine, artifacts=str(folder))


@pytest.fixture
def first(url: str, tmp_path: Path) -> Iterator[MemoryPool]:
    """A process that serves."""
    with pool_of(url, tmp_path) as pool:
        pool.check_peers()
        yield pool


def test_peers_of_one_engine_serve(first: MemoryPool, url: str, tmp_path: Path) -> None:
    with pool_of(url, tmp_path) as second:
        second.check_peers()
        first.check_peers()


def refused(caplog: pytest.LogCaptureFixture) -> None:
    """Wait until a server has said that it is not ready."""
    while "looks again" not in caplog.text:
        time.sleep(0.05)


def test_a_process_that_answers_otherwise_by_one_name_is_refused_until_the_other_ends(
    first: MemoryPool, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pool_of(url, tmp_path, tokens=9) as second:
        with pytest.raises(ModelError, match="two answers"):
            second.check_peers()
        first.check_peers()  # who was refused has told nothing
        serving = create_app(second).state.serving
        warming = warm(serving)
        refused(caplog)
        assert not serving.condition.is_warm
        first.close()
        warming.join()
        assert serving.condition.is_warm, "the other one ended"


def test_another_model_is_brought_in_beside_the_old_one_and_said(
    first: MemoryPool, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pool_of(url, tmp_path, family="qwen2") as second, caplog.at_level(logging.WARNING):
        second.check_peers()
    assert "another model or release" in caplog.text


def test_who_says_what_he_answers_with_still_hears(first: MemoryPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(announcing, "PATIENCE_S", 300.0)
    assert announcing.announce(first.database, {"alice"}) == announcing.Heard(1, 0)


class Ahead(datetime):
    """A machine whose clock is an hour ahead."""

    @classmethod
    def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
        return datetime.now(UTC) + timedelta(hours=1)


def test_a_clock_that_is_not_the_databases_is_refused(
    database: Database, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    peers.check_clock(database)
    monkeypatch.setattr(peers, "datetime", Ahead)
    with pytest.raises(StoreUnavailable, match="3600 s apart"):
        peers.check_clock(database)
    with pool_of(url, tmp_path) as pool:
        serving = create_app(pool).state.serving
        warming = warm(serving)
        refused(caplog)
        assert not serving.condition.is_warm
        monkeypatch.setattr(peers, "datetime", datetime)
        warming.join()
        assert serving.condition.is_warm, "it was set"


def test_versions_have_one_order_whatever_the_clocks_of_their_writers_say(database: Database) -> None:
    skews = (timedelta(days=1), timedelta(days=-1))
    logs = [Log(database, clock=lambda skew=skew: datetime.now(UTC) + skew) for skew in skews]
    logs[0].ensure("alice")
    for number in range(1, 7):
        assert logs[number % 2].append("alice", f"Fact {number}.").number == number
    for log in logs:
        assert [one.text for one in log.history("alice").transitions] == [f"Fact {n}." for n in range(1, 7)]
        assert log.verify("alice") == 6
