"""Files that are either whole or not there: temporary file, fsync, rename. Knows no format."""

import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path


def write_file(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary file beside `path`, then move it into place.

    A reader sees the old file or the new one, never a part. The folder is made if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}.tmp")
    try:
        write(temporary)
        temporary.chmod(0o644)  # safetensors makes files that only their owner may read
        with temporary.open("rb+") as handle:
            os.fsync(handle.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def write_folder(directory: Path, files: Mapping[str, Callable[[Path], None]]) -> None:
    """Write the files of a folder that counts as complete only with its last file.

    The last file (the one a loader opens first) is removed before and put in place after the others,
    so a crash leaves a folder that no loader accepts, never new weights under an old description.
    """
    *_, marker = files
    directory.mkdir(parents=True, exist_ok=True)
    (directory / marker).unlink(missing_ok=True)
    for name, write in files.items():
        write_file(directory / name, write)
