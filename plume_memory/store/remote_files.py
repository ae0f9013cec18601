"""Files of a bucket, through fsspec, and nobody waits long for them: what is derived can be made again without them.

Every call has `ANSWER_S`, tries again included, and one that moves bytes a second more for each `LEAST_BYTES_S` of
them. One that fails, for whatever reason but that there is no such file,
says that the place is away: for `LOOK_AGAIN_S` calls then fail at once, and after that until a look in the background
finds it again. So a dead store holds up a request once, and not at every text it reads.

A bucket may keep what is deleted, as older versions: those of a deleted file are deleted too, where that can be.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from plume_memory.errors import ArtifactsUnavailable
from plume_memory.forks import Lock

_LOGGER = logging.getLogger(__name__)

ANSWER_S = 1.5
"""Longest that a call may take, but for the bytes that it moves."""
LEAST_BYTES_S = 4 << 20
"""Bytes a second that a place moves at least; a slower one counts as away."""
_READ_S = 600.0
"""Of a socket: a call's own limit ends it before, and what is sent to a slow place has no answer for as long."""
LOOK_AGAIN_S = 5.0
_SPARE_S = 0.3
"""For the loop to say that the time is over."""
_S3 = ("s3", "s3a")
_NOWHERE = "nowhere"
"""A file that nobody makes: to ask for it tells whether the place answers."""
_TRIES = 2
"""A connection that was kept open may be closed at the other end; one try more finds out."""

_FULL = ("XMinioStorageFull", "QuotaExceeded", "StorageFull", "InsufficientCapacity")
"""Codes of stores that have a size, as MinIO and Ceph; S3's own has none."""

Call = Callable[[], Coroutine[Any, Any, Any]]


def options_of(url: str) -> dict[str, Any]:
    """Return what a filesystem is opened with: times of ours, and no list of files that another process has changed."""
    if url.partition("://")[0] not in _S3:
        return {}
    times = {"connect_timeout": ANSWER_S, "read_timeout": _READ_S, "retries": {"max_attempts": 0}}
    return {"config_kwargs": times, "use_listings_cache": False}


class RemoteFiles:
    """Some of a filesystem's methods, under the same names.

    Args:
        files: an asynchronous filesystem of fsspec.
        root: folder of all files, with the bucket.
        shown: what the place is called in errors.
    """

    def __init__(self, files: Any, root: str, shown: str) -> None:
        self._files, self._root, self._shown = files, root, shown
        if hasattr(files, "retries"):
            files.retries = _TRIES
        self._bucket = root.partition("/")[0]
        self._lock = Lock()
        self._away_since: float | None = None
        self._is_looking = False
        self._not_removed: set[str] = set()
        self._unasked: set[str] = set()
        """Deleted while the bucket did not say whether it keeps versions."""
        self.failures = 0
        """Calls that found the place away; those that were not made because it was so already are not counted."""

    def cat_file(self, path: str, size: int = 0) -> bytes:
        """Return a file's bytes.

        Args:
            path: of the file.
            size: bytes that it should have, if that is known: they are given the time they need.
        """
        return bytes(self._asked(lambda: self._files._cat_file(path), size))

    def pipe_file(self, path: str, content: bytes) -> None:
        """Write a file."""
        try:
            self._asked(lambda: self._files._pipe_file(path, content), len(content))
        except FileNotFoundError as err:  # to write needs no file: the bucket is not there
            raise self._failed(err) from err

    def isfile(self, path: str) -> bool:
        """Tell whether there is a file."""
        try:
            self._asked(lambda: self._files._info(path))
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        """Return a file's size."""
        return int(self._asked(lambda: self._files._info(path))["size"])

    def rm_file(self, path: str) -> None:
        """Delete a file, and what its bucket keeps of it."""
        self._asked(lambda: self._files._rm_file(path))
        if self._protocol in _S3:
            self._unasked.add(path.partition("/")[2])
            self._remove_unasked()

    def check(self) -> None:
        """Look whether the place answers, also if it was found away.

        Raises:
            ArtifactsUnavailable: it does not.
        """
        error = self._error_of(self._begun(self._look))
        if error is not None:
            raise self._failed(error) from error
        self._found()

    def unreached(self) -> tuple[str, ...]:
        """Say what of deleted files may still be there, in words."""
        if self._protocol not in _S3:
            return (f"Older versions of deleted objects were not looked for: {self._protocol} may keep some.",)
        found = []
        self._remove_unasked()
        if self._unasked:
            found.append(
                f"Whether the bucket keeps older versions of {len(self._unasked)} deleted artifacts could not be "
                f"asked: {', '.join(sorted(self._unasked))}."
            )
        if self._not_removed:
            found.append(
                f"The bucket keeps older versions of {len(self._not_removed)} deleted artifacts, and did not let them "
                f"be removed: {', '.join(sorted(self._not_removed))}."
            )
        return tuple(found)

    @property
    def _protocol(self) -> str:
        named = self._files.protocol
        return str(named if isinstance(named, str) else named[0])

    # --- older versions ---------------------------------------------------------------------------

    def _remove_unasked(self) -> None:
        """Delete what the bucket keeps of deleted files. It is asked each time: it may have begun to keep some."""
        unasked = set(self._unasked)
        if not unasked or self._is_away():
            return
        error, found = self._outcome(lambda: self._files._call_s3("get_bucket_versioning", Bucket=self._bucket))
        if error is not None:
            return
        for key in unasked if "Status" in found else ():  # of a bucket that never kept any there is none
            self._remove_versions(key)
        self._unasked -= unasked

    def _remove_versions(self, key: str) -> None:
        failed: BaseException | None = None
        listed: list[str] = []
        begins: dict[str, str] | None = {}
        while begins is not None:  # the whole list first: its next page begins after one that must still be there
            page = {"Bucket": self._bucket, "Prefix": key, **begins}
            error, found = self._outcome(lambda page=page: self._files._call_s3("list_object_versions", **page))  # type: ignore[misc]
            failed, found = failed or error, found or {}
            listed += [one["VersionId"] for one in (*found.get("Versions", ()), *found.get("DeleteMarkers", ()))]
            begins = _next_page(found)
        for version in listed:
            own = {"Bucket": self._bucket, "Key": key, "VersionId": version}
            error, _ = self._outcome(lambda own=own: self._files._call_s3("delete_object", **own))  # type: ignore[misc]
            failed = failed or error
        if failed is None:
            self._not_removed.discard(key)
        else:
            self._not_removed.add(key)

    def _outcome(self, call: Call) -> tuple[BaseException | None, Any]:
        """The error or the value of a call that may be refused without the place being away."""
        begun = self._begun(call)
        error = self._error_of(begun)
        return error, None if error is not None else begun.result()

    # --- calls ------------------------------------------------------------------------------------

    def _asked(self, call: Call, size: int = 0) -> Any:
        if self._is_away():
            raise ArtifactsUnavailable(f"{self._shown} was away when it was last asked; it is looked for again.")
        longest_s = ANSWER_S + size / LEAST_BYTES_S
        begun = self._begun(call, longest_s)
        error = self._error_of(begun, longest_s)
        if error is None:
            return begun.result()
        if isinstance(error, FileNotFoundError) and not _is_of_bucket(error):
            raise error
        raise self._failed(error, longest_s) from error

    def _begun(self, call: Call, longest_s: float | None = None) -> "Future[Any]":
        return asyncio.run_coroutine_threadsafe(asyncio.wait_for(call(), longest_s or ANSWER_S), self._files.loop)

    def _error_of(self, begun: "Future[Any]", longest_s: float | None = None) -> BaseException | None:
        try:
            return begun.exception((longest_s or ANSWER_S) + _SPARE_S)
        except TimeoutError as err:  # the loop itself is held up
            begun.cancel()
            return err

    async def _look(self) -> None:
        """Ask for a file that nobody makes: only that it is not there tells that the place answers."""
        try:
            await self._files._cat_file(f"{self._root}/{_NOWHERE}")
        except FileNotFoundError as err:
            if _is_of_bucket(err):
                raise

    def _is_away(self) -> bool:
        with self._lock:
            if self._away_since is None:
                return False
            is_due = time.monotonic() - self._away_since >= LOOK_AGAIN_S and not self._is_looking
            self._is_looking = self._is_looking or is_due
        if is_due:  # outside the lock: of a look that is over already the callback runs here, and takes it
            self._begun(self._look).add_done_callback(self._looked)
        return True

    def _looked(self, looking: "Future[Any]") -> None:
        with self._lock:
            self._is_looking = False
            is_back = not looking.cancelled() and looking.exception() is None
            self._away_since = None if is_back else time.monotonic()

    def _found(self) -> None:
        with self._lock:
            self._away_since = None

    def _failed(self, error: BaseException, longest_s: float | None = None) -> ArtifactsUnavailable:
        is_full = _code_of(error) in _FULL
        with self._lock:
            self.failures += 1
            if not is_full:  # what it has can still be read
                self._away_since = time.monotonic()
        if is_full:
            return ArtifactsUnavailable(f"{self._shown} has no room left ({error}): make room, or raise its quota.")
        said = str(error) or f"no answer within {longest_s or ANSWER_S:.3g} s"
        return ArtifactsUnavailable(f"{self._shown} cannot be used: {type(error).__name__}: {said}")


def _next_page(found: dict[str, Any]) -> dict[str, str] | None:
    """Where a list of versions goes on, None where it ends."""
    if not found.get("IsTruncated"):
        return None
    named = {"KeyMarker": found.get("NextKeyMarker"), "VersionIdMarker": found.get("NextVersionIdMarker")}
    return {name: value for name, value in named.items() if value} or None


def _is_of_bucket(error: FileNotFoundError) -> bool:
    """Tell whether the bucket itself is not there: its file may be anywhere else."""
    return _code_of(error) == "NoSuchBucket"


def _code_of(error: BaseException) -> str:
    """S3's name of an error; empty of any other's."""
    response = getattr(error, "response", None) or getattr(error.__cause__, "response", None) or {}
    return str(response.get("Error", {}).get("Code", ""))
