"""Bytes addressed by their sha256, in a local folder or a bucket. Knows not what the bytes mean.

Layout, under the root: `ab/cd/abcd…` (64 hexadecimal digits), one file per artifact. A local file is
written under a temporary name in the root, fsynced and renamed, so a reader, a crash or a second writer
meets a whole file or none; an object store's own writes are whole, and nobody waits long for one
(remote_files.py). What killed writes left is swept by the
first write of a later store. What is read is hashed again before it is given out. A local folder takes no more than
`PLUME_ARTIFACTS_MAX` (capacity.py): what was not used for the longest time is deleted, and derived again when needed.
"""

import contextlib
import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.local import LocalFileSystem

from plume_memory.errors import ArtifactDamaged, ArtifactError, ArtifactMissing, InvalidInput, MissingExtra
from plume_memory.forks import renew_in_child
from plume_memory.store.capacity import Evictor, capacity
from plume_memory.store.failures import OUT_OF_FILES, shown_text
from plume_memory.store.paths import IN_MEMORY
from plume_memory.store.remote_files import RemoteFiles, options_of
from plume_memory.store.replacing import KILLED_S, sweep

_SHA256 = re.compile("[0-9a-f]{64}")
_TEMPORARY = ".tmp-"
_NOWHERE = "0" * 64
_EXTRAS = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "azure"),
}
"""Of this package, by the URL's scheme."""


class ArtifactStore:
    """Content-addressed blobs under one root.

    Args:
        root_url: A local folder (made when first written to), or an fsspec URL such as `s3://bucket/prefix`.

    Raises:
        InvalidInput: `PLUME_ARTIFACTS_MAX` is no number of bytes.
    """

    def __init__(self, root_url: str) -> None:
        self._root_url = root_url
        self._forget_opened()
        renew_in_child(self, ArtifactStore._forget_opened)
        self._swept = False
        self._evictor = Evictor(capacity())
        self.is_failing = False
        """Whether what was last derived could not be kept: it is said once, not at every text."""
        self.hits = 0
        """Derived things that were asked for and got (`DerivedCache` counts)."""
        self.misses = 0

    def _forget_opened(self) -> None:
        """Open anew when next used: in a forked child the thread that speaks to a bucket is gone."""
        self._opened: tuple[Any, str] | None = None

    @property
    def root_url(self) -> str:
        """Where the artifacts are, as given."""
        return self._root_url

    @property
    def shown(self) -> str:
        """Where the artifacts are, without what of it may be a secret."""
        return shown_text(self._root_url) if "://" in self._root_url else self._root_url

    def put(self, content: bytes) -> str:
        """Store the bytes and return their sha256; in a local folder they are not written again, unless damaged."""
        sha256 = hashlib.sha256(content).hexdigest()
        filesystem, path = self._place(sha256)
        with self._mapped(sha256):
            if isinstance(filesystem, RemoteFiles):
                filesystem.pipe_file(path, content)  # the same bytes whoever writes them: to look first takes longer
                return sha256
            if filesystem.exists(path) and filesystem.cat_file(path) == content:
                self._used(filesystem, path)
                return sha256
            if isinstance(filesystem, LocalFileSystem):
                self._write_whole(Path(path), content)
                self._evictor.changed(len(content))
                self._evictor.make_room(Path(path).parents[2], Path(path))
            else:
                filesystem.pipe_file(path, content)
        return sha256

    def get(self, sha256: str, *, size: int = 0) -> bytes:
        """Return the bytes.

        Args:
            sha256: of them.
            size: how many there should be, if that is known: a bucket gets the longer for them.

        Raises:
            ArtifactMissing: If there are none of that sha256.
            ArtifactDamaged: If what is stored has another sha256. Delete it and rebuild it from the log.
        """
        filesystem, path = self._place(sha256)
        with self._mapped(sha256):
            remote = isinstance(filesystem, RemoteFiles)
            content = filesystem.cat_file(path, size) if remote else bytes(filesystem.cat_file(path))
            self._used(filesystem, path)
        found = hashlib.sha256(content).hexdigest()
        if found != sha256:
            raise ArtifactDamaged(
                f"The artifact {sha256} in {self.shown} is damaged: its {len(content)} bytes have sha256 "
                f"{found}. It can be rebuilt from the log."
            )
        return content

    def has(self, sha256: str) -> bool:
        """Tell whether there is an artifact of that sha256, damaged or not."""
        filesystem, path = self._place(sha256)
        with self._mapped(sha256):
            return bool(filesystem.isfile(path))

    def size(self, sha256: str) -> int:
        """Return the artifact's size in bytes.

        Raises:
            ArtifactMissing: If there is none.
        """
        filesystem, path = self._place(sha256)
        with self._mapped(sha256):
            return int(filesystem.size(path))

    def delete(self, sha256: str) -> None:
        """Delete the artifact; one that is not there is deleted already."""
        filesystem, path = self._place(sha256)
        with self._mapped(sha256), contextlib.suppress(FileNotFoundError):
            if isinstance(filesystem, RemoteFiles):
                filesystem.rm_file(path)  # also what is gone: who was killed may have left its older versions
                return
            size = int(filesystem.size(path))
            filesystem.rm_file(path)
            self._evictor.changed(-size)

    def check(self) -> None:
        """Look whether the place can be used.

        Raises:
            ArtifactError: It cannot: there is no such bucket, nobody answers, or it lets nobody in.
        """
        filesystem, _ = self._root()
        if isinstance(filesystem, RemoteFiles):
            filesystem.check()
        else:
            self.has(_NOWHERE)

    @property
    def failures(self) -> int:
        """How often a place elsewhere did not answer, or refused."""
        filesystem = self._opened[0] if self._opened else None
        return filesystem.failures if isinstance(filesystem, RemoteFiles) else 0

    def unreached(self) -> tuple[str, ...]:
        """Say what may still be there of what was deleted, in words; nothing of a local folder."""
        filesystem, _ = self._root()
        return filesystem.unreached() if isinstance(filesystem, RemoteFiles) else ()

    def sweep(self, *, older_than_s: float) -> int:
        """Delete what killed writes left in a local folder; returns the number of files.

        Args:
            older_than_s: a younger file may be one that is being written.

        Raises:
            ArtifactError: If a file could not be deleted.
        """
        filesystem, root = self._root()
        if not isinstance(filesystem, LocalFileSystem):
            return 0
        places = (_TEMPORARY, f"??/??/{_TEMPORARY}")  # the latter are an earlier release's
        try:
            return sum(sweep(Path(root).glob(f"{place}*"), older_than_s=older_than_s) for place in places)
        except OSError as err:
            raise ArtifactError(f"What killed writes left in {self.shown} cannot be deleted: {err}") from err

    def close(self) -> None:
        """Let go of what was derived from a database in memory; what others may use stays."""
        if self._root_url.startswith(IN_MEMORY):
            filesystem, root = self._root()
            if filesystem.exists(root):
                filesystem.rm(root, recursive=True)

    def _used(self, filesystem: Any, path: str) -> None:
        if isinstance(filesystem, LocalFileSystem):
            self._evictor.used(Path(path))

    def _place(self, sha256: str) -> tuple[Any, str]:
        if not _SHA256.fullmatch(sha256):
            raise InvalidInput(f"An artifact's address is 64 lowercase hexadecimal digits, got {sha256!r}.")
        filesystem, root = self._root()
        return filesystem, f"{root}/{sha256[:2]}/{sha256[2:4]}/{sha256}"

    def _root(self) -> tuple[Any, str]:
        if self._opened is None:
            try:
                filesystem, root = fsspec.core.url_to_fs(self._root_url, **options_of(self._root_url))
            except ImportError as err:
                raise MissingExtra(_needed(self._root_url, self.shown, err)) from err
            except ValueError as err:
                raise InvalidInput(f"{self.shown!r} is not a place for artifacts: {err}") from err
            if isinstance(filesystem, AsyncFileSystem):
                filesystem = RemoteFiles(filesystem, root.rstrip("/"), self.shown)
            self._opened = filesystem, root.rstrip("/")
        return self._opened

    @contextmanager
    def _mapped(self, sha256: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError as err:
            raise ArtifactMissing(f"There is no artifact {sha256} in {self.shown}.") from err
        except OSError as err:
            if err.errno in (errno.EMFILE, errno.ENFILE):
                raise ArtifactError(f"The artifact {sha256} cannot be used: {OUT_OF_FILES}") from err
            raise ArtifactError(f"The artifact {sha256} in {self.shown} cannot be used: {err}") from err

    def _write_whole(self, path: Path, content: bytes) -> None:
        """Write to a temporary file, fsync, rename, and fsync the folder so that the name is durable too."""
        path.parent.mkdir(parents=True, exist_ok=True)
        root = path.parents[2]
        if not self._swept:
            self._swept = True
            with contextlib.suppress(OSError):  # what cannot be removed hurts no write
                sweep(root.glob(f"{_TEMPORARY}*"), older_than_s=KILLED_S)
        descriptor, temporary = tempfile.mkstemp(dir=root, prefix=_TEMPORARY)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        finally:
            Path(temporary).unlink(missing_ok=True)  # gone already where the rename succeeded
        if os.name == "posix":  # Windows cannot open a folder, and needs it not
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _needed(url: str, shown: str, error: ImportError) -> str:
    """Say which package a place needs."""
    extra = _EXTRAS.get(url.partition("://")[0])
    if extra is None:
        return f"{shown} needs a package of fsspec's that is not installed: {error}."
    return f"{shown} needs a package that is not installed ({error}): pip install 'plume-memory[{extra}]'."
