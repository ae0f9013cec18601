"""Reads a file that stands beside a hypernetwork, and belongs to it alone: its `config.json` names the sha256."""

import hashlib
from pathlib import Path

from plume_memory.errors import CheckpointError


def read_beside(folder: Path, file: str, sha256: str, what: str) -> bytes:
    """Return the content of a file of a hypernetwork.

    Args:
        folder: the hypernetwork's.
        file: its name.
        sha256: what the network's `config.json` says.
        what: what it is, for errors: "judge".

    Raises:
        CheckpointError: it is missing, or another one than the network's.
    """
    try:
        content = (folder / file).read_bytes()
    except OSError as err:
        raise CheckpointError(
            f"The network in {folder} has a {what}, and {file} cannot be read: {err.strerror}. Install or train anew."
        ) from err
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise CheckpointError(
            f"The {what} in {folder} has sha256 {found[:12]}…, the network's config names {sha256[:12]}…; it is "
            "another one's. Install or train the network anew."
        )
    return content
