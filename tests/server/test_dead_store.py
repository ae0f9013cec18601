"""A server whose artifact store is away: not ready, and it says why; what it is asked it answers all the same."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plume_memory.pool import MemoryPool
from plume_memory.server import health
from plume_memory.server.app import create_app
from plume_memory.store import remote_files
from tests.server.conftest import Served, new_engine, started

pytest.importorskip("s3fs", reason="s3fs is not installed: pip install 'plume-memory[s3]'")
pytest.importorskip("moto.server", reason="moto is not installed: pip install 'moto[server]'")

from tests.store.bucket import PATIENT_S, Door, Fault, moto_server


@pytest.fixture(scope="module")
def bucket() -> Iterator[tuple[Door, Any]]:
    with moto_server() as (door, client):
        client.create_bucket(Bucket="plume")
        yield door, client


@pytest.fixture
def served(bucket: tuple[Door, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """A server that keeps what is derived in the bucket, and looks at it whenever its readiness is asked for."""
    import s3fs

    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{bucket[0].server_port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "tests")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(health, "_LOOKED_S", 0.0)
    monkeypatch.setattr(remote_files, "ANSWER_S", PATIENT_S)
    s3fs.S3FileSystem.clear_instance_cache()
    made = started(create_app(_pool(tmp_path, "s3://plume/derived")))
    yield made
    made.stop()


def _pool(folder: Path, artifacts: str) -> MemoryPool:
    return MemoryPool(f"sqlite:///{folder / 'log.db'}", engine=new_engine(), artifacts=artifacts)


@pytest.mark.parametrize("fault", ["slow", "503", "denied"])
def test_it_is_not_ready_and_answers(served: Served, bucket: tuple[Door, Any], fault: Fault) -> None:
    door, _ = bucket
    with served.client() as client:
        memory = client.post("/v1/memories", json={"name": "alice"}).json()
        path = f"/v1/memories/{memory['id']}"
        assert client.get("/readyz").status_code == 200
        with door.doing(fault):
            told = client.post(f"{path}/updates", json={"text": "Alice lives in Bern."})
            answer = client.post(f"{path}/ask", json={"question": "Where does Alice live?"})
            ready = client.get("/readyz")
            metrics = client.get("/metrics").text
        assert (told.status_code, answer.status_code) == (201, 200)
        assert answer.json()["evidence"]["unit"]["text"] == "Alice lives in Bern."
        assert ready.status_code == 503
        assert ready.json()["checks"]["artifacts"] is False
        assert ready.json()["reasons"] == {"artifacts": "ArtifactsUnavailable"}
        assert "plume_artifacts_unavailable_total 0.0" not in metrics
        assert client.get("/healthz").status_code == 200, "it lives: to start it again would help nobody"
        assert client.get("/readyz").status_code == 200


def test_a_bucket_that_is_not_there_is_said(served: Served, tmp_path: Path) -> None:
    other = started(create_app(_pool(tmp_path, "s3://nobody-made-this/derived")))
    with other.client() as client:
        ready = client.get("/readyz")
        assert (ready.status_code, ready.json()["reasons"]) == (503, {"artifacts": "ArtifactsUnavailable"})
        assert "nobody-made-this" not in ready.text
    other.stop()
