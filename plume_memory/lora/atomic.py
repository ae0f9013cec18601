"""Files that are either whole or not there: temporary file, fsync, rename. Knows no format."""

import os
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from glob import escape
from pathlib import Path

KILLED_S = 3600.0
"""Age from which a temporary file is no longer one that is being written, in seconds."""


def write_file(path: Path, write: Callable[[Path], None], *, mode: int = 0o644) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place.

    A reader sees the old file or the new one, never a part. The folder is made if it is missing. What killed
    writers of the same file left is removed.

    Args:
        path: the file.
        write: fills the file whose path it is given.
        mode: who may read it: 0o600 for what was made of a memory.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError):  # another's: what cannot be removed hurts nobody
        for left in path.parent.glob(f".{escape(path.name)}.*.tmp"):
            if left.stat().st_mtime < time.time() - KILLED_S:
                left.unlink()
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        write(temporary)
        temporary.chmod(mode)  # safetensors makes files that only their owner may read, others do not
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_folder(directory: Path, files: Mapping[str, Callable[[Path], None]], *, mode: int = 0o644) -> None:
    """Write the files of a folder that counts as complete only with its last file.

    The last file (the one a loader opens first) is removed before and put in place after the others,
    so a crash leaves a folder that no loader accepts, never new weights under an old description.
    """
    *_, marker = files
    directory.mkdir(parents=True, exist_ok=True)
    (directory / marker).unlink(missing_ok=True)
    for name, write in files.items():
        write_file(directory / name, write, mode=mode)
