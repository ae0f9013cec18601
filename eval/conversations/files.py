"""Benchmarks' files, read as they lie: JSON, JSONL or Parquet, gzipped or not. Knows nothing of what they mean."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eval.datasets.hub import rows_of_parquet
from plume_memory.errors import InvalidInput

Row = dict[str, Any]


def read_rows(path: Path) -> list[Row]:
    """The objects of a file: `.parquet`, `.jsonl`, or JSON that is a list of objects; `.gz` behind either.

    Raises:
        InvalidInput: the file cannot be read, or is no such list.
    """
    if path.suffix == ".parquet":
        return _rows_of_parquet(path)
    content = _text(path)
    try:
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            found = [json.loads(line) for line in content.split("\n") if line.strip()]
        else:
            found = json.loads(content)
    except json.JSONDecodeError as err:
        raise InvalidInput(f"{path} is not JSON: {err}. Fetch the benchmark's file again, or name another.") from err
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found) or not found:
        raise InvalidInput(f"{path} should hold a list of objects; it holds {_shape(found)}. Name another file.")
    return found


@contextmanager
def layout(path: Path | str, benchmark: str, wanted: str) -> Iterator[None]:
    """Say of a file of another layout what was asked, found and wanted.

    Raises:
        InvalidInput: in place of the error that a missing or wrong field raised.
    """
    try:
        yield
    except InvalidInput:
        raise
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as err:
        found = f"no {err}" if isinstance(err, KeyError) else str(err)
        raise InvalidInput(
            f"{path} is not of {benchmark}'s form ({found}). Each of its objects has {wanted}; "
            "name that benchmark's own file, or the benchmark that this file is of."
        ) from err


def texts(value: Any) -> tuple[str, ...]:
    """One or several references, as texts; numbers are written out."""
    many: Sequence[Any] = value if isinstance(value, (list, tuple)) else [value]
    return tuple(str(one).strip() for one in many if one is not None and str(one).strip())


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
        return (gzip.decompress(content) if path.suffix == ".gz" else content).decode("utf-8")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as err:
        raise InvalidInput(f"Cannot read {path}: {err}") from err


def _rows_of_parquet(path: Path) -> list[Row]:
    if not path.is_file():
        raise InvalidInput(f"Cannot read {path}: there is no such file.")
    from datasets.exceptions import DatasetGenerationError  # noqa: PLC0415 - a second, and an extra

    try:
        return rows_of_parquet(path)
    except (DatasetGenerationError, ValueError, OSError) as err:
        raise InvalidInput(f"{path} is not Parquet: {err}") from err


def _shape(found: Any) -> str:
    if isinstance(found, list):
        return f"a list of {type(found[0]).__name__}" if found else "an empty list"
    return f"one {type(found).__name__}"
