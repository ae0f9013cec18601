"""Files that are written whole or not at all, and what killed writers leave. Knows no format."""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

KILLED_S = 3600.0
"""Age from which a temporary file is no longer one that is being written, in seconds."""
_PREFIX = ".plume-tmp-"


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a temporary file beside `path`; it takes the name, fsynced, when the block ends without an error.

    Only its owner may read it. What killed processes left in the folder is removed.

    Raises:
        OSError: It cannot be written, or the folder is not there.
    """
    with contextlib.suppress(OSError):  # another's folder: what cannot be removed hurts nobody
        sweep(path.parent.glob(f"{_PREFIX}*"), older_than_s=KILLED_S)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=_PREFIX)
    temporary = Path(name)
    try:
        os.close(descriptor)
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def sweep(paths: Iterable[Path], *, older_than_s: float) -> int:
    """Delete those of some files that are older; returns how many.

    Raises:
        OSError: One could not be deleted.
    """
    count, oldest = 0, time.time() - older_than_s
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # renamed by its writer, or swept by another
            if path.stat().st_mtime < oldest:
                path.unlink()
                count += 1
    return count
