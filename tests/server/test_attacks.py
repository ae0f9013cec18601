"""What must not work: another tenant's memories, two names at once, bodies without end, keys that are gone."""

import socket
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from typing import Any
from urllib.parse import quote, urlsplit

import httpx2
import pytest

from plume_memory.cancel import Cancel
from plume_memory.errors import InvalidInput
from plume_memory.model.running import RunningQueries
from plume_memory.policy import AnswerPolicy
from plume_memory.scheduling import Scheduler
from tests.server.conftest import Served, new_engine, until

CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "Where does Alice live?"}]
FOREVER = {"question": "Where does Alice live?", "stream": True, "max_new_tokens": 6000, "unknown": "bare"}


@pytest.fixture
def mine(served: Served, request: pytest.FixtureRequest) -> dict[str, Any]:
    """A memory of the tenant acme, with a trace and an operation."""
    with served.client(served.key(tenant="acme")) as owner:
        made = owner.post("/v1/memories", json={"name": f"secret of {request.node.name}"[:200]}).json()
        owner.post(f"/v1/memories/{made['id']}/updates", json={"text": "Alice lives in Bern."})
        made["trace"] = owner.post(f"/v1/memories/{made['id']}/ask", json={"question": "Where?"}).json()["trace_id"]
    return {**made, "operation": served.serving.operations.begin("acme", made["id"], _fails).id}


def _fails() -> dict[str, Any]:
    raise InvalidInput("Alice lives in Bern.")


@pytest.fixture
def stranger(served: Served) -> Any:
    """A client of another tenant, who may do everything there."""
    key = served.key("admin", "act-as", tenant="initech")
    with served.client(key) as made:
        yield made


ID_PATHS: list[tuple[str, str, Any]] = [
    ("GET", "", None),
    ("GET", "/versions", None),
    ("GET", "/versions/1", None),
    ("GET", "/versions/1/text", None),
    ("GET", "/versions/1/replacements", None),
    ("GET", "/diff?from=0&to=1", None),
    ("GET", "/verification", None),
    ("GET", "/export", None),
    ("GET", "/profile", None),
    ("POST", "/updates", {"text": "Alice is dead."}),
    ("POST", "/rollback", {"to": 1}),
    ("POST", "/fork", {"name": "stolen"}),
    ("POST", "/forget", {"version": 1}),
    ("POST", "/forget", {"version": 1, "erase": True}),
    ("POST", "/ask", {"question": "Where does Alice live?"}),
    ("POST", "/ask", {"question": "Where does Alice live?", "stream": True}),
    ("POST", "/route", {"question": "Alice"}),
    ("POST", "/recall", {"question": "Where does Alice live?"}),
]
OTHER_IDS = {"/v1/traces/{id}": "trace", "/v1/operations/{id}": "operation"}
"""What else has an id in its path, by what `mine` calls it."""


def test_every_path_with_an_id_is_among_those_that_are_attacked(client: httpx2.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    served = {(method.upper(), path) for path, methods in paths.items() for method in methods if "{id}" in path}
    attacked = {(method, "/v1/memories/{id}" + _template(path)) for method, path, _ in ID_PATHS}
    assert served == attacked | {("GET", path) for path in OTHER_IDS}


def _template(path: str) -> str:
    return path.partition("?")[0].replace("/versions/1", "/versions/{n}")


@pytest.mark.parametrize("path", OTHER_IDS)
def test_what_was_made_of_another_tenants_memory_is_not_there_by_its_id(
    stranger: httpx2.Client, mine: dict[str, Any], served: Served, path: str
) -> None:
    own, nobodys = mine[OTHER_IDS[path]], "x" * 30
    with served.client(served.key("admin", tenant="acme")) as owner:
        assert "Bern" in owner.get(path.replace("{id}", own)).text
    answers = [stranger.get(path.replace("{id}", number)) for number in (own, nobodys)]
    assert [one.status_code for one in answers] == [404, 404]
    assert answers[0].json()["detail"].replace(own, "X") == answers[1].json()["detail"].replace(nobodys, "X")
    assert "Bern" not in answers[0].text


@pytest.mark.parametrize(("method", "path", "body"), ID_PATHS)
def test_another_tenants_memory_is_not_there_by_its_id(
    stranger: httpx2.Client, mine: dict[str, Any], method: str, path: str, body: Any
) -> None:
    answers = [
        stranger.request(method, f"/v1/memories/{number}{path}", json=body)
        for number in (mine["id"], "mem_" + "z" * 26)
    ]
    assert [one.status_code for one in answers] == [404, 404]
    theirs, nobodys = ({**one.json(), "request_id": ""} for one in answers)
    assert theirs["detail"].replace(mine["id"], "X") == nobodys["detail"].replace("mem_" + "z" * 26, "X")
    assert "Bern" not in answers[0].text


def test_another_tenants_memory_is_not_there_by_any_name(
    stranger: httpx2.Client, mine: dict[str, Any], served: Served
) -> None:
    name = mine["name"]
    for called in (name, mine["id"]):
        ways: list[tuple[dict[str, Any], dict[str, str]]] = [
            ({"model": "plume"}, {"x-plume-memory": called}),
            ({"model": "plume", "plume": {"memory": called}}, {}),
            ({"model": f"plume@{called}"}, {}),
            ({"model": f"plume@{called}:1"}, {}),
            ({"model": served.serving.pool.model}, {"x-plume-memory": called}),
        ]
        for body, headers in ways:
            for write in (False, True):
                plume = {**body.get("plume", {}), "write": write}
                asked = {**body, "messages": QUESTION, "plume": plume}
                answer = stranger.post(CHAT, json=asked, headers=headers)
                assert answer.status_code == 404, (body, answer.text)
                assert answer.json()["error"]["code"] == "memory_not_found"
                answer = stranger.post("/v1/responses", json={**body, "input": "x"}, headers=headers)
                assert answer.status_code == 404
    assert stranger.get("/v1/memories", params={"name": name}).json()["data"] == []
    assert stranger.get("/v1/memories", params={"after": mine["id"]}).status_code == 404
    assert stranger.get(f"/v1/models/{quote(f'plume@{name}')}").status_code == 404
    assert name not in stranger.get("/v1/models").text
    assert name not in stranger.get("/v1/memories").text
    made = stranger.post("/v1/memories", json={"name": name})
    assert made.status_code == 201, "a name that another tenant has is free: nobody learns of it"
    assert made.json()["version"] == 0


def test_a_key_of_one_memory_names_no_other(served: Served, mine: dict[str, Any]) -> None:
    with served.client(served.key(tenant="acme")) as owner:
        other = owner.post("/v1/memories", json={"name": f"other than {mine['name']}"[:200]}).json()
    key = served.key("admin", tenant="acme", memory=mine["id"])
    with served.client(key) as bound:
        assert bound.get(f"/v1/memories/{mine['id']}").status_code == 200
        assert bound.get(f"/v1/memories/{other['id']}").status_code == 404
        assert [one["id"] for one in bound.get("/v1/memories").json()["data"]] == [mine["id"]]
        assert bound.get("/v1/memories", params={"name": other["name"]}).json()["data"] == []
        assert bound.get(f"/v1/traces/{mine['trace']}").status_code == 200
        named = {"model": "plume", "messages": QUESTION, "plume": {"memory": other["name"]}}
        assert bound.post(CHAT, json=named).status_code == 404
        assert bound.post(CHAT, json={"model": "plume", "messages": QUESTION}).json()["plume"]["memory"] == mine["id"]
        for method, path, body in (
            ("POST", "/v1/memories", {"name": "x"}),
            ("POST", f"/v1/memories/{mine['id']}/fork", {"name": "x"}),
            ("POST", "/v1/memories:import?name=x", None),
        ):
            assert bound.request(method, path, json=body).status_code == 403


def test_two_places_that_disagree_are_refused(
    client: httpx2.Client, memory: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    other = client.post("/v1/memories", json={"name": "another one for conflicts"}).json()
    ways: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"model": f"plume@{memory['name']}"}, {"x-plume-memory": other["name"]}),
        ({"model": "plume", "plume": {"memory": memory["name"]}}, {"x-plume-memory": other["id"]}),
        ({"model": f"plume@{memory['name']}", "plume": {"memory": other["id"]}}, {}),
        ({"model": f"plume@{memory['name']}:1", "plume": {"version": 2}}, {}),
        ({"model": f"plume@{memory['name']}:1"}, {"x-plume-version": "2"}),
    ]
    for body, headers in ways:
        answer = client.post(CHAT, json={**body, "messages": QUESTION}, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "memory_conflict"), body
    agreed = {"model": f"plume@{memory['name']}:1", "messages": QUESTION, "plume": {"memory": memory["id"]}}
    headers = {"x-plume-memory": memory["name"], "x-plume-version": "1"}
    assert client.post(CHAT, json=agreed, headers=headers).json()["plume"]["version"] == 1
    alone = client.post(CHAT, json={"model": "plume", "messages": QUESTION}, headers={"x-plume-version": "1"})
    assert alone.status_code == 400


def test_a_scope_that_is_missing_is_403_and_asked_for_before_anything_is_looked_up(
    served: Served, mine: dict[str, Any]
) -> None:
    with served.client(served.key("memory:list", tenant="acme")) as poor:
        for method, path, body in ID_PATHS:
            for number in (mine["id"], "mem_" + "z" * 26):
                assert poor.request(method, f"/v1/memories/{number}{path}", json=body).status_code == 403
        assert poor.get("/metrics").status_code == 403
    with served.client(served.key("memory:write", tenant="acme")) as writer:
        body = {"version": 1, "erase": True}
        assert writer.post(f"/v1/memories/{mine['id']}/forget", json=body).status_code == 403


@pytest.mark.parametrize("key", [None, "plk_aaaaaaaa_" + "a" * 32, "sk-openai", "plk_"])
def test_without_a_key_nobody_comes_in_once_one_was_made(served: Served, key: str | None) -> None:
    served.key()
    with served.client(key) as nobody:
        for path in ("/v1/memories", "/v1/models", "/metrics", "/v1/traces/x"):
            answer = nobody.get(path)
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
        assert nobody.get("/healthz").status_code == 200


def test_before_the_first_key_only_this_machines_own_programs_come_in(serve: Callable[..., Served]) -> None:
    served = serve()
    with served.client() as local:
        assert local.get("/v1/memories").status_code == 200
        assert local.get("/v1/models", headers={"authorization": "Bearer unused"}).status_code == 200
        assert local.get("/v1/memories", headers={"host": "evil.example"}).status_code == 403
        assert local.get("/v1/memories", headers={"origin": "https://evil.example"}).status_code == 403
        assert local.get("/v1/memories", headers={"origin": served.url}).status_code == 200
        made = served.serving.keys.create(tenant="default", scopes=["memory:list"])
        assert local.get("/v1/memories").status_code == 401
        served.serving.keys.revoke(made.key.id)
        assert local.get("/v1/memories").status_code == 401, "a key that is revoked opens no door to who has none"


def test_a_revoked_key_opens_nothing(served: Served) -> None:
    made = served.serving.keys.create(tenant="acme", scopes=["memory:list"])
    with served.client(made.secret) as client:
        assert client.get("/v1/memories").status_code == 200
        served.serving.keys.revoke(made.key.id)
        assert client.get("/v1/memories").status_code == 401


def test_a_body_that_is_too_large_is_refused_with_or_without_its_length(
    client: httpx2.Client, memory: dict[str, Any]
) -> None:
    path = f"/v1/memories/{memory['id']}/updates"
    large = b'{"text": "' + b"x" * (10 << 20) + b'"}'

    def pieces() -> Any:
        for at in range(0, len(large), 1 << 16):
            yield large[at : at + (1 << 16)]

    for body in (large, pieces()):
        try:
            answer = client.post(path, content=body, headers={"content-type": "application/json"})
        except (httpx2.WriteError, httpx2.RemoteProtocolError, httpx2.ReadError):
            continue  # the server closed the connection while it was sent
        assert (answer.status_code, answer.json()["type"]) == (413, "urn:plume:problem:body-too-large")
    long = client.post(path, json={"text": "word " * 5000})
    assert (long.status_code, long.json()["type"]) == (400, "urn:plume:problem:text-too-long")
    assert client.get(f"/v1/memories/{memory['id']}").json()["version"] == 2


def test_a_slow_body_does_not_hold_a_place_for_ever(serve: Callable[..., Served]) -> None:
    served = serve(body_s=0.3)
    address = urlsplit(served.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0))) as slow:
        head = ["POST /v1/memories HTTP/1.1", "Host: localhost", "Content-Type: application/json", "Content-Length: 20"]
        slow.sendall("\r\n".join([*head, "", "{"]).encode())
        slow.settimeout(10)
        assert slow.recv(4096).startswith(b"HTTP/1.1 408")
    until(lambda: served.serving.condition.in_flight == 0)


@pytest.mark.parametrize("path", ["/v1/memories", CHAT, "/v1/responses"])
@pytest.mark.parametrize("body", [b'{"name": "\xff\xfe"}', b"\x00", b"{", b"[]", b"null", b'{"name": "\\ud800"}', b""])
def test_a_body_that_is_no_json_is_refused_in_the_paths_shape(client: httpx2.Client, path: str, body: bytes) -> None:
    answer = client.post(path, content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 400
    if path == "/v1/memories":
        assert answer.headers["content-type"] == "application/problem+json"
    else:
        assert answer.json()["error"]["type"] == "invalid_request_error"


def test_unknown_paths_and_methods_have_the_same_shapes(client: httpx2.Client) -> None:
    assert client.get("/v1/nothing").json()["type"] == "urn:plume:problem:not-found"
    assert client.delete("/v1/memories").status_code == 405
    assert client.get(CHAT).json()["error"]["code"] == "method_not_allowed"


def test_who_asks_too_often_waits(serve: Callable[..., Served]) -> None:
    served = serve(requests_per_minute=30, rows_per_minute=4)
    with served.client(served.key()) as client:
        memory = client.post("/v1/memories", json={"name": "alice"}).json()
        path = f"/v1/memories/{memory['id']}/ask"
        asked = [client.post(path, json={"question": "x"}) for _ in range(3)]
        assert [one.status_code for one in asked] == [200, 200, 429]
        assert int(asked[-1].headers["retry-after"]) >= 1
        assert asked[0].headers["x-ratelimit-limit-requests"] == "30"
        statuses = [client.get("/v1/memories").status_code for _ in range(30)]
        assert statuses[-1] == 429
        chat = client.post(CHAT, json={"model": "plume@alice", "messages": QUESTION})
        assert chat.json()["error"]["type"] == "rate_limit_error"
    with served.client(served.key()) as other:
        assert other.get("/v1/memories").status_code == 200, "another key has a bucket of its own"


def slow_server(serve: Callable[..., Served], **settings: Any) -> tuple[Served, httpx2.Client, dict[str, Any]]:
    """A server whose answers are long, a client, and a memory."""
    engine = new_engine()
    engine.policy = AnswerPolicy(max_new_tokens=2000, unit_tokens=64)
    served = serve(engine, answer_tokens=6000, **settings)
    client = served.client(served.key())
    memory = client.post("/v1/memories", json={"name": "alice"}).json()
    client.post(f"/v1/memories/{memory['id']}/updates", json={"text": "Alice lives in Bern."})
    return served, client, memory


def test_streams_that_are_cut_free_their_rows_within_two_steps(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    _never_ends(monkeypatch)
    served, client, memory = slow_server(serve)
    scheduler = served.serving.pool.engine.scheduler
    steps_kept = _steps_kept(monkeypatch, scheduler)
    for _ in range(10):
        with ExitStack() as streams:
            for at in range(20):
                body: dict[str, Any] = {"model": "plume@alice", "messages": QUESTION, "stream": True}
                path, sent = (f"/v1/memories/{memory['id']}/ask", FOREVER) if at % 2 else (CHAT, body)
                stream = streams.enter_context(client.stream("POST", path, json=sent))
                next(stream.iter_lines())
        until(lambda: scheduler.counters().running_rows == 0 and len(served.serving.answers) == 0)
    assert scheduler.counters().cancelled >= 200
    assert len(steps_kept) >= 10, "some of each twenty had rows"
    assert max(steps_kept) <= 2
    whole = threading.Thread(target=lambda: _cut_after(served, client, memory, 3.0))
    whole.start()
    until(lambda: scheduler.counters().running == 1)
    whole.join()
    until(lambda: scheduler.counters().running_rows == 0 and len(served.serving.answers) == 0)
    assert max(steps_kept) <= 2
    client.close()


def _steps_kept(monkeypatch: pytest.MonkeyPatch, scheduler: Scheduler) -> list[int]:
    """For each answer that leaves the batch after it was cancelled, the steps that were taken between."""
    seen: dict[Cancel, int] = {}
    kept: list[int] = []
    cancel, leave = Cancel.__call__, RunningQueries.leave

    def cancelled(self: Cancel, reason: str) -> None:
        cancel(self, reason)
        seen.setdefault(self, scheduler.counters().steps)

    def left(self: RunningQueries, number: int) -> None:
        running = self._running.get(number)
        own = None if running is None else running.settings.cancel
        leave(self, number)
        if own in seen:
            kept.append(scheduler.counters().steps - seen[own])

    monkeypatch.setattr(Cancel, "__call__", cancelled)
    monkeypatch.setattr(RunningQueries, "leave", left)
    return kept


def _never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tiny model ends soon, or goes round in circles; here it is to go on until somebody cuts it."""
    from plume_memory.answering import pinned

    own = pinned.settings_of

    def endless(*given: Any) -> Any:
        settings = own(*given)
        return replace(settings, min_new_tokens=settings.max_new_tokens)

    monkeypatch.setattr(pinned, "settings_of", endless)


def _cut_after(served: Served, client: httpx2.Client, memory: dict[str, Any], seconds: float) -> None:
    """Ask for a whole answer and leave."""
    body = {"question": "Where does Alice live?", "max_new_tokens": 4000}
    with pytest.raises(httpx2.ReadTimeout):
        client.post(f"/v1/memories/{memory['id']}/ask", json=body, timeout=seconds)


def test_a_key_that_is_revoked_while_it_streams_ends_the_stream(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    _never_ends(monkeypatch)
    served, owner, memory = slow_server(serve)
    owner.close()
    made = served.serving.keys.create(tenant="default", scopes=["memory:read"])
    with served.client(made.secret) as client:
        with client.stream("POST", f"/v1/memories/{memory['id']}/ask", json=FOREVER) as stream:
            lines = stream.iter_lines()
            next(lines)
            served.serving.keys.revoke(made.key.id)
            rest = list(lines)
    assert "event: error" in rest
    assert any("revoked" in line for line in rest)
    assert not any("event: answer" in line for line in rest)
    until(lambda: served.serving.pool.engine.scheduler.counters().running == 0)


def test_an_erasure_ends_the_answers_that_are_made_of_it(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    _never_ends(monkeypatch)
    served, client, memory = slow_server(serve)
    path = f"/v1/memories/{memory['id']}"
    with client.stream("POST", f"{path}/ask", json=FOREVER) as stream:
        lines = stream.iter_lines()
        next(lines)
        with served.client(served.key()) as other:
            assert other.post(f"{path}/forget", json={"version": 1, "erase": True}).status_code == 201
        rest = list(lines)
    assert any("erased" in line for line in rest)
    client.close()


def test_a_full_house_is_said_at_once(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    _never_ends(monkeypatch)
    served, client, memory = slow_server(serve, answers_at_once=1)
    path = f"/v1/memories/{memory['id']}"
    with client.stream("POST", f"{path}/ask", json=FOREVER) as stream:
        lines = stream.iter_lines()  # let go of, it would close the stream
        next(lines)
        with served.client(served.key()) as other:
            answer = other.post(f"{path}/ask", json={"question": "x"})
            assert (answer.status_code, answer.json()["type"]) == (503, "urn:plume:problem:busy")
            assert answer.headers["retry-after"]
            assert answer.headers["x-should-retry"] == "true"
            assert other.get("/healthz").status_code == 200
            assert other.post(f"{path}/updates", json={"text": "Bob has a boat."}).status_code == 201
    client.close()


def test_a_deadline_is_kept(serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch) -> None:
    _never_ends(monkeypatch)
    served, client, memory = slow_server(serve)
    body = {"question": "Where does Alice live?", "max_new_tokens": 4000}
    path = f"/v1/memories/{memory['id']}/ask"
    late = client.post(path, json=body, headers={"x-plume-timeout": "0.3"})
    assert (late.status_code, late.json()["type"]) == (503, "urn:plume:problem:deadline-exceeded")
    wrong = client.post(path, json=body, headers={"x-plume-timeout": "soon"})
    assert wrong.status_code == 400
    until(lambda: served.serving.pool.engine.scheduler.counters().running == 0)
    client.close()
