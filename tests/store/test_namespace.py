"""A handle for one owner reads that owner's memory, whatever name, number, key or path is asked for."""

from pathlib import Path

import pytest

from plume_memory.errors import ArtifactError, InvalidInput, MemoryNotFound, VersionNotFound
from plume_memory.memory import ParametricMemory
from plume_memory.pool import MemoryPool
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.log import Log

DATABASES = ("sqlite", "postgresql")
SECRET = "Bob's key is 4711."
NAMES = ["%", "_", "b%", "bo_", "BOB", "bob ", " bob", "bob'--", "' OR '1'='1", "../bob", "bob/../bob", "b\u043eb", "1"]


def handle(url: str, tmp_path: Path, name: str = "alice") -> ParametricMemory:
    return ParametricMemory.open(name, url=url, artifacts=str(tmp_path / "artifacts"))


@pytest.fixture
def shared(url: str) -> str:
    """A database with alice's three updates and bob's five, the same key in both."""
    with Database(url) as database:
        log = Log(database)
        for number in range(1, 4):
            log.append("alice", f"Alice, text {number}.", idempotency_key=f"k{number}")
        for number in range(1, 6):
            log.append("bob", f"{SECRET} {number}", idempotency_key=f"k{number}")
    return url


def test_a_handle_reads_its_own_versions_alone(shared: str, tmp_path: Path) -> None:
    with handle(shared, tmp_path) as alice:
        assert {version.memory for version in alice.history()} == {"alice"}
        assert SECRET not in "".join(version.text for version in alice.history())
        for number in (4, 5):  # bob's numbers
            for read in (alice.entry, alice.text_at, lambda n: alice.forget(n), lambda n: alice.rollback(to=n)):
                with pytest.raises(VersionNotFound):
                    read(number)
        for number in ("1 OR 1=1", "4; --", None):
            with pytest.raises(InvalidInput):
                alice.entry(number)  # type: ignore[arg-type]
        assert alice.update("Alice, text 1.", idempotency_key="k1", derive=False).number == 1
        for erase in (False, True):
            with pytest.raises(InvalidInput, match="not in the updates"):
                alice.forget(text=SECRET, erase=erase)  # type: ignore[call-overload]
    with handle(shared, tmp_path, "bob") as bob:
        assert bob.verify().versions == 5


def test_a_name_is_itself_and_no_pattern_of_others(shared: str, tmp_path: Path) -> None:
    for name in NAMES:
        with pytest.raises(MemoryNotFound):
            ParametricMemory.open(name, url=shared, create=False)
    with MemoryPool(shared, artifacts=str(tmp_path / "artifacts")) as pool:
        for name in NAMES:
            assert pool.memory(name).history() == []
            with pytest.raises(MemoryNotFound):
                Log(pool._opened()).fork(f"{name}x", f"{name}y")
        assert {SECRET in memory.text_at().text for memory in map(pool.memory, ["alice", *NAMES])} == {False}
        for name in ("bob\x00", "bob\n", "", " "):
            with pytest.raises(InvalidInput):
                pool.memory(name)


def test_an_erasure_reaches_copies_and_not_another_owners_own_text(shared: str, tmp_path: Path) -> None:
    with handle(shared, tmp_path) as alice:
        alice.update(f"{SECRET} 1", derive=False)
        certificate = alice.erase(4, derive=False)
        assert [text.memory for text in certificate.erased] == ["alice"]
    with handle(shared, tmp_path, "bob") as bob:
        assert bob.entry(1).text == f"{SECRET} 1"


@pytest.mark.parametrize(
    "key",
    ["../../secret", "..", "%", "_" * 64, "A" * 64, f"{'a' * 63}/", f"../{'a' * 61}", "a" * 63 + "\n", "a" * 65, ""],
)
def test_an_artifacts_address_is_no_path(tmp_path: Path, key: str) -> None:
    (tmp_path / "secret").write_text(SECRET)
    store = ArtifactStore(str(tmp_path / "artifacts"))
    store.put(b"x")
    for read in (store.get, store.has, store.size, store.delete):
        with pytest.raises((InvalidInput, ArtifactError)):
            read(key)
    assert (tmp_path / "secret").read_text() == SECRET
