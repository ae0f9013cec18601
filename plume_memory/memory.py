"""ParametricMemory: one owner's evolving memory. The facade over log, artifacts and engine.

`update` appends to the log in one transaction and then derives the factors; a crash in between loses
nothing, the next read derives them. Reads are pinned to one version (snapshots.py). Everything but
the log can be deleted and is built again. Only an erasure takes anything out of the log (store/erasure.py).
"""

import asyncio
import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from plume_memory.background import Deriver
from plume_memory.defaults import DEFAULT_MODEL, DEFAULT_URL
from plume_memory.errors import (
    InvalidInput,
    MemoryNotFound,
    MissingExtra,
    PlumeError,
    StoreUnavailable,
    TextTooLong,
    cannot_be_copied,
)
from plume_memory.forks import Lock
from plume_memory.hypernet.shipped import chosen_network
from plume_memory.logged import LoggedMemory
from plume_memory.policy import AnswerPolicy
from plume_memory.recalling.notes import PROFILE_TOKENS, Recall, RecallOptions
from plume_memory.records import (
    Answer,
    AnswerChunk,
    Context,
    ErasureCertificate,
    ForgetOptions,
    Form,
    Replacement,
    ScoredUnit,
    Verification,
    Version,
)
from plume_memory.segmentation.unreadable import unreadable_spans
from plume_memory.stages import stage
from plume_memory.store.announcing import announce
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.erasure import Erasures
from plume_memory.store.failures import shown_text
from plume_memory.store.log import Log
from plume_memory.store.memories import Listing
from plume_memory.store.overruling import with_overrules
from plume_memory.store.paths import default_artifacts, is_missing_file

if TYPE_CHECKING:  # torch is imported when a model is first needed, not when a log is read
    from langchain_plume import ChatPlume

    from plume_memory.answering.options import AskOptions, DecodeOptions
    from plume_memory.answering.pinned import Snapshot
    from plume_memory.answering.snapshots import Snapshots
    from plume_memory.engine import Engine, Progress
    from plume_memory.model.prompt import Message
    from plume_memory.remote.memory import RemoteMemory

Derive = bool | Literal["later"]
"""When an update is derived: now, not before the next read, or soon, in a thread."""
MAX_UPDATE_CHARS = 1_000_000
"""Longest text of an update, where nothing else is said."""


class ParametricMemory(LoggedMemory):
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
        max_update_chars: int = MAX_UPDATE_CHARS,
        deriver: Deriver | None = None,
    ) -> None:
        super().__init__(name, database=database, artifacts=artifacts, owns_database=owns_database)
        self._max_update_chars = max_update_chars
        self._engine = engine
        self._deriver = deriver or Deriver()
        self._owns_deriver = deriver is None
        self._lock = Lock()
        self._snapshots: Snapshots | None = None

    @classmethod
    def open(
        cls,
        name: str,
        *,
        url: str = DEFAULT_URL,
        model: str = DEFAULT_MODEL,
        hypernetwork: str = "auto",
        engine: "Engine | None" = None,
        policy: AnswerPolicy | None = None,
        artifacts: str | None = None,
        create: bool = True,
        max_update_chars: int = MAX_UPDATE_CHARS,
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
            policy: what is set in it overrides the hypernetwork's own; not together with `engine`.
            artifacts: folder or fsspec URL for derived bytes; by default what the variable PLUME_ARTIFACTS names, else
                beside the database.
            create: whether a missing memory is made.
            max_update_chars: longest text that an update takes; on two cores 8,000 characters of prose are derived in
                five seconds.
            progress: called during long work.

        Raises:
            MemoryNotFound: the memory does not exist and `create` is False.
            SchemaError: the database belongs to another release.
            StoreUnavailable: the database cannot be opened.
            ModelNotFound: the model is no name, folder or id.
            InvalidInput: a bad name, URL or hypernetwork, `policy` together with `engine`, or `PLUME_ARTIFACTS_MAX` is
                no number of bytes.
        """
        if engine is not None and policy is not None:
            raise InvalidInput("Pass the policy to the engine: Engine.load(policy=...); an engine has its own.")
        if engine is None:  # before anything is made or written for a model that cannot be had
            chosen_network(model, hypernetwork)
        if not create and is_missing_file(url):
            raise MemoryNotFound(
                f"There is no database at {shown_text(url)}, so no memory {name!r}. Check the URL, or create it."
            )
        store = ArtifactStore(artifacts or default_artifacts(url))
        with ExitStack() as on_error:
            database = Database(url)
            on_error.callback(database.close)
            log = Log(database)
            if create:
                log.ensure(name)
            elif not log.exists(name):
                known = ", ".join(log.names()[:10]) or "none"
                raise MemoryNotFound(
                    f"No memory {name!r} in {database.url}; it has: {known}. Create it with `plume init`."
                )
            on_error.pop_all()

        def load() -> "Engine":
            tell = progress or (lambda what, done, total: None)
            tell("loading the model", 0, 1)
            from plume_memory.engine import Engine  # noqa: PLC0415 — torch: seconds, and only when asked

            loaded = Engine.load(model, hypernetwork=hypernetwork, policy=policy, progress=progress)
            tell("loading the model", 1, 1)
            return loaded

        return cls(
            name,
            database=database,
            artifacts=store,
            engine=engine or load,
            owns_database=True,
            max_update_chars=max_update_chars,
        )

    @classmethod
    def connect(
        cls,
        url: str,
        *,
        key: str | None = None,
        memory: str | None = None,
        create: bool = True,
        timeout_s: float = 180.0,
    ) -> "RemoteMemory":
        """Return a memory that a server has: what is called on it is what is called on one that was opened here.

        Args:
            url: of the server, as `http://127.0.0.1:8000`.
            key: `plk_…`; None where the server asks for none.
            memory: its name or id; None: the one that the key is bound to.
            create: whether a missing memory is made.
            timeout_s: longest wait for an answer.

        Raises:
            MemoryNotFound: the memory does not exist, or is not this key's, and `create` is False.
            ServerUnreachable: nothing answers there.
            Unauthorized: the server needs a key, or this one opens nothing.
            Forbidden: the key may not read, or not make the memory.
            InvalidInput: the URL is none of a server, or no name with a key that opens more than one memory.
            MissingExtra: httpx2 is not installed.
        """
        from plume_memory.remote.pool import connect  # noqa: PLC0415 — who has the memory here needs no network

        return connect(url, key=key, memory=memory, create=create, timeout_s=timeout_s)

    def __reduce_ex__(self, _: object) -> str:
        raise cannot_be_copied(self, "Share it between threads; elsewhere open the same name and URL again.")

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
        derive: Derive = True,
    ) -> Version:
        """Append an update and derive its factors and what it replaces.

        Args:
            text: what is now true; it supersedes what it contradicts and leaves the rest. What is no words (base64,
                hex dumps, minified code) is kept in the log alone: the version's metadata says where, as
                `["plume"]["unread"]`, characters [start, end).
            messages: instead of a text: what was said by turns, as chat models take it (role, content; name, timestamp
                and other fields are kept). The log has them as JSON.
            form: how the text is written; by default as it looks (docs/forms.md).
            speaker: whose words it is, where the text names nobody; by default the owner's.
            observed_at: when it was said or seen, where the text names no time; "yesterday" is counted from there.
            in_answer_to: what it answers, where it says nothing without: "Bern." to "Where do you live?"; at most 1,000
                characters, of which the last 160 are told above the text. The text is then one unit, as a message.
            expires_at: aware; from then on it is no evidence and not recalled, and what it replaced holds again. The
                log keeps it.
            idempotency_key: the same key with the same text is one update, however often it is sent.
            expected_version: append only if this is still the newest version.
            metadata: JSON kept with the version; "plume" is a name of ours in it.
            replaces: updates whose texts it replaces, whatever the judge says. A part of one: see `forget`.
            keep: updates of which it replaces nothing, whatever the judge says; True: of none.
            derive: compute the factors now (True), soon, in a thread of this memory (or its pool) that writes what
                several updates said together ("later"), or not before the next read (False). A read that comes sooner
                derives what it needs itself. What went wrong in the thread is logged, and met again by the next read.

        Raises:
            TextTooLong: it has more characters than `max_update_chars`.
            InvalidInput: an empty text, text a database cannot hold, text and messages together, messages or metadata
                that are not JSON, another `form`, an `expires_at` without its zone, what is named in `replaces` or
                `keep` is no update, or another `derive`.
            VersionNotFound: there is no version that `replaces` or `keep` names.
            VersionConflict: the memory has moved on since `expected_version`.
            IdempotencyConflict: the key was used with another text, or for an update that was erased since.
            ForkedEngine: the model was loaded before this process was forked; nothing was written.
            StoreUnavailable: nothing was written; or, as any other error of deriving (ModelError, …), the update is
                in the log and its factors could not be derived: says so, and the next read tries again. Sent again
                without a key it would be a second update. Factors that could not be kept are a warning.
        """
        self._check_open()
        if derive not in (True, False, "later"):
            raise InvalidInput(f"derive is True, False or 'later'; got {derive!r}.")
        if messages is not None:
            text, form = _written(text, messages), form or "chat"
        if isinstance(text, str) and len(text) > self._max_update_chars:
            raise TextTooLong(
                f"The text has {len(text):,} characters, and an update of this memory at most "
                f"{self._max_update_chars:,}: send it in parts, or open the memory with a larger max_update_chars."
            )
        loaded = self.loaded_engine
        if derive and loaded is not None:
            loaded.base.lock.check()
        for named in (*replaces, *(() if isinstance(keep, bool) else keep)):
            self._check_update(named)
        unread = unreadable_spans(text) if isinstance(text, str) else []
        with stage("create") as said:
            version = self._log.append(
                self.name,
                text,
                metadata=with_overrules(
                    metadata,
                    replaces=replaces,
                    keep=keep,
                    unread=unread,
                    context=Context(form, speaker, observed_at, in_answer_to),
                    expires_at=expires_at,
                ),
                idempotency_key=idempotency_key,
                expected_version=expected_version,
            )
            said["records"] = [(version.number, version.text)]
        if derive == "later":
            self._deriver.begin(self, version.number)
        elif derive:
            try:
                self.at(version=version.number).derive()
            except PlumeError as err:
                raise type(err)(
                    f"The update is in the log, as version {version.number}: do not send it again. Only its factors "
                    f"could not be derived, and the next read derives them: {err}"
                ) from err
        return version

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
        """Append a version from which on the memory no longer holds the text of one update, or a part of it.

        Answers, routing and adapter of the new version are made from what is left. Nothing is deleted: earlier
        versions still answer from the text, the log keeps it, and a rollback to a version before this one brings
        it back. With `erase` it is removed for good instead, see `erase`.

        Args:
            version: the update whose text is to be forgotten; its text must hold now.
            erase: remove the text from the log as well, and everything derived from it.
            **what: `ForgetOptions`: `text` (exact words of what holds now, instead of a version or within one),
                `span` (start, end) in `entry(version).text`, `reason`, `idempotency_key`, `expected_version`.
                White space at a cut is tidied: store/spans.py says how.

        Returns:
            The version appended; with `erase` the certificate.

        Raises:
            VersionNotFound: there is no such version.
            InvalidInput: it is no update, its text was forgotten or rolled back already, or the words stand
                nowhere or in several places (says where); a reason that says nothing or cannot be stored.
            VersionConflict: the memory has moved on since `expected_version`.
            IdempotencyConflict: the key was used for something else.
            StoreUnavailable: nothing was written; of an erasure, see `erase`.
        """
        if erase:
            return self.erase(version, **what)
        self._check_open()
        return self._log.forget(self.name, version, **what)

    def erase(
        self, version: int | None = None, *, derive: bool = True, **what: Unpack[ForgetOptions]
    ) -> ErasureCertificate:
        """Remove the text of an update, or a part of it, for good: `forget(…, erase=True)`.

        Whether it still holds or not, it is taken out of the log, of every fork and import of the row in the same
        database, and of the freed pages and the write-ahead log; every artifact of these memories is deleted. The
        log still verifies: a version of kind `erase` stands for what is gone. It cannot be undone, and no history
        holds the text any more, whatever version it is of. What it does not reach is said in the certificate's
        `limits`; above all, the text's sha256 stays, with which a short text can be guessed.

        Killed in the middle, the same call completes it: a `span`, which counts in the text as it is now and would
        name another part after that, needs `expected_version` or `idempotency_key` with it for that. Words given as
        `text` are known again by what was erased; words that reached across a forgotten part are not.

        Args:
            version: as for `forget`; its text need not hold any more.
            derive: derive the newest version anew, now; otherwise the next read does.
            **what: as for `forget`; `text` is searched in every text of the log, and neither `reason` nor
                `idempotency_key` may repeat what is erased.

        Raises:
            VersionNotFound: there is no such version.
            InvalidInput: as for `forget`, the reason or key repeats the words, or a span comes with neither key nor
                `expected_version`.
            VersionConflict: the memory has moved on since `expected_version`.
            IdempotencyConflict: the key was used for something else, or for words that cannot be compared any more.
            IntegrityError: a row to be erased does not fit its hashes; nothing was erased.
            StoreUnavailable: nothing was erased; or it was, but its bytes could not be removed from the file, e.g.
                because another connection reads on: says so; repeat the call.
            ArtifactError: an artifact could not be deleted; repeat the call.
        """
        self._check_open()
        try:
            certificate = Erasures(self._database, self._artifacts).erase(self.name, version, **what)
        finally:  # whether or not it could be finished: the log may lack the text already
            self.let_go()
        try:
            heard = announce(self._database, {text.memory for text in certificate.erased})
        except StoreUnavailable as err:  # it is erased all the same
            untold = f"Other processes could not be told: {err}"
            certificate = replace(certificate, limits=(*certificate.limits, untold))
        else:
            certificate = replace(certificate, confirmed_by=heard.confirmed, unconfirmed_by=heard.silent)
        if not derive:
            return certificate
        newest = self.at()
        newest.derive()
        return replace(certificate, rebuilt=(newest.version,))

    def fork(self, name: str, *, at: int | None = None, listing: Listing | None = None) -> "ParametricMemory":
        """Copy the log up to version `at` (the newest by default) into a new memory.

        A server says by its listing whose the copy is; without one it is the default tenant's.

        What was erased since `at` is erased in the copy too, which has a version more for each such erasure.

        The object returned shares this one's engine and database connection and is closed with it; the
        fork itself stays and can be opened by its name.

        Raises:
            MemoryExists: the name is taken.
            VersionNotFound: there is no version `at`.
        """
        self._check_open()
        self._log.fork(self.name, name, at=at, listing=listing)
        engine = self.loaded_engine or (lambda: self.engine)
        return ParametricMemory(
            name,
            database=self._database,
            artifacts=self._artifacts,
            engine=engine,
            max_update_chars=self._max_update_chars,
            deriver=self._deriver,
        )

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
    def max_update_chars(self) -> int:
        """Longest text of an update, in characters."""
        return self._max_update_chars

    def at(self, *, version: int | None = None, time: datetime | None = None) -> "Snapshot":
        """Pin a version by number or by time; the newest when neither is given.

        Args:
            version: its number; 0 is the empty memory before the first update.
            time: aware; the version that was newest then, without what had expired by then. Of any other version what
                has expired by now is left out.

        Raises:
            VersionNotFound: no such version, or nothing had been written by then.
            InvalidInput: both given, or a naive time.
        """
        self._check_open()
        if version is not None and time is not None:
            raise InvalidInput("Pin a memory by version or by time, not by both.")
        if time is not None:
            return self._pinned().at(self._log.at_time(self.name, time)).as_of(time)
        return self._pinned().at(self._log.head_number(self.name) if version is None else version)

    def ask(self, question: "str | Sequence[Message]", **options: "Unpack[AskOptions]") -> Answer:
        """Answer from the newest version. See `Snapshot.ask`."""
        return self.at().ask(question, **options)

    def ask_many(self, questions: Sequence[str], **options: "Unpack[DecodeOptions]") -> list[Answer]:
        """Answer several questions from one version in one batch. See `Snapshot.ask`."""
        return self.at().ask_many(questions, **options)

    def stream(
        self, question: "str | Sequence[Message]", **options: "Unpack[AskOptions]"
    ) -> Generator[AnswerChunk, None, None]:
        """Answer piece by piece from the version that is newest now. See `Snapshot.stream`."""
        return self.at().stream(question, **options)

    def route(self, query: str, *, k: int = 1) -> list[ScoredUnit]:
        """Score the units of the newest version for a query. See `Snapshot.route`."""
        return self.at().route(query, k=k)

    def recall(self, question: "str | Sequence[Message]", **options: Unpack[RecallOptions]) -> Recall:
        """Return what the newest version holds that bears on a question, as notes for any model; see `Snapshot.recall`.

        From several memories at once: `MemoryPool.recall`.
        """
        return self.at().recall(question, **options)

    def profile(self, *, max_tokens: int = PROFILE_TOKENS) -> Recall:
        """Return whom the newest version is about, in its own words, most central first. See `Snapshot.profile`."""
        return self.at().profile(max_tokens=max_tokens)

    def replacements(self, version: int | None = None) -> tuple[Replacement, ...]:
        """Return which units no longer hold at a version (the newest by default), and what took their place.

        Judged pair by pair when a text is written; `update(replaces=…, keep=…)` overrules it. Needs the model.

        Raises:
            VersionNotFound: there is no such version.
        """
        return self.at(version=version).replacements

    def export_adapter(self, directory: str | Path, *, format: Literal["peft", "safetensors", "vllm"] = "peft") -> Path:
        """Write the newest version's global adapter for other programs. See `Snapshot.export_adapter`."""
        return self.at().export_adapter(directory, format=format)

    # --- upkeep ---------------------------------------------------------------------------------

    def verify(self, *, derived: int = 0, seed: int = 0) -> Verification:
        """Check every entry of the log against its hashes and links.

        Args:
            derived: texts of the newest version, drawn at random, whose kept factors are compared with factors derived
                anew; needs the model.
            seed: of the draw.

        Raises:
            IntegrityError: names the first altered entry.
            ArtifactDamaged: kept factors are not those of their text.
        """
        checked = super().verify()
        return replace(checked, derived=self.at().check_derived(derived, seed=seed)) if derived else checked

    def rebuild(self) -> int:
        """Delete what was derived for the newest version and derive it again; returns the number of texts.

        Everything derived comes from the log alone; artifacts of other versions are built when needed.
        """
        snapshot = self.at()
        count = snapshot.discard()
        self._pinned().clear()
        self.at(version=snapshot.version).derive()
        return count

    def derive_until(self, number: int) -> None:
        """Derive a version now, unless it or a later one is derived already.

        Raises:
            VersionNotFound: there is no such version.
            PlumeError: it could not be derived; the log is whole.
        """
        self._check_open()
        with self._database.claimed(f"derive {self.name}"):  # what another process derives meanwhile is found there
            if not self._pinned().is_derived(number):
                self.at(version=number).derive()

    def flush(self) -> None:
        """Wait until everything that was updated with `derive="later"` is derived.

        Raises:
            PlumeError: the first error since the last flush; the updates are in the log.
        """
        self._deriver.flush()

    def let_go(self) -> None:
        """Drop what this object and its engine keep in memory of texts; the next read gets it from the log again."""
        with self._lock:
            pinned, engine = self._snapshots, self.loaded_engine
        if pinned is not None:
            pinned.clear()
        if engine is not None:
            engine.release(self._artifacts.root_url)

    def close(self) -> None:
        """Release the database; answers that are being decoded finish. Closing twice is allowed.

        What `update(derive="later")` left to derive is left to the next read, but for the versions at hand.
        """
        if self._owns_deriver:
            self._deriver.close()
        super().close()

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

    def _pinned(self) -> "Snapshots":
        from plume_memory.answering.snapshots import Snapshots  # noqa: PLC0415 — torch: seconds, and only when asked

        with self._lock:
            if self._snapshots is None:
                self._snapshots = Snapshots(
                    self._log, self.name, engine=self.engine, database=self._database, artifacts=self._artifacts
                )
            return self._snapshots


def _written(text: str, messages: Sequence[Mapping[str, Any]]) -> str:
    """Messages as the log keeps them.

    Raises:
        InvalidInput: there is a text too, there are none, or they are not JSON.
    """
    if text or not messages:
        raise InvalidInput("An update is a text or messages: pass one of them, and at least one message.")
    try:
        return json.dumps(list(messages), ensure_ascii=False)
    except (TypeError, ValueError) as err:
        raise InvalidInput(f"Messages are a list of JSON objects, each with a role and its content: {err}.") from err
