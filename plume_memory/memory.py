"""ParametricMemory: one owner's evolving memory. The facade over log, artifacts and engine.

`update` appends to the log in one transaction and then derives the factors; a crash in between loses
nothing, the next read derives them. Reads are pinned to one version (snapshot.py). Everything but
the log can be deleted and is built again.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack

from plume_memory.config import MethodSettings
from plume_memory.errors import InvalidInput, MemoryClosed, MemoryNotFound, MissingExtra
from plume_memory.evidence.route import UnitIndex
from plume_memory.records import Answer, History, ScoredUnit, Transition, Version
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.chain import NO_PARENT
from plume_memory.store.database import Database
from plume_memory.store.derivations import Derivations
from plume_memory.store.log import Log

if TYPE_CHECKING:  # torch is imported when a model is first needed, not when a log is read
    from langchain_plume import ChatPlume

    from plume_memory.derived import DerivedCache
    from plume_memory.engine import Engine, Progress
    from plume_memory.model.prompt import Message
    from plume_memory.snapshot import AnswerChunk, AskOptions, DecodeOptions, Snapshot

DEFAULT_URL = "sqlite:///plume.db"
DEFAULT_MODEL = "smollm2-135m"


@dataclass(frozen=True, slots=True)
class Difference:
    """What one version's history holds and another's does not."""

    before: int
    after: int
    removed: tuple[Transition, ...]
    """Held at `before`, not at `after` (a rollback or a forget in between)."""
    added: tuple[Transition, ...]
    """Held at `after`, not at `before`."""


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` checked; it raises instead of returning when anything is wrong."""

    versions: int
    head_hash: str
    """Chain hash of the newest version; 64 zeros for an empty log."""


class ParametricMemory:
    """One owner's memory: an append-only log, answered from model parameters.

    Use `open`, as a context manager or with `close()`. Threads may share one object.
    """

    def __init__(
        self,
        name: str,
        *,
        database: Database,
        artifacts: ArtifactStore,
        engine: "Engine | Callable[[], Engine]",
        owns_database: bool = False,
    ) -> None:
        self.name = name
        self._database = database
        self._artifacts = artifacts
        self._log = Log(database)
        self._engine = engine
        self._owns_database = owns_database
        self._closed = False
        self._lock = threading.RLock()
        self._snapshots: OrderedDict[int, Snapshot] = OrderedDict()
        self._newest: tuple[History, UnitIndex] | None = None

    @classmethod
    def open(
        cls,
        name: str,
        *,
        url: str = DEFAULT_URL,
        model: str = DEFAULT_MODEL,
        hypernetwork: str = "auto",
        engine: "Engine | None" = None,
        settings: MethodSettings | None = None,
        artifacts: str | None = None,
        create: bool = True,
        progress: "Progress | None" = None,
    ) -> "ParametricMemory":
        """Open a memory, making it (and the database) when it does not exist.

        The model is loaded when it is first needed; reading the log needs none.

        Args:
            name: owner of the memory, 1 to 200 characters.
            url: SQLAlchemy URL of the log.
            model: see `Engine.load`; not used when an engine is given.
            hypernetwork: see `Engine.load`; not used when an engine is given.
            engine: an engine shared by many memories.
            settings: the method's settings; not together with `engine`, which has its own.
            artifacts: folder or fsspec URL for derived bytes; beside the database when not given.
            create: whether a missing memory is made.
            progress: called during long work.

        Raises:
            MemoryNotFound: the memory does not exist and `create` is False.
            SchemaError: the database belongs to another release.
            StoreUnavailable: the database cannot be opened.
            InvalidInput: a bad name or URL, or `settings` together with `engine`.
        """
        if engine is not None and settings is not None:
            raise InvalidInput("Pass the settings to the engine: Engine.load(settings=...); an engine has its own.")
        if not create and _is_missing_file(url):
            raise MemoryNotFound(f"There is no database at {url}, so no memory {name!r}. Check the URL, or create it.")
        database = Database(url)
        log = Log(database)
        if create:
            log.ensure(name)
        elif not log.exists(name):
            known = ", ".join(log.names()[:10]) or "none"
            raise MemoryNotFound(f"No memory {name!r} in {url}; it has: {known}. Create it with `plume init`.")

        def load() -> "Engine":
            from plume_memory.engine import Engine  # noqa: PLC0415 — torch: seconds, and only when asked

            return Engine.load(model, hypernetwork=hypernetwork, settings=settings, progress=progress)

        store = ArtifactStore(artifacts or default_artifacts(url))
        return cls(name, database=database, artifacts=store, engine=engine or load, owns_database=True)

    # --- writing --------------------------------------------------------------------------------

    def update(
        self,
        text: str,
        *,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
        metadata: dict[str, Any] | None = None,
        derive: bool = True,
    ) -> Version:
        """Append an update and derive its factors.

        Args:
            text: what is now true; it supersedes what it contradicts and leaves the rest.
            idempotency_key: the same key with the same text is one update, however often it is sent.
            expected_version: append only if this is still the newest version.
            metadata: JSON kept with the version.
            derive: compute the factors now; otherwise the next read does.

        Raises:
            InvalidInput: an empty text, text a database cannot hold, or metadata that is not JSON.
            VersionConflict: the memory has moved on since `expected_version`.
            IdempotencyConflict: the key was used with another text.
            StoreUnavailable: nothing was written.
        """
        self._check_open()
        version = self._log.append(
            self.name,
            text,
            metadata=metadata,
            idempotency_key=idempotency_key,
            expected_version=expected_version,
        )
        if derive:
            self.at(version=version.number).derive()
        return version

    def rollback(self, *, to: int, metadata: dict[str, Any] | None = None) -> Version:
        """Append a version whose history is again that of version `to`; nothing is deleted.

        Raises:
            VersionNotFound: there is no version `to`.
        """
        self._check_open()
        return self._log.rollback(self.name, to, metadata=metadata)

    def forget(
        self,
        version: int,
        *,
        reason: str | None = None,
        idempotency_key: str | None = None,
        expected_version: int | None = None,
    ) -> Version:
        """Append a version from which on the memory no longer holds the text of one update.

        Answers, routing and adapter of the new version are made from the texts that are left. Nothing is
        deleted: earlier versions still answer from the text, the log keeps it, and a rollback to a version
        before this one brings it back.

        Args:
            version: the update whose text is to be forgotten; its text must hold now.
            reason: kept in the new version's metadata under "reason".
            idempotency_key: the same key with the same `version` is one forget, however often it is sent.
            expected_version: append only if this is still the newest version.

        Raises:
            VersionNotFound: there is no such version.
            InvalidInput: it is no update, or its text was forgotten or rolled back already; a reason that
                says nothing or that a database cannot hold.
            VersionConflict: the memory has moved on since `expected_version`.
            IdempotencyConflict: the key was used for something else.
            StoreUnavailable: nothing was written.
        """
        self._check_open()
        return self._log.forget(
            self.name,
            version,
            reason=reason,
            idempotency_key=idempotency_key,
            expected_version=expected_version,
        )

    def fork(self, name: str, *, at: int | None = None) -> "ParametricMemory":
        """Copy the log up to version `at` (the newest by default) into a new memory.

        The object returned shares this one's engine and database connection and is closed with it; the
        fork itself stays and can be opened by its name.

        Raises:
            MemoryExists: the name is taken.
            VersionNotFound: there is no version `at`.
        """
        self._check_open()
        self._log.fork(self.name, name, at=at)
        return ParametricMemory(name, database=self._database, artifacts=self._artifacts, engine=lambda: self.engine)

    # --- reading --------------------------------------------------------------------------------

    @property
    def engine(self) -> "Engine":
        """The engine, loaded the first time it is needed."""
        self._check_open()
        with self._lock:
            if callable(self._engine):
                self._engine = self._engine()
            return self._engine

    @property
    def loaded_engine(self) -> "Engine | None":
        """The engine if it is there already; None while nothing has needed it."""
        with self._lock:
            return None if callable(self._engine) else self._engine

    @property
    def version(self) -> int:
        """Number of the newest version; 0 before the first update."""
        self._check_open()
        return self._log.head_number(self.name)

    @property
    def head_hash(self) -> str:
        """Chain hash of the newest version: it determines the whole log; 64 zeros for an empty one."""
        self._check_open()
        number = self._log.head_number(self.name)
        return self._log.version(self.name, number).chain_hash if number else NO_PARENT

    def at(self, *, version: int | None = None, time: datetime | None = None) -> "Snapshot":
        """Pin a version by number or by time; the newest when neither is given.

        Args:
            version: its number; 0 is the empty memory before the first update.
            time: aware; the version that was newest then.

        Raises:
            VersionNotFound: no such version, or nothing had been written by then.
            InvalidInput: both given, or a naive time.
        """
        self._check_open()
        if version is not None and time is not None:
            raise InvalidInput("Pin a memory by version or by time, not by both.")
        number = self._log.at_time(self.name, time) if time is not None else version
        if number is None:
            number = self._log.head_number(self.name)
        return self._snapshot(number)

    def ask(self, question: "str | Sequence[Message]", **options: "Unpack[AskOptions]") -> Answer:
        """Answer from the newest version. See `Snapshot.ask`."""
        return self.at().ask(question, **options)

    def ask_many(self, questions: Sequence[str], **options: "Unpack[DecodeOptions]") -> list[Answer]:
        """Answer several questions from one version in one batch. See `Snapshot.ask`."""
        return self.at().ask_many(questions, **options)

    def stream(
        self, question: "str | Sequence[Message]", **options: "Unpack[AskOptions]"
    ) -> "Generator[AnswerChunk, None, None]":
        """Answer piece by piece from the version that is newest now. See `Snapshot.stream`."""
        return self.at().stream(question, **options)

    def route(self, query: str, *, k: int = 1) -> list[ScoredUnit]:
        """Score the units of the newest version for a query. See `Snapshot.route`."""
        return self.at().route(query, k=k)

    def history(self, *, limit: int | None = None) -> list[Version]:
        """Return the log's entries, oldest first; with a limit the newest ones."""
        self._check_open()
        newest = self._log.versions(self.name, limit=limit, newest_first=True)
        return newest[::-1]

    def entry(self, number: int) -> Version:
        """Return one entry of the log; needs no model.

        Raises:
            VersionNotFound: there is none of that number.
        """
        self._check_open()
        return self._log.version(self.name, number)

    def text_at(self, version: int | None = None) -> History:
        """Return the history that holds at a version (the newest by default); needs no model.

        Raises:
            VersionNotFound: there is no such version.
        """
        self._check_open()
        return self._log.history(self.name, version)

    def diff(self, before: int, after: int) -> Difference:
        """Compare the histories of two versions.

        Raises:
            VersionNotFound: one of them does not exist.
        """
        self._check_open()
        first, second = (self._log.history(self.name, number).transitions for number in (before, after))
        return Difference(
            before,
            after,
            removed=tuple(t for t in first if t not in second),
            added=tuple(t for t in second if t not in first),
        )

    def export_adapter(self, directory: str | Path, *, format: Literal["peft", "safetensors"] = "peft") -> Path:
        """Write the newest version's global adapter for other programs. See `Snapshot.export_adapter`."""
        return self.at().export_adapter(directory, format=format)

    # --- upkeep ---------------------------------------------------------------------------------

    def verify(self) -> Verification:
        """Check every entry of the log against its hashes and links.

        Raises:
            IntegrityError: names the first altered entry.
        """
        self._check_open()
        return Verification(self._log.verify(self.name), self.head_hash)

    def rebuild(self) -> int:
        """Delete what was derived for the newest version and derive it again; returns the number of texts.

        Everything derived comes from the log alone; artifacts of other versions are built when needed.
        """
        snapshot = self.at()
        count = snapshot.discard()
        with self._lock:
            self._snapshots.clear()
        self.at(version=snapshot.version).derive()
        return count

    def close(self) -> None:
        """Release the database; answers that are being decoded finish. Closing twice is allowed."""
        self._closed = True
        if self._owns_database:
            self._database.close()

    def __enter__(self) -> "ParametricMemory":
        self._check_open()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    # --- other worlds ---------------------------------------------------------------------------

    def as_chat_model(self, **options: Any) -> "ChatPlume":
        """Return a LangChain chat model that answers from this memory.

        Raises:
            MissingExtra: langchain-core is not installed.
        """
        try:
            from langchain_plume import ChatPlume  # noqa: PLC0415 — an extra
        except ImportError as err:
            raise MissingExtra("as_chat_model() needs LangChain: pip install 'plume-memory[langchain]'.") from err
        return ChatPlume(memory=self, **options)

    async def aupdate(self, text: str, **options: Any) -> Version:
        """`update` in a thread."""
        return await asyncio.to_thread(self.update, text, **options)

    async def aask(self, question: "str | Sequence[Message]", **options: "Unpack[AskOptions]") -> Answer:
        """`ask` in a thread."""
        return await asyncio.to_thread(self.ask, question, **options)

    # --- inside ---------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._closed:
            raise MemoryClosed(f"Memory {self.name!r} was closed; open it again with ParametricMemory.open.")

    def _snapshot(self, number: int) -> "Snapshot":
        from plume_memory.snapshot import Snapshot  # noqa: PLC0415 — torch: seconds, and only when asked

        with self._lock:
            if number in self._snapshots:
                self._snapshots.move_to_end(number)
                return self._snapshots[number]
        history = self._log.history(self.name, number)
        index = self._index(history)
        snapshot = Snapshot(history, index, self.engine, self._cache())
        with self._lock:
            snapshot = self._snapshots.setdefault(number, snapshot)
            while len(self._snapshots) > 4:
                self._snapshots.popitem(last=False)
        return snapshot

    def _index(self, history: History) -> UnitIndex:
        """Routing index of a history; an update extends the newest one instead of reading everything again."""
        with self._lock:
            known = self._newest
        if known and history.transitions[: len(known[0].transitions)] == known[0].transitions:
            fresh = history.transitions[len(known[0].transitions) :]
            index = known[1].extended(self.engine.units(fresh, first_position=len(known[1])))
        else:
            index = UnitIndex(self.engine.units(history.transitions))
        with self._lock:
            self._newest = (history, index)
        return index

    def _cache(self) -> "DerivedCache":
        from plume_memory.derived import DerivedCache  # noqa: PLC0415 — beside the snapshot that uses it

        return DerivedCache(Derivations(self._database), self._artifacts)


def _is_missing_file(url: str) -> bool:
    """Whether the URL names a SQLite file that does not exist: a read must not leave one behind."""
    path = url.partition(":///")[2].partition("?")[0]
    return url.startswith("sqlite") and path not in ("", ":memory:") and not Path(path).exists()


def default_artifacts(url: str) -> str:
    """Folder for derived bytes beside a SQLite file; in memory for a database in memory; else a local folder."""
    path = url.partition(":///")[2].partition("?")[0]
    if not url.startswith("sqlite"):
        return "plume.artifacts"
    return "memory://plume" if path in ("", ":memory:") else f"{path}.artifacts"
