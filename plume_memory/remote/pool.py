"""RemotePool: the memories of a server that one key opens."""

import re
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType

from plume_memory.errors import InvalidInput, MemoryExists, MemoryNotFound
from plume_memory.remote.memory import RemoteMemory
from plume_memory.remote.wire import LONGEST_S, Wire

_ID = re.compile("mem_[0-9a-z]{26}")


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """What a key may do."""

    scopes: frozenset[str]
    memory: str | None
    """The id of the one memory that it opens; None: those of its tenant."""


class RemotePool:
    """Finds a server's memories by their names. Threads may share one; a context manager.

    with RemotePool.open("http://127.0.0.1:8000", key="plk_…") as pool:
        pool.memory("alice").update("Alice moved to Zurich.")
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    @classmethod
    def open(cls, url: str, *, key: str | None = None, timeout_s: float = LONGEST_S) -> "RemotePool":
        """Take the address; nothing is sent yet.

        Args:
            url: of the server.
            key: `plk_…`; None where it asks for none.
            timeout_s: longest wait for an answer.

        Raises:
            MissingExtra: httpx2 is not installed.
            InvalidInput: the URL is none of a server.
        """
        return cls(Wire(url, key, timeout_s=timeout_s))

    def key(self) -> KeyInfo:
        """Return what the key may do."""
        body = self._wire.get("/v1/key").body
        return KeyInfo(frozenset(body["scopes"]), body["memory"])

    def memory(self, name: str | None = None, *, create: bool = True) -> RemoteMemory:
        """Return a memory.

        Args:
            name: what its owner calls it; its id is one too. None: the one that the key is bound to.
            create: whether a missing memory is made.

        Raises:
            MemoryNotFound: there is none, and `create` is False.
            InvalidInput: no name, and the key opens more than one.
            ServerError: see `RemoteMemory`.
        """
        if name is None:
            name = self.key().memory
            if name is None:
                raise InvalidInput("This key opens more than one memory: name one (memory=…).")
        if _ID.fullmatch(name):
            found = self._wire.get(f"/v1/memories/{name}").body
            return RemoteMemory(self._wire, found["id"], found["name"])
        return self._by_name(name) or self._made(name, create)

    def close(self) -> None:
        """Close the connections. Twice is allowed."""
        self._wire.close()

    def __enter__(self) -> "RemotePool":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def _by_name(self, name: str) -> RemoteMemory | None:
        page = self._wire.get("/v1/memories", name=name).body["data"]
        return RemoteMemory(self._wire, page[0]["id"], page[0]["name"]) if page else None

    def _made(self, name: str, create: bool) -> RemoteMemory:
        if not create:
            raise MemoryNotFound(f"There is no memory {name!r} at {self._wire.url}: check its name, or create it.")
        try:
            made = self._wire.post("/v1/memories", {"name": name}).body
        except MemoryExists:  # somebody was faster
            return self._made_meanwhile(name)
        return RemoteMemory(self._wire, made["id"], made["name"])

    def _made_meanwhile(self, name: str) -> RemoteMemory:
        found = self._by_name(name)
        if found is None:
            raise MemoryNotFound(f"There is no memory {name!r} at {self._wire.url} that this key opens.")
        return found


def connect(url: str, *, key: str | None, memory: str | None, create: bool, timeout_s: float) -> RemoteMemory:
    """Return one memory of a server, with a connection of its own. See `ParametricMemory.connect`."""
    with ExitStack() as on_error:
        wire = Wire(url, key, timeout_s=timeout_s)
        on_error.callback(wire.close)
        found = RemotePool(wire).memory(memory, create=create)
        on_error.pop_all()
    return RemoteMemory(wire, found.id, found.name, owns_wire=True)
