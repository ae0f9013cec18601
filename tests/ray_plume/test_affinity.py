"""What names a memory names the replica, wherever it stands in a request."""

import json

import pytest
from ray_plume.affinity import word_of
from ray_plume.gateway import is_repeatable
from starlette.datastructures import Headers

MEMORY = "mem_01j0000000000000000000000"


@pytest.mark.parametrize(
    ("path", "headers", "body", "word"),
    [
        (f"/v1/memories/{MEMORY}/ask", {}, {}, MEMORY),
        (f"/memories/{MEMORY}", {}, {}, MEMORY),
        ("/v1/memories", {}, {}, ""),
        ("/v1/memories:import", {}, {}, ""),
        ("/v1/chat/completions", {"x-plume-memory": "alice"}, {"model": "plume@bob"}, "alice"),
        ("/v1/chat/completions", {}, {"model": "plume@alice:12"}, "alice"),
        ("/v1/responses", {}, {"model": "plume", "plume": {"memory": "alice"}}, "alice"),
        ("/v1/chat/completions", {}, {"model": "smollm2-135m"}, ""),
        ("/v1/chat/completions", {}, ["no object"], ""),
        ("/v1/traces/trc_k3j2h1g0" + "a" * 26, {}, {}, "at:k3j2h1g0"),
        ("/v1/operations/op_k3j2h1g0" + "a" * 26, {}, {}, "at:k3j2h1g0"),
        ("/memories", {"cookie": "a=b; plume_session=k3j2h1g0xyz"}, {}, "at:k3j2h1g0"),
        ("/v1/memories", {"cookie": "plume_session=k3j2h1g0xyz"}, {}, ""),
        ("/healthz", {}, {}, ""),
    ],
)
def test_what_names_a_memory_names_the_replica(path: str, headers: dict[str, str], body: object, word: str) -> None:
    assert word_of(path, headers, json.dumps(body).encode()) == word


def test_a_key_that_names_its_memory_goes_to_one_replica() -> None:
    one = word_of("/v1/chat/completions", {"authorization": "Bearer plk_a"}, b"{}")
    assert one == word_of("/mcp", {"authorization": "Bearer plk_a"}, b"no JSON")
    assert one != word_of("/mcp", {"authorization": "Bearer plk_b"}, b"")
    assert "plk_a" not in one


@pytest.mark.parametrize(
    ("method", "path", "with_key", "without"),
    [
        ("GET", "/v1/memories", True, True),
        ("POST", "/v1/memories/m/ask", True, True),
        ("POST", "/v1/chat/completions", True, True),
        ("POST", "/v1/memories/m/updates", True, False),
        ("POST", "/v1/memories/m/rollback", True, False),
        ("POST", "/v1/memories/m/forget", True, False),
        ("POST", "/v1/memories/m/fork", False, False),
        ("POST", "/v1/memories", False, False),
        ("POST", "/memories/m/forget", False, False),
        ("DELETE", "/v1/memories/m", False, False),
    ],
)
def test_a_key_makes_repeatable_only_what_reads_it(method: str, path: str, with_key: bool, without: bool) -> None:
    assert is_repeatable(method, path, Headers({"Idempotency-Key": "k"})) is with_key
    assert is_repeatable(method, path, Headers({})) is without
