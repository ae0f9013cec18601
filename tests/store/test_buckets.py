"""Artifacts in a bucket: kept and found; and a bucket that is away, slow, damaged or refuses costs nobody an answer."""

import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from plume_memory import Engine, ParametricMemory
from plume_memory.errors import ArtifactDamaged, ArtifactError, ArtifactMissing, ArtifactsUnavailable
from plume_memory.policy import AnswerPolicy
from plume_memory.pool import MemoryPool
from plume_memory.server.app import create_app
from plume_memory.server.running import warm
from plume_memory.store import remote_files
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.testing import HashParameterizer, tiny_base

pytest.importorskip("s3fs", reason="s3fs is not installed: pip install 'plume-memory[s3]'")
pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")

from tests.store.bucket import PATIENT_S, Bucket, Door, Fault, moto_server

FAULTS: list[Fault] = ["slow", "cut", "503", "denied"]
BASE = tiny_base("llama", context_window=8192)


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[Door, Any]]:
    with moto_server() as made:
        yield made


@pytest.fixture
def bucket(
    server: tuple[Door, Any], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Bucket]:
    door, client = server
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{door.server_port}",
        "AWS_ACCESS_KEY_ID": "tests",
        "AWS_SECRET_ACCESS_KEY": "tests",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(remote_files, "ANSWER_S", PATIENT_S)
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    name = f"b{abs(hash(request.node.name)):x}"
    client.create_bucket(Bucket=name)
    yield Bucket(name, door, client)
    door.fault = None


def memory_of(bucket: Bucket, folder: Path, name: str = "log") -> ParametricMemory:
    engine = Engine(BASE, HashParameterizer(BASE), AnswerPolicy(max_new_tokens=4, unit_tokens=64))
    return ParametricMemory.open("alice", url=f"sqlite:///{folder / name}.db", artifacts=bucket.url, engine=engine)


def test_bytes_come_back_and_another_process_sees_them(bucket: Bucket) -> None:
    store, other = ArtifactStore(bucket.url), ArtifactStore(bucket.url)
    sha256 = store.put(b"content")
    assert store.put(b"content") == sha256
    assert other.get(sha256) == b"content"
    assert (other.has(sha256), other.size(sha256)) == (True, 7)
    other.delete(sha256)
    other.delete(sha256)
    assert not store.has(sha256)
    for call in (store.get, store.size):
        with pytest.raises(ArtifactMissing):
            call(sha256)
    assert bucket.keys() == []
    assert store.failures == 0


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_ours_comes_soon_and_is_waited_for_once(bucket: Bucket, fault: Fault) -> None:
    store = ArtifactStore(bucket.url)
    sha256 = store.put(b"content")
    with bucket.fault(fault):
        with pytest.raises(
            ArtifactsUnavailable, match="no answer within 1.5 s" if fault == "slow" else "cannot be used"
        ):
            store.get(sha256)
        asked = bucket.door.asked
        for call in (store.get, store.has, store.size, store.delete):
            with pytest.raises(ArtifactsUnavailable, match="was away"):
                call(sha256)
        with pytest.raises(ArtifactsUnavailable):
            store.put(b"more")
        assert bucket.door.asked == asked, "nobody asks a place that is away"
        with pytest.raises(ArtifactsUnavailable):
            store.check()
    assert store.failures == 2
    store.check()
    assert store.get(sha256) == b"content"


def test_a_place_that_is_back_is_found_without_anybody_waiting(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "LOOK_AGAIN_S", 0.0)
    store = ArtifactStore(bucket.url)
    sha256 = store.put(b"content")
    with bucket.fault("503"), pytest.raises(ArtifactsUnavailable):
        store.get(sha256)
    deadline = time.monotonic() + 300
    while True:
        try:
            assert store.get(sha256) == b"content"
            break
        except ArtifactsUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_large_artifact_has_the_time_its_bytes_take(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    store, content = ArtifactStore(bucket.url), bytes(1 << 20)
    sha256 = store.put(content)
    monkeypatch.setattr(remote_files, "ANSWER_S", 0.5)  # a body that trickles takes two seconds
    monkeypatch.setattr(remote_files, "LEAST_BYTES_S", (1 << 20) / 300)
    with bucket.fault("trickle"):
        assert store.put(content) == sha256
        assert store.get(sha256, size=len(content)) == content
        with pytest.raises(ArtifactsUnavailable, match=r"no answer within 0\.5 s"):
            store.get(sha256)  # of unknown size


def test_a_look_that_is_over_at_once_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_files, "LOOK_AGAIN_S", 0.0)
    files = remote_files.RemoteFiles(object(), "bucket/root", "s3://bucket/root")
    over: Future[Any] = Future()
    over.set_result(None)
    monkeypatch.setattr(files, "_begun", lambda _: over)
    files._failed(OSError("away"))
    said: list[bool] = []
    asking = threading.Thread(target=lambda: said.extend([files._is_away(), files._is_away()]), daemon=True)
    asking.start()
    asking.join(300)
    assert said == [True, False]


def test_wrong_bytes_are_damage_and_put_again_they_are_right(bucket: Bucket) -> None:
    store = ArtifactStore(bucket.url)
    sha256 = store.put(b"content")
    with bucket.fault("bytes"), pytest.raises((ArtifactDamaged, ArtifactsUnavailable)):
        store.get(sha256)  # its client compares a checksum too, where the server sends one
    bucket.client.put_object(Bucket=bucket.name, Key=bucket.keys()[0], Body=b"CONTENT")
    store.check()
    with pytest.raises(ArtifactDamaged):
        store.get(sha256)
    store.put(b"content")
    assert store.get(sha256) == b"content"


def test_a_bucket_that_is_not_there_is_no_missing_artifact(bucket: Bucket) -> None:
    store = ArtifactStore("s3://nobody-made-this/derived")
    for call in (store.check, lambda: store.get("a" * 64), lambda: store.put(b"x")):
        with pytest.raises(ArtifactsUnavailable):
            call()


def test_a_full_bucket_says_so_and_goes_on_giving_what_it_has(bucket: Bucket, tmp_path: Path) -> None:
    store = ArtifactStore(bucket.url)
    sha256 = store.put(b"content")
    with bucket.fault("full"):
        with pytest.raises(ArtifactsUnavailable, match="has no room left"):
            store.put(b"more")
        assert store.get(sha256) == b"content"
        with memory_of(bucket, tmp_path) as memory:
            memory.update("Bob has a boat.")
            assert memory.ask("Who has a boat?", unknown="bare").version == 1


def test_a_server_whose_bucket_refuses_its_key_says_so_at_its_start_and_serves(
    bucket: Bucket, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(BASE, HashParameterizer(BASE), AnswerPolicy(max_new_tokens=4, unit_tokens=64))
    with (
        MemoryPool(f"sqlite:///{tmp_path / 'log'}.db", artifacts=bucket.url, engine=engine) as pool,
        bucket.fault("denied"),
        caplog.at_level(logging.ERROR),
    ):
        serving = create_app(pool).state.serving
        warm(serving).join()
        assert serving.condition.is_warm
    assert "cannot be kept" in caplog.text
    assert "InvalidAccessKeyId" in caplog.text or "PermissionError" in caplog.text


def test_an_endpoint_that_is_not_there_is_said_soon(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(ArtifactsUnavailable):
        ArtifactStore(bucket.url).check()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.mark.parametrize("fault", FAULTS)
def test_an_answer_never_fails_because_the_place_is_away(
    bucket: Bucket, tmp_path: Path, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    with memory_of(bucket, tmp_path) as memory:
        memory.update("Alice lives in Bern.")
        expected = memory.ask("Where does Alice live?", unknown="bare")
    kept = bucket.keys()
    assert kept
    with memory_of(bucket, tmp_path) as memory, bucket.fault(fault), caplog.at_level(logging.WARNING):
        answer = memory.ask("Where does Alice live?", unknown="bare")
        memory.update("Bob has a boat.")
        assert memory.ask("Who has a boat?", unknown="bare").version == 2
    assert (answer.text, answer.evidence) == (expected.text, expected.evidence)
    assert sum("cannot be kept" in one.message for one in caplog.records) == 1, "it is said once"
    assert bucket.keys() == kept, "what is away is not forgotten"
    bucket.client.put_object(Bucket=bucket.name, Key="other", Body=b"")
    with memory_of(bucket, tmp_path) as memory:
        memory._artifacts.check()
        asked = bucket.door.asked
        assert memory.at(version=1).ask("Where does Alice live?", unknown="bare").text == expected.text
        assert bucket.door.asked > asked, "found again by its row, which was not forgotten"


@pytest.mark.parametrize("fault", ["503", "denied"])
def test_an_erasure_says_that_the_bytes_are_left_and_goes_on_when_it_is_repeated(
    bucket: Bucket, tmp_path: Path, fault: Fault
) -> None:
    with memory_of(bucket, tmp_path) as memory:
        memory.update("Alice lives in Bern.")
        with bucket.fault(fault), pytest.raises(ArtifactError, match="could not all be removed: repeat the call"):
            memory.erase(1)
        assert "Bern" not in memory.text_at().text
        memory._artifacts.check()
        before = bucket.keys()
        certificate = memory.erase(1)
    assert before
    assert certificate.artifacts
    assert not set(bucket.keys()) & {key for key in before if key.rsplit("/", 1)[1] in certificate.artifacts}


def test_an_erasure_reaches_older_versions_in_the_bucket(bucket: Bucket, tmp_path: Path) -> None:
    kept = {"Status": "Enabled"}
    bucket.client.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration=kept)
    with memory_of(bucket, tmp_path) as memory:
        memory.update("Alice lives in Bern.")
        certificate = memory.erase(1)
    gone = set(certificate.artifacts)
    assert gone
    assert not any(key.rsplit("/", 1)[1] in gone for key in bucket.versions())
    assert not any("bucket" in said for said in certificate.limits)


def test_a_certificate_names_the_versions_that_a_bucket_did_not_let_go_of(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"Status": "Enabled"}
    bucket.client.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration=kept)
    import s3fs

    own = s3fs.S3FileSystem._call_s3

    async def refused(self: Any, method: str, *given: Any, **named: Any) -> Any:
        if method == "delete_object" and "VersionId" in named:
            raise PermissionError("Access Denied")
        return await own(self, method, *given, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", refused)
    with memory_of(bucket, tmp_path) as memory:
        memory.update("Alice lives in Bern.")
        certificate = memory.erase(1)
    (said,) = [one for one in certificate.limits if "older versions" in one]
    assert all(sha256 in said for sha256 in certificate.artifacts)


def versioned(bucket: Bucket) -> None:
    bucket.client.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})


def test_versions_go_also_where_the_file_went_before(bucket: Bucket) -> None:
    store = ArtifactStore(bucket.url)
    gone = store.put(b"before it keeps any")
    store.delete(gone)
    versioned(bucket)
    sha256 = store.put(b"content")
    bucket.client.delete_object(Bucket=bucket.name, Key=bucket.keys()[0])  # and then it was killed
    assert bucket.versions()
    store.delete(sha256)
    assert bucket.versions() == []


def test_all_pages_of_versions_go(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    versioned(bucket)
    import s3fs

    own = s3fs.S3FileSystem._call_s3

    async def paged(self: Any, method: str, *given: Any, **named: Any) -> Any:
        return await own(self, method, *given, **named, **({"MaxKeys": 2} if method == "list_object_versions" else {}))

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", paged)
    store = ArtifactStore(bucket.url)
    for _ in range(5):
        sha256 = store.put(b"content")
    assert len(bucket.versions()) == 5
    store.delete(sha256)
    assert bucket.versions() == []


def test_a_bucket_that_did_not_say_whether_it_keeps_versions_is_asked_again_and_else_it_is_said(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    versioned(bucket)
    import s3fs

    own, is_silent = s3fs.S3FileSystem._call_s3, [True]

    async def silent(self: Any, method: str, *given: Any, **named: Any) -> Any:
        if method == "get_bucket_versioning" and is_silent[0]:
            raise TimeoutError
        return await own(self, method, *given, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_call_s3", silent)
    store = ArtifactStore(bucket.url)
    sha256 = store.put(b"content")
    store.delete(sha256)
    (said,) = store.unreached()
    assert sha256 in said
    assert bucket.versions()
    is_silent[0] = False
    assert store.unreached() == ()
    assert bucket.versions() == []
