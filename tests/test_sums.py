"""Running sums: equal to a sum made anew after any history, at the cost of what is new; an erasure leaves none."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from torch import Tensor

from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.answering.pinned import Snapshot
from plume_memory.errors import ArtifactDamaged, FactorsError, InvalidInput
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.lora.sums import Adder, RunningSum, from_bytes, relative_gap, to_bytes
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.derivations import Derivations
from plume_memory.testing import HashParameterizer, memory_database, tiny_base, tiny_engine

MODULE = "mlp.down_proj"
CLOSE = 1e-6
LONG = " ".join(f"Room {i} has the number {7 * i}, as they say." for i in range(4))


def engine_of(policy: AnswerPolicy | None = None) -> Engine:
    """An engine whose texts share their A; a window holds 64 bytes, so a long text is several."""
    base = tiny_base("llama")
    chosen = policy or AnswerPolicy(max_new_tokens=4, unit_tokens=64)
    return Engine(base, HashParameterizer(base, shares_a=True, max_tokens=64), chosen)


def calls(engine: Engine) -> list[str]:
    assert isinstance(engine.parameterizer, HashParameterizer)
    return engine.parameterizer.calls


def opened(folder: Path, engine: Engine | None = None, name: str = "alice") -> ParametricMemory:
    return ParametricMemory.open(name, url=f"sqlite:///{folder / 'log.db'}", engine=engine or engine_of())


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[ParametricMemory]:
    with opened(tmp_path) as made:
        yield made


def files(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in (folder / "log.db.artifacts").rglob("*") if p.is_file()}


def sum_of(snapshot: Snapshot) -> RunningSum:
    return snapshot._engine._sums.of(snapshot._history, snapshot._cache, snapshot._lineage)


def added(engine: Engine, texts: Sequence[str]) -> Tensor:
    """Σ B of texts, in float64, made anew of a parameterizer of its own."""
    fresh = HashParameterizer(engine.base, shares_a=True, max_tokens=64)
    return sum((f.modules[MODULE].B.double() for f in fresh.parameterize(texts)), torch.zeros((), dtype=torch.float64))


def expected_adapter(engine: Engine, snapshot: Snapshot) -> Tensor | None:
    """B of ΔW_g by METHOD's formula, from the texts alone."""
    history, policy = snapshot._history, engine.policy
    full, old = (engine.segmenter.windows(side) for side in (history.transitions, history.predecessor))
    if not full:
        return None
    whole, before = added(engine, full), added(engine, old)
    composed = policy.alpha * whole + (policy.beta * (whole - before) if old else 0)
    return composed / (len(full) if policy.global_windows == "mean" else 1)


def check(memory: ParametricMemory, number: int | None = None) -> None:
    snapshot, engine = memory.at(version=number), memory.engine
    expected, found = expected_adapter(engine, snapshot), snapshot.global_adapter
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert relative_gap({MODULE: found.modules[MODULE].B * found.scale}, {MODULE: expected}) < CLOSE
        windows = engine.segmenter.windows(snapshot._history.transitions)
        assert relative_gap(sum_of(snapshot).total, {MODULE: added(engine, windows)}) < CLOSE


# --- equal to what is made anew -------------------------------------------------------------------


def step(memory: ParametricMemory, rng: random.Random) -> None:
    """One thing that a caller may do."""
    held = [transition.version for transition in memory.text_at().transitions]
    kind = rng.choices(("update", "forget", "part", "rollback", "erase"), (12, 2, 1, 1, 1))[0] if held else "update"
    if kind == "update":
        text = rng.choice((f"Fact {rng.randrange(30)} holds.", f"{LONG} And {rng.randrange(99)}.", "The same again."))
        memory.update(text, derive=rng.random() < 0.7)
    elif kind == "forget":
        memory.forget(rng.choice(held))
    elif kind == "part":
        with suppress(InvalidInput):  # it was forgotten before
            memory.forget(rng.choice(held), span=(0, 4))
    elif kind == "rollback":
        memory.rollback(to=rng.randrange(1, memory.version + 1))
    else:
        memory.erase(rng.choice(held), derive=rng.random() < 0.5)


@pytest.mark.parametrize("way", ["sum", "mean"])
@pytest.mark.parametrize("seed", range(3))
def test_after_any_history_the_sum_is_what_it_would_be_made_anew(tmp_path: Path, way: str, seed: int) -> None:
    policy = AnswerPolicy(max_new_tokens=4, unit_tokens=64, global_windows=way)  # type: ignore[arg-type]
    rng = random.Random(seed)
    memory = opened(tmp_path, engine_of(policy))
    for number in range(60):
        step(memory, rng)
        if rng.random() < 0.5:
            check(memory)
        if number % 12 == 5:  # another process
            memory.close()
            memory = opened(tmp_path, engine_of(policy))
        if number % 7 == 3:
            check(memory, rng.randrange(1, memory.version + 1))
    check(memory)
    assert len(files(tmp_path)) <= 1, "one sum is kept of a memory"
    memory.close()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_thousands_of_additions_and_as_many_subtractions_stay_exact(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(1, 2, 8, generator=generator).to(dtype)
    texts = [
        LoraFactors({"m": Pair(A, torch.randn(1, 2, 8, generator=generator).to(dtype))}, (0,)) for _ in range(5000)
    ]
    adder = Adder()
    for factors in texts:
        adder.add(factors, 1)
    whole = sum((f.modules["m"].B.double() for f in texts), torch.zeros((), dtype=torch.float64))
    assert relative_gap(adder.total(), {"m": whole}) < CLOSE
    for factors in texts[10:]:
        adder.add(factors, -1)
    few = sum((f.modules["m"].B.double() for f in texts[:10]), torch.zeros((), dtype=torch.float64))
    assert relative_gap(adder.total(), {"m": few}) < 10 * CLOSE


# --- what it costs --------------------------------------------------------------------------------


def test_an_update_writes_its_own_text_and_leaves_one_file(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    sizes = []
    for number in range(80):
        calls(memory.engine).clear()
        memory.update(f"Update {number}.")
        assert calls(memory.engine) == [f"Update {number}."]
        sizes.append(sum(map(len, files(tmp_path).values())))
        assert len(files(tmp_path)) == 1
    assert max(sizes) <= min(sizes[1:]) + 64
    memory.close()


def test_what_an_update_reads_does_not_grow(memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    get = ArtifactStore.get
    monkeypatch.setattr(ArtifactStore, "get", lambda self, sha256: read.append(sha256) or get(self, sha256))
    counted: list[int] = []
    told = memory._log.history
    monkeypatch.setattr(memory._log, "history", lambda *args: counted.append(1) or told(*args))
    for number in range(80):
        memory.update(f"Update {number}.")
    assert read == [], "the sum before is there"
    assert len(counted) == 1, "the log's texts are read once, then the new ones alone"


def test_another_process_goes_on_from_the_kept_sum(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for number in range(5):
            memory.update(f"Update {number}.")
        expected = memory.at().global_adapter
    with opened(tmp_path) as memory:
        found = memory.at().global_adapter
        assert calls(memory.engine) == []
        assert found is not None and expected is not None  # noqa: PT018
        assert torch.equal(found.modules[MODULE].B, expected.modules[MODULE].B)
        memory.update("One more.")
        assert calls(memory.engine) == ["One more."]


def test_after_a_forget_the_forgotten_text_is_taken_away(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for number in range(9):
            memory.update(f"Update {number}.")
    with opened(tmp_path) as memory:
        memory.forget(3)
        check(memory)
        assert set(calls(memory.engine)) == {"Update 2.", "Update 8."}, "what is taken away, and the newest"


def test_a_rollback_takes_the_cheaper_way(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for number in range(9):
            memory.update(f"Update {number}.")
        for back, texts in ((8, {"Update 7."}), (2, {"Update 0.", "Update 1."})):
            with opened(tmp_path) as other:
                other.rollback(to=back)
                check(other)
                assert set(calls(other.engine)) == texts


def test_an_older_version_is_read_without_losing_the_newest_sum(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for number in range(9):
            memory.update(f"Update {number}.")
        kept = files(tmp_path)
    with opened(tmp_path) as memory:
        check(memory, 2)
        assert files(tmp_path) == kept


def test_a_repeated_text_counts_as_often_as_it_was_told(memory: ParametricMemory) -> None:
    for _ in range(3):
        memory.update("The same.")
    check(memory)
    assert sum_of(memory.at()).windows == 3
    memory.forget(2)
    check(memory)


def test_a_text_that_is_no_words_adds_nothing(memory: ParametricMemory) -> None:
    memory.update("QUJD" * 200)
    check(memory)
    memory.update("Alice lives in Bern.")
    check(memory)
    memory.update("QUJD" * 200)
    check(memory)


def test_windows_that_an_earlier_release_kept_are_read(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.update("Alice lives in Bern.", derive=False)
        memory.engine.encoder.factors("Alice lives in Bern.", memory.at()._cache)
    with opened(tmp_path) as memory:
        check(memory)
        assert calls(memory.engine) == []


# --- whose it is, and what is gone ----------------------------------------------------------------


def test_an_erasure_deletes_the_sum_and_names_it(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for text in ("Alice sails.", "The secret is out.", "Bob rows."):
            memory.update(text)
        before = files(tmp_path)
        certificate = memory.erase(2)
        assert set(certificate.artifacts) >= set(before)
        assert not set(files(tmp_path)) & set(before)
        check(memory)
        assert sum_of(memory.at()).windows == 2


def test_a_sum_that_is_made_while_its_text_is_erased_is_not_kept(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for text in ("Alice sails.", "The secret is out."):
            memory.update(text, derive=False)
        pinned = memory.at()
        memory.erase(2, derive=False)
        held = pinned.global_adapter
        assert held is not None
        assert files(tmp_path) == {}
        assert len(memory.engine.encoder.recent) == 0
        calls(memory.engine).clear()
        assert pinned.global_adapter is held, "who holds the snapshot holds it, and it alone"


def test_a_fork_keeps_the_sum_though_its_source_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.update("Alice sails.")
        memory.update("Bob rows.")
        memory.fork("copy")
        memory.update("Carol flies.")
    with opened(tmp_path, name="copy") as copy:
        check(copy)
        assert calls(copy.engine) == []
        copy.update("Dora dives.")
        check(copy)


def test_a_lost_sum_is_made_again(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.update("Alice sails.")
        memory.update("Bob rows.")
    for path in (tmp_path / "log.db.artifacts").rglob("*"):
        if path.is_file():
            path.unlink()
    with opened(tmp_path) as memory:
        check(memory)
        assert len(files(tmp_path)) == 1


def test_a_rebuild_makes_the_sum_of_every_text(memory: ParametricMemory) -> None:
    for number in range(4):
        memory.update(f"Update {number}.")
    calls(memory.engine).clear()
    assert memory.rebuild() == 4
    assert sorted(calls(memory.engine)) == [f"Update {number}." for number in range(4)]


# --- checked, bounded, written --------------------------------------------------------------------


def damage(memory: ParametricMemory, change: Callable[[RunningSum], RunningSum]) -> None:
    """Keep another sum under the key of the newest version, as a faulty release would have."""
    snapshot = memory.at()
    key = memory.engine.encoder.sum_key(snapshot._lineage.digests[-1])
    content = snapshot._cache.get(key)
    assert content is not None
    sha256 = memory._artifacts.put(to_bytes(change(from_bytes(content)), narrow=torch.float32))
    with memory._database.write() as connection:
        for table in ("derivations", "derivation_sources"):
            connection.exec_driver_sql(f"UPDATE {table} SET sha256 = ? WHERE key = ?", (sha256, key))
    assert Derivations(memory._database).lookup(key, memory.name) is not None


def twice(part: str) -> Callable[[RunningSum], RunningSum]:
    def change(made: RunningSum) -> RunningSum:
        total, last = ({name: tensor * (1 + (part == own)) for name, tensor in tensors.items()}
                       for own, tensors in (("total", made.total), ("last", made.last)))  # fmt: skip
        return RunningSum(total, last, made.layers, made.version, made.windows, made.last_windows)

    return change


def test_a_kept_sum_is_compared_as_a_whole_or_by_its_newest_text(memory: ParametricMemory) -> None:
    for text in ("Alice sails.", "Bob rows.", LONG):
        memory.update(text)
    windows = len(memory.engine.segmenter.windows(memory.text_at().transitions))
    newest = windows - 2
    assert newest > 1
    assert [memory.verify(derived=n).derived for n in (0, 1, 99)] == [0, newest, windows]


@pytest.mark.parametrize(("part", "sample"), [("last", 1), ("last", 9), ("total", 9)])
def test_a_sum_that_was_made_wrongly_is_found(memory: ParametricMemory, part: str, sample: int) -> None:
    for text in ("Alice sails.", "Bob rows.", "Carol flies."):
        memory.update(text)
    damage(memory, twice(part))
    with pytest.raises(ArtifactDamaged, match="derived wrongly"):
        memory.verify(derived=sample)
    memory.rebuild()
    assert memory.verify(derived=9).derived == 3


def test_a_process_keeps_bytes_not_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plume_memory.encoding.RECENT_BYTES", 20_000)
    engine = engine_of()
    with opened(tmp_path, engine) as memory:
        for number in range(30):
            memory.update(f"Update {number}.")
            memory.at(version=1 + number // 2).ask("What?")
        recent = engine.encoder.recent
        assert sum(engine.encoder._nbytes(made) for made in recent._kept.values()) <= 20_000
        check(memory)


def test_a_sum_is_written_whole_and_small_where_that_is_exact() -> None:
    total = {"m": torch.randn(1, 2, 8)}
    made = RunningSum(total, {"m": torch.ones(1, 2, 8)}, (0,), 7, 3, 1)
    wide = RunningSum(total, {"m": torch.full((1, 2, 8), 1 / 3)}, (0,), 7, 3, 1)
    assert len(to_bytes(made, narrow=torch.bfloat16)) < len(to_bytes(wide, narrow=torch.bfloat16))
    for one in (made, wide):
        read = from_bytes(to_bytes(one, narrow=torch.bfloat16))
        assert (read.layers, read.version, read.windows, read.last_windows) == ((0,), 7, 3, 1)
        assert torch.equal(read.total["m"], one.total["m"])
        assert torch.equal(read.last["m"], one.last["m"])


NEWER = to_bytes(RunningSum({}, {}, (0,), 1, 0, 0), narrow=torch.float32).replace(b'format\\":1', b'format\\":2')


@pytest.mark.parametrize("content", [b"", b"\x00" * 20, b"\xff" * 40, NEWER])
def test_bytes_that_are_no_sum_are_refused(content: bytes) -> None:
    with pytest.raises(FactorsError):
        from_bytes(content)


def test_the_tiny_engine_shares_its_a_when_asked() -> None:
    engine = tiny_engine(shares_a=True)
    with memory_database():
        assert engine.parameterizer is not None
        assert engine.parameterizer.shared_a is not None
