"""A memory goes out of one database and into another as it was: bytes, hashes, marks."""

import hashlib
import json
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.errors import ArchiveError, IntegrityError, InvalidInput, MemoryExists, MemoryNotFound, PlumeError
from plume_memory.store.archive import LOG, MANIFEST, write_archive
from plume_memory.store.archive_reading import read_archive
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.chain import sha256_of
from plume_memory.store.database import Database
from plume_memory.store.derivations import Derivations
from plume_memory.store.erasure import Erasures
from plume_memory.store.log import Log
from plume_memory.store.sources import Sources

DATABASES = ("sqlite", "memory", "postgresql")
SECRET = "Zytgloggelaube 7"


def fill(database: Database, folder: Path) -> ArtifactStore:
    """Memory alice with every kind of version; 5 is erased, 6 in part; one artifact."""
    log, artifacts = Log(database), ArtifactStore(str(folder / "artifacts"))
    log.append("alice", 'Alice löst 漢字 🎉\r\n "hard" ', metadata={"é": [1.5, None], "a": {}}, idempotency_key="k 1")
    log.append("alice", "Bob has a boat.")
    log.forget("alice", 1, span=(0, 6), reason="why not")
    log.rollback("alice", 2, metadata={"why": "wrong"})
    log.append("alice", f"Carol lives at {SECRET}.", idempotency_key=SECRET)
    log.append("alice", f"Dora paints, at {SECRET}, too.", metadata={"at": SECRET})
    Erasures(database, artifacts).erase("alice", 5)
    Erasures(database, artifacts).erase("alice", 6, text=f", at {SECRET}")
    log.append("alice", "Emil swims.")
    sha256 = artifacts.put(b"derived")
    Sources(database, "alice", last_erasure=8).note(sha256_of("key"), sha256)
    Derivations(database).record(sha256_of("key"), "factors", sha256, 7)
    return artifacts


@pytest.fixture
def alice(tmp_path: Path) -> Path:
    """An archive of her, from a database of its own."""
    (tmp_path / "source").mkdir()
    with Database(f"sqlite:///{tmp_path / 'source' / 'plume.db'}") as database:
        artifacts = fill(database, tmp_path / "source")
        write_archive(database, "alice", tmp_path / "alice.plume", artifacts=artifacts)
    return tmp_path / "alice.plume"


def everything(log: Log, memory: str) -> tuple[Any, ...]:
    versions = [{**vars_of(version), "memory": ""} for version in log.versions(memory)]
    return versions, [log.history(memory, n).transitions for n in range(len(versions) + 1)], log.origin(memory)


def vars_of(version: Any) -> dict[str, Any]:
    return {name: getattr(version, name) for name in version.__dataclass_fields__}


def test_an_imported_memory_is_the_exported_one(database: Database, alice: Path, tmp_path: Path) -> None:
    """On every database; the archive it gives again has the same bytes."""
    read = read_archive(database, alice)

    with Database(f"sqlite:///{tmp_path / 'source' / 'plume.db'}") as source:
        assert everything(Log(database), "alice") == everything(Log(source), "alice")
        without = write_archive(source, "alice", tmp_path / "without.plume")
    assert (read.memory, read.versions, read.artifacts) == ("alice", 9, 0)
    assert read.head_hash == without.head_hash == Log(database).head("alice").chain_hash
    assert Log(database).verify("alice") == 9
    write_archive(database, "alice", tmp_path / "again.plume")
    assert (tmp_path / "again.plume").read_bytes() == (tmp_path / "without.plume").read_bytes()
    assert SECRET.encode() not in alice.read_bytes()


def test_an_imported_memory_goes_on(database: Database, alice: Path) -> None:
    log = Log(database)
    read_archive(database, alice)
    assert log.append("alice", 'Alice löst 漢字 🎉\r\n "hard" ', idempotency_key="k 1").number == 1
    assert log.append("alice", "Fay sings.").number == 10
    log.rollback("alice", 6)
    assert [t.text for t in log.history("alice").transitions][-1] == "Dora paints, too."
    assert log.fork("alice", "fork", at=6) == log.verify("fork") == 8


def test_a_taken_name_is_refused_and_another_may_be_given(database: Database, alice: Path) -> None:
    log = Log(database)
    log.append("alice", "Another Alice.")
    with pytest.raises(MemoryExists, match="'alice' exists already: import it under another name"):
        read_archive(database, alice)
    assert read_archive(database, alice, name="alice 2").memory == "alice 2"
    assert log.names() == ["alice", "alice 2"]
    assert (log.verify("alice"), log.verify("alice 2")) == (1, 9)
    with pytest.raises(InvalidInput, match="name"):
        read_archive(database, alice, name="a\nb")


def test_artifacts_come_along_when_asked_for(database: Database, alice: Path, tmp_path: Path) -> None:
    artifacts = ArtifactStore(str(tmp_path / "new"))
    assert read_archive(database, alice, artifacts=artifacts).artifacts == 1
    found = Derivations(database).lookup(sha256_of("key"))
    assert found is not None
    assert artifacts.get(found.sha256) == b"derived"
    assert read_archive(database, alice, name="again", artifacts=artifacts).artifacts == 1, "another owner's"
    assert Erasures(database, artifacts).erase("alice", 9).artifacts == (found.sha256,)
    assert Log(database).version("again", 9).text == ""


def test_a_lost_artifact_is_left_out_and_counted(database: Database, tmp_path: Path) -> None:
    artifacts = fill(database, tmp_path)
    artifacts.delete(sha256_of("derived"))
    found = write_archive(database, "alice", tmp_path / "a.plume", artifacts=artifacts)
    assert (found.artifacts, found.artifacts_left_out) == (0, 1)
    assert read_archive(database, tmp_path / "a.plume", name="b", artifacts=artifacts).versions == 9


def test_what_was_erased_does_not_come_back_through_an_older_archive(database: Database, tmp_path: Path) -> None:
    log = Log(database)
    log.append("alice", f"{SECRET} One.")
    log.append("alice", "Two.")
    write_archive(database, "alice", tmp_path / "before.plume")
    erasures = Erasures(database, ArtifactStore(str(tmp_path / "artifacts")))
    erasures.erase("alice", 1, text=SECRET)
    write_archive(database, "alice", tmp_path / "after.plume")
    with pytest.raises(ArchiveError, match="line 1: the text of this version was erased in this database"):
        read_archive(database, tmp_path / "before.plume", name="back")
    read_archive(database, tmp_path / "after.plume", name="copy")
    assert {text.memory for text in erasures.erase("copy", 1).erased} == {"alice", "copy"}
    with pytest.raises(ArchiveError, match="line 1"):
        read_archive(database, tmp_path / "after.plume", name="back")
    assert log.names() == ["alice", "copy"]


def test_an_empty_memory_goes_too(database: Database, tmp_path: Path) -> None:
    Log(database).create("empty")
    write_archive(database, "empty", tmp_path / "e.plume")
    assert read_archive(database, tmp_path / "e.plume", name="other").versions == 0


def test_a_log_that_does_not_verify_is_not_exported(database: Database, tmp_path: Path) -> None:
    Log(database).append("alice", "x")
    with database.write() as connection:
        connection.exec_driver_sql("UPDATE memories SET head_hash = '00'")
    (tmp_path / "a.plume").write_bytes(b"older")
    with pytest.raises(IntegrityError):
        write_archive(database, "alice", tmp_path / "a.plume")
    with pytest.raises(MemoryNotFound):
        write_archive(database, "nobody", tmp_path / "a.plume")
    with pytest.raises(InvalidInput, match="cannot be written"):
        write_archive(database, "alice", tmp_path / "none" / "a.plume")
    assert [path.name for path in tmp_path.iterdir() if ".plume" in path.name or "tmp" in path.name] == ["a.plume"]
    assert (tmp_path / "a.plume").read_bytes() == b"older"


# --- hostile files ---------------------------------------------------------------------------------


def rewritten(source: Path, target: Path, change: Callable[[dict[str, bytes]], None], *, honest: bool = True) -> Path:
    """Change members; an honest manifest then lists the new hashes."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    if honest and MANIFEST in members:
        manifest = json.loads(members[MANIFEST])
        manifest["members"] = {
            name: {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
            for name, content in members.items()
            if name != MANIFEST
        }
        members[MANIFEST] = json.dumps(manifest).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target


def lines(change: Callable[[list[dict[str, Any]]], None]) -> Callable[[dict[str, bytes]], None]:
    def run(members: dict[str, bytes]) -> None:
        found = [json.loads(line) for line in members[LOG].splitlines()]
        change(found)
        members[LOG] = "".join(json.dumps(line) + "\n" for line in found).encode()

    return run


def manifest(**fields: Any) -> Callable[[dict[str, bytes]], None]:
    def run(members: dict[str, bytes]) -> None:
        members[MANIFEST] = json.dumps({**json.loads(members[MANIFEST]), **fields}).encode()

    return run


def row(number: int, /, **fields: Any) -> Callable[[dict[str, bytes]], None]:
    return lines(lambda found: found[number - 1].update(fields))


def bytes_of(name: str, content: bytes) -> Callable[[dict[str, bytes]], None]:
    return lambda members: members.update({name: content})


CHANGES: list[tuple[Callable[[dict[str, bytes]], None], str]] = [
    (row(2, text="Bob has no boat."), "version 2: its text does not have the sha256"),
    (row(2, metadata={"a": 1}), "version 2: its fields"),
    (row(2, metadata={"a": float("nan")}), "line 2"),
    (row(2, parent_hash="0" * 64), "version 2: its parent_hash"),
    (row(5, text="again"), "version 5: its left_sha256"),
    (row(5, erased_by=None), "line 5: An update's text"),
    (row(7, metadata={}), "version 5: its created_at"),
    (row(3, span=[0, 5]), "version 3: its fields"),
    (row(3, span=[5, 5]), "what no log can"),
    (row(3, kind="other"), "line 3: kind"),
    (row(3, number="3"), "line 3: number"),
    (row(3, number=2**70), "line 3: number"),
    (row(3, more=1), "line 3: more"),
    (row(2, text="a\x00b"), "line 2: An update's text cannot be stored"),
    (row(2, text=" "), "line 2"),
    (row(2, created_at="2020-01-01T00:00:00.000000Z"), "line 2: it is older"),
    (row(2, created_at="today"), "line 2: created_at"),
    (row(2, idempotency_key=""), "line 2: An idempotency key"),
    (row(2, idempotency_key="k 1"), "what no log can"),
    (lines(lambda found: found.pop()), "version 9: it is missing"),
    (lines(lambda found: found.pop(3)), "version 4: it is missing"),
    (lines(lambda found: found.append(found[8])), "what no log can"),
    (bytes_of(LOG, b"[" * 200_000), "line 1"),
    (bytes_of(LOG, b"\xff\xfe\n"), "line 1"),
    (bytes_of(LOG, b""), "version 1: it is missing"),
    (bytes_of("../../escape", b"x"), "has a member '../../escape'"),
    (bytes_of("/etc/passwd", b"x"), "has a member"),
    (bytes_of("artifacts/../log.jsonl", b"x"), "has a member"),
    (bytes_of(f"artifacts/{'a' * 64}", b"x"), "has another sha256"),
    (lambda members: members.pop(LOG), "its members are not those"),
    (lambda members: members.pop(MANIFEST), "has no manifest.json"),
    (manifest(format=2), "has format 2, this package reads 1"),
    (manifest(format="x"), "format"),
    (manifest(versions=8), "counts 8 versions"),
    (manifest(more=1), "more"),
    (manifest(memory=None), "memory"),
    (bytes_of(MANIFEST, b"{}"), "format"),
]


def test_an_altered_archive_is_refused_and_leaves_nothing(alice: Path, tmp_path: Path) -> None:
    """Even when its manifest lists the altered members' hashes."""
    with Database("sqlite://") as database:
        log = Log(database)
        log.append("bob", "b")
        for change, reason in CHANGES:
            with pytest.raises(ArchiveError, match=reason):
                read_archive(database, rewritten(alice, tmp_path / "altered.plume", change))
        assert log.names() == ["bob"]
        with pytest.raises(ArchiveError, match=r"manifest.json"):
            read_archive(
                database, rewritten(alice, tmp_path / "altered.plume", bytes_of(MANIFEST, b"nothing"), honest=False)
            )
        line = b'{"key": "../x", "kind": "f", "sha256": "x"}\n'
        bad = rewritten(alice, tmp_path / "altered.plume", bytes_of("derivations.jsonl", line))
        with pytest.raises(ArchiveError, match=r"derivations.jsonl, line 1: key"):
            read_archive(database, bad, artifacts=ArtifactStore(str(tmp_path / "new")))
        assert log.names() == ["bob"]
    assert not (tmp_path / "escape").exists()


def test_members_that_the_manifest_does_not_vouch_for_are_refused(alice: Path, tmp_path: Path) -> None:
    with Database("sqlite://") as database:
        for change in (row(2, text="Bob has no boat."), bytes_of("derivations.jsonl", b"")):
            with pytest.raises(ArchiveError, match=r"has sha256 .*, manifest.json says"):
                read_archive(database, rewritten(alice, tmp_path / "x.plume", change, honest=False))


def test_compressed_doubled_and_absent_files_are_refused(alice: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(alice) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    bomb, doubled = tmp_path / "bomb.plume", tmp_path / "doubled.plume"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(LOG, b"0" * 50_000_000)
        archive.writestr(MANIFEST, members[MANIFEST])
    with zipfile.ZipFile(doubled, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr(LOG, b"other")
    with Database("sqlite://") as database:
        for path, reason in ((bomb, "is compressed"), (doubled, "two members of one name")):
            with pytest.raises(ArchiveError, match=reason):
                read_archive(database, path)
        with pytest.raises(InvalidInput, match="cannot be read"):
            read_archive(database, tmp_path / "nowhere.plume")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Database, Path]]:
    folder = tmp_path_factory.mktemp("damage")
    with Database("sqlite://") as database:
        write_archive(database, "alice", folder / "alice.plume", artifacts=fill(database, folder))
    with Database("sqlite://") as database:
        Log(database).create("other")
        yield database, folder / "alice.plume"


@settings(max_examples=150)
@given(data=st.data())
def test_any_damage_is_an_error_of_ours_and_never_half_a_memory(
    whole: tuple[Database, Path], data: st.DataObject
) -> None:
    database, path = whole
    log, content = Log(database), bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    for at in data.draw(st.lists(st.integers(0, max(0, len(content) - 1)), max_size=4)):
        if content:
            content[at] = data.draw(st.integers(0, 255))
    damaged, names = path.with_name("damaged.plume"), log.names()
    damaged.write_bytes(bytes(content))
    name = f"memory {len(names)}"
    try:
        read_archive(database, damaged, name=name)
    except PlumeError:
        assert log.names() == names
    else:  # what was altered is read by nobody
        assert log.verify(name) == 9
