"""A bucket on this machine, moto's, behind a door that can be slow, cut answers, refuse, or be shut."""

import http.client
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal

import boto3
from moto.server import ThreadedMotoServer

from plume_memory.store import remote_files

IMPATIENT_S = remote_files.ANSWER_S
PATIENT_S = 300.0
"""The limit where nothing is wrong: on a busy machine a first call takes longer than callers wait."""

Fault = Literal["slow", "trickle", "cut", "503", "denied", "full", "bytes"]
_PIECES, _PAUSE_S = 8, 0.25
"""Of a body that trickles."""

_REFUSED = b"<?xml version='1.0'?><Error><Code>%s</Code><Message>no</Message></Error>"


class Door(ThreadingHTTPServer):
    """Hands requests on to moto, unless a fault is set."""

    daemon_threads = True

    def __init__(self, behind: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = behind
        self.fault: Fault | None = None
        self.is_over = threading.Event()
        self.asked = 0

    @contextmanager
    def doing(self, fault: Fault) -> Iterator[None]:
        """Have this fault meanwhile; only one that never answers has the limit that callers have."""
        patient = remote_files.ANSWER_S
        self.fault = fault
        if fault == "slow":
            remote_files.ANSWER_S = IMPATIENT_S
        try:
            yield
        finally:
            self.fault, remote_files.ANSWER_S = None, patient

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what is tested."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Door

    def _hand_on(self) -> None:
        fault = self.server.fault
        body = b"".join(
            self._paused(fault, self.rfile.read)(size) for size in _pieces(int(self.headers.get("content-length", 0)))
        )
        self.server.asked += 1
        if fault == "slow":
            self.server.is_over.wait(600)  # none of the limits is as long
            self.close_connection = True
            return
        if fault == "503":
            return self._send(503, {}, _REFUSED % b"ServiceUnavailable")
        if fault == "full" and self.command == "PUT":
            return self._send(507, {}, _REFUSED % b"XMinioStorageFull")
        if fault == "denied":
            return self._send(403, {}, _REFUSED % b"InvalidAccessKeyId")
        behind = http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=600)
        behind.request(self.command, self.path, body, dict(self.headers.items()))
        answer = behind.getresponse()
        found = answer.read()
        if fault == "bytes" and self.command == "GET":
            found = b"X" * len(found)
        headers = {name.lower(): value for name, value in answer.getheaders()}
        behind.close()
        return self._send(answer.status, headers, found, is_cut=fault == "cut")

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _hand_on

    def _send(self, status: int, headers: dict[str, str], body: bytes, *, is_cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name not in ("content-length", "connection", "transfer-encoding"):
                self.send_header(name, value)
        length = headers.get("content-length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("content-length", length)
        self.end_headers()
        if self.command != "HEAD":
            left = body[: len(body) // 2] if is_cut else body
            for size in _pieces(len(left)):
                self._paused(self.server.fault, self.wfile.write)(left[:size])
                left = left[size:]
        self.close_connection = self.close_connection or is_cut

    def _paused(self, fault: Fault | None, move: Callable[[Any], Any]) -> Callable[[Any], Any]:
        if fault == "trickle":
            self.server.is_over.wait(_PAUSE_S)
        return move

    def log_message(self, *_: Any) -> None:
        """Nothing."""


def _pieces(size: int) -> list[int]:
    """Sizes of a body's pieces."""
    piece = max(size // _PIECES, 1)
    return [piece] * (size // piece) + ([size % piece] if size % piece else []) if size else []


@dataclass
class Bucket:
    """One of its own, and the door before it."""

    name: str
    door: Door
    client: Any
    url: str = field(init=False)

    def __post_init__(self) -> None:
        self.url = f"s3://{self.name}/derived"

    def keys(self) -> list[str]:
        """Of all objects."""
        return [one["Key"] for one in self.client.list_objects_v2(Bucket=self.name).get("Contents", ())]

    def versions(self) -> list[str]:
        """Of all objects, those that are deleted too."""
        listed = self.client.list_object_versions(Bucket=self.name)
        return [one["Key"] for one in listed.get("Versions", ())]

    def fault(self, kind: Fault) -> AbstractContextManager[None]:
        """Have the door do this meanwhile."""
        return self.door.doing(kind)


@contextmanager
def moto_server() -> Iterator[tuple[Door, Any]]:
    """Moto's server, the door before it, and a client that goes behind the door."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    port = server.get_host_and_port()[1]
    door = Door(port)
    thread = threading.Thread(target=door.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{port}",
        region_name="us-east-1",
        aws_access_key_id="tests",
        aws_secret_access_key="tests",
    )
    try:
        yield door, client
    finally:
        door.is_over.set()
        door.shutdown()
        door.server_close()
        client.close()
        server.stop()
