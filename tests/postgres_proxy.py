"""Stands between a client and a PostgreSQL server and cuts the line around a commit, before or after it is done."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

Cut = Literal["before", "after"]
_COMMIT = b"COMMIT\0"


class CommitCutter:
    """Listens in a folder as a server would; each entry of `cuts` is spent on one commit.

    "before": the server never sees the commit. "after": it has answered, and the answer is dropped.
    """

    def __init__(self, folder: Path, server_folder: Path) -> None:
        self.folder = folder
        self.cuts: list[Cut] = []
        self._server = f"{server_folder}/.s.PGSQL.5432"
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{folder}/.s.PGSQL.5432")
        self._listener.listen()

    @contextlib.contextmanager
    def serving(self) -> Iterator["CommitCutter"]:
        """Accept connections until the end of the block."""
        thread = threading.Thread(target=self._accept)
        thread.start()
        try:
            yield self
        finally:
            self._listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # shut down
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            silenced = threading.Event()
            for work, line in ((self._pass_on, (client, server)), (_answer, (server, client))):
                threading.Thread(target=work, args=(*line, silenced), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket, silenced: threading.Event) -> None:
        with contextlib.suppress(OSError):  # the other direction has closed the line
            while received := client.recv(65536):
                cut = self.cuts.pop(0) if self.cuts and _COMMIT in received else None
                if cut == "before":
                    break
                if cut == "after":
                    silenced.set()
                server.sendall(received)
                if cut == "after":
                    server.shutdown(socket.SHUT_WR)  # it hangs up when it has answered, and `_answer` closes the line
                    return
        _close(client, server)


def _answer(server: socket.socket, client: socket.socket, silenced: threading.Event) -> None:
    with contextlib.suppress(OSError):
        while received := server.recv(65536):
            if not silenced.is_set():
                client.sendall(received)
    _close(client, server)


def _close(*line: socket.socket) -> None:
    for each in line:
        with contextlib.suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)
        each.close()
