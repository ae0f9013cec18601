r"""What makes a log provable: canonical metadata, hashes of texts, and the chain over them. No SQL.

The chain hash of a version is the sha256, in lowercase hexadecimal, of these UTF-8 bytes, where ␊ is one
byte 0x0A and nothing else is added:

    plume-log-1␊            the format
    <parent_hash>␊          64 hexadecimal digits: the version before's chain hash; for the first, 64 zeros
    <number>␊               decimal, no leading zeros
    <kind>␊                 update, rollback, forget or erase
    <named>␊                decimal: the version a rollback restores, or a forget or an erase names; empty for an
                            update. A part of a text: the version, a colon, its first character, a minus sign,
                            the one past its last: `3:10-25`
    <text_sha256>␊          64 hexadecimal digits: the sha256 of the text's UTF-8 bytes
    <created_at>␊           UTC, YYYY-MM-DDTHH:MM:SS.ffffffZ, always six digits after the point
    <metadata>              canonical JSON: keys sorted, no spaces, ASCII only (\uXXXX), no 0x0A inside

The memory's name is not in it: a fork keeps the hashes of the prefix it copies. The idempotency key is not
either: it is addressed to the store, not part of what was said.

An erased version keeps its hashes, which cannot all be computed again: its text and its metadata are gone. In
their place stands the version of kind `erase` that names it, whose metadata, itself in the chain, vouches for what
is left (`vouching`), and keeps the sha256 of the idempotency key, if there was one, so that a late retry is refused.
text_sha256 stays: whoever can guess a short text can confirm the guess with it, the easier the more of it is left.
"""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from plume_memory.errors import InvalidInput
from plume_memory.records import Span
from plume_memory.store.json_values import check_json, write_json

NO_PARENT = "0" * 64
"""parent_hash of the first version."""


def sha256_of(text: str) -> str:
    """Return the sha256 of the text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_json(metadata: dict[str, Any]) -> str:
    """Write metadata in the one form that is stored and hashed.

    Raises:
        InvalidInput: If it is not an object that JSON gives back equal (a key that is no string, NaN, a tuple), or
            outside the limits of json_values.py: half a surrogate pair, nested too deeply.
    """
    if not isinstance(metadata, dict):
        raise InvalidInput(f"metadata must be a dict, got {type(metadata).__name__}.")
    try:
        written = write_json(metadata)
        is_same = json.loads(written) == metadata
    except (TypeError, ValueError, RecursionError) as err:
        raise InvalidInput(f"metadata is not JSON: {err}.") from err
    try:
        check_json(metadata)
    except InvalidInput as err:
        raise InvalidInput(f"metadata cannot be stored: {err}") from err
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
    span: Span | None = None,
) -> str:
    """Hash one version onto its parent; the layout is this module's docstring.

    A version restores or forgets, never both; the kind before says what the number means.
    """
    named = restores if forgets is None else forgets
    part = "" if span is None else f":{span.start}-{span.end}"
    lines = (
        "plume-log-1",
        parent_hash,
        str(number),
        kind,
        "" if named is None else f"{named}{part}",
        text_sha256,
        written_time(created_at),
        metadata_json,
    )
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def written_time(moment: datetime) -> str:
    """Write a time in the one form that is hashed: UTC, `YYYY-MM-DDTHH:MM:SS.ffffffZ`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def vouching(*, created_at: datetime, text_sha256: str, chain_hash: str, left: str) -> dict[str, str]:
    """Return what an erasure's metadata holds under "erased": all that can still be known of the erased version.

    Args:
        created_at: of the erased version.
        text_sha256: of its text as it was written, before any erasure.
        chain_hash: of the erased version.
        left: its text after the erasure; empty when nothing is left.
    """
    return {
        "created_at": written_time(created_at),
        "text_sha256": text_sha256,
        "chain_hash": chain_hash,
        "left_sha256": sha256_of(left),
    }
