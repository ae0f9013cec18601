"""update(derive="later"): derived in a thread, many texts together, and nothing depends on whether it got that far."""

import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.background import STRIDE, Deriver
from plume_memory.errors import ForkedEngine, InvalidInput, MemoryClosed, ParameterizerError
from plume_memory.lora.factors import LoraFactors
from plume_memory.pool import MemoryPool
from plume_memory.testing import HashParameterizer, tiny_base, tiny_engine

TEXTS = [f"Fact {i}: room {i} has the number {7 * i}." for i in range(100)]


class Slow(HashParameterizer):
    """Waits until it is let go; remembers how many texts it was given together, and fails when told to."""

    def __init__(self) -> None:
        super().__init__(tiny_base("llama"), shares_a=True)
        self.gate, self.reached = threading.Event(), threading.Event()
        self.gate.set()
        self.together: list[int] = []
        self.error: Exception | None = None

    def parameterize(self, texts: Sequence[str]) -> list[LoraFactors]:
        self.reached.set()
        assert self.gate.wait(30)
        self.together.append(len(texts))
        if self.error is not None:
            raise self.error
        return super().parameterize(texts)


def slow_engine() -> tuple[Engine, Slow]:
    slow = Slow()
    return Engine(slow._base, slow, AnswerPolicy(max_new_tokens=4, unit_tokens=64)), slow


def opened(folder: Path, engine: Engine) -> ParametricMemory:
    return ParametricMemory.open("alice", url=f"sqlite:///{folder / 'log.db'}", engine=engine)


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[MemoryPool]:
    with MemoryPool(f"sqlite:///{tmp_path / 'plume.db'}", engine=tiny_engine(shares_a=True)) as made:
        yield made


def test_texts_that_were_told_meanwhile_are_written_together(tmp_path: Path) -> None:
    engine, slow = slow_engine()
    slow.gate.clear()
    with opened(tmp_path, engine) as memory:
        for text in TEXTS:
            memory.update(text, derive="later")
        slow.gate.set()
        memory.flush()
        assert sorted(slow.calls) == sorted(TEXTS)
        assert len(slow.together) <= 2 + -(-len(TEXTS) // STRIDE)
        slow.calls.clear()
        memory.at().derive()
        assert slow.calls == [], "what was derived is there"
        memory.update("One more.")
        assert len([p for p in (tmp_path / "log.db.artifacts").rglob("*") if p.is_file()]) == 1


@pytest.mark.parametrize("shares_a", [True, False])
def test_derived_later_is_what_derived_now_is(tmp_path: Path, shares_a: bool) -> None:
    said = []
    for derive in ("later", True):
        folder = tmp_path / str(derive)
        folder.mkdir()
        with opened(folder, tiny_engine(shares_a=shares_a)) as memory:
            for text in TEXTS[:6]:
                memory.update(text, derive=derive)  # type: ignore[arg-type]
            answer = memory.ask("What is the number of room 3?")
            memory.flush()
            said.append((answer.text, answer.version, memory.ask("What is the number of room 3?").text))
    assert said[0] == said[1]


def test_a_read_that_comes_sooner_goes_on_from_what_is_derived(tmp_path: Path) -> None:
    engine, slow = slow_engine()
    with opened(tmp_path, engine) as memory:
        for text in TEXTS[:40]:
            memory.update(text, derive="later")
        memory.at().derive()
        memory.flush()
        assert sorted(set(slow.calls)) == sorted(TEXTS[:40])
        assert len(slow.calls) <= 40 + STRIDE, "what was at hand in the thread may be written twice, no more"


def test_an_error_is_logged_raised_by_flush_and_met_by_the_next_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine, slow = slow_engine()
    with opened(tmp_path, engine) as memory:
        slow.error = ParameterizerError("no room")
        assert memory.update("Alice sails.", derive="later").number == 1
        with caplog.at_level(logging.ERROR), pytest.raises(ParameterizerError, match="no room"):
            memory.flush()
        memory.flush()
        assert "the log is whole" in caplog.text
        with pytest.raises(ParameterizerError, match="no room"):
            memory.ask("What does Alice do?")
        slow.error = None
        assert memory.ask("What does Alice do?").version == 1


def test_closing_finishes_what_is_at_hand_and_leaves_the_rest_to_the_next_read(tmp_path: Path) -> None:
    engine, slow = slow_engine()
    slow.gate.clear()
    slow.reached.clear()
    memory = opened(tmp_path, engine)
    memory.update(TEXTS[0], derive="later")
    assert slow.reached.wait(30)
    for text in TEXTS[1:]:
        memory.update(text, derive="later")
    closing = threading.Thread(target=memory.close)
    closing.start()
    time.sleep(0.1)
    slow.gate.set()
    closing.join(30)
    assert not closing.is_alive()
    assert slow.calls == [TEXTS[0]]
    with pytest.raises(MemoryClosed):
        memory.update("One more.", derive="later")
    memory.close()
    engine, slow = slow_engine()
    with opened(tmp_path, engine) as memory:
        memory.at().derive()
        assert sorted(slow.calls) == sorted(TEXTS[1:])


def test_memories_take_turns(pool: MemoryPool) -> None:
    for text in TEXTS[:40]:
        pool.memory("alice").update(text, derive="later")
        pool.memory("bob").update(text, derive="later")
    pool.flush()
    calls = pool.engine.parameterizer.calls  # type: ignore[union-attr]
    assert sorted(calls) == sorted(2 * TEXTS[:40])
    pool.close()
    pool.close()


def test_nothing_of_an_erased_text_is_kept_that_is_being_derived(tmp_path: Path) -> None:
    engine, slow = slow_engine()
    with opened(tmp_path, engine) as memory:
        memory.update("Alice sails.")
        slow.gate.clear()
        slow.reached.clear()
        memory.update("The secret is out.", derive="later")
        assert slow.reached.wait(30)
        memory.erase(2, derive=False)
        slow.gate.set()
        memory.flush()
        assert len(engine.encoder.recent) == 0
        assert [p for p in (tmp_path / "log.db.artifacts").rglob("*") if p.is_file()] == []
        slow.calls.clear()
        memory.at().derive()
        assert slow.calls == ["Alice sails."]


def test_a_closed_deriver_takes_nothing_and_another_kind_is_refused(pool: MemoryPool) -> None:
    deriver = Deriver()
    deriver.close()
    deriver.begin(pool.memory("alice"), 1)
    deriver.flush()
    with pytest.raises(InvalidInput, match="derive is True, False or 'later'"):
        pool.memory("alice").update("Alice sails.", derive="soon")  # type: ignore[arg-type]
    assert pool.memory("alice").version == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_refuses_and_hangs_neither_there_nor_when_it_closes(tmp_path: Path) -> None:
    engine, slow = slow_engine()
    slow.gate.clear()
    slow.reached.clear()
    memory = opened(tmp_path, engine)
    memory.update(TEXTS[0], derive="later")
    assert slow.reached.wait(30)

    def work() -> None:
        with pytest.raises(ForkedEngine):
            memory.update("Bob rows.", derive="later")
        memory.flush()  # what the parent had begun is the parent's
        memory.close()

    assert exit_code(work) == 0
    slow.gate.set()
    memory.close()
    assert slow.calls == [TEXTS[0]]


def exit_code(work: Callable[[], None]) -> int | None:
    child = multiprocessing.get_context("fork").Process(target=work)
    child.start()
    child.join(60)
    if child.is_alive():
        child.kill()
    return child.exitcode


def test_closing_wakes_who_waits_for_everything() -> None:
    """Jobs that a closed thread never begins must not be waited for."""
    reached, gate = threading.Event(), threading.Event()

    class Memory:
        def __init__(self, name: str) -> None:
            self.name = name

        def derive_until(self, number: int) -> None:
            reached.set()
            assert gate.wait(30)

    deriver = Deriver()
    for name in ("a", "b", "c"):
        deriver.begin(Memory(name), 1)
    assert reached.wait(30)
    waits = threading.Thread(target=deriver.flush, daemon=True)
    waits.start()
    closes = threading.Thread(target=deriver.close, daemon=True)
    closes.start()
    time.sleep(0.05)
    gate.set()
    closes.join(30)
    waits.join(30)
    assert not waits.is_alive()
    assert not closes.is_alive()
