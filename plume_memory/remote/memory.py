"""RemoteMemory: a memory that a server has, with the methods of `ParametricMemory`.

What is another here than in one's own process: an update is derived by the server, which may be later than the call
returns whatever `derive` says; of a question's options some do not travel (`RemoteAskOptions`); what needs the model or
the database itself (`engine`, `rebuild`, `export_adapter`, …) is the server's affair, and `NotServed` says so.
"""

import asyncio
import time as clock
from collections.abc import Generator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from plume_memory.errors import InvalidInput, NotServed, VersionConflict, VersionNotFound
from plume_memory.recalling.notes import PROFILE_TOKENS, Recall, RemoteRecallOptions
from plume_memory.records import (
    Answer,
    AnswerChunk,
    Difference,
    ErasureCertificate,
    ForgetOptions,
    Form,
    History,
    Replacement,
    ScoredUnit,
    Verification,
    Version,
)
from plume_memory.remote.asking import Asking, Question, RemoteAskOptions
from plume_memory.remote.failures import error_of
from plume_memory.remote.reading import certificate_of, difference_of, verification_of, version_of
from plume_memory.remote.snapshot import RemoteSnapshot
from plume_memory.remote.wire import Wire

_PAGE = 100
_POLL_S = 0.5
_NOT_SERVED = {
    "as_chat_model": "LangChain's ChatOpenAI speaks to the server: docs/clients.md",
    "discard_empty": "a memory on a server is made on purpose, also an empty one",
    "derive_until": "an update with derive=True waits for its factors",
    "engine": "the model is the server's",
    "export_adapter": "open the memory beside the server's database for that",
    "finish_erasures": "repeat the erasure, it goes on from where it stopped",
    "flush": "an update with derive=True waits for its factors",
    "last_erasure": "the history says when something was erased",
    "let_go": "the server keeps what it keeps",
    "loaded_engine": "the model is the server's",
    "max_update_chars": "the server refuses a longer text with TextTooLong",
    "rebuild": "run `plume rebuild` beside the server's database",
}
"""What `ParametricMemory` has and this not → what to do instead."""


class RemoteMemory:
    """Made by `ParametricMemory.connect` or a `RemotePool`. Threads may share one; a context manager.

    Every method raises, beside what it says, `ServerUnreachable`, `Unauthorized`, `Forbidden` (the key has not the
    scope), `RateLimited` and `ServerError`; what writes raises `CommitUnknown` if the connection is lost meanwhile.
    """

    def __init__(self, wire: Wire, number: str, name: str, *, owns_wire: bool = False) -> None:
        self.name = name
        self.id = number
        """What the server calls it."""
        self._wire, self._owns_wire = wire, owns_wire
        self._path = f"/v1/memories/{number}"
        self._asking = Asking(wire, self._path, name)

    # --- writing --------------------------------------------------------------------------------

    def update(
        self,
        text: str = "",
        *,
        messages: Sequence[Mapping[str, Any]] | None = None,
        form: Form | None = None,
        speaker: str | None = None,
        observed_at: datetime | None = None,
        in_answer_to: str | None = None,
        expires_at: datetime | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
        metadata: dict[str, Any] | None = None,
        replaces: Sequence[int] = (),
        keep: bool | Sequence[int] = False,
        derive: bool | Literal["later"] = True,
    ) -> Version:
        """Append an update. See `ParametricMemory.update`.

        Args:
            text: as there.
            messages: as there.
            form: as there.
            speaker: as there.
            observed_at: as there.
            in_answer_to: as there.
            expires_at: as there.
            idempotency_key: as there. A network may lose an answer: send one.
            expected_version: as there.
            metadata: as there.
            replaces: as there.
            keep: as there.
            derive: True waits for the factors. That they could not be made is no error here: the next read tries.
        """
        body = {
            "text": text,
            "messages": None if messages is None else [dict(one) for one in messages],
            "form": form,
            "speaker": speaker,
            "observed_at": None if observed_at is None else observed_at.isoformat(),
            "in_answer_to": in_answer_to,
            "expires_at": None if expires_at is None else expires_at.isoformat(),
            "metadata": metadata,
            "replaces": list(replaces),
            "keep": keep if isinstance(keep, bool) else list(keep),
            "derive": "wait" if derive is True else "later",
        }
        return self._written("updates", body, idempotency_key, expected_version)

    def rollback(self, *, to: int, idempotency_key: str | None = None, expected_version: int | None = None) -> Version:
        """Append a version whose history is again that of version `to`. See `ParametricMemory.rollback`."""
        return self._written("rollback", {"to": to}, idempotency_key, expected_version)

    @overload
    def forget(
        self, version: int | None = None, *, erase: Literal[False] = False, **what: Unpack[ForgetOptions]
    ) -> Version: ...

    @overload
    def forget(
        self, version: int | None = None, *, erase: Literal[True], **what: Unpack[ForgetOptions]
    ) -> ErasureCertificate: ...

    def forget(
        self, version: int | None = None, *, erase: bool = False, **what: Unpack[ForgetOptions]
    ) -> Version | ErasureCertificate:
        """Append a version that no longer holds a text; with `erase` see there. See `ParametricMemory.forget`."""
        if erase:
            return self.erase(version, **what)
        body = _forgetting(version, what)
        return self._written("forget", body, what.get("idempotency_key"), what.get("expected_version"))

    def erase(self, version: int | None = None, **what: Unpack[ForgetOptions]) -> ErasureCertificate:
        """Remove a text for good, and wait until it is gone. See `ParametricMemory.erase`."""
        body = {**_forgetting(version, what), "erase": True}
        headers = self._guarded(what.get("idempotency_key"), what.get("expected_version"))
        reply = self._wire.post(f"{self._path}/forget", body, headers=headers)
        found = reply.body if reply.status != 202 else self._finished(reply.body["id"])
        return certificate_of(found, self.name)

    def fork(self, name: str, *, at: int | None = None) -> "RemoteMemory":
        """Copy the log up to version `at` into a new memory. See `ParametricMemory.fork`."""
        made = self._wire.post(f"{self._path}/fork", {"name": name, "at": at}).body
        return RemoteMemory(self._wire, made["id"], made["name"])

    # --- reading --------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Number of the newest version; 0 before the first update."""
        return int(self._wire.get(self._path).body["version"])

    @property
    def head_hash(self) -> str:
        """Chain hash of the newest version; 64 zeros for an empty log."""
        return str(self._wire.get(self._path).body["head_hash"])

    def at(self, *, version: int | None = None, time: datetime | None = None) -> RemoteSnapshot:
        """Pin a version by number or by time; the newest when neither is given. See `ParametricMemory.at`."""
        if version is not None and time is not None:
            raise InvalidInput("Pin a memory by version or by time, not by both.")
        if time is not None:
            return RemoteSnapshot(self._wire, self._path, self.name, self._at_time(time))
        if version is None:
            return RemoteSnapshot(self._wire, self._path, self.name, self.version)
        if version != 0:
            self.entry(version)
        return RemoteSnapshot(self._wire, self._path, self.name, version)

    def ask(self, question: Question, **options: Unpack[RemoteAskOptions]) -> Answer:
        """Answer from the newest version. See `RemoteSnapshot.ask`."""
        return self._asking.ask(question, None, options)

    def ask_many(self, questions: Sequence[str], **options: Unpack[RemoteAskOptions]) -> list[Answer]:
        """Answer several questions from one version. See `RemoteSnapshot.ask_many`."""
        return self.at().ask_many(questions, **options)

    def stream(self, question: Question, **options: Unpack[RemoteAskOptions]) -> Generator[AnswerChunk, None, None]:
        """Answer piece by piece from the newest version. See `RemoteSnapshot.stream`."""
        return self._asking.stream(question, None, options)

    def route(self, query: str, *, k: int = 1) -> list[ScoredUnit]:
        """Score the units of the newest version for a query. See `Snapshot.route`."""
        return self._asking.route(query, k, None)

    def recall(self, question: Question, **options: Unpack[RemoteRecallOptions]) -> Recall:
        """Return what the newest version holds that bears on a question. See `Snapshot.recall`."""
        return self._asking.recall(question, None, options)

    def profile(self, *, max_tokens: int = PROFILE_TOKENS) -> Recall:
        """Return whom the newest version is about, in its own words. See `Snapshot.profile`."""
        return self._asking.profile(max_tokens, None)

    def replacements(self, version: int | None = None) -> tuple[Replacement, ...]:
        """Return every unit that no longer holds, and what took its place. See `ParametricMemory.replacements`."""
        return self.at(version=version).replacements

    def verify(self) -> Verification:
        """Have the server check every entry of the log; nothing derived. See `ParametricMemory.verify`."""
        return verification_of(self._wire.get(f"{self._path}/verification").body)

    def history(self, *, limit: int | None = None, after: int | None = None) -> list[Version]:
        """Return the log's entries, oldest first; with a limit the newest ones, or the first behind version `after`."""
        if limit is not None and limit < 1:
            raise InvalidInput(f"A history has at least one entry; got limit={limit}.")
        if after is None:  # numbers are dense: the newest ones begin here
            after = 0 if limit is None else max(0, self.version - limit)
        found: list[Version] = []
        while True:
            wanted = _PAGE if limit is None else min(_PAGE, limit - len(found))
            page = self._wire.get(f"{self._path}/versions", limit=wanted, after=after).body
            found += [version_of(one, self.name) for one in page["data"]]
            if not page["has_more"] or len(found) == limit:
                return found
            after = found[-1].number

    def entry(self, number: int) -> Version:
        """Return one entry of the log. See `ParametricMemory.entry`."""
        if number < 1:
            raise VersionNotFound(f"Memory {self.name!r} has no version {number}: the first is 1.")
        return version_of(self._wire.get(f"{self._path}/versions/{number}").body, self.name)

    def text_at(self, version: int | None = None) -> History:
        """Return the history that holds at a version (the newest by default)."""
        return self.at(version=version).history

    def diff(self, before: int, after: int) -> Difference:
        """Compare the histories of two versions. See `ParametricMemory.diff`."""
        return difference_of(self._wire.get(f"{self._path}/diff", **{"from": before, "to": after}).body)

    def export_archive(self, path: str | Path) -> Path:
        """Write the whole memory to one file, which `importers.archive.import_archive` reads into any database."""
        file = Path(path).expanduser()
        part = file.with_name(file.name + ".part")
        try:
            self._wire.download(f"{self._path}/export", part)
            part.replace(file)
        except OSError as err:
            raise InvalidInput(f"Cannot write the archive to {file}: {err}") from err
        finally:
            part.unlink(missing_ok=True)
        return file

    async def aupdate(self, text: str, **options: Any) -> Version:
        """`update` in a thread."""
        return await asyncio.to_thread(self.update, text, **options)

    async def aask(self, question: Question, **options: Unpack[RemoteAskOptions]) -> Answer:
        """`ask` in a thread."""
        return await asyncio.to_thread(self.ask, question, **options)

    def close(self) -> None:
        """Close the connection, if it is this memory's own. Twice is allowed."""
        if self._owns_wire:
            self._wire.close()

    def __enter__(self) -> "RemoteMemory":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    if not TYPE_CHECKING:  # a type checker is to know that these names are not there

        def __getattr__(self, name: str) -> Any:
            """Say of what is not served what to do instead; other names are nobody's."""
            if name in _NOT_SERVED:
                raise NotServed(f"RemoteMemory has no {name!r}: {_NOT_SERVED[name]}.")
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}", name=name, obj=self)

    # --- inside ---------------------------------------------------------------------------------

    def _written(self, what: str, body: dict[str, Any], key: str | None, expected: int | None) -> Version:
        reply = self._wire.post(f"{self._path}/{what}", body, headers=self._guarded(key, expected))
        return version_of(reply.body, self.name, key=key)

    def _guarded(self, key: str | None, expected: int | None) -> dict[str, str]:
        """The headers of a write. An ETag names a version by its hash too, which the log tells."""
        headers = {} if key is None else {"idempotency-key": key}
        if expected is not None:
            try:
                chain_hash = self.entry(expected).chain_hash if expected else "0" * 8
            except VersionNotFound as err:
                raise VersionConflict(f"Memory {self.name!r} is not at version {expected}: it has none.") from err
            headers["if-match"] = f'"v{expected}-{chain_hash[:8]}"'
        return headers

    def _finished(self, operation: str) -> Any:
        """The result of an operation, once it is there."""
        while True:
            found = self._wire.get(f"/v1/operations/{operation}").body
            if found["status"] == "failed":
                raise error_of(int(found["problem"]["status"]), found["problem"])
            if found["status"] == "done":
                return found["result"]
            clock.sleep(_POLL_S)

    def _at_time(self, time: datetime) -> int:
        """The version that was newest then: versions are written in the order of their times."""
        if time.tzinfo is None:
            raise InvalidInput(f"A time needs its zone; {time.isoformat()} has none.")
        low, high = 0, self.version  # version `low` was there by then; none above `high` was
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.entry(middle).created_at <= time else (low, middle - 1)
        if low == 0:
            raise VersionNotFound(f"Nothing had been written to memory {self.name!r} by {time.isoformat()}.")
        return low


def _forgetting(version: int | None, what: ForgetOptions) -> dict[str, Any]:
    span = what.get("span")
    return {
        "version": version,
        "text": what.get("text"),
        "span": None if span is None else list(span),
        "reason": what.get("reason"),
    }
