"""A folder of artifacts takes no more than it may: what was not used for the longest time goes, and is not missed."""

import hashlib
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from plume_memory import ParametricMemory
from plume_memory.errors import ArtifactMissing, InvalidInput
from plume_memory.pool import MemoryPool
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.capacity import DEFAULT_BYTES, VARIABLE, capacity
from plume_memory.testing import tiny_engine

KIB = 1024


def content(number: int, size: int = KIB) -> bytes:
    return bytes([number % 256, number // 256]) * (size // 2)


def files(root: Path) -> list[Path]:
    return [path for path in root.rglob("*") if path.is_file()]


def taken(root: Path) -> int:
    return sum(path.stat().st_size for path in files(root))


def path_of(root: Path, sha256: str) -> Path:
    return root / sha256[:2] / sha256[2:4] / sha256


def aged(root: Path, sha256: str, seconds: float) -> None:
    """As if it was used that long ago."""
    then = time.time() - seconds
    os.utime(path_of(root, sha256), (then, then))


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("1", 1),
        ("268435456", 2**28),
        ("512M", 2**29),
        ("2 g", 2**31),
        ("3KiB", 3 * KIB),
        ("1TB", 2**40),
        ("  ", DEFAULT_BYTES),
    ],
)
def test_what_a_folder_may_take_is_said_in_bytes(monkeypatch: pytest.MonkeyPatch, asked: str, found: int) -> None:
    monkeypatch.setenv(VARIABLE, asked)
    assert capacity() == found


@pytest.mark.parametrize("asked", ["much", "-1", "0", "0G", "1.5G", "1X", "G", "1e9", "1G 2"])
def test_what_is_no_number_of_bytes_is_refused_when_a_memory_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    monkeypatch.setenv(VARIABLE, asked)
    url = f"sqlite:///{tmp_path / 'log.db'}"
    for opening in (
        lambda: ArtifactStore(str(tmp_path)),
        lambda: ParametricMemory.open("alice", url=url, engine=tiny_engine()),
        lambda: MemoryPool(url, engine=tiny_engine()),
    ):
        with pytest.raises(InvalidInput, match=f"{VARIABLE} says how many bytes.*{asked!r}.*512M or 2G"):
            opening()
    assert not (tmp_path / "log.db").exists()


def test_the_default_is_a_gibibyte(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert capacity() == 2**30


def test_a_folder_stays_within_its_capacity_and_keeps_what_was_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "64K")
    store = ArtifactStore(str(tmp_path))
    used = store.put(content(0))
    for number in range(1, 300):
        aged(tmp_path, store.put(content(number)), seconds=300 - number)
        assert store.get(used) == content(0)
        assert taken(tmp_path) <= 64 * KIB + 64 * KIB // 16
    assert store.has(hashlib.sha256(content(299)).hexdigest())
    with pytest.raises(ArtifactMissing):
        store.get(hashlib.sha256(content(1)).hexdigest())


def test_what_is_there_already_counts_for_the_first_write_of_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ArtifactStore(str(tmp_path))
    for number in range(100):
        aged(tmp_path, store.put(content(number)), seconds=1000 - number)
    monkeypatch.setenv(VARIABLE, "32K")
    assert ArtifactStore(str(tmp_path)).put(content(100))
    assert taken(tmp_path) <= 32 * KIB
    assert path_of(tmp_path, hashlib.sha256(content(99)).hexdigest()).exists(), "the oldest go first"


def test_a_folder_is_not_looked_through_at_every_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1M")
    looked: list[str] = []
    scan = os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: looked.append(str(path)) or scan(path))
    store = ArtifactStore(str(tmp_path))
    for number in range(200):  # 200 KiB: four times a sixteenth
        store.put(content(number))
    assert looked.count(str(tmp_path)) <= 5
    looked.clear()
    for _ in range(200):  # what replaces another adds nothing
        store.delete(store.put(content(999)))
    assert looked.count(str(tmp_path)) <= 1


def test_one_that_is_larger_than_the_room_is_kept_alone_and_foreign_files_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "4K")
    foreign = [tmp_path / "notes.txt", tmp_path / "ab" / "cd" / "notes.txt", tmp_path / ".tmp-1", tmp_path / "ab" / "x"]
    for path in foreign:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 5000)
    store = ArtifactStore(str(tmp_path))
    small, large = store.put(content(1)), store.put(content(2, 9 * KIB))
    assert not store.has(small)
    assert store.get(large) == content(2, 9 * KIB)
    assert all(path.exists() for path in foreign)


def test_a_place_that_is_no_local_folder_is_not_capped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "4K")
    store = ArtifactStore("memory://plume/test-capacity")
    kept = [store.put(content(number)) for number in range(20)]
    assert all(store.has(sha256) for sha256 in kept)
    store.close()


def _write(root: str, first: int) -> None:
    store = ArtifactStore(root)
    for number in range(first, first + 200):
        store.put(content(number))
        store.has(hashlib.sha256(content(number - 1)).hexdigest())


def test_processes_evict_side_by_side(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "32K")
    spawn = multiprocessing.get_context("spawn").Process
    writers = [spawn(target=_write, args=(str(tmp_path), 1000 * place)) for place in (1, 2)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(120)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert taken(tmp_path) <= 32 * KIB + 2 * (32 * KIB // 16)
    assert all(hashlib.sha256(path.read_bytes()).hexdigest() == path.name for path in files(tmp_path))


@pytest.mark.parametrize("shares_a", [True, False])
def test_a_memory_whose_artifacts_hardly_fit_answers_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shares_a: bool
) -> None:
    texts = [f"Fact {i}: room {i} has the number {7 * i}." for i in range(8)]
    said = []
    for room in ("1G", "1"):
        monkeypatch.setenv(VARIABLE, room)
        folder = tmp_path / room
        folder.mkdir()
        for part in (texts[:4], texts[4:]):  # two processes
            engine = tiny_engine(shares_a=shares_a, additive=True)
            with ParametricMemory.open("alice", url=f"sqlite:///{folder / 'log.db'}", engine=engine) as memory:
                for text in part:
                    memory.update(text)
                said.append([memory.ask(f"What is the number of room {i}?").text for i in range(4)])
        assert len(files(folder / "log.db.artifacts")) == 1 or room == "1G"
    assert said[:2] == said[2:]


def test_an_erasure_finds_what_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    engine = tiny_engine(additive=True)
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as memory:
        memory.update("Alice sails.")
        memory.update("The secret is out.")
        (left,) = files(tmp_path / "log.db.artifacts")
        certificate = memory.erase(2, derive=False)
        assert left.name in certificate.artifacts
        assert files(tmp_path / "log.db.artifacts") == []
        assert memory.ask("What does Alice do?").text
