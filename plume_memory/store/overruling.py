"""What the caller of an update decided of what it replaces, and what of it is not read: in a version's metadata.

    {"plume": {"replaces": [3], "keeps": [5] or true, "unread": [[120, 60120]]}}

It is part of what the version's hash covers. A name of our own: whatever else is in the metadata is the caller's.
"""

import json
from collections.abc import Sequence
from typing import Any

from plume_memory.errors import InvalidInput
from plume_memory.records import Overrules

NAME = "plume"


def with_overrules(
    metadata: dict[str, Any] | None,
    *,
    replaces: Sequence[int],
    keep: bool | Sequence[int],
    unread: Sequence[tuple[int, int]] = (),
) -> dict[str, Any] | None:
    """Return the metadata with what the caller decided, and the parts of the text that are kept in the log alone.

    Raises:
        InvalidInput: the metadata has an entry of that name, or a version is named in both.
    """
    if metadata is not None and NAME in metadata:
        raise InvalidInput(f"metadata has an entry {NAME!r}, which is this library's own; use another name.")
    keeps = () if isinstance(keep, bool) else tuple(keep)
    both = sorted(set(replaces) & set(keeps))
    if both:
        raise InvalidInput(f"Version {both[0]} is in `replaces` and in `keep`; it can be in one of them.")
    own: dict[str, Any] = {}
    if replaces or keep:
        own = {"replaces": sorted(set(replaces)), "keeps": True if keep is True else sorted(set(keeps))}
    if unread:
        own["unread"] = [list(span) for span in unread]
    if not own:
        return metadata
    return {**(metadata or {}), NAME: own}


def overrules_of(metadata_json: str) -> Overrules:
    """Read what `with_overrules` wrote; nothing where a version has none."""
    if f'"{NAME}"' not in metadata_json:
        return Overrules()
    metadata = json.loads(metadata_json)
    own = metadata.get(NAME) if isinstance(metadata, dict) else None
    if not isinstance(own, dict):
        return Overrules()  # of an archive from elsewhere: the caller's own
    keeps = own.get("keeps")
    return Overrules(_numbers(own.get("replaces")), _numbers(keeps), keeps is True)


def _numbers(found: Any) -> tuple[int, ...]:
    return tuple(n for n in found if isinstance(n, int)) if isinstance(found, list) else ()
