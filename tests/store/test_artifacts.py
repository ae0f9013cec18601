"""An artifact is given back byte for byte, or not at all."""

import hashlib
import os
import sys
import threading
from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.asyn_wrapper import AsyncFileSystemWrapper
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plume_memory.errors import (
    ArtifactDamaged,
    ArtifactError,
    ArtifactMissing,
    ArtifactsUnavailable,
    InvalidInput,
    MissingExtra,
)
from plume_memory.store import remote_files
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.replacing import replacing


@pytest.fixture(params=["folder", "file url", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    """A store of each kind."""
    roots = {
        "folder": str(tmp_path / "a"),
        "file url": f"file://{tmp_path / 'a'}",
        "memory": f"memory://{tmp_path.name}",
    }
    return ArtifactStore(roots[request.param])


def path_of(root: Path, sha256: str) -> Path:
    return root / sha256[:2] / sha256[2:4] / sha256


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(content=st.binary(max_size=3000))
def test_get_gives_what_was_put(store: ArtifactStore, content: bytes):
    sha256 = store.put(content)
    assert sha256 == hashlib.sha256(content).hexdigest() == store.put(content)
    assert store.get(sha256) == content
    assert store.size(sha256) == len(content)
    assert store.has(sha256)


def test_a_deleted_artifact_is_missing(store: ArtifactStore):
    sha256 = store.put(b"x")
    store.delete(sha256)
    store.delete(sha256)
    assert not store.has(sha256)
    for call in (store.get, store.size):
        with pytest.raises(ArtifactMissing, match=sha256):
            call(sha256)


@pytest.mark.parametrize("damage", [b"", b"other", b"conten"])
def test_a_damaged_artifact_is_refused_and_put_again_heals_it(tmp_path: Path, damage: bytes):
    store = ArtifactStore(str(tmp_path))
    sha256 = store.put(b"content")
    path_of(tmp_path, sha256).write_bytes(damage)
    with pytest.raises(ArtifactDamaged, match="is damaged"):
        store.get(sha256)
    store.put(b"content")
    assert store.get(sha256) == b"content"


@pytest.mark.parametrize("address", ["", "abc", "../../etc/passwd", "A" * 64, "a" * 63 + "\n"])
def test_an_address_that_is_no_sha256_is_refused(tmp_path: Path, address: str):
    with pytest.raises(InvalidInput, match="64 lowercase"):
        ArtifactStore(str(tmp_path)).get(address)


def test_the_constructor_touches_nothing(tmp_path: Path):
    ArtifactStore(str(tmp_path / "absent"))
    assert list(tmp_path.iterdir()) == []


def test_a_root_that_cannot_be_used_is_an_error(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ArtifactError, match="cannot be used"):
        ArtifactStore(str(tmp_path / "file")).put(b"x")
    with pytest.raises(InvalidInput, match="not a place"):
        ArtifactStore("nonsense://x").put(b"x")


@pytest.mark.parametrize(("scheme", "extra"), [("gs", "gcs"), ("gcs", "gcs"), ("az", "azure"), ("abfs", "azure")])
def test_a_bucket_without_its_package_names_the_extra(scheme: str, extra: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    monkeypatch.setitem(sys.modules, "adlfs", None)
    with pytest.raises(MissingExtra, match=rf"plume-memory\[{extra}\]"):
        ArtifactStore(f"{scheme}://bucket/x").put(b"x")


class StandIn(AsyncFileSystemWrapper):
    """An asynchronous filesystem that is not S3, as gcsfs and adlfs are; one bucket of it is not there."""

    def __init__(self, **_: object) -> None:
        super().__init__(fs=fsspec.filesystem("memory"))
        self.protocol = "gs"
        self._pipe_file = self._piped

    async def _piped(self, path: str, value: bytes, **options: object) -> None:
        if "nobody" in path:
            raise FileNotFoundError(path)
        self.sync_fs.pipe_file(path, value)


def test_another_bucket_than_s3_keeps_and_finds(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(remote_files, "ANSWER_S", 300.0)
    monkeypatch.setitem(sys.modules["fsspec.registry"]._registry, "gs", StandIn)
    store = ArtifactStore("gs://bucket/derived")
    store.check()
    sha256 = store.put(b"content")
    assert (store.get(sha256), store.has(sha256), store.size(sha256)) == (b"content", True, 7)
    store.delete(sha256)
    with pytest.raises(ArtifactMissing):
        store.get(sha256)
    assert "gs may keep some" in store.unreached()[0]
    with pytest.raises(ArtifactsUnavailable):
        ArtifactStore("gs://nobody/derived").put(b"x")


def test_writers_at_once_leave_whole_files_and_nothing_else(tmp_path: Path):
    contents = [bytes([i]) * 50_000 for i in range(4)]
    stores = [ArtifactStore(str(tmp_path)) for _ in range(6)]
    threads = [threading.Thread(target=lambda s=s: [s.put(c) for c in contents]) for s in stores]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) == 4
    assert sorted(stores[0].get(path.name) for path in files) == contents


def test_a_write_that_fails_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("plume_memory.store.artifacts.os.fsync", full)
    with pytest.raises(ArtifactError, match="No space left"):
        ArtifactStore(str(tmp_path)).put(b"x")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_the_first_write_sweeps_what_killed_writes_left(tmp_path: Path):
    store = ArtifactStore(str(tmp_path))
    old, young = tmp_path / ".tmp-old", tmp_path / ".tmp-young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    store.put(b"whole")
    assert young.exists()
    assert not old.exists()


def test_an_export_sweeps_what_killed_exports_left(tmp_path: Path):
    old, young = tmp_path / ".plume-tmp-old", tmp_path / ".plume-tmp-young"
    for path in (old, young):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    with replacing(tmp_path / "alice.plume") as temporary:
        temporary.write_bytes(b"whole")
    assert sorted(path.name for path in tmp_path.iterdir()) == [young.name, "alice.plume"]


def test_credentials_of_a_place_are_not_shown() -> None:
    store = ArtifactStore("nowhere://bob:hunter2@host/bucket?token=4711")
    with pytest.raises((InvalidInput, MissingExtra)) as refused:
        store.get("0" * 64)
    assert "hunter2" not in str(refused.value)
    assert "4711" not in str(refused.value)
    assert store.shown.startswith("nowhere://bob:***@host/bucket")
