"""The files of an export: one file, a folder or a zip archive of them, read piece by piece. Knows no format."""

import codecs
import json
import lzma
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath
from typing import IO, Any

from plume_memory.errors import InvalidInput

_PIECE = 1 << 20
"""Bytes that are read at once."""


@contextmanager
def export_files(path: str | Path, *patterns: str) -> Iterator[Iterator[tuple[str, IO[bytes]]]]:
    """Give name and open file of those files of an export that fit a pattern, by their own names, then by folder.

    Args:
        path: a file, which is given whatever it is called, a folder or a zip archive.
        patterns: of names with `/` between folders, as `*/conversations.json`; one that has no folder fits in any.

    Raises:
        InvalidInput: it cannot be read, or no file of it fits.
    """
    source = Path(path).expanduser()
    try:
        if zipfile.is_zipfile(source):
            with _opened(source) as archive:
                names = _fitting(archive.namelist(), patterns, source)
                yield ((name, file) for name in names for file in _closing(_member(archive, name, source)))
        elif source.is_dir():
            found = [file.relative_to(source).as_posix() for file in source.rglob("*") if file.is_file()]
            names = _fitting(found, patterns, source)
            yield ((name, file) for name in names for file in _closing((source / name).open("rb")))
        else:
            yield ((source.name, file) for file in _closing(source.open("rb")))
    except (OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as err:
        raise InvalidInput(f"Cannot read {source}: {err}") from err


def json_entries(file: IO[bytes], name: str) -> Iterator[Any]:
    """Yield the entries of a JSON list as they are read; of another value that value alone.

    Raises:
        InvalidInput: it is not JSON in UTF-8.
    """
    text = _Text(file, name)
    if text.next_char() != "[":
        yield text.value()
        return
    text.skip()
    while (char := text.next_char()) != "]":
        if char == ",":
            text.skip()
        else:
            yield text.value()


class _Text:
    """A file's text, as much of it as is needed."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file, self._name = file, name
        self._decode = codecs.getincrementaldecoder("utf-8-sig")().decode
        self._text, self._at, self._ended = "", 0, False

    def next_char(self) -> str:
        """Return the next character that is no white space, and stay before it."""
        while True:
            while self._at < len(self._text) and self._text[self._at] in " \t\r\n":
                self._at += 1
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                raise InvalidInput(f"{self._name} is not JSON: it ends too early.")
            self._read(_PIECE)

    def skip(self) -> None:
        """Go behind the next character."""
        self._at += 1

    def value(self) -> Any:
        """Return the JSON value that begins here, and go behind it."""
        while True:
            try:
                found, end = json.JSONDecoder().raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as err:
                if self._ended:
                    raise InvalidInput(f"{self._name} is not JSON: {err}") from err
            else:
                if end < len(self._text) or self._ended:  # else it may be a number that goes on
                    self._at = end
                    return found
            self._read(max(len(self._text) - self._at, _PIECE))  # doubled: a long entry is tried a few times only

    def _read(self, count: int) -> None:
        piece = self._file.read(count)
        try:
            more = self._decode(piece, not piece)
        except UnicodeDecodeError as err:
            raise InvalidInput(f"{self._name} is not UTF-8: {err}") from err
        self._text, self._at, self._ended = self._text[self._at :] + more, 0, not piece


def _opened(source: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(source)
    except (NotImplementedError, ValueError) as err:  # a version of the format, or names, that cannot be read
        raise InvalidInput(f"Cannot read {source}: {err}") from err


def _member(archive: zipfile.ZipFile, name: str, source: Path) -> IO[bytes]:
    try:
        return archive.open(name)
    except (RuntimeError, ValueError) as err:  # encrypted, or packed in a way that the library does not know
        raise InvalidInput(f"Cannot read {name} of {source}: {err}") from err


def _fitting(names: Iterable[str], patterns: Sequence[str], source: Path) -> list[str]:
    fitting = (name for name in names if any(_fits(name, pattern) for pattern in patterns))
    found = sorted(fitting, key=lambda name: (PurePosixPath(name).name, name))
    if not found:
        raise InvalidInput(f"{source} has no file {' or '.join(patterns)}: is it such an export?")
    return found


def _fits(name: str, pattern: str) -> bool:
    return fnmatch(name if "/" in pattern else PurePosixPath(name).name, pattern)


def _closing(file: IO[bytes]) -> Iterator[IO[bytes]]:
    with file:
        yield file
