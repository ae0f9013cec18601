r"""What makes a log provable: canonical metadata, hashes of texts, and the chain over them. No SQL.

The chain hash of a version is the sha256, in lowercase hexadecimal, of these UTF-8 bytes, where ␊ is one
byte 0x0A and nothing else is added:

    plume-log-1␊            the format
    <parent_hash>␊          64 hexadecimal digits: the version before's chain hash; for the first, 64 zeros
    <number>␊               decimal, no leading zeros
    <kind>␊                 update, rollback or forget
    <named>␊                decimal: the version a rollback restores or a forget forgets; empty for an update
    <text_sha256>␊          64 hexadecimal digits: the sha256 of the text's UTF-8 bytes
    <created_at>␊           UTC, YYYY-MM-DDTHH:MM:SS.ffffffZ, always six digits after the point
    <metadata>              canonical JSON: keys sorted, no spaces, ASCII only (\uXXXX), no 0x0A inside

The memory's name is not in it: a fork keeps the hashes of the prefix it copies. The idempotency key is not
either: it is addressed to the store, not part of what was said.
"""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from plume_memory.errors import InvalidInput

NO_PARENT = "0" * 64
"""parent_hash of the first version."""


def sha256_of(text: str) -> str:
    """Return the sha256 of the text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_json(metadata: dict[str, Any]) -> str:
    """Write metadata in the one form that is stored and hashed.

    Raises:
        InvalidInput: If it is not an object that JSON gives back equal: a key that is no string, NaN, a
        tuple.
    """
    if not isinstance(metadata, dict):
        raise InvalidInput(f"metadata must be a dict, got {type(metadata).__name__}.")
    try:
        written = json.dumps(metadata, sort_keys=True, separators=(",", ":"), allow_nan=False)
        is_same = json.loads(written) == metadata
    except (TypeError, ValueError, RecursionError) as err:
        raise InvalidInput(f"metadata is not JSON: {err}.") from err
    if not is_same:
        raise InvalidInput("metadata does not survive JSON: use string keys, and lists instead of tuples, throughout.")
    return written


def chain_hash(
    *,
    parent_hash: str,
    number: int,
    kind: str,
    restores: int | None,
    forgets: int | None,
    text_sha256: str,
    created_at: datetime,
    metadata_json: str,
) -> str:
    """Hash one version onto its parent; the layout is this module's docstring.

    A version restores or forgets, never both; the kind before says what the number means.
    """
    named = restores if forgets is None else forgets
    lines = (
        "plume-log-1",
        parent_hash,
        str(number),
        kind,
        "" if named is None else str(named),
        text_sha256,
        created_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        metadata_json,
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
