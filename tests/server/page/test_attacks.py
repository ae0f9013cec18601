"""What must not work through the page."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.server.conftest import Served
from tests.server.page.conftest import Visitor

SCRIPT = "<script>alert('1')</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
PATHS = ("", "?replaced=true", "/versions/1", "/diff?from=0&to=1", "/ask", "/forget", "/verification")


def harmless(shown: str) -> None:
    """Nothing of what was written is markup."""
    assert "<script>alert" not in shown
    assert "<img" not in shown
    assert len(re.findall(r"<script\b", shown)) == 1, "htmx, from here"


@pytest.fixture
def hostile(served: Served) -> dict[str, Any]:
    """A memory whose every text is markup."""
    with served.client(served.key()) as client:
        name = f"{SCRIPT}{IMAGE}"
        found = client.get("/v1/memories", params={"name": name}).json()["data"]
        if found:
            return dict(found[0])
        made = client.post("/v1/memories", json={"name": name}).json()
        at = f"/v1/memories/{made['id']}"
        text = f"Alice {SCRIPT} lives in {IMAGE} Bern."
        for number in range(2):
            headers = {"idempotency-key": f"{SCRIPT}{number}"}
            body = {"text": f"{text} {number}", "metadata": {SCRIPT: IMAGE}}
            assert client.post(f"{at}/updates", json=body, headers=headers).status_code == 201
        assert client.post(f"{at}/forget", json={"version": 2, "reason": SCRIPT + IMAGE}).status_code == 201
        client.post(f"{at}/fork", json={"name": f"fork {SCRIPT}{IMAGE}"})
        return dict(made)


@pytest.mark.parametrize("path", PATHS)
def test_markup_in_every_text_is_text(visitor: Visitor, hostile: dict[str, Any], path: str) -> None:
    shown = visitor.get(f"/memories/{hostile['id']}{path}")
    harmless(shown)
    assert "&lt;script&gt;" in shown


def test_markup_in_what_is_sent_is_text(visitor: Visitor, hostile: dict[str, Any]) -> None:
    harmless(visitor.memories())
    at = f"/memories/{hostile['id']}"
    harmless(visitor.send(f"{at}/ask", f"{at}/ask", question=f"Where does Alice {SCRIPT} live?").text)
    harmless(visitor.send(f"{at}/ask", f"{at}/ask", question="?", version=SCRIPT).text)
    fields = {"version": "1", "how": "erase", "reason": SCRIPT + IMAGE}
    harmless(visitor.send(f"{at}/forget/preview", f"{at}/forget", **fields).text)
    harmless(visitor.send(f"{at}/forget/preview", f"{at}/forget", version="1", words=SCRIPT + "no", how="erase").text)
    harmless(visitor.get(f"/memories/{quote(IMAGE)}", 404))
    harmless(visitor.get(f"/login?next={quote(IMAGE)}"))


@pytest.mark.parametrize("path", ["/ask", "/forget/preview", "/forget"])
def test_a_form_without_the_visitors_token_is_refused(
    visitor: Visitor, served: Served, memory: dict[str, Any], path: str
) -> None:
    with served.client(follow_redirects=True) as client:
        foreign = Visitor(client).token("/login")
    fields = {"version": "1", "question": "?", "how": "forget", "head": "2", "key": "k"}
    for token in ({}, {"token": ""}, {"token": "é"}, {"token": foreign}):
        refused = visitor.client.post(f"/memories/{memory['id']}{path}", data={**fields, **token})
        assert refused.status_code == 403, token
    assert served.serving.pool.memory(memory["name"], create=False).version == 2


def test_a_form_from_elsewhere_neither_logs_in_nor_out(visitor: Visitor, anybody: Visitor, served: Served) -> None:
    assert anybody.client.post("/login", data={"key": served.key()}).status_code == 403
    assert visitor.client.post("/logout", data={}).status_code == 403
    visitor.get("/health")


@pytest.mark.parametrize("path", [*PATHS, "/answers/{trace}"])
def test_another_tenants_memory_is_not_there(
    anybody: Visitor, visitor: Visitor, served: Served, memory: dict[str, Any], path: str
) -> None:
    at = f"/memories/{memory['id']}"
    if "{trace}" in path:
        asked = visitor.send(f"{at}/ask", f"{at}/ask", question="Where does Alice live?")
        path = path.replace("{trace}", str(asked.url).rpartition("/")[2])
    anybody.log_in(served.key("admin", tenant="initech"))
    shown = anybody.get(f"{at}{path}", 404)
    nobodys = anybody.get(f"/memories/mem_{'z' * 26}{path}", 404)
    assert shown.replace(memory["id"], "X") == nobodys.replace(f"mem_{'z' * 26}", "X")


def test_another_tenant_neither_asks_nor_forgets(anybody: Visitor, served: Served, memory: dict[str, Any]) -> None:
    anybody.log_in(served.key("admin", tenant="initech"))
    token = anybody.token("/")
    fields = {"token": token, "question": "?", "version": "1", "how": "forget", "head": "2", "key": "k"}
    for path in ("/ask", "/forget/preview", "/forget"):
        assert anybody.client.post(f"/memories/{memory['id']}{path}", data=fields).status_code == 404
    assert served.serving.pool.memory(memory["name"], create=False).version == 2


def test_a_key_may_do_here_what_it_may_elsewhere(anybody: Visitor, served: Served, memory: dict[str, Any]) -> None:
    at = f"/memories/{memory['id']}"
    anybody.log_in(served.key("memory:read"))
    anybody.get("/", 403)
    assert "/forget" not in anybody.get(at)
    anybody.get(f"{at}/forget", 403)
    assert anybody.send(f"{at}/forget/preview", f"{at}/ask", version="1", how="forget").status_code == 403
    anybody.log_in(served.key("memory:read", "memory:write"))
    assert 'value="erase"' not in anybody.get(f"{at}/forget")
    assert anybody.send(f"{at}/forget/preview", f"{at}/forget", version="1", how="erase").status_code == 403
    fields = {"version": "1", "how": "erase", "head": "2", "key": "k"}
    assert anybody.send(f"{at}/forget", f"{at}/forget", **fields).status_code == 403
    anybody.log_in(served.key("memory:list"))
    anybody.get(at, 403)


def test_a_key_of_one_memory_opens_that_one_alone(anybody: Visitor, served: Served, memory: dict[str, Any]) -> None:
    other = served.serving.directory.create("default", "beside " + memory["name"])
    anybody.log_in(served.key(memory=memory["id"]))
    assert str(anybody.client.get("/").url).endswith(memory["id"])
    anybody.get(f"/memories/{other.id}", 404)


def test_without_a_key_everything_leads_to_the_door(anybody: Visitor, memory: dict[str, Any]) -> None:
    for path in ("/", "/health", f"/memories/{memory['id']}"):
        found = anybody.client.get(path)
        assert "/login" in str(found.url)
        assert memory["name"] not in found.text
    assert "opens nothing" in anybody.send("/login", "/login", key="plk_" + "a" * 8 + "_" + "b" * 32).text
    assert "begins with plk_" in anybody.send("/login", "/login", key="hunter2").text


def test_the_session_is_a_word_of_its_own_that_scripts_and_other_sites_do_not_get(
    anybody: Visitor, served: Served
) -> None:
    key = served.key()
    token = anybody.token("/login")
    before = anybody.client.cookies["plume_session"]
    done = anybody.client.post("/login", data={"token": token, "key": key}, follow_redirects=False)
    cookie = done.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert key not in cookie
    assert before not in cookie, "a session that was there before the key is nobody's to fix"


def test_a_revoked_key_ends_its_session(anybody: Visitor, served: Served) -> None:
    made = served.serving.keys.create(tenant="default", scopes=["memory:list"])
    anybody.log_in(made.secret)
    anybody.get("/")
    served.serving.keys.revoke(made.key.id)
    assert "/login" in str(anybody.client.get("/").url)


def test_signing_out_ends_the_session_also_for_who_kept_its_cookie(visitor: Visitor) -> None:
    kept = visitor.client.cookies["plume_session"]
    assert visitor.send("/logout", "/").status_code == 200
    visitor.client.cookies.set("plume_session", kept)
    assert "/login" in str(visitor.client.get("/").url)


@pytest.mark.parametrize("following", ["//evil.example/", "https://evil.example/", "/\\evil.example", "evil"])
def test_the_door_leads_nowhere_else(anybody: Visitor, served: Served, following: str) -> None:
    token = anybody.token("/login")
    fields = {"token": token, "key": served.key(), "next": following}
    done = anybody.client.post("/login", data=fields, follow_redirects=False)
    assert done.headers["location"] == "/"


def test_without_keys_only_this_machines_pages_are_served(serve: Callable[..., Served]) -> None:
    alone = serve()
    with alone.client(follow_redirects=True) as client:
        assert "There is none yet." in client.get("/").text
        assert client.get("/", headers={"host": "evil.example"}).status_code == 403
        token = Visitor(client).token("/login")
        made = alone.serving.directory.create("default", "alice")
        sent = client.post(
            f"/memories/{made.id}/ask",
            data={"token": token, "question": "?"},
            headers={"origin": "https://evil.example"},
        )
        assert sent.status_code == 403
