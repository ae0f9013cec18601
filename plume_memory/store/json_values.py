"""The JSON that is stored and read: one reader, one set of limits, the same at the door and in every file. No SQL."""

import json
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from plume_memory.errors import InvalidInput

MAX_DEPTH = 200
"""Objects and lists within each other. No parser's limit, so that what one program writes every other reads."""

_HALF = re.compile("[\ud800-\udfff]")


def read_json(written: str | bytes, *, depth: int = MAX_DEPTH) -> Any:
    """Read one JSON value, within the limits of `check_json`.

    Raises:
        JSONDecodeError: It is not JSON.
        InvalidInput: Bytes that are not UTF-8, NaN or an infinity, a number of too many digits, or as `check_json`.
    """
    try:
        value = json.loads(written, parse_constant=_refused)
    except json.JSONDecodeError:
        raise
    except RecursionError as err:
        raise InvalidInput(f"it is nested deeper than {depth} objects and lists.") from err
    except ValueError as err:  # of bytes, and of digits
        raise InvalidInput(f"{err}.") from err
    check_json(value, depth=depth)
    return value


def write_json(value: Any) -> str:
    """Write a value in the one form that is hashed: keys sorted, no spaces, ASCII; its limits are not checked."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def check_json(value: Any, *, depth: int = MAX_DEPTH) -> None:
    """Refuse a value that JSON can write, and not every reader of JSON can read.

    Args:
        value: made of dicts, lists and what they hold, none within itself.
        depth: most objects and lists within each other.

    Raises:
        InvalidInput: It is nested deeper, or a text or key has half a surrogate pair.
    """
    values, above = [value], 0
    while values:
        for text in _texts(values):
            if half := _HALF.search(text):
                raise InvalidInput(f"a text has half a surrogate pair, {half.group()!r} at character {half.start()}.")
        outer = [one for one in values if isinstance(one, dict | list)]
        if outer and above == depth:
            raise InvalidInput(f"it is nested deeper than {depth} objects and lists.")
        values = [part for one in outer for part in (one.values() if isinstance(one, dict) else one)]
        above += 1


def _texts(values: list[Any]) -> Iterator[str]:
    """Texts among some values, and the keys of the objects among them."""
    for value in values:
        yield from (one for one in (value if isinstance(value, dict) else [value]) if isinstance(one, str))


def _refused(constant: str) -> NoReturn:
    raise InvalidInput(f"{constant} is no JSON number.")
