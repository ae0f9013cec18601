"""Rows of a data set on the Hugging Face hub, as plain dictionaries; knows nothing of what they mean.

`datasets` no longer runs loading scripts. Where a repository's main branch holds only a script, the rows come from
the branch that the hub itself converted to Parquet, or from a file of the repository.
"""

import json
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from plume_memory.errors import HubUnreachable, InvalidInput, MissingExtra

CONVERTED = "refs/convert/parquet"
"""The hub's own Parquet branch."""
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class HubPlace:
    """Where rows lie."""

    repository: str
    split: str
    """Of `load_dataset`; for a file only what it is called."""
    config: str | None = None
    revision: str | None = None
    """A commit or branch; the main branch when None."""
    file: str | None = None
    """One file of the repository, read in place of `load_dataset`: Parquet or a zip archive for `rows_of`."""
    member: str | None = None
    """The JSONL file within the archive."""

    def __str__(self) -> str:
        """For messages: all that was asked."""
        parts = [self.config, f"split {self.split}", self.file, self.member, self.revision and f"at {self.revision}"]
        return f"{self.repository} ({', '.join(part for part in parts if part)})"


def rows_of(place: HubPlace) -> Sequence[Row]:
    """Download, or take from the hub's local cache, and read.

    Raises:
        HubUnreachable: it is not in the cache and the hub cannot be reached.
        InvalidInput: the hub has no such repository, config, split or file, or refuses it.
        MissingExtra: `datasets` is not installed.
    """
    with _told(place):
        return _from_file(place) if place.file else _from_split(place)


def file_of(place: HubPlace) -> Path:
    """Download one file of a repository, or take it from the hub's local cache, and leave reading it to others.

    Args:
        place: names a `file`, of any kind.

    Raises:
        HubUnreachable: it is not in the cache and the hub cannot be reached.
        InvalidInput: the hub has no such repository or file, or refuses it.
        MissingExtra: `datasets` is not installed.
    """
    with _told(place):
        return _downloaded(place)


@contextmanager
def _told(place: HubPlace) -> Iterator[None]:
    """The errors of the hub and of its packages as ours."""
    try:
        from datasets.exceptions import DatasetNotFoundError, DatasetsError  # noqa: PLC0415 - a second, and an extra
        from huggingface_hub import errors as hub  # noqa: PLC0415 - as above
    except ImportError as err:
        raise MissingExtra(f"Reading {place} needs {err.name}: pip install 'plume-memory[eval]'.") from err
    try:
        yield
    except hub.LocalEntryNotFoundError as err:  # of the two below as well, yet it means that nobody was reached
        raise _unreachable(place, err) from err
    except (DatasetNotFoundError, DatasetsError, hub.RepositoryNotFoundError, hub.EntryNotFoundError) as err:
        raise InvalidInput(f"The hub does not give {place}: {_first_line(err)} Pass a local file instead.") from err
    except OSError as err:
        raise _unreachable(place, err) from err
    except ValueError as err:  # an unknown config or split
        raise InvalidInput(f"{place} cannot be read: {_first_line(err)} Pass a local file instead.") from err


def _from_split(place: HubPlace) -> Sequence[Row]:
    from datasets import load_dataset  # noqa: PLC0415 - an extra

    loaded = load_dataset(place.repository, place.config, split=place.split, revision=place.revision)
    return [dict(row) for row in loaded]


def _from_file(place: HubPlace) -> Sequence[Row]:
    path = _downloaded(place)
    return rows_of_archive(path, place.member) if place.member is not None else rows_of_parquet(path)


def _downloaded(place: HubPlace) -> Path:
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - half a second

    assert place.file is not None
    return Path(hf_hub_download(place.repository, place.file, repo_type="dataset", revision=place.revision))


def rows_of_parquet(path: Path) -> list[Row]:
    """Rows of one Parquet file."""
    from datasets import Dataset  # noqa: PLC0415 - an extra

    with tempfile.TemporaryDirectory() as copy:  # datasets makes an Arrow copy of what it reads
        return [dict(row) for row in Dataset.from_parquet(str(path), cache_dir=copy, keep_in_memory=True)]


def rows_of_archive(path: Path, member: str) -> list[Row]:
    """Rows of the JSONL file called `member`, in whatever folder of the archive it lies.

    Raises:
        InvalidInput: no such file, or it is damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            found = [name for name in archive.namelist() if PurePosixPath(name).name == member]
            if len(found) != 1:
                raise InvalidInput(f"{path} holds {len(found)} files called {member}; exactly one was expected.")
            lines = archive.read(found[0]).decode("utf-8").split("\n")
        return [json.loads(line) for line in lines if line.strip()]
    except (zipfile.BadZipFile, UnicodeDecodeError, json.JSONDecodeError) as err:
        raise InvalidInput(f"{path} cannot be read: {err}. Delete it to fetch it again.") from err


def _unreachable(place: HubPlace, err: Exception) -> HubUnreachable:
    return HubUnreachable(
        f"{place} is not in the local cache and the Hugging Face hub cannot be reached: {_first_line(err)} "
        "Go online once, or pass a local file: with --data (or PLUME_DATA), or --file of conversations."
    )


def _first_line(err: Exception) -> str:
    return (str(err).strip().splitlines() or [type(err).__name__])[0]
