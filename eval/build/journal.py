"""The one file of a build: append-only, so that nothing that was paid for is lost.

A line is a header (what is being built, first line), a call (one paid reply of a model, under the sha256 of the model
and the messages), or an outcome (a context is finished). Stages keep no state of their own: an unfinished context is
run again from its start, and every call it had paid for is answered from here, so it arrives where it was.
Each line is flushed and fsynced before the next step begins.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from eval.build.problems import Problem
from eval.records import MuseRecord
from plume_memory.errors import InvalidInput

Role = Literal["annotator", "verifier"]


class _Line(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Header(_Line):
    """What a folder builds; a rerun must ask for the same."""

    kind: Literal["header"] = "header"
    format: Literal[1] = 1
    annotator: str
    """Identity of the model, see `prompting.model_identity`."""
    verifier: str
    settings: dict[str, int]
    """The settings that decide what is built."""
    prompts_sha256: str


class Call(_Line):
    """One paid reply."""

    kind: Literal["call"] = "call"
    key: str
    """sha256 of the model's identity and the messages."""
    source_id: str
    """The context that paid for it."""
    stage: str
    role: Role
    reply: str
    input_tokens: int | None
    """None where the model did not say."""
    output_tokens: int | None
    seconds: float
    cut: bool = False
    """Whether the model stopped at its limit of tokens."""


class Outcome(_Line):
    """A finished context."""

    kind: Literal["outcome"] = "outcome"
    source_id: str
    source_sha256: str
    record: MuseRecord | None
    """None: rejected."""
    reasons: tuple[Problem, ...]
    """Why it was rejected; empty for an accepted one."""
    sent_back: tuple[str, ...]
    """Gates and verifiers that asked for revisions, once per revision each."""
    revisions: int
    rounds: int
    """Verification calls that were answered."""


JournalLine = Annotated[Header | Call | Outcome, Field(discriminator="kind")]
_LINE: TypeAdapter[Header | Call | Outcome] = TypeAdapter(JournalLine)


class Journal:
    """The journal of one folder, held open by one process; see `open_journal`. Threads may append."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._replies: dict[str, Call] = {}
        self._outcomes: dict[str, Outcome] = {}
        self.header: Header | None = None
        self.notes: list[str] = []
        """What was dropped while reading, for the report."""
        self._read()

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every paid reply, oldest first."""
        return tuple(self._replies.values())

    def reply(self, key: str) -> Call | None:
        """The reply under a key, if it was paid for."""
        return self._replies.get(key)

    def outcome(self, source_id: str) -> Outcome | None:
        """How a context ended, if it is finished."""
        return self._outcomes.get(source_id)

    def append(self, line: Header | Call | Outcome) -> None:
        """Write a line and make it durable."""
        content = line.model_dump_json().encode() + b"\n"
        with self._lock:
            with self._path.open("ab") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self._take(line)

    def _take(self, line: Header | Call | Outcome) -> None:
        if isinstance(line, Header):
            self.header = line
        elif isinstance(line, Call):
            self._replies.setdefault(line.key, line)
        else:
            self._outcomes[line.source_id] = line

    def _read(self) -> None:
        if not self._path.exists():
            return
        content = self._path.read_bytes()
        whole, _, torn = content.rpartition(b"\n")
        for number, line in enumerate(whole.split(b"\n") if whole else [], start=1):
            try:
                self._take(_LINE.validate_json(line))
            except ValidationError as err:
                first = err.errors()[0]["msg"]
                raise InvalidInput(
                    f"{self._path}:{number} is not a journal line: {first}. Only a last line can be torn by a crash; "
                    "restore the file, or build into an empty folder."
                ) from err
        if torn:
            with self._path.open("rb+") as file:
                file.truncate(len(content) - len(torn))
                os.fsync(file.fileno())
            self.notes.append(f"{self._path.name}: dropped a last line of {len(torn)} bytes that a crash had torn")


@contextmanager
def open_journal(folder: Path, header: Header) -> Iterator[Journal]:
    """Open a folder's journal for this process alone; a new one gets the header.

    Raises:
        InvalidInput: another process builds here, the folder builds something else, or a line is damaged.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as err:
        raise InvalidInput(f"Another process builds in {folder}; wait for it or choose another folder.") from err
    try:
        journal = Journal(folder / "journal.jsonl")
        if journal.header is None and not journal.calls:
            journal.append(header)
        if journal.header != header:
            raise InvalidInput(f"{folder} cannot be continued: {_difference(journal.header, header)}")
        yield journal
    finally:
        lock.release()


def _difference(held: Header | None, asked: Header) -> str:
    if held is None:
        return "its journal has no header. Build into an empty folder."
    parts = [
        f"{name} is {getattr(held, name)!r} there, {getattr(asked, name)!r} was asked for"
        for name in ("annotator", "verifier", "settings", "prompts_sha256")
        if getattr(held, name) != getattr(asked, name)
    ]
    return "; ".join(parts) + ". Ask for the same, or build into an empty folder."
