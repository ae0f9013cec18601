"""Health, metrics, the access log, and how a server ends: also as a program of its own."""

import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from plume_memory.cli.main import main
from plume_memory.errors import CommitUnknown, IntegrityError, StoreUnavailable
from plume_memory.memory import ParametricMemory
from tests.server.conftest import Served, until
from tests.server.test_attacks import FOREVER, _never_ends, slow_server


def test_health_is_for_anybody_and_metrics_for_an_admin(served: Served, client: httpx2.Client, memory: Any) -> None:
    with served.client() as nobody:
        assert nobody.get("/healthz").json() == {"status": "ok", "checks": {"engine": True}, "reasons": {}}
        ready = nobody.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "ok")
        assert set(ready.json()["checks"]) == {"database", "artifacts", "model", "log", "accepting"}
    client.post(f"/v1/memories/{memory['id']}/ask", json={"question": "Where does Alice live?"})
    assert client.get("/metrics").status_code == 403
    with served.client(served.key("admin")) as admin:
        text = admin.get("/metrics").text
    for name in (
        'plume_requests_total{route="/v1/memories/{id}/ask",status="200"}',
        "plume_queue_rows 0.0",
        "plume_running_rows 0.0",
        "plume_step_seconds_sum",
        'plume_answers_total{evidence="one",retried="false"}',
        "plume_confidence_bucket",
        'plume_stage_seconds_sum{stage="prefill"}',
        'plume_stage_seconds_sum{stage="decode"}',
        'plume_stage_seconds_count{stage="read"}',
        'plume_stage_seconds_count{stage="encode"}',
        'plume_cache_hits_total{cache="artifacts"}',
        'plume_cache_misses_total{cache="encoded"}',
        'plume_cache_misses_total{cache="read"}',
        "plume_artifacts_unavailable_total 0.0",
    ):
        assert name in text, name
    assert memory["name"] not in text
    assert memory["id"] not in text


def test_what_is_counted_in_rows_is_rows(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    _never_ends(monkeypatch)
    served, client, memory = slow_server(serve)
    with (
        served.client(served.key("admin")) as admin,
        client.stream("POST", f"/v1/memories/{memory['id']}/ask", json=FOREVER) as stream,
    ):
        lines = stream.iter_lines()  # let go of, it would close the stream
        next(lines)
        assert "plume_running_rows 2.0" in admin.get("/metrics").text, "one question, with evidence"
    client.close()


def test_a_line_of_the_log_has_ids_and_no_words(
    client: httpx2.Client, memory: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "plume_memory.server.access"):
        answer = client.post(f"/v1/memories/{memory['id']}/ask", json={"question": "Where does Alice live?"})
        client.get("/v1/memories", params={"name": memory["name"]})
        client.post(
            "/v1/chat/completions",
            json={"model": f"plume@{memory['name']}", "messages": [{"role": "user", "content": "Alice?"}]},
        )

    def logged() -> list[dict[str, Any]]:
        said = [json.loads(record.message) for record in caplog.records if record.name.endswith("access")]
        return [line for line in said if not line["route"].endswith("/updates")]

    deadline = time.monotonic() + 60
    while len(logged()) < 3 and time.monotonic() < deadline:  # a line comes when all is sent, and the client is faster
        time.sleep(0.02)
    lines = logged()
    assert [line["route"] for line in lines] == ["/v1/memories/{id}/ask", "/v1/memories", "/v1/chat/completions"]
    assert lines[0]["request"] == answer.headers["x-request-id"]
    assert (lines[0]["memory"], lines[0]["version"], lines[0]["tenant"]) == (memory["id"], 2, "default")
    assert lines[2]["memory"] == memory["id"]
    assert not any("Alice" in record.message or memory["name"] in record.message for record in caplog.records)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (CommitUnknown("secret://host"), 503, "commit-unknown"),
        (StoreUnavailable("secret://host"), 503, "store-unavailable"),
        (IntegrityError("version 3 was altered"), 500, "integrity"),
        (ZeroDivisionError("secret://host"), 500, "failed"),
    ],
)
def test_what_fails_inside_says_what_to_do_and_nothing_of_the_inside(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    served = serve()

    def fails(*_: Any, **__: Any) -> None:
        raise error

    with served.client(served.key()) as client:
        memory = client.post("/v1/memories", json={"name": "alice"}).json()
        monkeypatch.setattr(ParametricMemory, "update", fails)
        answer = client.post(f"/v1/memories/{memory['id']}/updates", json={"text": "x"})
        assert (answer.status_code, answer.json()["type"]) == (status, f"urn:plume:problem:{code}")
        assert "secret" not in answer.text
        assert ("retry-after" in answer.headers) == (status == 503)
        if code == "commit-unknown":
            assert "same Idempotency-Key" in answer.json()["detail"]
    with served.client() as another:  # uvicorn closes the connection behind an error that nobody foresaw
        assert another.get("/readyz").status_code == (503 if code == "integrity" else 200)


def test_a_draining_server_takes_no_work_and_lets_streams_end(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    _never_ends(monkeypatch)
    served, client, memory = slow_server(serve, drain_s=1.0)
    path = f"/v1/memories/{memory['id']}"
    with served.client(served.key()) as other, client.stream("POST", f"{path}/ask", json=FOREVER) as stream:
        lines = stream.iter_lines()
        next(lines)
        served.server.handle_exit(signal.SIGTERM, None)
        assert other.get("/readyz").status_code == 503
        assert other.get("/healthz").status_code == 200
        refused = other.post(f"{path}/updates", json={"text": "Bob has a boat."})
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:plume:problem:draining")
        assert refused.headers["retry-after"]
        rest = list(lines)
    assert "event: error" in rest
    assert any("stopped" in line for line in rest)
    served.thread.join(20)
    assert not served.thread.is_alive()
    client.close()


def test_a_stream_that_ends_in_time_ends_as_ever(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    _never_ends(monkeypatch)
    served, client, memory = slow_server(serve)
    body = {**FOREVER, "max_new_tokens": 300}
    with client.stream("POST", f"/v1/memories/{memory['id']}/ask", json=body) as stream:
        lines = stream.iter_lines()
        next(lines)
        served.server.handle_exit(signal.SIGTERM, None)
        rest = list(lines)
    assert "event: answer" in rest
    served.thread.join(20)
    assert not served.thread.is_alive()
    client.close()


@pytest.fixture
def program(tmp_path: Path, model_folder: Path) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """`plume serve` as a program of its own, ready."""
    url = f"sqlite:///{tmp_path / 'plume.db'}"
    command = [sys.executable, "-m", "plume_memory.cli", "serve", "--db", url, "--model", str(model_folder)]
    port = _free_port()
    running = subprocess.Popen(
        [*command, "--hypernetwork", "none", "--port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    address = f"http://127.0.0.1:{port}"
    with httpx2.Client(trust_env=False) as client:

        def is_ready() -> bool:
            assert running.poll() is None, running.communicate()
            try:
                return client.get(f"{address}/readyz").status_code == 200
            except httpx2.ConnectError:
                return False

        until(is_ready, 90)
    yield address, running
    if running.poll() is None:
        running.kill()
        running.communicate()


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_program_answers_and_loses_nothing_acknowledged_when_it_is_stopped(
    program: tuple[str, "subprocess.Popen[str]"],
) -> None:
    address, running = program
    written: list[int] = []
    with httpx2.Client(base_url=address, trust_env=False, timeout=60) as client:
        memory = client.post("/v1/memories", json={"name": "alice"}).json()
        path = f"/v1/memories/{memory['id']}"

        def write() -> None:
            with httpx2.Client(base_url=address, trust_env=False, timeout=60) as own:
                for n in range(10_000):
                    try:
                        answer = own.post(f"{path}/updates", json={"text": f"Alice has {n} boats."})
                    except httpx2.TransportError:
                        return
                    if answer.status_code != 201:
                        assert answer.status_code == 503
                        return
                    written.append(answer.json()["number"])

        writer = threading.Thread(target=write)
        writer.start()
        until(lambda: len(written) > 5)
        running.send_signal(signal.SIGTERM)
        writer.join(60)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 0, err
    lines = [json.loads(line) for line in out.splitlines()]
    assert {line["route"] for line in lines} >= {"/v1/memories", "/v1/memories/{id}/updates"}
    assert "Alice" not in out
    database = running.args[running.args.index("--db") + 1]  # type: ignore[union-attr,index]
    with ParametricMemory.open("alice", url=str(database), create=False) as kept:
        numbers = [one.number for one in kept.history()]
        assert kept.verify().versions == len(numbers)
    assert written == list(range(1, len(written) + 1))
    assert set(written) <= set(numbers)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [(["--workers", "2"], "one process serves one model"), (["--host", "0.0.0.0"], "no key was made")],
)
def test_what_would_be_unsafe_or_wrong_is_refused(
    workdir: Path, model_folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main(["serve", "--model", str(model_folder), "--hypernetwork", "none", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_keys_are_made_listed_and_revoked_by_commands(workdir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def plume(*arguments: str) -> Any:
        assert main([*arguments, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    made = plume("keys", "create", "--tenant", "acme", "--scope", "memory:read", "--writes", "--days", "1")
    assert made["key"].startswith(f"plk_{made['id']}_")
    usual = plume("keys", "create")
    assert usual["scopes"] == ["memory:list", "memory:read", "memory:write"]
    listed = plume("keys", "list")
    assert [one["id"] for one in listed] == [made["id"], usual["id"]]
    assert made["key"] not in json.dumps(listed)
    assert plume("keys", "revoke", made["id"])["revoked_at"] is not None
    assert main(["keys", "revoke", "nobody"]) == 3
    assert main(["keys", "create", "--scope", "everything"]) == 2
    assert main(["keys", "list"]) == 0
    assert made["id"] in capsys.readouterr().out
