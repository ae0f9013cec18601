"""Where the methods of a run keep derived factors: in memory, and in the run folder where they are dear.

It counts what had to be derived, so that a row can say what an update really cost.
"""

import hashlib
import uuid
from collections import OrderedDict
from pathlib import Path

from plume_memory.lora.atomic import write_file


class CountingCache:
    """Bytes by key: the most recent in memory, all of them in a folder if one is given."""

    def __init__(self, folder: Path | None = None, *, held: int = 256) -> None:
        self._folder = folder
        self._held = held
        self._recent: OrderedDict[str, bytes] = OrderedDict()
        self._place = f"eval:{uuid.uuid4().hex}"
        self.derived = 0
        """Texts derived so far."""

    @property
    def place(self) -> str:
        """No two caches hold the same; an engine's own small cache is kept apart by it."""
        return self._place

    @property
    def owner(self) -> str:
        """The suite asks for one memory at a time."""
        return "eval"

    def get(self, key: str) -> bytes | None:
        """Return the bytes under `key`; None when they are not there."""
        content = self._recent.get(key)
        if content is None and self._folder is not None and self._path(key).is_file():
            content = self._path(key).read_bytes()
        if content is not None:
            self._keep(key, content)
        return content

    def put(self, key: str, kind: str, content: bytes) -> None:
        """Keep bytes under `key`, and count them as derived."""
        self.derived += 1
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            write_file(self._path(key), lambda path: _write(path, content))
        self._keep(key, content)

    def forget(self) -> None:
        """Let nothing derived so far be at hand; an engine's own small cache knows this one by its place."""
        assert self._folder is None, "a folder is kept on purpose"
        self._recent.clear()
        self._place = f"eval:{uuid.uuid4().hex}"

    def keys(self, kind: str) -> list[str]:
        """What is kept does not say of which kind it is: a sum is found from the version before alone."""
        return []

    def retire(self, key: str) -> None:
        """Delete it: another takes its place."""
        self.discard(key)

    def is_current(self) -> bool:
        """Nothing is ever erased here."""
        return True

    def discard(self, key: str) -> None:
        """Delete the bytes under `key`, if there are any."""
        self._recent.pop(key, None)
        if self._folder is not None:
            self._path(key).unlink(missing_ok=True)

    def _keep(self, key: str, content: bytes) -> None:
        self._recent[key] = content
        self._recent.move_to_end(key)
        while len(self._recent) > self._held:
            self._recent.popitem(last=False)

    def _path(self, key: str) -> Path:
        assert self._folder is not None
        return self._folder / hashlib.sha256(key.encode()).hexdigest()


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
