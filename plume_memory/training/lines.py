"""Reads files of one JSON object a line, each checked."""

from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from plume_memory.errors import TrainingError

_Line = TypeVar("_Line", bound=BaseModel)


def lines_of(path: Path, kind: type[_Line], *, tags: frozenset[str] = frozenset()) -> list[_Line]:
    """Return what stands in the lines of a file.

    Args:
        path: the file.
        kind: shape of a line.
        tags: names within an error's place that are none of the file's.

    Raises:
        TrainingError: it is missing, empty, or a line has another shape; names the line.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise TrainingError(f"Cannot read {path}: {err}. Correct the path or leave it out.") from err
    if not lines:
        raise TrainingError(f"{path} holds no line; leave it out.")
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(kind.model_validate_json(line))
        except ValidationError as err:
            first = err.errors()[0]
            where = ".".join(str(part) for part in first["loc"] if part not in tags) or "the whole"
            raise TrainingError(f"{path}, line {number}: {where}: {first['msg']}. Correct it.") from err
    return found
