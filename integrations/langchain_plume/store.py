"""PlumeStore: LangGraph's long-term store, whose searchable items are also in a memory's weights.

    store = PlumeStore(memory, url="sqlite:///plume.db")
    agent = create_agent(memory.as_chat_model(), tools, store=store)

get, list_namespaces and search without a query read a journal of exact items (`journal.py`). A put with
`index` other than False also appends an update to the memory; a delete, or a put of another text under the
same key, forgets the version that held the old one, so the weights forget with the journal. A search with
a query is answered by the memory's router: no embedding model, no vector index.

What everything in one memory tells its model is shared by every namespace of that memory: search keeps
namespaces apart, `ask` does not. Where namespaces belong to different people, give each a memory:

    pool = MemoryPool("sqlite:///plume.db")
    store = PlumeStore(lambda namespace: pool.memory(namespace[1]), url="sqlite:///plume.db", name="agents")
"""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)

from langchain_plume.items import checked_value, matches, rendered
from langchain_plume.journal import Journal, Namespace, PendingText, Reader, StoredItem, Write
from plume_memory.errors import (
    IdempotencyConflict,
    InvalidInput,
    MemoryClosed,
    PlumeError,
    TextTooLong,
    cannot_be_copied,
)
from plume_memory.forks import Lock, renew_in_child
from plume_memory.store.checks import check_text

if TYPE_CHECKING:
    from plume_memory.memory import ParametricMemory
    from plume_memory.records import ErasureCertificate

MemoryOf = Callable[[Namespace], "ParametricMemory"]
"""Names the memory of a namespace; must name the same one for as long as the store lives."""

_ALL_UNITS = 2**31 - 1


class PlumeStore(BaseStore):
    """A LangGraph store on a parametric memory. Threads and processes may share one.

    Writing is in two steps: the items and what the memories must be told, in one transaction; then
    telling the memories. An error between them is raised, and nothing is lost: the next call that
    writes or searches, in this process or another, finishes the second step, each text exactly once.

    Factors are derived by the next answer, not by the put. Nothing expires: a TTL is refused. A text that a
    memory was made to forget, or rolled back beyond, past the store stays in the journal and has no score, until
    it is put again: then the memory is told it anew.
    """

    supports_ttl = False

    def __init__(self, memory: "ParametricMemory | MemoryOf", *, url: str, name: str | None = None) -> None:
        """Take the memory and name the journal; the database is opened when it is first used.

        Args:
            memory: the memory of every namespace, or a function that names each namespace's. Closing
                it is the caller's affair.
            url: SQLAlchemy URL of the journal: the memory's own database, or another.
            name: of the store within that database; by default the memory's name.

        Raises:
            InvalidInput: a bad name or URL, or a function without a name.
        """
        if callable(memory):
            if name is None:
                raise InvalidInput("A store with a memory per namespace needs a name: PlumeStore(..., name='agents').")
            self._memory_of: MemoryOf = memory
        else:
            single, name = memory, name or memory.name
            self._memory_of = lambda namespace: single
        self._journal = Journal(url, name)
        self._settling = Lock()
        self._closing = Lock()
        self._is_closed = False
        self._begin_thread()
        renew_in_child(self, PlumeStore._begin_thread)

    def __reduce_ex__(self, _: object) -> str:
        raise cannot_be_copied(self, "Share it between threads; elsewhere make another of the same memory and URL.")

    def _begin_thread(self) -> None:
        """Start empty: in a forked child the thread is gone."""
        self._in_order = ThreadPoolExecutor(1, thread_name_prefix="plume-store")

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run operations: the reads see the store as it was before the writes; of two writes of a key the last wins.

        Raises:
            InvalidInput: an operation that cannot be done; then none of the batch's writes is.
            SchemaError: the database belongs to another release.
            StoreUnavailable: a database did not answer. Items written before that are kept.
            PlumeError: a memory, also of another namespace, could not be told a text; see `settle`.
        """
        listed = list(ops)
        written = [self._write(op) for op in listed if isinstance(op, PutOp)]
        writes = {(write.namespace, write.key): write for write in written}
        if any(isinstance(op, SearchOp) and op.query for op in listed):
            self.settle()
        with self._journal.read() as reader:
            results = [self._read(op, reader) for op in listed]
            told = [self._with_lost(write, reader) for write in writes.values()]
        if told:
            self._journal.apply(told)
            self.settle()
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """`batch` in a thread of the store's own: calls that run at once happen in the order they were made.

        Raises:
            MemoryClosed: the store was closed.
        """
        with self._closing:
            if self._is_closed:
                raise MemoryClosed("The store was closed; make another PlumeStore.")
            begun = asyncio.get_running_loop().run_in_executor(self._in_order, self.batch, list(ops))
        return await begun

    def settle(self) -> None:
        """Tell the memories what the journal holds and they do not know yet. `batch` does this by itself.

        A memory that cannot be told holds up no other one. Its own texts wait for the next call, in their order;
        the first error is raised at the end and names the item.

        Raises:
            InvalidInput: a namespace has another memory than the one its text was written to.
            MemoryClosed: a memory was closed.
            StoreUnavailable: a database did not answer.
        """
        failed: dict[str, PlumeError] = {}
        with self._settling:  # one thread is enough: the others find nothing left to do
            for text in self._journal.pending():
                if text.memory in failed:
                    continue
                try:
                    self._tell(text)
                except PlumeError as err:
                    failed[text.memory] = _with_item(err, text)
        if failed:
            raise next(iter(failed.values()))

    def erase(self, namespace: Namespace, key: str, *, reason: str | None = None) -> "tuple[ErasureCertificate, ...]":
        """Remove an item for good, from the journal and every text that its memory was ever told of it from the log.

        A delete only forgets. Killed in the middle, the same call completes it. The memory's own `erase` of such a
        text deletes the item too, if journal and memory share a database.

        Args:
            namespace: of the item.
            key: of the item, which may be deleted already.
            reason: kept with each erasure; must not repeat what is erased.

        Returns:
            A certificate for each text.

        Raises:
            InvalidInput: a bad namespace, key or reason.
            StoreUnavailable: not all bytes could be removed, as another connection reads on: repeat the call.
            ArtifactError: an artifact could not be deleted: repeat the call.
        """
        namespace, key = _checked_namespace(namespace), check_text(key, what="An item's key")
        self.settle()
        memory, of_item = self._memory_of(namespace), {"namespace": list(namespace), "key": key}
        with self._journal.read() as reader:  # of one that was erased in part the metadata no longer says whose it is
            noted = reader.versions_of(namespace, key, memory.name)
        updates = [one for one in memory.history() if one.kind == "update" and one.text]
        told = [
            one.number
            for one in updates
            if one.number in noted or all(one.metadata.get(name) == own for name, own in of_item.items())
        ]
        memory.finish_erasures()
        certificates = tuple(memory.erase(number, reason=reason, derive=False) for number in told)
        self._journal.erased(namespace, key)
        return certificates

    def close(self) -> None:
        """Finish what async calls began and release the journal; the memories stay open. Twice is allowed."""
        with self._closing:
            self._is_closed = True
        self._in_order.shutdown()
        self._journal.close()

    def __enter__(self) -> "PlumeStore":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    # --- writing --------------------------------------------------------------------------------

    def _write(self, op: PutOp) -> Write:
        namespace, key = _checked_namespace(op.namespace), check_text(op.key, what="An item's key")
        if op.ttl is not None:
            raise InvalidInput(f"PlumeStore does not expire items; put {key!r} without ttl, got ttl={op.ttl!r}.")
        if op.value is None:
            return Write(namespace, key, None)
        value = checked_value(op.value)
        text = rendered(value, op.index)
        if text is None:
            return Write(namespace, key, value)
        # What the memory would refuse must be refused here: behind the journal it would block every later write.
        memory = self._memory_of(namespace)
        if len(text) > memory.max_update_chars:
            raise TextTooLong(
                f"The text of item {key!r} has {len(text):,} characters, and an update of memory {memory.name!r} at "
                f"most {memory.max_update_chars:,}: put it in parts, or with index=False."
            )
        return Write(namespace, key, value, memory=memory.name, text=check_text(text))

    def _with_lost(self, write: Write, reader: Reader) -> Write:
        """Return the write with the version of its text, if its memory has been made to forget that one."""
        version = None if write.text is None else reader.version_of(write)
        if version is None:
            return write
        held = self._memory_of(write.namespace).text_at().transitions
        whole = any((one.version, one.text) == (version, write.text) for one in held)
        return write if whole else replace(write, lost=version)

    def _tell(self, text: PendingText) -> None:
        memory = self._memory_of(text.namespace)
        if memory.name != text.memory:
            raise InvalidInput(
                f"The text was written to it, and the store's function now names {memory.name!r} for that "
                f"namespace; let it name {text.memory!r} again."
            )
        version = self._version_in(memory, text)
        if version is None:
            self._journal.forgotten(text)
        elif text.wanted:
            self._journal.written(text, version)
        else:
            # it no longer holds: someone else forgot or erased it, or rolled back beyond it
            with suppress(InvalidInput, IdempotencyConflict):
                memory.forget(version, idempotency_key=f"store:{text.token}:forget")
            self._journal.forgotten(text)

    def _version_in(self, memory: "ParametricMemory", text: PendingText) -> int | None:
        """The version that holds a text, told now if it was not; None where it was erased before that was noted.

        Also for a text that is to go: the key answers with its version, whether or not a process that stopped half-way
        had written it. What is written this late is forgotten at once.
        """
        if text.version is not None:
            return text.version
        try:
            version = memory.update(
                text.text,
                idempotency_key=f"store:{text.token}",
                metadata={"namespace": list(text.namespace), "key": text.key},
                derive=False,
            )
        except IdempotencyConflict:  # no one else has the key: what it was used for was erased
            return None
        return version.number

    # --- reading --------------------------------------------------------------------------------

    def _read(self, op: Op, reader: Reader) -> Result:
        if isinstance(op, PutOp):
            return None
        if isinstance(op, GetOp):
            found = reader.item(_checked_namespace(op.namespace), check_text(op.key, what="An item's key"))
            return None if found is None else Item(**_fields(found))
        if isinstance(op, ListNamespacesOp):
            return _listed(reader.namespaces(), op)
        if isinstance(op, SearchOp):
            return self._searched(op, reader)
        raise InvalidInput(f"A store does Get, Put, Search and ListNamespaces; got {type(op).__name__}.")

    def _searched(self, op: SearchOp, reader: Reader) -> list[SearchItem]:
        prefix = _checked_namespace(op.namespace_prefix)
        items = [item for item in reader.items(prefix) if matches(item.value, op.filter or {})]
        scores: dict[tuple[Namespace, str], float] = {}
        if op.query:
            scores = self._scores(op.query, items)
            # Sorting is stable: the newest of equals first, what the router does not know last and as it was.
            routed = [item for item in items if (item.namespace, item.key) in scores]
            routed.sort(key=lambda item: item.updated_at, reverse=True)
            routed.sort(key=lambda item: scores[item.namespace, item.key], reverse=True)
            items = routed + [item for item in items if (item.namespace, item.key) not in scores]
        page = items[_page(op.offset, op.limit)]
        return [SearchItem(**_fields(item), score=scores.get((item.namespace, item.key))) for item in page]

    def _scores(self, query: str, items: list[StoredItem]) -> dict[tuple[Namespace, str], float]:
        """Return the best score of the units of each item's version, for the items that are held in a memory."""
        by_memory: dict[str, list[StoredItem]] = {}
        for item in items:
            if item.memory is not None and item.version is not None:
                by_memory.setdefault(item.memory, []).append(item)
        scores: dict[tuple[Namespace, str], float] = {}
        for held in by_memory.values():
            best: dict[int, float] = {}
            for routed in self._memory_of(held[0].namespace).route(query, k=_ALL_UNITS):
                best[routed.unit.version] = max(routed.score, best.get(routed.unit.version, 0.0))
            scores.update({(i.namespace, i.key): best[i.version] for i in held if i.version in best})
        return scores


def _with_item(err: PlumeError, text: PendingText) -> PlumeError:
    named = type(err)(f"Memory {text.memory!r} is not told item {text.key!r} of {text.namespace}: {err}")
    named.__cause__ = err
    return named


def _listed(namespaces: list[Namespace], op: ListNamespacesOp) -> list[Namespace]:
    if op.max_depth is not None and op.max_depth < 1:
        raise InvalidInput(f"max_depth must be at least 1, got {op.max_depth}.")
    found = [own for own in namespaces if all(_fits(own, condition) for condition in op.match_conditions or ())]
    return sorted({own[: op.max_depth] for own in found})[_page(op.offset, op.limit)]


def _fits(namespace: Namespace, condition: MatchCondition) -> bool:
    path = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise InvalidInput(f"A namespace matches by prefix or suffix; got {condition.match_type!r}.")
    if len(path) > len(namespace):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for wanted, label in zip(path, part, strict=True))


def _page(offset: int, limit: int) -> slice:
    if offset < 0 or limit < 0:
        raise InvalidInput(f"offset and limit must be at least 0, got offset={offset}, limit={limit}.")
    return slice(offset, offset + limit)


def _fields(item: StoredItem) -> dict[str, Any]:
    return {name: getattr(item, name) for name in ("namespace", "key", "value", "created_at", "updated_at")}


def _checked_namespace(namespace: Any) -> Namespace:
    if not isinstance(namespace, tuple | list) or not all(isinstance(label, str) for label in namespace):
        raise InvalidInput(f"A namespace is a tuple of texts; got {namespace!r}.")
    return tuple(namespace)
