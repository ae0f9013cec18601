"""MemoryPool: the memories of many owners, on one engine and one database connection.

An agent that serves many users needs one model in memory, not one per user. Memories are opened when
they are first asked for and forgotten by the pool, oldest first, when more than `keep` are open; what
they hold is in the log, so an owner who comes back loses nothing.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TYPE_CHECKING

from plume_memory import __version__
from plume_memory.background import Deriver
from plume_memory.defaults import CONNECTIONS, DEFAULT_MODEL, DEFAULT_URL
from plume_memory.errors import InvalidInput, MemoryClosed, cannot_be_copied
from plume_memory.forks import Lock
from plume_memory.hypernet.shipped import chosen_network
from plume_memory.memory import MAX_UPDATE_CHARS, ParametricMemory
from plume_memory.policy import AnswerPolicy
from plume_memory.records import Answer
from plume_memory.store.announcing import Forget, Listener
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.database import Database
from plume_memory.store.log import Log
from plume_memory.store.memories import not_found
from plume_memory.store.paths import default_artifacts
from plume_memory.store.peers import check_peers, kind_of

if TYPE_CHECKING:  # torch is imported when an answer is first asked for
    from typing import Unpack

    from plume_memory.answering.options import AskOptions
    from plume_memory.engine import Engine, Progress
    from plume_memory.model.prompt import Message
    from plume_memory.recalling.notes import Recall, RecallOptions

KEPT_OPEN = 256

ASKED_AT_ONCE = 32
"""Threads of one `ask_many`: as many as the scheduler has rows for."""


class MemoryPool:
    """Opens memories by their owner's name. Safe to share between threads; a context manager.

    with MemoryPool("sqlite:///plume.db") as pool:
        pool.memory("alice").update("Alice moved to Zurich.")
        pool.memory("bob").ask("Where does Bob live?")
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        model: str = DEFAULT_MODEL,
        hypernetwork: str = "auto",
        engine: "Engine | None" = None,
        policy: AnswerPolicy | None = None,
        artifacts: str | None = None,
        keep: int = KEPT_OPEN,
        max_update_chars: int = MAX_UPDATE_CHARS,
        connections: int = CONNECTIONS,
        progress: "Progress | None" = None,
    ) -> None:
        """Take the parts; the database is opened by the first memory, the model by the first answer.

        Args:
            url: SQLAlchemy URL of the log.
            model: see `Engine.load`; not used when an engine is given.
            hypernetwork: see `Engine.load`; not used when an engine is given.
            engine: one that exists already.
            policy: what is set in it overrides the hypernetwork's own; not together with `engine`.
            artifacts: folder or fsspec URL for derived bytes; by default what the variable PLUME_ARTIFACTS names, else
                beside the database.
            keep: memories kept open.
            max_update_chars: see `ParametricMemory.open`.
            connections: see `Database`.
            progress: called during long work.

        Raises:
            ModelNotFound: the model is no name, folder or id.
            InvalidInput: a bad URL or hypernetwork, `policy` together with `engine`, or `keep` below 1.
        """
        if engine is not None and policy is not None:
            raise InvalidInput("Pass the policy to the engine: Engine.load(policy=...); an engine has its own.")
        if engine is None:
            chosen_network(model, hypernetwork)
        if keep < 1:
            raise InvalidInput(f"A pool keeps at least one memory open; got keep={keep}.")
        self._keep = keep
        self._max_update_chars = max_update_chars
        self._model, self._hypernetwork, self._policy, self._progress = model, hypernetwork, policy, progress
        self._artifacts = ArtifactStore(artifacts or default_artifacts(url))
        self._engine = engine
        self._asked_by_name = engine is None
        self._database = Database(url, connections=connections)
        self._open: OrderedDict[str, ParametricMemory] = OrderedDict()
        self._lock = Lock()
        self._opening = Lock()
        self._loading = Lock()
        self._deriver = Deriver()
        self._listener = Listener(self._database, self._forget)
        self._hearers: list[Forget] = []
        self._closed = False

    def __reduce_ex__(self, _: object) -> str:
        raise cannot_be_copied(self, "Share it between threads; elsewhere make another of the same URL.")

    def memory(self, owner: str, *, create: bool = True) -> ParametricMemory:
        """Return the owner's memory. Closing it is the pool's affair.

        Args:
            owner: its name.
            create: whether a missing memory is made. A server says False: else whoever asks makes rows.

        Raises:
            MemoryNotFound: there is none, and `create` is False.
            InvalidInput: a bad name or URL.
            SchemaError: the database belongs to another release.
            StoreUnavailable: the database cannot be opened.
            MemoryClosed: the pool was closed.
        """
        with self._lock:
            if owner in self._open:
                self._open.move_to_end(owner)
                return self._open[owner]
        # outside the lock: one owner's slow database must not stop the others
        database = self._opened()
        self._listener.begin()
        log = Log(database)
        if create:
            log.ensure(owner)
        elif not log.exists(owner):
            raise not_found(owner)
        engine = self._engine or (lambda: self.engine)
        made = ParametricMemory(
            owner,
            database=database,
            artifacts=self._artifacts,
            engine=engine,
            max_update_chars=self._max_update_chars,
            deriver=self._deriver,
        )
        with self._lock:
            opened = self._open.setdefault(owner, made)
            while len(self._open) > self._keep:
                self._open.popitem(last=False)
        return opened

    def ask_many(
        self, questions: "Mapping[str, str | Sequence[Message]]", **options: "Unpack[AskOptions]"
    ) -> dict[str, Answer]:
        """Answer a question for each of several owners, decoded in one running batch; by owner, in the order given.

        Args:
            questions: owner → question; an owner who has no memory gets one, empty.
            options: see `Snapshot.ask`.

        Raises:
            Of the first question that cannot be answered; see `memory` and `Snapshot.ask`.
        """
        memories = {owner: self.memory(owner) for owner in questions}
        if not memories:
            return {}
        with ThreadPoolExecutor(min(len(memories), ASKED_AT_ONCE)) as threads:
            answers = threads.map(lambda owner: memories[owner].ask(questions[owner], **options), memories)
            return dict(zip(memories, answers, strict=True))

    def recall(
        self, question: "str | Sequence[Message]", owners: Sequence[str], **options: "Unpack[RecallOptions]"
    ) -> "Recall":
        """Return what bears on a question in the memories of several owners, each note with its memory's name.

        Args:
            question: see `ParametricMemory.recall`.
            owners: names, as `enclosing` gives them; one who has no memory yet has nothing to recall.
            **options: see `RecallOptions`; `k` and `max_tokens` are of all together.

        Raises:
            As `memory` and `Snapshot.recall`.
        """
        from plume_memory.answering.recalled import recall_from  # noqa: PLC0415 — torch: seconds, and only when asked

        log = Log(self._opened())
        read = [self.memory(owner).at().recallable for owner in dict.fromkeys(owners) if log.exists(owner)]
        return recall_from(read, question, **options)

    def names(self) -> list[str]:
        """Return the names of all memories in the database, sorted by code point."""
        return Log(self._opened()).names()

    @property
    def database(self) -> Database:
        """Where the logs are; what a server keeps beside them, as keys, is there too."""
        return self._opened()

    @property
    def artifacts(self) -> ArtifactStore:
        """Where derived bytes are."""
        return self._artifacts

    @property
    def model(self) -> str:
        """What the model is called; known before it is loaded."""
        return self._engine.base.name if self._engine is not None else self._model

    @property
    def loaded_engine(self) -> "Engine | None":
        """The engine if it is there already."""
        return self._engine

    def _opened(self) -> Database:
        with self._opening:
            if self._closed:
                raise MemoryClosed("The pool was closed; make another MemoryPool.")
            return self._database

    @property
    def engine(self) -> "Engine":
        """The engine of all memories, loaded the first time it is needed."""
        with self._loading:
            if self._engine is None:
                from plume_memory.engine import Engine  # noqa: PLC0415 — torch: seconds, and only when asked

                self._engine = Engine.load(
                    self._model, hypernetwork=self._hypernetwork, policy=self._policy, progress=self._progress
                )
            return self._engine

    def check_peers(self) -> None:
        """Load the engine, and refuse to be on a PostgreSQL database with processes that answer otherwise by its name.

        Raises:
            ModelError: see `store.peers.check_peers`; or the model cannot be loaded.
            StoreUnavailable: the database cannot be asked.
        """
        given = self._hypernetwork if self._asked_by_name else "given"
        kind = kind_of([__version__, self.model, given, str(self.engine.base.dtype)], self.engine.fingerprint)
        check_peers(self._opened(), self._listener, kind)

    def on_erasure(self, forget: Forget) -> None:
        """Have a function called, in a thread, when any process erases something from memories of this database."""
        self._hearers.append(forget)

    def _forget(self, names: frozenset[str] | None) -> None:
        """Let go of what is held of memories from which something was erased, perhaps elsewhere; None: of all."""
        with self._lock:
            held = [one for name, one in self._open.items() if names is None or name in names]
        for one in held:
            one.let_go()
        if self._engine is not None:  # it also keeps what it derived for memories that the pool has closed since
            self._engine.release(self._artifacts.root_url)
        for forget in self._hearers:
            forget(names)

    def flush(self) -> None:
        """Wait until everything that was updated with `derive="later"` is derived; see `ParametricMemory.flush`."""
        self._deriver.flush()

    def close(self) -> None:
        """Release the database and the memories; answers that are being decoded finish. Twice is allowed.

        What `update(derive="later")` left to derive is left to the next read, but for the versions at hand.
        """
        with self._opening:
            self._closed = True
        self._deriver.close()
        self._listener.close()
        with self._lock:
            for opened in self._open.values():
                opened.close()
            self._open.clear()
        self._database.close()
        self._artifacts.close()

    def __enter__(self) -> "MemoryPool":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()
