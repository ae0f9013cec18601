"""What the page shows, without a browser."""

import hashlib
import re
from typing import Any

import httpx2
from markupsafe import escape

from plume_memory.server.page.assets import FOLDER
from tests.server.conftest import Served, until
from tests.server.page.conftest import TOKEN, Visitor


def told(served: Served, name: str, *texts: str) -> dict[str, Any]:
    """A new memory that was told something."""
    with served.client(served.key()) as client:
        made = client.post("/v1/memories", json={"name": name}).json()
        for text in texts:
            assert client.post(f"/v1/memories/{made['id']}/updates", json={"text": text}).status_code == 201
    return dict(made)


def test_the_list_has_the_memories_of_the_tenant_and_no_other(
    visitor: Visitor, served: Served, memory: dict[str, Any]
) -> None:
    with served.client(served.key(tenant="acme")) as other:
        other.post("/v1/memories", json={"name": "hidden one"})
    shown = visitor.memories()
    assert memory["name"] in shown
    assert "hidden one" not in shown


def test_a_timeline_says_what_each_version_did(visitor: Visitor, served: Served) -> None:
    made = told(served, "timeline", "Alice lives in Bern.", "Bob has a boat.", "Carl is a cook.", "Eve is away.")
    own = served.serving.pool.memory("timeline", create=False)
    own.forget(2, reason="he sold it")
    own.rollback(to=4)
    own.erase(3, derive=False)
    shown = visitor.get(f"/memories/{made['id']}")
    for number, kind in ((7, "erase"), (6, "rollback"), (5, "forget"), (4, "update")):
        assert re.search(rf'class="entry {kind} \w+" id="v{number}"', shown), (number, kind)
    assert "Because: he sold it" in shown
    assert 'Back to <a href="#v4">version 4</a>' in shown
    assert 'Erased by <a href="#v7">version 7</a>' in shown
    assert "Carl" not in shown


def test_a_text_that_does_not_hold_any_more_is_struck(visitor: Visitor, served: Served) -> None:
    made = told(served, "struck", "Alice lives in Bern. Her cat is Mia.", "Bob has a boat.")
    own = served.serving.pool.memory("struck", create=False)
    own.forget(1, text="Her cat is Mia.")
    own.forget(2)
    shown = visitor.get(f"/memories/{made['id']}")
    assert re.search(r"Alice lives in Bern\.<del>\s*Her cat is Mia\.</del>", shown)
    assert "<del>Bob has a boat.</del>" in shown


def test_a_timeline_says_what_replaced_what(visitor: Visitor, served: Served) -> None:
    made = told(served, "replaced", "Alice lives in Bern.")
    served.serving.pool.memory("replaced", create=False).update("Alice lives in Oslo.", replaces=[1])
    before = visitor.get(f"/memories/{made['id']}")
    assert f'href="/memories/{made["id"]}?replaced=true"' in before
    shown = visitor.get(f"/memories/{made['id']}?replaced=true")
    assert re.search(r'“Alice lives in Bern\.” was replaced by <a href="#v2">version 2</a>', shown)


def test_a_fork_says_where_it_began(visitor: Visitor, served: Served) -> None:
    made = told(served, "root of a fork", "Alice lives in Bern.")
    with served.client(served.key()) as client:
        fork = client.post(f"/v1/memories/{made['id']}/fork", json={"name": "the fork"}).json()
    shown = visitor.get(f"/memories/{fork['id']}")
    assert "entry fork" in shown
    assert f'<a href="/memories/{made["id"]}">root of a fork</a> at version <b class="num">1</b>' in shown


def test_long_logs_come_in_pages(visitor: Visitor, served: Served) -> None:
    made = served.serving.directory.create("default", "long")
    own = served.serving.pool.memory("long", create=False)
    for number in range(1, 54):
        own.update(f"Fact {number}.", derive=False)
    newest = visitor.get(f"/memories/{made.id}")
    assert 'id="v53"' in newest
    assert 'id="v4"' in newest
    assert 'id="v3"' not in newest
    assert "?before=4" in newest
    older = visitor.get(f"/memories/{made.id}?before=4")
    assert 'id="v3"' in older
    assert 'id="v4"' not in older


def test_a_difference_is_word_by_word(visitor: Visitor, served: Served) -> None:
    made = told(served, "compared", "Alice lives in Bern.")
    own = served.serving.pool.memory("compared", create=False)
    own.forget(1)
    own.update("Alice lives in Oslo.", derive=False)
    shown = visitor.get(f"/memories/{made['id']}/diff?from=1&to=3")
    assert "Alice lives in <del>Bern</del><ins>Oslo</ins>." in shown
    assert "The same holds at both." in visitor.get(f"/memories/{made['id']}/diff?from=1&to=1")


def test_an_answer_shows_what_it_was_made_of(visitor: Visitor, served: Served, memory: dict[str, Any]) -> None:
    at = f"/memories/{memory['id']}"
    answered = visitor.send(f"{at}/ask", f"{at}/ask", question="Where does Alice live?", version="1")
    assert answered.status_code == 200
    assert "/answers/trc_" in str(answered.url)
    shown = answered.text
    assert "<mark>Alice lives in Bern.</mark>" in shown
    assert 'class="tag">evidence' in shown
    tokens = served.serving.traces.get(str(answered.url).rpartition("/")[2])
    assert tokens is not None
    assert shown.count('<rect class="weight"') == len(tokens.body["trace"]) > 0, "a bar for every token"
    assert all(f"<td><code>{escape(token['text'])}</code></td>" in shown for token in tokens.body["trace"])
    assert "Bob" not in shown, "the second version was not asked"


def test_an_answer_goes_with_what_it_was_made_from(visitor: Visitor, memory: dict[str, Any], served: Served) -> None:
    at = f"/memories/{memory['id']}"
    answered = str(visitor.send(f"{at}/ask", f"{at}/ask", question="Where does Alice live?").url)
    visitor.get(answered)
    served.serving.pool.memory(memory["name"], create=False).erase(1, derive=False)
    assert "Bern" not in visitor.get(answered, 404)


def test_a_part_is_forgotten_after_a_look_at_it(visitor: Visitor, served: Served) -> None:
    made = told(served, "part", "Alice lives in Bern. Her cat is Mia.")
    at = f"/memories/{made['id']}"
    looked = visitor.send(f"{at}/forget/preview", f"{at}/forget", version="", words="Her cat is Mia.", how="forget")
    assert 'Alice lives in Bern. <del class="going">Her cat is Mia.</del>' in looked.text
    assert served.serving.pool.memory("part", create=False).version == 1, "a look writes nothing"
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', looked.text.partition("What")[0]))
    done = visitor.client.post(f"{at}/forget", data=fields)
    assert done.status_code == 200
    own = served.serving.pool.memory("part", create=False)
    assert own.text_at().text == "Alice lives in Bern."
    assert visitor.client.post(f"{at}/forget", data=fields).status_code == 200, "sent twice it is one forget"
    assert own.version == 2


def test_a_forget_that_was_seen_before_the_memory_moved_on_is_refused(visitor: Visitor, served: Served) -> None:
    made = told(served, "moved on", "Alice lives in Bern.")
    at = f"/memories/{made['id']}"
    looked = visitor.send(f"{at}/forget/preview", f"{at}/forget", version="1", how="forget").text
    served.serving.pool.memory("moved on", create=False).update("Bob has a boat.", derive=False)
    refused = visitor.client.post(f"{at}/forget", data=dict(re.findall(r'name="(\w+)" value="([^"]*)"', looked)))
    assert refused.status_code == 412
    assert "The memory has moved on" in refused.text


def test_an_erasure_says_what_goes_and_gives_its_certificate(visitor: Visitor, served: Served) -> None:
    made = told(served, "erasing", "Alice lives in Bern.", "It is in Bern that Alice lives.", "Alice lives in Bern.")
    served.serving.pool.memory("erasing", create=False).fork("a copy of it", at=1)
    at = f"/memories/{made['id']}"
    looked = visitor.send(f"{at}/forget/preview", f"{at}/forget", version="1", how="erase").text
    assert "It cannot be undone." in looked
    assert "a copy of it" in looked
    assert re.search(r"<b>Stays:</b> the same words in <a [^>]+>version 3</a>", looked)
    fields = dict(re.findall(r'name="(\w+)" value="([^"]*)"', looked))
    done = visitor.client.post(f"{at}/forget", data=fields)
    assert "Erased" in done.text
    url = re.search(r'href="([^"]+/certificate\.json)" download', done.text)
    assert url
    certificate = visitor.client.get(url.group(1))
    assert certificate.headers["content-disposition"].startswith("attachment;")
    body = certificate.json()
    assert body["version"] == 4
    assert body["still_said_by"] == [3]
    assert {one["memory"] for one in body["erased"]} >= {made["id"]}
    assert served.serving.pool.memory("a copy of it", create=False).text_at().text == ""


def test_the_log_can_be_checked(visitor: Visitor, memory: dict[str, Any]) -> None:
    shown = visitor.get(f"/memories/{memory['id']}/verification")
    assert "The log is whole" in shown
    assert '<b class="num">2</b> versions were checked' in shown


def test_a_version_shows_its_entry_and_what_held(visitor: Visitor, memory: dict[str, Any], served: Served) -> None:
    shown = visitor.get(f"/memories/{memory['id']}/versions/1")
    assert served.serving.pool.memory(memory["name"], create=False).entry(1).chain_hash in shown
    assert "Bob" not in shown
    visitor.get(f"/memories/{memory['id']}/versions/9", 404)


def test_health_says_how_the_server_is(visitor: Visitor, served: Served) -> None:
    until(lambda: served.serving.condition.is_warm)
    shown = visitor.get("/health")
    assert shown.count('class="well"') == 4
    assert "tiny-llama" in shown


def test_files_are_kept_for_ever_under_names_with_their_hash(anybody: Visitor) -> None:
    urls = set(re.findall(r'"(/assets/[^"]+)"', anybody.get("/login")))
    assert len(urls) == 3
    for url in urls:
        found = anybody.client.get(url)
        assert hashlib.sha256(found.content).hexdigest()[:12] in url
        assert "immutable" in found.headers["cache-control"]
    anybody.get("/assets/..%2fpage.py", 404)
    anybody.get("/assets/htmx-LICENSE.txt", 404)


def test_the_vendored_file_is_the_one_it_is_named_after() -> None:
    [file] = FOLDER.glob("htmx-*.js")
    named = re.fullmatch(r"htmx-4\.0\.1-([0-9a-f]{12})\.min\.js", file.name)
    assert named
    assert hashlib.sha256(file.read_bytes()).hexdigest().startswith(named.group(1))
    assert "Zero-Clause BSD" in (FOLDER / "htmx-LICENSE.txt").read_text()


def test_every_page_forbids_what_is_from_elsewhere(visitor: Visitor, memory: dict[str, Any]) -> None:
    for path in ("/", "/health", "/login", "/memories/mem_none", f"/memories/{memory['id']}"):
        headers = visitor.client.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"], path
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["cache-control"] == "no-store"


def test_every_form_has_a_token(visitor: Visitor, memory: dict[str, Any]) -> None:
    for path in ("", "/ask", "/forget", "/diff"):
        shown = visitor.get(f"/memories/{memory['id']}{path}")
        assert len(re.findall(r'method="post"', shown)) == len(TOKEN.findall(shown)) > 0, path


def test_an_error_of_the_api_stays_a_problem_and_one_of_the_page_is_a_page(served: Served, visitor: Visitor) -> None:
    with served.client(served.key()) as client:
        api: httpx2.Response = client.get("/v1/memories/mem_none")
    assert api.headers["content-type"] == "application/problem+json"
    assert visitor.client.get("/memories/mem_none").headers["content-type"].startswith("text/html")
