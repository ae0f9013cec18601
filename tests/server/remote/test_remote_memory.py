"""A memory of a server is used as one of this process: the same calls, values and errors."""

import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from plume_memory import ParametricMemory, errors
from plume_memory.errors import InvalidInput
from plume_memory.importers.archive import import_archive
from plume_memory.pool import MemoryPool
from plume_memory.records import Context
from plume_memory.remote import RemoteMemory, RemotePool
from plume_memory.remote.failures import KINDS, error_of
from plume_memory.server import problems
from plume_memory.server.app import create_app
from tests.server.conftest import Served, new_engine, started


@pytest.fixture
def remote(served: Served, request: pytest.FixtureRequest) -> Iterator[RemoteMemory]:
    """A memory that was told two things."""
    name = f"alice of {request.node.name}"[:200]
    with ParametricMemory.connect(served.url, key=served.key(), memory=name) as made:
        made.update("Alice lives in Bern.", idempotency_key="k1", metadata={"from": "test"})
        made.update("Bob has a boat.", derive="later")
        yield made


def test_what_is_written_and_read_is_what_the_library_has(served: Served, remote: RemoteMemory) -> None:
    own = served.serving.pool.memory(remote.name, create=False)
    assert remote.update("Alice lives in Bern.", idempotency_key="k1", metadata={"from": "test"}) == own.entry(1)
    assert [one.text for one in remote.history()] == ["Alice lives in Bern.", "Bob has a boat."]
    assert [one.chain_hash for one in remote.history()] == [one.chain_hash for one in own.history()]
    assert remote.history(limit=1)[0].number == 2
    assert [one.number for one in remote.history(after=1)] == [2]
    assert (remote.version, remote.head_hash) == (own.version, own.head_hash)
    assert remote.text_at() == own.text_at()
    assert (remote.text_at(0).transitions, remote.text_at(1).text) == ((), "Alice lives in Bern.")
    assert remote.diff(1, 2) == own.diff(1, 2)
    assert remote.route("Where does Alice live?", k=2) == own.route("Where does Alice live?", k=2)


def test_it_answers_as_the_library_does(served: Served, remote: RemoteMemory) -> None:
    own = served.serving.pool.memory(remote.name, create=False)
    asked = "Where does Alice live?"
    there, here = remote.ask(asked, top_candidates=2), own.ask(asked, top_candidates=2)
    assert there.text == here.text
    assert there.evidence == here.evidence
    assert there.memory == remote.name
    assert len(there.trace[0].evidence_top) == 2
    assert there.usage == here.usage
    assert remote.ask([{"role": "user", "content": asked}], max_new_tokens=3).usage.completion_tokens <= 3
    old = remote.at(version=1)
    assert (old.ask(asked).version, old.text) == (1, "Alice lives in Bern.")
    assert [one.version for one in old.ask_many([asked, "Who has a boat?"])] == [1, 1]
    assert old.route("boat", k=5) == own.at(version=1).route("boat", k=5)
    assert remote.at(version=0).ask(asked).known is False


def test_a_stream_gives_pieces_and_then_the_answer(remote: RemoteMemory) -> None:
    chunks = list(remote.stream("Where does Alice live?", timeout=30.0))
    assert chunks[-1].answer is not None
    assert "".join(chunk.text for chunk in chunks).strip() == chunks[-1].answer.text.strip()
    assert chunks[-1].answer == remote.ask("Where does Alice live?")


def test_a_stream_that_is_closed_frees_its_rows(serve: Callable[..., Served]) -> None:
    served = serve()
    with ParametricMemory.connect(served.url, memory="alice") as memory:
        memory.update("Alice lives in Bern.")
        stream = memory.stream("Where does Alice live?", max_new_tokens=1000, unknown="bare")
        next(stream)
        assert len(served.serving.answers) == 1
        stream.close()
        deadline = threading.Event()
        for _ in range(500):
            if len(served.serving.answers) == 0:
                break
            deadline.wait(0.01)
        assert len(served.serving.answers) == 0


def test_versions_are_pinned_by_time(remote: RemoteMemory) -> None:
    first, second = remote.history()
    assert remote.at(time=first.created_at).version == 1
    assert remote.at(time=datetime.now(UTC)).version == 2
    assert remote.at(time=second.created_at).version == 2
    with pytest.raises(errors.VersionNotFound):
        remote.at(time=datetime(2020, 1, 1, tzinfo=UTC))
    with pytest.raises(errors.InvalidInput, match="zone"):
        remote.at(time=datetime(2020, 1, 1))
    with pytest.raises(errors.InvalidInput, match="both"):
        remote.at(version=1, time=first.created_at)


def test_rollback_forget_fork_and_erase(served: Served, remote: RemoteMemory) -> None:
    copy = remote.fork(f"{remote.name[:150]} copied", at=1)
    assert [one.text for one in copy.history()] == ["Alice lives in Bern."]
    assert remote.rollback(to=1, expected_version=2).restores == 1
    assert remote.text_at().text == "Alice lives in Bern."
    forgotten = remote.forget(text="in Bern", reason="moved")
    assert (forgotten.kind, forgotten.forgets, forgotten.metadata) == ("forget", 1, {"reason": "moved"})
    certificate = remote.erase(1)
    assert (certificate.memory, certificate.version) == (remote.name, 5)
    assert certificate.erased[0].memory == remote.name
    assert copy.id in [row.memory for row in certificate.erased]
    assert remote.entry(1).text == ""
    assert certificate.limits
    assert remote.forget(2, erase=True).erased[0].version == 2
    assert "boat" not in str(remote.history())


def test_an_erasure_that_takes_long_is_waited_for(serve: Callable[..., Served]) -> None:
    served = serve(operation_wait_s=0.0)
    with ParametricMemory.connect(served.url, memory="alice") as memory:
        memory.update("Alice lives in Bern.")
        assert memory.erase(1).erased[0].version == 1
        with pytest.raises(errors.VersionNotFound):
            memory.erase(9)


def test_errors_are_the_librarys_own(served: Served, remote: RemoteMemory) -> None:
    with pytest.raises(errors.VersionConflict):
        remote.update("Carol paints.", expected_version=1)
    with pytest.raises(errors.VersionConflict):
        remote.update("Carol paints.", expected_version=99)
    with pytest.raises(errors.IdempotencyConflict):
        remote.update("Else.", idempotency_key="k1")
    with pytest.raises(errors.VersionNotFound):
        remote.rollback(to=9)
    with pytest.raises(errors.VersionNotFound):
        remote.at(version=9)
    with pytest.raises(errors.VersionNotFound):
        remote.entry(0)
    with pytest.raises(errors.TextTooLong):
        remote.update("x" * 20_001)
    with pytest.raises(errors.InvalidInput):
        remote.update("")
    with pytest.raises(errors.InvalidInput, match="does not travel"):
        remote.ask("Where?", tools=[])  # type: ignore[call-arg]
    with pytest.raises(errors.InvalidInput, match="stop"):
        remote.ask("Where?", stop="no")
    with pytest.raises(errors.DeadlineExceeded):
        remote.ask("Where does Alice live?", timeout=1e-6)
    with pytest.raises(errors.MemoryExists):
        remote.fork(remote.name)
    assert remote.update("Carol paints.", expected_version=2).number == 3


def test_keys_and_tenants(served: Served, remote: RemoteMemory) -> None:
    stranger = served.key("admin", tenant="initech")
    for named in (remote.name, remote.id):
        with pytest.raises(errors.MemoryNotFound):
            ParametricMemory.connect(served.url, key=stranger, memory=named, create=False)
    with pytest.raises(errors.Unauthorized):
        ParametricMemory.connect(served.url, key="plk_00000000_" + "0" * 32, memory=remote.name)
    reader = served.key("memory:read")
    with ParametricMemory.connect(served.url, key=reader, memory=remote.name, create=False) as memory:
        assert memory.version == 2
        with pytest.raises(errors.Forbidden):
            memory.update("Carol paints.")
        with pytest.raises(errors.Forbidden):
            memory.erase(1)
    with pytest.raises(errors.Forbidden):
        ParametricMemory.connect(served.url, key=reader, memory="nobody has this")
    with pytest.raises(errors.InvalidInput, match="name one"):
        ParametricMemory.connect(served.url, key=reader)
    bound = served.key("memory:read", memory=remote.id)
    with ParametricMemory.connect(served.url, key=bound) as memory:
        assert (memory.id, memory.name) == (remote.id, remote.name)
    with RemotePool.open(served.url, key=bound) as pool:
        assert (pool.key().scopes, pool.key().memory) == ({"memory:read"}, remote.id)


def test_a_rate_that_is_reached_is_said(serve: Callable[..., Served]) -> None:
    served = serve(requests_per_minute=4)
    with ParametricMemory.connect(served.url, memory="alice") as memory:  # two of the four
        assert [memory.version, memory.version] == [0, 0]
        with pytest.raises(errors.RateLimited):
            _ = memory.version


def test_a_server_that_is_not_there_and_what_is_no_url() -> None:
    with pytest.raises(errors.ServerUnreachable):
        ParametricMemory.connect("http://127.0.0.1:9", memory="alice")
    with pytest.raises(errors.InvalidInput):
        ParametricMemory.connect("sqlite:///plume.db", memory="alice")
    with pytest.raises(errors.InvalidInput):
        ParametricMemory.connect("http://127.0.0.1:9", key="plk_\n", memory="alice")


def test_a_server_that_stops_is_unreachable(serve: Callable[..., Served]) -> None:
    served = serve()
    with ParametricMemory.connect(served.url, memory="alice") as memory:
        served.stop()
        with pytest.raises((errors.ServerUnreachable, errors.CommitUnknown)):
            memory.update("Alice lives in Bern.")
        with pytest.raises(errors.ServerUnreachable):
            memory.history()


def test_an_archive_travels(remote: RemoteMemory, tmp_path: Path) -> None:
    file = remote.export_archive(tmp_path / "alice.plume")
    read = import_archive(file, url=f"sqlite:///{tmp_path / 'again.db'}")
    assert (read.memory, read.versions) == (remote.name, 2)
    assert not list(tmp_path.glob("*.part"))
    with pytest.raises(errors.InvalidInput, match="Cannot write"):
        remote.export_archive(tmp_path / "nowhere" / "alice.plume")


async def test_in_a_thread(remote: RemoteMemory) -> None:
    assert (await remote.aupdate("Carol paints.")).number == 3
    assert (await remote.aask("Who paints?")).version == 3


ELSEWHERE = {
    *(
        "open",
        "connect",
        "engine",
        "loaded_engine",
        "max_update_chars",
        "last_erasure",
        "discard_empty",
        "let_go",
    ),
    *("rebuild", "derive_until", "flush", "finish_erasures", "export_adapter", "as_chat_model"),
}
"""What needs the model or the database at hand; a server does it, or its own API has it."""
UNSENT = {
    "rollback": {"metadata"},
    "verify": {"derived", "seed"},
    "erase": {"derive"},
    "fork": {"listing"},
    "export_archive": {"artifacts"},
}


def test_the_class_has_the_librarys_shape() -> None:
    def public(kind: type) -> set[str]:
        return {name for one in kind.__mro__[:-1] for name in vars(one) if not name.startswith("_")}

    assert public(ParametricMemory) - public(RemoteMemory) == ELSEWHERE
    assert public(RemoteMemory) <= public(ParametricMemory)
    for name in public(RemoteMemory):
        there, here = getattr(RemoteMemory, name), getattr(ParametricMemory, name)
        if callable(there):
            sent, taken = inspect.signature(there).parameters, inspect.signature(here).parameters
            assert list(sent) == [one for one in taken if one not in UNSENT.get(name, set())], name
            assert all(sent[one].default == taken[one].default for one in sent), name


@pytest.mark.parametrize("name", sorted(ELSEWHERE - {"open", "connect"}))
def test_what_is_not_served_says_what_to_do_instead(remote: RemoteMemory, name: str) -> None:
    with pytest.raises(errors.NotServed, match=f"RemoteMemory has no '{name}': .+"):
        getattr(remote, name)
    assert not hasattr(remote, name)
    assert not hasattr(remote, "nobodys")


def test_what_bears_on_a_question_what_was_replaced_and_a_check_of_the_log(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve()
    own = served.serving.pool.memory("alice")
    with ParametricMemory.connect(served.url, memory="alice") as memory:
        memory.update("Alice lives in Bern.")
        assert memory.replacements() == () == memory.replacements(0)
        memory.update("Alice lives in Porto.", replaces=[1])
        (found,) = memory.replacements()
        assert (found,) == own.replacements()
        assert (found.earlier.text, found.later.text) == ("Alice lives in Bern.", "Alice lives in Porto.")
        assert memory.at(version=1).replacements == ()
        assert memory.verify() == own.verify()
        altered = errors.IntegrityError("version 1 was altered")
        monkeypatch.setattr(ParametricMemory, "verify", lambda *_, **__: _raise(altered))
        with pytest.raises(errors.IntegrityError, match="version 1"):
            memory.verify()


def _raise(error: Exception) -> None:
    raise error


def test_a_connection_that_the_server_closed_is_made_anew(serve: Callable[..., Served]) -> None:
    served = serve()
    port = int(served.url.rpartition(":")[2])
    with ParametricMemory.connect(served.url, memory="alice") as memory:
        memory.update("Alice lives in Bern.")
        url = served.serving.pool.database.url
        served.stop()
        pool = MemoryPool(str(url), engine=new_engine())
        again = started(create_app(pool), port=port)
        assert memory.version == 1
        assert memory.update("Bob has a boat.").number == 2
        again.stop()


def test_every_problem_of_the_server_is_an_error_here() -> None:
    for row in problems._TABLE:
        document: dict[str, Any] = {"type": f"urn:plume:problem:{row.code}", "detail": "said", "request_id": "req_1"}
        found = error_of(row.status, document)
        if row.code == "model":  # whatever keeps the server's model from being used is one thing here
            assert type(found) is errors.ModelError
        else:
            assert issubclass(row.kind, type(found)) or type(found) is errors.ServerError, row.code
        assert str(found).startswith("said")
    assert {row.code for row in problems._TABLE} - KINDS.keys() == {"failed", "upstream"}
    assert type(error_of(502, None)) is errors.ServerError


def test_a_client_needs_neither_torch_nor_a_database() -> None:
    code = (
        "import sys, plume_memory.remote\n"
        "print([name for name in ('torch', 'transformers', 'fastapi', 'httpx2', 'sqlalchemy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_who_when_and_how_a_text_is_written_travel(served: Served, remote: RemoteMemory) -> None:
    own = served.serving.pool.memory(remote.name, create=False)
    day = datetime(2026, 3, 4, 9, 30, tzinfo=UTC)
    remote.update("I sold my boat yesterday.", speaker="Bob", observed_at=day)
    remote.update(messages=[{"role": "user", "name": "Cy", "content": "I have a kayak."}])
    remote.update("kettle,colour\nK1,blue", form="table")
    remote.update("In Bern.", in_answer_to="Where do you live?")
    said = {one.version: one.context for one in own.text_at().transitions}
    assert said[3] == Context(None, "Bob", day)
    assert (said[4].form, said[5].form) == ("chat", "table")
    assert said[6] == Context(in_answer_to="Where do you live?")
    found = remote.route("Who sold a boat?", k=9)
    assert found == own.route("Who sold a boat?", k=9)
    with pytest.raises(InvalidInput, match="a text or messages"):
        remote.update("Alice", messages=[{"role": "user", "content": "Bob"}])
    with pytest.raises(InvalidInput):
        remote.update("Alice", form="poem")  # type: ignore[arg-type]


def test_a_profile_is_that_of_the_memory_itself(served: Served, remote: RemoteMemory) -> None:
    own = served.serving.pool.memory(remote.name, create=False)
    remote.update("My dog is called Rex. My dog is a beagle. It rains.")
    remote.update("My cat is called Mia.")
    assert remote.profile() == own.profile()
    assert remote.profile().text == own.profile().text != ""
    assert remote.profile(max_tokens=60) == own.profile(max_tokens=60)
    assert remote.at(version=1).profile() == own.at(version=1).profile() != own.profile()
    with pytest.raises(InvalidInput, match="max_tokens"):
        remote.profile(max_tokens=0)


def test_a_recall_is_that_of_the_memory_itself(served: Served, remote: RemoteMemory) -> None:
    own = served.serving.pool.memory(remote.name, create=False)
    remote.update("My dog is called <Rex>.", speaker="Bob", observed_at=datetime(2026, 3, 4, 9, 30, tzinfo=UTC))
    gone = remote.update("My dog is called Max.", expires_at=datetime(2026, 3, 5, tzinfo=UTC))
    found = remote.recall("Who is my dog?")
    assert found == own.recall("Who is my dog?")
    assert found.text == own.recall("Who is my dog?").text != ""
    assert gone.number not in [note.version for note in found.notes]
    assert gone.number in [note.version for note in remote.recall("Who is my dog?", history=True).notes]
    turns = [{"role": "user", "content": "Who is my dog?"}]
    assert remote.at().recall(turns, k=1) == own.recall(turns, k=1)  # type: ignore[arg-type]
    assert remote.recall("Who is my dog?", since=date(2026, 3, 4), until=date(2026, 3, 4)).notes == found.notes[:1]
    assert not remote.recall("Who is my dog?", until=date(2026, 3, 3))
    assert not remote.recall("Hello!")
    with pytest.raises(InvalidInput, match="does not travel"):
        remote.recall("Who?", count_tokens=len)  # type: ignore[call-arg]
    with pytest.raises(InvalidInput, match="max_tokens"):
        remote.recall("Who?", max_tokens=0)
