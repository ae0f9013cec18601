"""How much a local folder of artifacts may take, and what leaves it first. Knows no database.

Everything in such a folder can be derived again, so the least lately used goes when it is too full: a file's time of
change is the time of its last use. Any number of processes may use, write and evict at once: a file that is gone is
gone, and its next reader derives it.
"""

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from plume_memory.errors import InvalidInput

VARIABLE = "PLUME_ARTIFACTS_MAX"
"""Environment variable that says how many bytes a folder may take."""
DEFAULT_BYTES = 2**30
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_PARTS = 16
"""A folder is looked through when a store has added this part of its capacity, and emptied to one part below it."""
_HEXADECIMAL = re.compile("[0-9a-f]+")


class _Used(NamedTuple):
    at: float
    """Time of the last use, in seconds."""
    size: int
    path: str


def capacity() -> int:
    """Return the bytes that a local folder of artifacts may take: `PLUME_ARTIFACTS_MAX`, or 1 GiB.

    Raises:
        InvalidInput: the variable is no number of bytes, such as 268435456, 256M or 2G.
    """
    asked = os.environ.get(VARIABLE, "").strip()
    if not asked:
        return DEFAULT_BYTES
    found = _SIZE.fullmatch(asked)
    if found is None or int(found[1]) == 0:
        raise InvalidInput(
            f"{VARIABLE} says how many bytes a folder of artifacts may take, and is {asked!r}: write a whole number "
            "above 0, with K, M, G or T for multiples of 1024, such as 512M or 2G, or unset it for 1 GiB."
        )
    return int(found[1]) * _UNITS[found[2].upper()]


class Evictor:
    """Keeps one folder of artifacts within its capacity, within a sixteenth of it for each process that writes.

    Args:
        room: bytes that the folder may take.
    """

    def __init__(self, room: int) -> None:
        self.room = room
        self._added = room  # the first write looks through what is there

    def used(self, path: Path) -> None:
        """Note that an artifact was used; one that cannot be touched is evicted sooner."""
        with contextlib.suppress(OSError):
            os.utime(path)

    def changed(self, by: int) -> None:
        """Note that the folder has grown, or shrunk, by some bytes."""
        self._added += by

    def make_room(self, root: Path, kept: Path) -> int:
        """Delete what was least lately used, if it is time to look; returns the number of files.

        Args:
            root: the folder.
            kept: what has just been written, which stays though it be larger than the room.
        """
        if self._added < self.room // _PARTS:
            return 0
        self._added, count = 0, 0
        files = sorted(_files(root))
        taken = sum(file.size for file in files)
        if taken <= self.room:
            return 0
        for _, size, path in files:
            if taken <= self.room - self.room // _PARTS:
                break
            if path != str(kept):
                with contextlib.suppress(OSError):  # another process evicted it, or it is not ours to delete
                    Path(path).unlink()
                    count += 1
                taken -= size
        return count


def _files(root: Path) -> Iterator[_Used]:
    """Every artifact in a folder: `ab/cd/abcd…`. What is named otherwise is none, and is left alone."""
    for first in _entries(str(root), 2):
        for second in _entries(first, 2):
            for path in _entries(second, 64):
                with contextlib.suppress(OSError):  # gone since it was listed
                    found = Path(path).stat()
                    yield _Used(found.st_mtime, found.st_size, path)


def _entries(folder: str, length: int) -> list[str]:
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return [one.path for one in entries if len(one.name) == length and _HEXADECIMAL.fullmatch(one.name)]
    return []
