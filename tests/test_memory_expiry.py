"""What expires is not read from then on, stays in the log, and goes wherever the log goes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from plume_memory import AnswerPolicy, ParametricMemory
from plume_memory.errors import InvalidInput
from plume_memory.importers.archive import import_archive
from plume_memory.testing import tiny_engine

READER = tiny_engine(policy=AnswerPolicy(retrieval="reader", unit_tokens=200, max_new_tokens=4))
WORDS = tiny_engine()
PAST = datetime(2026, 1, 1, tzinfo=UTC)
FUTURE = datetime(2126, 1, 1, tzinfo=UTC)
QUESTION = "Where does Alice live?"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'log.db'}"


@pytest.fixture(params=[READER, WORDS], ids=["reader", "lexical"])
def memory(request: pytest.FixtureRequest, url: str) -> Iterator[ParametricMemory]:
    with ParametricMemory.open("ann", url=url, engine=request.param) as made:
        yield made


def routed(memory: ParametricMemory) -> set[str]:
    return {one.unit.text for one in memory.route(QUESTION, k=9)}


def recalled(memory: ParametricMemory, **options: bool) -> list[str]:
    return [note.text for note in memory.recall(QUESTION, history=options.get("history", False)).notes]


def test_what_has_expired_is_not_routed_not_evidence_and_not_recalled(memory: ParametricMemory) -> None:
    memory.update("Alice does live in Bern.", expires_at=PAST, derive=False)
    assert routed(memory) == set()
    assert memory.ask(QUESTION, unknown="bare").evidence is None
    assert recalled(memory) == []
    assert not memory.profile()

    memory.update("Alice does live in Thun.", expires_at=FUTURE, derive=False)
    assert routed(memory) == {"Alice does live in Thun."}
    answer = memory.ask(QUESTION, unknown="bare")
    assert [one.unit.version for one in answer.evidence_units] == [2]


def test_it_stays_in_the_log_and_in_a_recall_of_history(memory: ParametricMemory) -> None:
    written = memory.update("Alice does live in Bern.", expires_at=PAST, derive=False)
    assert written.metadata["plume"]["expires_at"] == PAST.isoformat()
    assert memory.entry(1).text == "Alice does live in Bern."
    (note,) = memory.recall(QUESTION, history=True).notes
    assert (note.text, note.is_current) == ("Alice does live in Bern.", False)


def test_it_is_read_as_of_a_time_before_it_expired(memory: ParametricMemory) -> None:
    memory.update("Alice does live in Bern.", derive=False)
    end = datetime.now(UTC) + timedelta(hours=1)
    memory.update("Alice does live in Thun until the evening.", expires_at=end, derive=False)
    assert len(memory.at(time=end - timedelta(minutes=1)).route(QUESTION, k=9)) == 2
    assert len(memory.at(time=end).route(QUESTION, k=9)) == 1


def test_what_it_replaced_holds_again(memory: ParametricMemory) -> None:
    memory.update("Alice does live in Bern.", derive=False)
    memory.update("For now Alice does live in Thun.", replaces=[1], expires_at=PAST, derive=False)
    (one,) = memory.route(QUESTION, k=9)
    assert (one.unit.version, one.superseded) == (1, False)


def test_a_rollback_a_fork_and_an_archive_keep_it(memory: ParametricMemory, tmp_path: Path) -> None:
    memory.update("Alice does live in Bern.", expires_at=PAST, derive=False)
    memory.update("Alice does live in Thun.", expires_at=FUTURE, derive=False)
    memory.update("Alice does live in Oslo.", derive=False)
    memory.rollback(to=2)
    assert routed(memory) == {"Alice does live in Thun."}
    assert routed(memory.fork("copy")) == {"Alice does live in Thun."}

    memory.export_archive(tmp_path / "ann.plume")
    import_archive(tmp_path / "ann.plume", url=f"sqlite:///{tmp_path / 'other.db'}")
    with ParametricMemory.open("ann", url=f"sqlite:///{tmp_path / 'other.db'}", engine=READER) as again:
        assert routed(again) == {"Alice does live in Thun."}
        assert again.text_at(2).transitions[1].expires_at == FUTURE


def test_its_zone_is_kept_and_needed(memory: ParametricMemory) -> None:
    end = datetime(2126, 3, 4, 12, tzinfo=timezone(timedelta(hours=2)))
    memory.update("Alice does live in Bern.", expires_at=end, derive=False)
    (held,) = memory.text_at().transitions
    assert held.expires_at == end
    assert held.expires_at.utcoffset() == timedelta(hours=2)
    with pytest.raises(InvalidInput, match="zone"):
        memory.update("Alice does live in Bern.", expires_at=datetime(2126, 3, 4), derive=False)
    assert memory.version == 1
