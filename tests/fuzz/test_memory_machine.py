"""Whatever is done to a memory in whatever order, and whatever fails meanwhile: it holds what the simple model holds.

A short pass by default, `make soak` (PLUME_SOAK=1) takes twenty times as many; PLUME_SEED=7 draws others. The model
is memory_model.py. Faults: artifacts deleted or damaged, rows of derivations deleted, a commit that the database
refuses, memories closed and opened again.
"""

import importlib.util
import os
import random
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from plume_memory.answering.embedded import Embedded
from plume_memory.answering.pinned import Snapshot
from plume_memory.answering.replaced import Replaced
from plume_memory.engine import Engine
from plume_memory.errors import (
    IdempotencyConflict,
    InvalidInput,
    MemoryExists,
    StoreUnavailable,
    VersionConflict,
    VersionNotFound,
)
from plume_memory.memory import ParametricMemory
from plume_memory.policy import AnswerPolicy
from plume_memory.records import Answer, Difference, History, Transition, Verdict, Version
from plume_memory.segmentation.told import told_of
from plume_memory.store.database import Database
from plume_memory.superseding import Superseding
from plume_memory.testing import tiny_engine

SOAK = os.environ.get("PLUME_SOAK") == "1"
SEED = int(os.environ.get("PLUME_SEED", "20261121"))
EXAMPLES, STEPS = (300 if SOAK else 15), 20
QUESTION = "What was noted last?"
SETTINGS = AnswerPolicy(max_new_tokens=2, unit_tokens=64)
NAMES = ("alice", "bob", "cem")


def _module(path: Path) -> ModuleType:
    """Import a file that lies on no import path."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


modelled = _module(Path(__file__).parent / "memory_model.py")


class Keeper:
    """A cache in memory, for the answers of an undisturbed engine."""

    place = "undisturbed"
    owner = "nobody"

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.kept.get(key)

    def put(self, key: str, kind: str, content: bytes) -> None:
        self.kept[key] = content

    def is_current(self) -> bool:
        return True

    def discard(self, key: str) -> None:
        self.kept.pop(key, None)


class Says:
    """A judge that finds a replacement in every third pair."""

    sha256 = "says"

    def verdicts(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        return [Verdict(0, 0, 1) if (len(a) + len(b)) % 3 == 0 else Verdict(1, 0, 0) for a, b in pairs]


def judging_engine() -> Engine:
    engine = tiny_engine(policy=SETTINGS, additive=True)
    engine.superseding = Superseding(engine.base, Says(), 0.9)  # type: ignore[arg-type]
    return engine


class Undisturbed:
    """Answers to histories that nothing has happened to."""

    def __init__(self) -> None:
        self._engine, self._cache = judging_engine(), Keeper()
        self._answers: dict[tuple[tuple[int, str], ...], Answer] = {}

    def ask(self, history: list[tuple[int, str]]) -> Answer:
        key = tuple(history)
        if key not in self._answers:
            self._answers[key] = self._asked(key)
        return self._answers[key]

    def _asked(self, history: tuple[tuple[int, str], ...]) -> Answer:
        transitions = tuple(Transition(*each) for each in history)
        units = self._engine.segmenter.units(transitions)
        replaced = Replaced(self._engine, self._cache, told_of(transitions, units))
        whole = History("", 0, transitions)
        embedded = Embedded(self._engine.embedding, self._cache, told_of(whole.transitions, units))
        return Snapshot(whole, self._engine.index(units), replaced, embedded, self._engine, self._cache).ask(QUESTION)


ENGINE = judging_engine()
UNDISTURBED = Undisturbed()


class MemoryMachine(RuleBasedStateMachine):
    """Three memories of one SQLite file at most: one and its forks, each with a connection of its own."""

    template: Path
    """An empty database with the schema."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="plume-machine-"))
        shutil.copy(self.template, self.folder / "plume.db")
        self.world = modelled.World("alice")
        self.opened: dict[str, ParametricMemory] = {}
        self.refuse_in = 0
        """The writer's commit that is refused, counted from the next, 1; none at 0 and below."""
        self.is_write = False
        self.counter = 0

    @initialize(updates=st.integers(0, 6).map(lambda number: 6 - number), forks=st.integers(0, 2))
    def begin(self, updates: int, forks: int) -> None:
        """Most machines start with a few updates and a fork: an empty memory is soon explored."""
        self.open("alice")
        model = self.world.memories["alice"]
        for _ in range(updates):
            words, key = tuple(self.new("kiwi") for _ in range(4)), self.new("key")
            self.opened["alice"].update(" ".join(words), idempotency_key=key)
            model.update(modelled.Said(words, " ".join(words)), {}, key)
        for _ in range(forks):
            self.make_fork("alice", updates or None)

    def teardown(self) -> None:
        for name, memory in self.opened.items():
            self.check_every_version(name)
            memory.close()
        shutil.rmtree(self.folder)

    def open(self, name: str) -> None:
        memory = ParametricMemory.open(name, url=f"sqlite:///{self.folder / 'plume.db'}", engine=ENGINE)
        engine = memory._database._made()
        sa.event.listen(engine, "begin", self.note_begin)
        commit = engine.dialect.do_commit

        def refuse_or_commit(connection: Any) -> None:
            """Do what SQLite does when the disk is full: take the transaction back and say so."""
            self.refuse_in -= self.is_write
            if self.is_write and self.refuse_in == 0:
                connection.rollback()
                raise sqlite3.OperationalError("database or disk is full")
            commit(connection)

        engine.dialect.do_commit = refuse_or_commit  # type: ignore[method-assign]
        self.opened[name] = memory

    def note_begin(self, connection: sa.Connection) -> None:
        self.is_write = connection.get_execution_options().get("plume_write", False)

    # --- drawing ------------------------------------------------------------------------------------

    def pick(self, data: st.DataObject) -> tuple[str, ParametricMemory, Any]:
        name = data.draw(st.sampled_from(sorted(self.opened)), label="memory")
        return name, self.opened[name], self.world.memories[name]

    def new(self, what: str) -> str:
        self.counter += 1
        return f"{what}{self.counter:04d}"

    def new_words(self, data: st.DataObject) -> tuple[str, ...]:
        return tuple(self.new("kiwi") for _ in range(data.draw(st.integers(1, 6), label="words")))

    def draw_run(self, data: st.DataObject, words: tuple[str, ...]) -> tuple[str, ...]:
        first = data.draw(st.integers(0, len(words) - 1), label="first word")
        return words[first : data.draw(st.integers(first + 1, len(words)), label="behind the last word")]

    def draw_key(self, data: st.DataObject) -> str | None:
        return self.new("key") if data.draw(st.booleans(), label="with a key") else None

    # --- writing ------------------------------------------------------------------------------------

    @rule(data=st.data(), derive=st.booleans(), expected=st.booleans())
    def update(self, data: st.DataObject, derive: bool, expected: bool) -> None:
        _, memory, model = self.pick(data)
        words, key = self.new_words(data), self.draw_key(data)
        metadata = data.draw(st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2))
        options: dict[str, Any] = {"metadata": metadata, "idempotency_key": key, "derive": derive}
        if expected:
            options["expected_version"] = model.head
        made = memory.update(" ".join(words), **options)
        model.update(modelled.Said(words, " ".join(words)), metadata, key)
        assert made.number == model.head

    @rule(data=st.data())
    def repeat_an_update(self, data: st.DataObject) -> None:
        _, memory, model = self.pick(data)
        known = [n for n in model.updates() if model.entries[n - 1].key is not None]
        if known:
            number = data.draw(st.sampled_from(known))
            text, key = model.said(number).in_log, model.entries[number - 1].key
            assert memory.update(text, idempotency_key=key, expected_version=model.head + 7).number == number
            with pytest.raises(IdempotencyConflict):
                memory.update(self.new("other"), idempotency_key=key)
            with pytest.raises(IdempotencyConflict):
                memory.forget(number, idempotency_key=key)

    @rule(data=st.data())
    def roll_back(self, data: st.DataObject) -> None:
        _, memory, model = self.pick(data)
        if model.head:
            to = data.draw(st.integers(1, model.head), label="to")
            assert memory.rollback(to=to, metadata={"by": "hand"}).restores == to
            model.rollback(to, {"by": "hand"})

    @rule(data=st.data(), how=st.sampled_from(["version", "span", "words", "words of the version"]))
    def forget(self, data: st.DataObject, how: str) -> None:
        name, memory, model = self.pick(data)
        found = self.draw_held(data, model, whole=how == "version")
        if found is None:
            return
        number, words = found
        key, metadata = self.draw_key(data), {"reason": "asked to"}
        named = self.named(model, number, words, how)
        version: Version = memory.forget(**named, reason="asked to", idempotency_key=key)
        model.forget(number, words, metadata, key)
        assert version.number == model.head
        if key is not None:
            assert memory.forget(**named, reason="again", idempotency_key=key) == version
        assert self.head_history(name) == model.history()

    @rule(
        data=st.data(),
        how=st.sampled_from(["version", "span", "words", "words of the version"]),
        refused=st.sampled_from([None, None, 1, 2, 3]),
        derive=st.booleans(),
    )
    def erase(self, data: st.DataObject, how: str, refused: int | None, derive: bool) -> None:
        self.take_out(data, how, refused, derive)

    def take_out(self, data: st.DataObject, how: str, refused: int | None, derive: bool) -> None:
        """Erase; if a commit is refused, the first of them undoes it all, and any other is made good later."""
        name, memory, model = self.pick(data)
        found = self.draw_stored(data, model, how)
        if found is None:
            return
        number, words = found
        named, key = self.named(model, number, words, how), self.draw_key(data)
        at = data.draw(st.integers(0, min(each.head for each in self.world.memories.values())), label="read at")
        for other in self.opened:  # each of them then keeps a snapshot, which the erasure makes stale
            self.check_answer(other, at)
        options: dict[str, Any] = {"reason": "asked to", "idempotency_key": key, "derive": derive}
        if how == "span" and key is None:
            options["expected_version"] = model.head
        if refused:
            self.refuse_in = refused
            with suppress(StoreUnavailable):  # there may be fewer commits
                memory.erase(**named, **options)
            is_undone, self.refuse_in = refused == 1 and self.refuse_in == 0, 0
            if is_undone:
                self.nothing_has_changed()
        certificate = memory.erase(**named, **options)
        if model.said(number).in_log:
            copies = self.world.erase(name, number, words, {"reason": "asked to"}, key)
            assert {text.memory for text in certificate.erased} == copies
        assert certificate.version == self.world.memories[name].entries[number - 1].erased_by
        for other in self.opened:
            self.check_every_version(other)
            self.check_answer(other, at)
        if number <= at and len(self.opened) < len(NAMES):
            self.make_fork(name, at)  # of a version before the erasure, which reaches it all the same

    @rule(data=st.data(), how=st.sampled_from(["span", "words"]))
    def erase_a_part(self, data: st.DataObject, how: str) -> None:
        """Once more, for an erasure is what is hardest to get right."""
        self.take_out(data, how, refused=None, derive=False)

    def named(self, model: Any, number: int, words: tuple[str, ...] | None, how: str) -> dict[str, Any]:
        """Return how a caller says what is to be forgotten or erased."""
        if how == "version" or words is None:
            return {"version": number}
        if how == "span":
            return {"version": number, "span": model.said(number).place(words)}
        text = {"text": " ".join(words)}
        return text if how == "words" else {"version": number, **text}

    def draw_held(self, data: st.DataObject, model: Any, *, whole: bool) -> tuple[int, tuple[str, ...] | None] | None:
        """Draw something that can be forgotten: an update that holds, or neighbouring words of one."""
        held = [n for n in model.holding() if whole or model.held_words(n)]
        if not held:
            return None
        number = data.draw(st.sampled_from(held), label="update")
        return number, None if whole else self.draw_run(data, model.held_words(number))

    def draw_stored(self, data: st.DataObject, model: Any, how: str) -> tuple[int, tuple[str, ...] | None] | None:
        """Draw something that can be erased: an update, erased or not, or words that the log has side by side."""
        stored = [n for n in model.updates() if how == "version" or model.said(n).in_log.strip()]
        if not stored:
            return None
        number = data.draw(st.sampled_from(stored), label="update")
        if how == "version":
            return number, None
        parts = [part for part in model.said(number).in_log.split("  ") if part.strip()]
        return number, self.draw_run(data, tuple(data.draw(st.sampled_from(parts), label="part").split()))

    @precondition(lambda self: len(self.opened) < len(NAMES))
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        name, _, model = self.pick(data)
        at = data.draw(st.none() | st.integers(min(1, model.head), model.head), label="at") or None
        self.make_fork(name, at)

    def make_fork(self, name: str, at: int | None) -> None:
        memory, model, new_name = self.opened[name], self.world.memories[name], NAMES[len(self.opened)]
        assert memory.fork(new_name, at=at).name == new_name
        self.world.fork(name, new_name, model.head if at is None else at)
        self.open(new_name)
        self.check_every_version(new_name)

    # --- wrong calls --------------------------------------------------------------------------------

    @rule(data=st.data())
    def a_wrong_call_says_what_is_wrong(self, data: st.DataObject) -> None:
        name, memory, model = self.pick(data)
        absent = data.draw(st.sampled_from([-1, 0, model.head + 1, 2**70]), label="absent")
        held = list(model.holding())
        calls: list[tuple[type[Exception], Callable[[], object]]] = [
            (InvalidInput, lambda: memory.update(data.draw(st.sampled_from(["", " \n", "a\x00b", "\ud800"])))),
            (InvalidInput, lambda: memory.update("x", metadata={"x": float("nan")})),
            (InvalidInput, lambda: memory.update("x", idempotency_key="")),
            (VersionConflict, lambda: memory.update("x", expected_version=model.head + 1)),
            (VersionNotFound, lambda: memory.rollback(to=absent)),
            (VersionNotFound, lambda: memory.forget(absent)),
            (VersionNotFound, lambda: memory.erase(absent)),
            (InvalidInput, lambda: memory.forget(text="nowhere")),
            (InvalidInput, lambda: memory.erase(text="nowhere")),
            (InvalidInput, lambda: memory.forget()),
            (InvalidInput, lambda: memory.forget(span=(0, 1))),
            (MemoryExists, lambda: memory.fork(name)),
            (VersionNotFound, lambda: memory.fork("other", at=absent)),
            (VersionNotFound, lambda: memory.at(version=absent or -1)),
            (VersionNotFound, lambda: memory.diff(absent or -1, 0)),
            (VersionNotFound, lambda: memory.entry(absent)),
            (VersionNotFound, lambda: memory.at(time=datetime(2000, 1, 1, tzinfo=UTC))),
            (InvalidInput, lambda: memory.at(time=datetime(2000, 1, 1))),
            (InvalidInput, lambda: memory.at(version=0, time=datetime.now(UTC))),
            (InvalidInput, lambda: memory.ask(" ")),
            (InvalidInput, lambda: memory.route("x", k=0)),
        ]
        others = [n for n in range(1, model.head + 1) if n not in held]
        if others:  # no update, or one that holds no more
            calls.append((InvalidInput, lambda: memory.forget(data.draw(st.sampled_from(others)))))
        several = [n for n in held if len(model.held_words(n)) > 0]
        if len(several) > 1:
            calls.append((InvalidInput, lambda: memory.forget(text="kiwi")))
            calls.append((InvalidInput, lambda: memory.erase(text="kiwi")))
        if several:
            calls.append((InvalidInput, lambda: memory.forget(several[0], span=(0, 10**6))))
            calls.append((InvalidInput, lambda: memory.erase(several[0], span=(0, 1))))  # cannot be repeated safely
            repeats = model.said(several[0]).in_log
            calls.append((InvalidInput, lambda: memory.erase(several[0], reason=f"says {repeats}")))
        error, call = data.draw(st.sampled_from(calls), label="call")
        with pytest.raises(error) as raised:
            call()
        assert type(raised.value) is error
        self.nothing_has_changed()

    @rule(data=st.data(), kind=st.sampled_from(["update", "rollback", "forget", "fork"]))
    def a_refused_commit_changes_nothing(self, data: st.DataObject, kind: str) -> None:
        _, memory, model = self.pick(data)
        held = list(model.holding())
        calls: dict[str, Callable[[], object]] = {
            "update": lambda: memory.update("never", idempotency_key="never", derive=False),
            "rollback": lambda: memory.rollback(to=1),
            "forget": lambda: memory.forget(held[0]),
            "fork": lambda: memory.fork("never"),
        }
        is_possible = {"rollback": model.head > 0, "forget": bool(held)}.get(kind, True)
        self.refuse_in = 1
        with pytest.raises(StoreUnavailable, match="no room left"):
            calls[kind if is_possible else "update"]()
        assert self.refuse_in == 0
        self.nothing_has_changed()

    # --- reading ------------------------------------------------------------------------------------

    @rule(data=st.data(), how=st.sampled_from(["ask", "route", "compare", "look at a time"]))
    def read(self, data: st.DataObject, how: str) -> None:
        reading = {"ask": self.ask, "route": self.route, "compare": self.compare, "look at a time": self.look_at_a_time}
        reading[how](data)

    def ask(self, data: st.DataObject) -> None:
        name, _, model = self.pick(data)
        self.check_answer(name, data.draw(st.none() | st.integers(0, model.head), label="at"))

    def check_answer(self, name: str, at: int | None = None) -> None:
        memory, model = self.opened[name], self.world.memories[name]
        answer = memory.at(version=at).ask(QUESTION)
        expected = UNDISTURBED.ask(model.history(at))
        assert (answer.text, answer.version) == (expected.text, model.head if at is None else at)
        assert [token.js for token in answer.trace] == [token.js for token in expected.trace]

    def route(self, data: st.DataObject) -> None:
        _, memory, model = self.pick(data)
        routed = memory.route(QUESTION, k=100)
        assert [one.unit.text for one in sorted(routed, key=lambda one: one.unit.position)] == [
            text for _, text in model.history()
        ]

    def compare(self, data: st.DataObject) -> None:
        _, memory, model = self.pick(data)
        before, after = (data.draw(st.integers(0, model.head)) for _ in range(2))
        first, second = ([Transition(*each) for each in model.history(at)] for at in (before, after))
        removed = tuple(each for each in first if each not in second)
        added = tuple(each for each in second if each not in first)
        assert memory.diff(before, after) == Difference(before, after, removed, added)

    def look_at_a_time(self, data: st.DataObject) -> None:
        _, memory, model = self.pick(data)
        if not model.head:
            return
        times = [version.created_at for version in memory.history()]
        microseconds = data.draw(st.sampled_from([-1, 0, 1, 10**9]))
        moment = data.draw(st.sampled_from(times), label="time") + timedelta(microseconds=microseconds)
        expected = sum(time <= moment for time in times)
        if expected:
            assert memory.at(time=moment).version == expected
        else:
            with pytest.raises(VersionNotFound):
                memory.at(time=moment)

    # --- faults -------------------------------------------------------------------------------------

    @rule(data=st.data())
    def rebuild(self, data: st.DataObject) -> None:
        name, memory, model = self.pick(data)
        texts = [text for _, text in model.history()]
        assert memory.rebuild() == len(set(texts))
        self.check_answer(name)

    @rule(data=st.data())
    def close_and_open(self, data: st.DataObject) -> None:
        name, memory, _ = self.pick(data)
        memory.close()
        ENGINE.release(memory._artifacts.root_url)
        self.open(name)
        self.check_answer(name)

    @rule(data=st.data(), harm=st.sampled_from(["delete", "truncate", "flip"]), forget=st.booleans())
    def harm_artifacts(self, data: st.DataObject, harm: str, forget: bool) -> None:
        """Each of them has a chance of one half; the process may or may not hold them still."""
        name, _, model = self.pick(data)
        at = data.draw(st.integers(0, model.head), label="read at")
        self.check_answer(name, at)
        rng = random.Random(data.draw(st.integers(0, 10**6), label="seed"))
        for file in sorted(self.folder.glob("plume.db.artifacts/*/*/*")):
            content = bytearray(file.read_bytes())
            if rng.random() < 0.5 or not content:
                continue
            if harm == "delete":
                file.unlink()
                continue
            content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
            file.write_bytes(content if harm == "flip" else content[: rng.randrange(len(content))])
        if forget:
            for memory in self.opened.values():
                memory.let_go()
        self.check_answer(name, at)

    @rule(data=st.data(), forget=st.booleans())
    def delete_derivations(self, data: st.DataObject, forget: bool) -> None:
        name, memory, _ = self.pick(data)
        remainder = data.draw(st.integers(0, 1))
        with memory._database.write() as connection:
            connection.exec_driver_sql(f"DELETE FROM derivations WHERE rowid % 2 = {remainder}")
        if forget:
            memory.let_go()
        self.check_answer(name)

    # --- what always holds --------------------------------------------------------------------------

    def nothing_has_changed(self) -> None:
        assert not {"other", "never"} & set(self.opened["alice"]._log.names())
        for name in self.opened:
            self.check(name)

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        for name in self.opened:
            self.check(name)

    def check(self, name: str) -> None:
        memory, model = self.opened[name], self.world.memories[name]
        found = memory.history()
        assert [version.number for version in found] == list(range(1, model.head + 1))
        assert memory.verify().versions == memory.version == model.head
        assert [version.created_at for version in found] == sorted(version.created_at for version in found)
        for version, entry in zip(found, model.entries, strict=True):
            metadata = {key: value for key, value in version.metadata.items() if key != "erased"}
            assert (version.kind, version.text) == (entry.kind, entry.said.in_log if entry.said else "")
            assert (version.restores, version.forgets, version.span) == (entry.restores, entry.forgets, entry.span)
            assert (metadata, version.idempotency_key) == (entry.metadata, entry.key)
            assert version.erased_by == entry.erased_by
        assert self.head_history(name) == model.history()

    def head_history(self, name: str, at: int | None = None) -> list[tuple[int, str]]:
        return [(each.version, each.text) for each in self.opened[name].text_at(at).transitions]

    def check_every_version(self, name: str) -> None:
        model = self.world.memories[name]
        assert all(self.head_history(name, at) == model.history(at) for at in range(model.head + 1))


def test_a_memory_is_what_the_model_says_whatever_is_done_and_whatever_fails(tmp_path: Path) -> None:
    MemoryMachine.template = tmp_path / "empty.db"
    with Database(f"sqlite:///{MemoryMachine.template}") as database:
        database.upgrade()
    run_state_machine_as_test(
        seed(SEED)(MemoryMachine),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            database=None,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        ),
    )
