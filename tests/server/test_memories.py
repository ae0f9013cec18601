"""Memory's own REST, over a real socket."""

import json
import re
import threading
from typing import Any

import httpx2
import pytest

from plume_memory.errors import InvalidInput, StoreUnavailable
from tests.server.conftest import Served

ID = re.compile("mem_[0-9a-z]{26}")


def problem(answer: httpx2.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    body = answer.json()
    assert body["status"] == answer.status_code
    assert body["request_id"] == answer.headers["x-request-id"]
    return answer.status_code, body["type"].rpartition(":")[2]


def update(client: httpx2.Client, memory: dict[str, Any], text: str, **headers: str) -> httpx2.Response:
    return client.post(f"/v1/memories/{memory['id']}/updates", json={"text": text}, headers=headers)


def test_a_memory_is_made_found_and_listed(client: httpx2.Client) -> None:
    answer = client.post("/v1/memories", json={"name": "a/b %2F ünïcode"})
    made = answer.json()
    assert answer.status_code == 201
    assert ID.fullmatch(made["id"])
    assert answer.headers["location"] == f"/v1/memories/{made['id']}"
    assert answer.headers["etag"] == '"v0-00000000"'
    assert client.get(f"/v1/memories/{made['id']}").json() == made
    assert client.get("/v1/memories", params={"name": made["name"]}).json() == {"data": [made], "has_more": False}
    assert client.get("/v1/memories", params={"name": "nobody"}).json()["data"] == []
    assert problem(client.post("/v1/memories", json={"name": made["name"]})) == (409, "memory-exists")
    first = client.get("/v1/memories", params={"limit": 1}).json()
    assert first["has_more"] or len(first["data"]) == 1
    rest = client.get("/v1/memories", params={"limit": 1000, "after": first["data"][0]["id"]}).json()["data"]
    assert made in [*first["data"], *rest]


@pytest.mark.parametrize("path", ["/v1/memories/alice", "/v1/memories/mem_" + "0" * 26, "/v1/memories/..%2Fx"])
def test_a_name_is_no_path_and_an_unknown_id_is_not_found(client: httpx2.Client, path: str) -> None:
    assert client.get(path).status_code == 404
    assert client.get(path).headers["content-type"] == "application/problem+json"


def test_an_update_is_durable_and_one_however_often_it_is_sent(client: httpx2.Client, memory: dict[str, Any]) -> None:
    first = update(client, memory, "Alice lives in Zurich.", **{"idempotency-key": "k1"})
    again = update(client, memory, "Alice lives in Zurich.", **{"idempotency-key": "k1"})
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json() == again.json()
    assert (first.json()["number"], first.json()["derived"]) == (3, False)
    assert problem(update(client, memory, "Else.", **{"idempotency-key": "k1"})) == (422, "idempotency-conflict")


def test_a_write_decided_on_an_older_version_is_refused(client: httpx2.Client, memory: dict[str, Any]) -> None:
    tag = client.get(f"/v1/memories/{memory['id']}").headers["etag"]
    assert tag.startswith('"v2-')
    assert update(client, memory, "Carol paints.", **{"if-match": tag}).status_code == 201
    assert problem(update(client, memory, "Dan swims.", **{"if-match": tag})) == (412, "version-conflict")
    other = tag.replace("v2", "v3")
    assert problem(update(client, memory, "Dan swims.", **{"if-match": other})) == (412, "version-conflict")
    assert problem(update(client, memory, "Dan swims.", **{"if-match": "W/x"})) == (400, "invalid-input")
    assert update(client, memory, "Dan swims.", **{"if-match": "*"}).status_code == 201


def test_derive_wait_says_whether_the_factors_are_there(client: httpx2.Client, memory: dict[str, Any]) -> None:
    body = {"text": "Eve sings.", "derive": "wait", "metadata": {"from": "test"}, "replaces": [1]}
    answer = client.post(f"/v1/memories/{memory['id']}/updates", json=body).json()
    assert answer["derived"] is True
    assert answer["metadata"] == {"from": "test", "plume": {"keeps": [], "replaces": [1]}}


def test_the_log_is_read_by_version(client: httpx2.Client, memory: dict[str, Any]) -> None:
    path = f"/v1/memories/{memory['id']}"
    page = client.get(f"{path}/versions", params={"limit": 1}).json()
    assert [one["text"] for one in page["data"]] == ["Alice lives in Bern."]
    assert page["has_more"]
    page = client.get(f"{path}/versions", params={"after": 1})
    assert [one["number"] for one in page.json()["data"]] == [2]
    assert page.headers["cache-control"] == "no-store"
    entry = client.get(f"{path}/versions/2").json()
    assert (entry["kind"], entry["text"], entry["memory"]) == ("update", "Bob has a boat.", memory["id"])
    assert client.get(f"{path}/versions/1/text").json()["text"] == "Alice lives in Bern."
    diff = client.get(f"{path}/diff", params={"from": 0, "to": 2}).json()
    assert [one["version"] for one in diff["added"]] == [1, 2]
    assert problem(client.get(f"{path}/versions/9")) == (404, "version-not-found")
    assert problem(client.get(f"{path}/versions/0")) == (400, "invalid-input")
    assert problem(client.get(f"{path}/versions/x")) == (400, "invalid-input")


def test_rollback_and_fork_append(client: httpx2.Client, memory: dict[str, Any]) -> None:
    path = f"/v1/memories/{memory['id']}"
    first = client.post(f"{path}/rollback", json={"to": 1}, headers={"idempotency-key": "r"})
    assert (first.status_code, first.json()["restores"]) == (201, 1)
    assert client.post(f"{path}/rollback", json={"to": 1}, headers={"idempotency-key": "r"}).json() == first.json()
    assert problem(client.post(f"{path}/rollback", json={"to": 99})) == (404, "version-not-found")
    name = f"copy of {memory['name']}"
    forked = client.post(f"{path}/fork", json={"name": name, "at": 2})
    assert forked.status_code == 201
    body = forked.json()
    assert (body["version"], body["forked_from"], body["forked_at"]) == (2, memory["id"], 2)
    assert client.get(forked.headers["location"]).json() == body
    assert problem(client.post(f"{path}/fork", json={"name": name})) == (409, "memory-exists")


def test_forget_keeps_the_text_and_erase_removes_it_with_a_certificate(
    client: httpx2.Client, memory: dict[str, Any]
) -> None:
    path = f"/v1/memories/{memory['id']}"
    forgotten = client.post(f"{path}/forget", json={"text": "Bob", "reason": "asked to"}).json()
    assert (forgotten["kind"], forgotten["forgets"], forgotten["span"]) == ("forget", 2, [0, 3])
    assert client.get(f"{path}/versions/2").json()["text"] == "Bob has a boat."
    answer = client.post(f"{path}/forget", json={"version": 2, "erase": True, "reason": "asked to"})
    certificate = answer.json()
    assert (answer.status_code, certificate["object"], certificate["version"]) == (201, "certificate", 4)
    assert [(one["memory"], one["version"]) for one in certificate["erased"]] == [(memory["id"], 2)]
    assert client.get(f"{path}/versions/2").json()["text"] == ""
    assert client.get(f"{path}/versions/2").json()["erased_by"] == 4
    assert problem(client.post(f"{path}/forget", json={"reason": "x"})) == (400, "invalid-input")
    assert problem(client.post(f"{path}/forget", json={"text": "nowhere"})) == (400, "invalid-input")


@pytest.mark.parametrize(("error", "is_kept"), [(StoreUnavailable("away"), False), (InvalidInput("no"), True)])
def test_an_erasure_that_failed_half_way_leaves_no_trace_and_one_refused_all(
    client: httpx2.Client, memory: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: Exception, is_kept: bool
) -> None:
    path = f"/v1/memories/{memory['id']}"
    trace = client.post(f"{path}/ask", json={"question": "Where does Alice live?"}).json()["trace_id"]

    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("plume_memory.memory.Erasures.erase", failing)
    assert client.post(f"{path}/forget", json={"version": 1, "erase": True}).status_code >= 400
    assert client.get(f"/v1/traces/{trace}").status_code == (200 if is_kept else 404)


def test_an_erasure_that_takes_long_is_an_operation(serve: Any) -> None:
    served: Served = serve(operation_wait_s=0.0)
    with served.client(served.key()) as client:
        memory = client.post("/v1/memories", json={"name": "alice"}).json()
        update(client, memory, "Alice lives in Bern.")
        answer = client.post(f"/v1/memories/{memory['id']}/forget", json={"version": 1, "erase": True})
        assert answer.status_code == 202
        while (operation := client.get(answer.headers["location"]).json())["status"] == "running":
            pass
        assert operation["status"] == "done"
        assert operation["result"]["erased"][0]["version"] == 1
        with served.client(served.key(tenant="other")) as stranger:
            assert problem(stranger.get(answer.headers["location"])) == (404, "operation-not-found")


def test_an_answer_comes_with_what_it_is_from_and_its_trace(client: httpx2.Client, memory: dict[str, Any]) -> None:
    path = f"/v1/memories/{memory['id']}"
    answer = client.post(f"{path}/ask", json={"question": "Where does Alice live?", "top_candidates": 2})
    body = answer.json()
    assert (answer.status_code, body["version"], body["memory"]) == (200, 2, memory["id"])
    assert body["evidence"]["unit"]["text"] == "Alice lives in Bern."
    assert 0 < body["confidence"] < 1
    assert len(body["trace"]) == body["usage"]["completion_tokens"]
    assert len(body["trace"][0]["top"]) == 2
    assert answer.headers["x-plume-trace"] == body["trace_id"]
    kept = client.get(f"/v1/traces/{body['trace_id']}").json()
    assert kept["question"] == "Where does Alice live?"
    assert {name: kept[name] for name in body} == body
    older = client.post(f"{path}/ask", json={"messages": [{"role": "user", "content": "Where?"}], "version": 1})
    assert older.json()["version"] == 1
    assert problem(client.post(f"{path}/ask", json={"question": "a", "version": 9})) == (404, "version-not-found")
    assert problem(client.post(f"{path}/ask", json={})) == (400, "invalid-input")
    long = client.post(f"{path}/ask", json={"question": "x" * 9000})
    assert problem(long) == (400, "context-length-exceeded")


def events(text: str) -> list[tuple[str, Any]]:
    found = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        found.append((lines.get("event", ""), json.loads(lines["data"]) if lines["data"] != "[DONE]" else None))
    return found


def test_a_streamed_answer_is_the_same(client: httpx2.Client, memory: dict[str, Any]) -> None:
    path = f"/v1/memories/{memory['id']}/ask"
    whole = client.post(path, json={"question": "Where does Alice live?"}).json()
    answer = client.post(path, json={"question": "Where does Alice live?", "stream": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-accel-buffering"] == "no"
    found = events(answer.text)
    assert [kind for kind, _ in found][-1] == "answer"
    assert "".join(body["text"] for kind, body in found if kind == "piece") == whole["text"] == found[-1][1]["text"]
    assert problem(client.post(path, json={"question": "x" * 9000, "stream": True}))[0] == 400


def test_what_was_erased_is_in_no_trace(client: httpx2.Client, memory: dict[str, Any], served: Served) -> None:
    path = f"/v1/memories/{memory['id']}"
    here, elsewhere = (client.post(f"{path}/ask", json={"question": "Alice?"}).json()["trace_id"] for _ in range(2))
    assert client.get(f"/v1/traces/{here}").status_code == 200
    client.post(f"{path}/forget", json={"version": 1, "erase": True})
    assert problem(client.get(f"/v1/traces/{here}")) == (404, "trace-not-found")
    third = client.post(f"{path}/ask", json={"question": "Bob?"}).json()["trace_id"]
    log_name = served.serving.directory.get("default", memory["id"]).log_name
    served.serving.pool.memory(log_name).erase(2)  # as another process would: no trace of this one is told
    assert problem(client.get(f"/v1/traces/{third}")) == (404, "trace-not-found")
    assert problem(client.get(f"/v1/traces/{elsewhere}")) == (404, "trace-not-found")


def test_units_are_ranked(client: httpx2.Client, memory: dict[str, Any]) -> None:
    found = client.post(f"/v1/memories/{memory['id']}/route", json={"question": "boat", "k": 2}).json()
    assert found["version"] == 2
    assert found["units"][0]["unit"]["text"] == "Bob has a boat."


def test_a_memory_travels_as_a_file(client: httpx2.Client, memory: dict[str, Any]) -> None:
    exported = client.get(f"/v1/memories/{memory['id']}/export")
    assert exported.headers["content-type"] == "application/vnd.plume.archive"
    name = f"import of {memory['name']}"
    made = client.post("/v1/memories:import", params={"name": name}, content=exported.content)
    assert made.status_code == 201, made.text
    assert (made.json()["versions"], made.json()["memory"]["name"]) == (2, name)
    head = client.get(f"/v1/memories/{memory['id']}").json()
    assert made.json()["head_hash"] == head["head_hash"]
    assert client.get(made.headers["location"]).json()["version"] == 2
    again = client.post("/v1/memories:import", params={"name": name}, content=exported.content)
    assert problem(again) == (409, "memory-exists")
    assert problem(client.post("/v1/memories:import?name=x", content=b"no zip")) == (400, "archive")


def test_an_update_that_is_still_running_is_not_begun_again(
    client: httpx2.Client, memory: dict[str, Any], served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    from plume_memory.memory import ParametricMemory

    entered, go_on = threading.Event(), threading.Event()
    own = ParametricMemory.update

    def slow(*given: Any, **options: Any) -> Any:
        entered.set()
        go_on.wait(20)
        return own(*given, **options)

    monkeypatch.setattr(ParametricMemory, "update", slow)
    answers: list[httpx2.Response] = []
    first = threading.Thread(
        target=lambda: answers.append(update(client, memory, "Carol paints.", **{"idempotency-key": "k"}))
    )
    first.start()
    assert entered.wait(20)
    second = update(client, memory, "Carol paints.", **{"idempotency-key": "k"})
    go_on.set()
    first.join()
    assert problem(second) == (409, "idempotency-in-flight")
    assert second.headers["x-should-retry"] == "false"
    assert answers[0].status_code == 201
