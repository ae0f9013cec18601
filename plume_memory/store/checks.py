"""What the log accepts: names, texts, keys, times. Refuses at the boundary what a database would garble."""

import re
from datetime import datetime

from plume_memory.errors import InvalidInput

MAX_NAME = 200
"""Longest name of a memory and longest idempotency key, in characters."""
MAX_NUMBER = 2**63 - 1
"""Largest version number a database column holds."""

# PostgreSQL cannot store NUL, and UTF-8 cannot encode half of a surrogate pair.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def check_name(name: str, *, what: str = "A memory's name") -> str:
    """Return the name if it has 1 to 200 characters, not all white space, none of them a control character.

    Raises:
        InvalidInput: Otherwise.
    """
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or name.isspace():
        raise InvalidInput(f"{what} must be 1 to {MAX_NAME} characters, got {_shown(name)}.")
    found = _CONTROL.search(name)
    if found:
        raise InvalidInput(f"{what} must have no control character, got {found.group()!r} at {found.start()}.")
    return name


def check_text(text: str, *, what: str = "An update's text") -> str:
    """Return the text if it says something and can be stored.

    Raises:
        InvalidInput: If it is empty, white space alone, or has a NUL or a lone surrogate.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be text (str), got {_shown(text)}.")
    if not text or text.isspace():
        raise InvalidInput(f"{what} must have something other than white space, got {_shown(text)}.")
    found = _UNSTORABLE.search(text)
    if found:
        raise InvalidInput(f"{what} cannot be stored: it has {found.group()!r} at character {found.start()}.")
    return text


def storable(text: str) -> str:
    """Return the text with a blank for every character that `check_text` refuses: NULs and lone surrogates.

    For words that nobody can be asked to correct, as those of a chat that is over.
    """
    return _UNSTORABLE.sub(" ", text)


def check_moment(moment: datetime) -> datetime:
    """Return the time if it is aware.

    Raises:
        InvalidInput: If it has no time zone.
    """
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise InvalidInput(f"{moment.isoformat()} has no time zone: give an aware datetime, e.g. in UTC.")
    return moment


def _shown(value: object) -> str:
    if not isinstance(value, str):
        return type(value).__name__
    return repr(value) if len(value) <= 40 else f"{len(value)} characters"
