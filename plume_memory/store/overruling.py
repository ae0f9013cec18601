"""What the caller of an update said beside its text, and what of it is not read: in a version's metadata.

    {"plume": {"replaces": [3], "keeps": [5] or true, "unread": [[120, 60120]],
               "form": "chat", "speaker": "Anna", "observed_at": "2026-03-04T09:15:00+01:00",
               "in_answer_to": "Where do you live?", "expires_at": "2026-04-01T00:00:00+00:00"}}

It is part of what the version's hash covers. A name of our own: whatever else is in the metadata is the caller's.
"""

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, get_args

from plume_memory.errors import InvalidInput
from plume_memory.records import Context, Form, Overrules
from plume_memory.store.checks import check_text, storable

NAME = "plume"
_FORMS = get_args(Form)
_MOST_SPEAKER_CHARS = 100
_MOST_ASKED_CHARS = 1000


def with_overrules(
    metadata: dict[str, Any] | None,
    *,
    replaces: Sequence[int],
    keep: bool | Sequence[int],
    unread: Sequence[tuple[int, int]] = (),
    context: Context = Context(),  # noqa: B008 — frozen
    expires_at: datetime | None = None,
) -> dict[str, Any] | None:
    """Return the metadata with what the caller decided, and the parts of the text that are kept in the log alone.

    Raises:
        InvalidInput: the metadata has an entry of that name, a version is named in both, there is no such form,
            speaker, time or question, or a time of expiry without its zone.
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
    own.update(_written(context))
    if expires_at is not None:
        if not isinstance(expires_at, datetime) or expires_at.tzinfo is None:
            raise InvalidInput(f"expires_at is a datetime with its zone, got {expires_at!r}.")
        own["expires_at"] = expires_at.isoformat()
    if not own:
        return metadata
    return {**(metadata or {}), NAME: own}


def overrules_of(metadata_json: str) -> Overrules:
    """Read what `with_overrules` wrote of what is replaced; nothing where a version has none."""
    own = _own(metadata_json)
    keeps = own.get("keeps")
    return Overrules(_numbers(own.get("replaces")), _numbers(keeps), keeps is True)


def context_of(metadata_json: str) -> Context:
    """Read what `with_overrules` wrote of the text itself; nothing where a version has none."""
    own = _own(metadata_json)
    form, speaker, asked = own.get("form"), own.get("speaker"), own.get("in_answer_to")
    return Context(
        form if form in _FORMS else None,
        speaker if isinstance(speaker, str) else None,
        _time(own.get("observed_at")),
        asked if isinstance(asked, str) else None,
    )


def expiry_of(metadata_json: str) -> datetime | None:
    """Read from when on a text is not read any more; None where a version does not say."""
    found = _time(_own(metadata_json).get("expires_at"))
    return None if found is None or found.tzinfo is None else found


def _time(written: Any) -> datetime | None:
    try:
        return datetime.fromisoformat(written) if isinstance(written, str) else None
    except ValueError:
        return None  # of an archive from elsewhere


def _own(metadata_json: str) -> dict[str, Any]:
    if f'"{NAME}"' not in metadata_json:
        return {}
    metadata = json.loads(metadata_json)
    own = metadata.get(NAME) if isinstance(metadata, dict) else None
    return own if isinstance(own, dict) else {}  # else of an archive from elsewhere: the caller's own


def _written(context: Context) -> dict[str, str]:
    if context.form is not None and context.form not in _FORMS:
        raise InvalidInput(f"There is no form {context.form!r}; name one of {', '.join(_FORMS)}, or none.")
    speaker = context.speaker
    if speaker is not None and (not speaker.strip() or "\n" in speaker or len(speaker) > _MOST_SPEAKER_CHARS):
        raise InvalidInput(
            f"A speaker is a name of 1 to {_MOST_SPEAKER_CHARS} characters in one line; got {speaker!r}."
        )
    if context.observed_at is not None and not isinstance(context.observed_at, datetime):
        raise InvalidInput(f"observed_at is a datetime, got {context.observed_at!r}.")
    asked = context.in_answer_to
    if asked is not None and len(check_text(asked, what="in_answer_to")) > _MOST_ASKED_CHARS:
        raise InvalidInput(f"in_answer_to has {len(asked):,} characters; give at most {_MOST_ASKED_CHARS:,}.")
    time = None if context.observed_at is None else context.observed_at.isoformat()
    found = {"form": context.form, "speaker": speaker and speaker.strip(), "observed_at": time, "in_answer_to": asked}
    return {name: value for name, value in found.items() if value is not None}


def answered_end(said: str) -> str | None:
    """Return the end of what a reply answers, as `in_answer_to` takes it; None where it says nothing."""
    return storable(said).strip()[-_MOST_ASKED_CHARS:].strip() or None


def _numbers(found: Any) -> tuple[int, ...]:
    return tuple(n for n in found if isinstance(n, int)) if isinstance(found, list) else ()
