"""Items of a LangGraph store as values: what must be JSON, what a memory is told of it, what a filter matches."""

import json
from collections.abc import Callable, Iterator, Mapping
from operator import ge, gt, le, lt
from typing import Any, Literal

from langgraph.store.base import get_text_at_path, tokenize_path

from plume_memory.errors import InvalidInput
from plume_memory.store.json_values import check_json

_ORDERS: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}


def rendered(value: Mapping[str, Any], index: Literal[False] | list[str] | None) -> str | None:
    """Return what a memory is told of a value; None where there is nothing to tell.

    One field's text stands by itself; of several, each line is `path: text`.

    Args:
        value: The item's value.
        index: Paths as LangGraph writes them; None for every field, False for none.

    Raises:
        InvalidInput: If `index` is something else.
    """
    if index is False:
        return None
    if index is None:
        lines = list(_lines("", dict(value)))
    elif isinstance(index, list) and all(isinstance(path, str) for path in index):
        lines = [(path, text) for path in index for text in _texts_at(value, path)]
    else:
        raise InvalidInput(f"index is a list of paths, False or None; got {index!r}.")
    lines = [(path, text) for path, text in lines if text.strip()]
    if len(lines) == 1:
        return lines[0][1]
    return "\n".join(f"{path}: {text}" if path else text for path, text in lines) or None


def matches(value: Any, condition: Any) -> bool:
    """Tell whether a value fulfils a filter: equality, nested dicts and lists, and $eq $ne $gt $gte $lt $lte.

    An order is that of numbers, also where they are written as text, else that of texts (so ISO dates compare);
    what has no order with the other, a missing field among them, does not match.

    Raises:
        InvalidInput: If an operator is unknown.
    """
    if isinstance(condition, Mapping):
        if any(str(name).startswith("$") for name in condition):
            return all(_holds(value, operator, operand) for operator, operand in condition.items())
        return isinstance(value, Mapping) and all(matches(value.get(name), part) for name, part in condition.items())
    if isinstance(condition, list | tuple):
        is_as_long = isinstance(value, list | tuple) and len(value) == len(condition)
        return is_as_long and all(matches(own, part) for own, part in zip(value, condition, strict=True))
    return bool(value == condition)


def _holds(value: Any, operator: str, operand: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(value == operand) is (operator == "$eq")
    if operator not in _ORDERS:
        raise InvalidInput(f"Unknown filter operator {operator!r}; have $eq, $ne, $gt, $gte, $lt, $lte.")
    first, second = _number(value), _number(operand)
    if first is not None and second is not None:
        return _ORDERS[operator](first, second)
    if isinstance(value, str) and isinstance(operand, str):
        return _ORDERS[operator](value, operand)
    return False


def _number(value: Any) -> float | None:
    if not isinstance(value, int | float | str):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def _lines(path: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield (path, text) of every leaf that says something."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _lines(f"{path}.{name}" if path else str(name), part)
    elif isinstance(value, list):
        for part in value:
            yield from _lines(path, part)
    elif value is not None:
        yield path, value if isinstance(value, str) else json.dumps(value)


def _texts_at(value: Mapping[str, Any], path: str) -> list[str]:
    if path == "$":
        whole = rendered(value, None)
        return [] if whole is None else [whole]
    return get_text_at_path(dict(value), tokenize_path(path))


def checked_value(value: Any) -> dict[str, Any]:
    """Return a value that the journal gives back equal.

    Raises:
        InvalidInput: If it is no mapping, not JSON (a key that is no text, NaN, a tuple, a datetime), or outside the
            limits of `check_json`.
    """
    if not isinstance(value, Mapping):
        raise InvalidInput(f"An item's value is a dict; got {type(value).__name__}.")
    own = dict(value)
    try:
        is_same = json.loads(json.dumps(own, allow_nan=False)) == own
    except (TypeError, ValueError, RecursionError) as err:
        raise InvalidInput(f"An item's value must be JSON: {err}.") from err
    try:
        check_json(own)
    except InvalidInput as err:
        raise InvalidInput(f"An item's value cannot be stored: {err}") from err
    if not is_same:
        raise InvalidInput("The value does not survive JSON: use text keys, and lists instead of tuples, throughout.")
    return own
