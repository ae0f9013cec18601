"""A settings file plus `key.path=value` from the command line, for any pydantic model. Knows no settings.

A value is read as JSON where it is JSON (`3`, `true`, `null`, `[1, 2]`, `"3"`), else as the string it is.
"""

import copy
import difflib
import json
import types
from collections.abc import Mapping, MutableMapping, MutableSequence, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import to_jsonable_python

from plume_memory.errors import InvalidInput

_Model = TypeVar("_Model", bound=BaseModel)


def read_settings(kind: type[_Model], path: Path, overrides: Sequence[str] = ()) -> _Model:
    """Read a JSON file, set what the overrides say, and validate.

    Raises:
        InvalidInput: no such file, no JSON object, an unknown key (the nearest valid one is named), a bad value.
    """
    try:
        given = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_without_repeats)
    except OSError as err:
        raise InvalidInput(f"Cannot read the settings {path}: {err.strerror}.") from err
    except ValueError as err:
        raise InvalidInput(f"{path} is not JSON: {err}.") from err
    except RecursionError as err:
        raise InvalidInput(f"{path} is nested too deeply.") from err
    if not isinstance(given, dict):
        raise InvalidInput(f"{path} holds {type(given).__name__}, not a JSON object.")
    for override in overrides:
        set_override(kind, given, override)
    return validated(kind, given)


def validated(kind: type[_Model], given: Mapping[str, Any]) -> _Model:
    """Validate settings that came as JSON.

    Raises:
        InvalidInput: as `read_settings`; the first three faults are named.
    """
    try:
        return kind.model_validate_json(json.dumps(given))
    except ValidationError as err:
        faults = [_fault(kind, given, dict(fault)) for fault in err.errors(include_url=False)]
        more = f" (and {len(faults) - 3} more)" if len(faults) > 3 else ""
        raise InvalidInput("The settings are not valid: " + "; ".join(faults[:3]) + f"{more}.") from err


def set_override(kind: type[BaseModel], given: MutableMapping[str, Any], override: str) -> None:
    """Set one `key.path=value` in place; a number in the path is a place in a list.

    Raises:
        InvalidInput: no `=`, or a key the model does not have; the nearest valid one is named.
    """
    path, equals, text = override.partition("=")
    if not equals or not path:
        raise InvalidInput(f"{override!r} is no override; write key.path=value.")
    keys = path.split(".")
    holder: Any = given
    annotations: list[Any] = [kind]
    for at, key in enumerate(keys):
        parents = annotations
        annotations = _inside(annotations, key, ".".join(keys[:at]), path)
        place: Any = key
        if isinstance(holder, MutableSequence):
            place = _place(holder, key, path)
        if at == len(keys) - 1:
            holder[place] = _value(text)
            return
        if isinstance(holder, MutableMapping) and not isinstance(holder.get(place), MutableMapping | MutableSequence):
            # An absent object is the model's default one, not that of its class.
            holder[place] = {} if key in holder else _default(parents, key, keys[at + 1])
        holder = holder[place]


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} stands twice in one object")
    return found


def _inside(annotations: list[Any], key: str, parent: str, path: str) -> list[Any]:
    """The types that a key of a value of these types may have."""
    found: list[Any] = []
    names: list[str] = []
    is_open = False
    for annotation in _alternatives(annotations):
        origin = get_origin(annotation) or annotation
        if isinstance(origin, type) and issubclass(origin, BaseModel):
            names += origin.model_fields
            if key in origin.model_fields:
                found.append(origin.model_fields[key].annotation)
        elif origin in (dict, Mapping, list, tuple, Sequence, Any):
            is_open = True
            found += get_args(annotation)[-1:] if origin in (dict, Mapping) else get_args(annotation)[:1]
    if found or (is_open and not names):
        return found or [Any]
    if not names:
        raise InvalidInput(f"{path!r} cannot be set: {parent!r} is a value without keys.")
    raise InvalidInput(f"Unknown setting {path!r}{_nearest(key, names, parent)}.")


def _default(annotations: list[Any], key: str, inner: str) -> Any:
    """What a field's default says; nothing if it is about to become of another kind."""
    for annotation in _alternatives(annotations):
        if isinstance(annotation, type) and issubclass(annotation, BaseModel) and key in annotation.model_fields:
            field = annotation.model_fields[key]
            default = field.get_default(call_default_factory=True, validated_data={})
            if isinstance(default, BaseModel | list | tuple | dict) and field.discriminator != inner:
                return to_jsonable_python(default)
    return {}


def _alternatives(annotations: list[Any]) -> list[Any]:
    """Open unions and Annotated."""
    found: list[Any] = []
    for annotation in annotations:
        if get_origin(annotation) in (Union, types.UnionType):
            found += _alternatives(list(get_args(annotation)))
        elif get_origin(annotation) is Annotated:
            found += _alternatives([get_args(annotation)[0]])
        else:
            found.append(annotation)
    return found


def _nearest(key: str, names: Sequence[str], parent: str) -> str:
    stem = f"{parent}." if parent else ""
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    if close:
        return f"; the nearest is {stem + close[0]!r}"
    return f"; {parent or 'there'} has {', '.join(sorted(dict.fromkeys(names)))}"


def _place(holder: MutableSequence[Any], key: str, path: str) -> int:
    if not key.isdecimal() or int(key) >= len(holder):
        raise InvalidInput(f"{path!r} cannot be set: {key!r} is no place in a list of {len(holder)}.")
    return int(key)


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _fault(kind: type[BaseModel], given: Mapping[str, Any], fault: Mapping[str, Any]) -> str:
    """One fault of pydantic's in one line, with the nearest key for an unknown one."""
    path = ".".join(_location(given, fault["loc"]))
    if fault["type"] == "extra_forbidden":
        try:
            set_override(kind, copy.deepcopy(dict(given)), f"{path}=null")
        except InvalidInput as err:
            return str(err).rstrip(".")
    shown = "" if fault["type"] == "missing" else f", got {fault['input']!r}"
    return f"{path or 'the whole'}: {fault['msg']}{shown}"


def _location(given: Any, parts: Sequence[int | str]) -> list[str]:
    """The keys that lead to a fault, without the names of a union's kinds that pydantic puts between them."""
    found = []
    for at, part in enumerate(parts):
        if isinstance(given, Mapping) and part in given:
            given = given[part]
        elif isinstance(given, list) and isinstance(part, int):
            given = given[part] if part < len(given) else None
        elif at < len(parts) - 1:
            continue
        found.append(str(part))
    return found
