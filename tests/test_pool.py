"""MemoryPool: many owners, one engine, one database."""

from pathlib import Path

import pytest

from plume_memory.errors import InvalidInput, MemoryClosed, MemoryNotFound
from plume_memory.pool import MemoryPool
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'log.db'}"


def test_owners_have_memories_of_their_own_on_one_engine(url: str) -> None:
    with MemoryPool(url, engine=ENGINE) as pool:
        pool.memory("alice").update("Alice lives in Bern.", derive=False)
        pool.memory("bob").update("Bob lives in Oslo.", derive=False)

        assert pool.memory("alice").text_at().text == "Alice lives in Bern."
        assert pool.memory("bob").text_at().text == "Bob lives in Oslo."
        assert pool.memory("alice").engine is pool.memory("bob").engine is ENGINE
        assert pool.memory("alice") is pool.memory("alice")
        assert pool.names() == ["alice", "bob"]


def test_an_owner_who_was_let_go_finds_everything_again(url: str) -> None:
    with MemoryPool(url, engine=ENGINE, keep=1) as pool:
        first = pool.memory("alice")
        first.update("Alice lives in Bern.", derive=False)
        pool.memory("bob")

        again = pool.memory("alice")
        assert again is not first
        assert again.text_at().text == "Alice lives in Bern."
        first.update("Alice lives in Zurich.", derive=False)
        assert again.version == 2, "an object held elsewhere goes on working on the same log"


def test_an_erasure_elsewhere_reaches_what_is_kept_of_a_memory_that_was_let_go(url: str) -> None:
    engine = tiny_engine()
    with MemoryPool(url, engine=engine, keep=1) as pool:
        pool.memory("alice").update("Alice lives in Bern.")
        pool.memory("bob")
        assert len(engine.encoder.recent)
        pool._forget(frozenset({"alice"}))
        assert not len(engine.encoder.recent)


def test_another_pool_reads_what_the_first_wrote(url: str) -> None:
    with MemoryPool(url, engine=ENGINE) as pool:
        pool.memory("alice").update("Alice lives in Bern.", derive=False)
    with MemoryPool(url, engine=ENGINE) as pool:
        assert pool.names() == ["alice"]
        assert pool.memory("alice").version == 1


def test_a_closed_pool_says_so_and_closes_its_memories(url: str) -> None:
    pool = MemoryPool(url, engine=ENGINE)
    memory = pool.memory("alice")
    pool.close()
    pool.close()

    with pytest.raises(MemoryClosed, match="another MemoryPool"):
        pool.memory("alice")
    with pytest.raises(MemoryClosed):
        memory.update("Alice lives in Bern.")


def test_settings_that_contradict_each_other_are_refused(url: str) -> None:
    with pytest.raises(InvalidInput, match="an engine has its own"):
        MemoryPool(url, engine=ENGINE, policy=ENGINE.policy)
    with pytest.raises(InvalidInput, match="keep=0"):
        MemoryPool(url, keep=0)
    with pytest.raises(InvalidInput), MemoryPool(url, engine=ENGINE) as pool:
        pool.memory("")


def test_many_owners_asked_at_once_get_their_own_answers(url: str) -> None:
    with MemoryPool(url, engine=tiny_engine()) as pool:
        names = [f"user-{n}" for n in range(12)]
        for n, name in enumerate(names):
            pool.memory(name).update(f"{name} lives in house {n} by the lake.")
        asked = {name: f"Where does {name} live?" for name in reversed(names)}
        alone = {name: pool.memory(name).ask(question, unknown="bare") for name, question in asked.items()}
        before = pool.engine.scheduler.counters()

        answers = pool.ask_many(asked, unknown="bare")

        assert list(answers) == list(asked)
        assert {name: answer.text for name, answer in answers.items()} == {n: a.text for n, a in alone.items()}
        assert {name: answer.memory for name, answer in answers.items()} == {name: name for name in names}
        counters = pool.engine.scheduler.counters()
        assert counters.answered - before.answered == len(names)
        assert pool.ask_many({}) == {}
        with pytest.raises(InvalidInput):
            pool.ask_many({"user-0": ""})


def test_a_question_with_a_wrong_name_makes_no_memory(url: str) -> None:
    with MemoryPool(url, engine=ENGINE) as pool:
        with pytest.raises(MemoryNotFound, match="alice"):
            pool.memory("alice", create=False)
        assert pool.names() == []
        pool.memory("alice").update("Alice lives in Bern.", derive=False)
    with MemoryPool(url, engine=ENGINE) as pool:
        assert pool.memory("alice", create=False).version == 1
