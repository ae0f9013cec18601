"""A server under load: `python bench/serve.py [--clients 64] [--minutes 10] [--pause 180] [--library]`.

Clients in threads, each pausing between its calls for as long on average as is said (0: not at all, which is as much as
so many can ask), tell and ask memories that four of them share, of one `plume serve` with the real weights, over
loopback. In the middle the server gets SIGTERM, has to end with status 0, and is
started again. With `--library` the same clients call the library in this process, and nothing is stopped.

Counted: errors; answers that mix versions (evidence that is not word for word what the log has at a version up to the
answer's, a version older than one that was acknowledged before the question, or a number in its words that only another
memory was told); acknowledged updates that the log lacks or has twice. What fails because the server is being stopped
is counted by itself, and repeated: an update with its idempotency key. Rows to --out: one a call, one of resident
memory every five seconds, and the figures at the end.
"""

import argparse
import json
import os
import random
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from plume_memory import MemoryPool, ParametricMemory
from plume_memory.errors import PlumeError, ServerUnreachable
from plume_memory.records import Version
from plume_memory.remote.memory import RemoteMemory
from plume_memory.remote.pool import RemotePool

SHARED_BY = 4
UPDATES = 0.3
"""Of all calls."""
NUMBER = re.compile(r"\b\d{4}\b")
"""A code, as updates tell them."""
THINGS = ("locker", "bicycle", "alarm", "garage", "suitcase", "phone")
READY_S = 300.0
PAUSE_S = 0.5
"""Before what failed is repeated while the server is stopped."""


class Server:
    """`plume serve` as a program of its own, on a port that stays the same."""

    def __init__(self, folder: Path, model: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.database = f"sqlite:///{folder / 'plume.db'}"
        self._model, self._log = model, (folder / "server.log").open("ab")
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        limits = ["--requests-per-minute", "1000000", "--rows-per-minute", "1000000"]
        options = ["--db", self.database, "--model", self._model, "--port", str(self.port), *limits]
        command = [sys.executable, "-m", "plume_memory.cli", "serve", *options]
        process = subprocess.Popen(command, stdout=self._log, stderr=self._log)
        deadline = time.monotonic() + READY_S
        while not self._is_ready():
            if process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"The server did not start: {Path(self._log.name).read_text()[-2000:]}")
            time.sleep(PAUSE_S)
        return process

    def _is_ready(self) -> bool:
        import httpx2  # noqa: PLC0415 — an extra

        try:
            return httpx2.get(f"{self.url}/readyz", timeout=10, trust_env=False).status_code == 200
        except httpx2.TransportError:
            return False

    def restart(self) -> dict[str, Any]:
        """Stop it as an orchestrator does, and start it again."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(READY_S)
        ended = time.monotonic()
        self.process = self._started()
        return {"status": status, "stop_s": round(ended - begun, 1), "start_s": round(time.monotonic() - ended, 1)}

    def close(self) -> None:
        """Stop it."""
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(READY_S)
        self._log.close()


@dataclass
class Run:
    """What all clients share."""

    pool: RemotePool | MemoryPool
    out: TextIO
    begun: float
    until: float
    pause_s: float
    tokens: int
    is_stopping: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    acknowledged: dict[str, dict[int, str]] = field(default_factory=dict)
    """Memory → version → text."""
    counts: Counter[str] = field(default_factory=Counter)
    first_s: list[float] = field(default_factory=list)
    whole_s: list[float] = field(default_factory=list)
    update_s: list[float] = field(default_factory=list)
    evidence: list[tuple[str, int, int, str]] = field(default_factory=list)
    """Memory, version of the answer, version of a unit, its text: compared with the log at the end."""
    said: list[tuple[str, int, str]] = field(default_factory=list)
    """Memory, version of the answer, a number in its words: likewise."""

    def write(self, row: dict[str, Any]) -> None:
        """Write a row."""
        with self.lock:
            self.out.write(json.dumps({"at": round(time.monotonic() - self.begun, 1), **row}) + "\n")
            self.out.flush()

    def failed(self, what: str, error: PlumeError) -> None:
        """Count a failure, of its own kind while the server is stopped."""
        kind = "stopped" if self.is_stopping.is_set() or isinstance(error, ServerUnreachable) else "error"
        with self.lock:
            self.counts[kind] += 1
        self.write({"kind": kind, "of": what, "error": type(error).__name__, "said": str(error)[:200]})


class Client(threading.Thread):
    """One that tells and asks, call after call."""

    def __init__(self, run: Run, number: int) -> None:
        super().__init__(name=f"client-{number}", daemon=True)
        self._run, self._chance = run, random.Random(number)
        self._name = f"memory-{number // SHARED_BY}"
        self._memory: RemoteMemory | ParametricMemory = run.pool.memory(self._name)

    def run(self) -> None:
        """Until time is up; what was begun is ended."""
        self._pause(self._chance.random())
        while time.monotonic() < self._run.until:
            if self._chance.random() < UPDATES:
                self._tell()
            else:
                self._ask()
            self._pause(self._chance.expovariate(1.0))

    def _pause(self, times: float) -> None:
        left = self._run.until - time.monotonic()
        time.sleep(max(0.0, min(times * self._run.pause_s, left)))

    def _tell(self) -> None:
        text = f"The code of my {self._chance.choice(THINGS)} is {self._chance.randrange(1000, 10_000)}."
        key, begun = uuid.uuid4().hex, time.monotonic()
        while True:  # as a client should: the same key until it is acknowledged
            try:
                written = self._memory.update(text, idempotency_key=key)
                break
            except PlumeError as err:
                self._run.failed("update", err)
                time.sleep(PAUSE_S)
        seconds = time.monotonic() - begun
        with self._run.lock:
            self._run.acknowledged.setdefault(self._name, {})[written.number] = text
            self._run.update_s.append(seconds)
        self._run.write({"kind": "update", "memory": self._name, "version": written.number, "s": round(seconds, 3)})

    def _ask(self) -> None:
        with self._run.lock:
            known = max(self._run.acknowledged.get(self._name, {0: ""}))
        begun, first, answer = time.monotonic(), 0.0, None
        try:
            asked = f"What is the code of my {self._chance.choice(THINGS)}?"
            for piece in self._memory.stream(asked, unknown="bare", max_new_tokens=self._run.tokens):
                first = first or time.monotonic() - begun
                answer = piece.answer or answer
        except PlumeError as err:
            self._run.failed("ask", err)
            time.sleep(PAUSE_S)
            return
        whole = time.monotonic() - begun
        if answer is None:
            self._run.counts["error"] += 1
            return
        with self._run.lock:
            self._run.first_s.append(first)
            self._run.whole_s.append(whole)
            self._run.counts["older_than_acknowledged"] += answer.version < known
            self._run.evidence += [
                (self._name, answer.version, one.unit.version, one.unit.text) for one in answer.evidence_units
            ]
            self._run.said += [(self._name, answer.version, number) for number in NUMBER.findall(answer.text)]
        times = {"first_s": round(first, 3), "s": round(whole, 3)}
        self._run.write({"kind": "ask", "memory": self._name, "version": answer.version, **times})


def checked(run: Run, logs: dict[str, list[Version]]) -> dict[str, int]:
    """Compare what was acknowledged and answered with the logs."""
    texts = {name: {one.number: one.text for one in log} for name, log in logs.items()}
    lost = sum(
        texts[name].get(number) != text for name, told in run.acknowledged.items() for number, text in told.items()
    )
    mixed = sum(
        unit_version > version or text not in (texts[name].get(unit_version) or "")
        for name, version, unit_version, text in run.evidence
    )
    numbers = {
        name: {number: one.number for one in reversed(log) for number in NUMBER.findall(one.text or "")}
        for name, log in logs.items()
    }  # → the first version that told it
    foreign = sum(
        numbers[name].get(number, version + 1) > version
        and any(number in told for other, told in numbers.items() if other != name)
        for name, version, number in run.said
    )
    acknowledged = sum(len(told) for told in run.acknowledged.values())
    written = sum(len(log) for log in logs.values())
    return {
        "acknowledged": acknowledged,
        "lost": lost,
        "written_twice": written - acknowledged,  # every client goes on until its last update is acknowledged
        "mixed": mixed + foreign + run.counts["older_than_acknowledged"],
        "numbers_said": len(run.said),
    }


def figures(run: Run, clients: int, minutes: float, seen_mib: list[float]) -> dict[str, Any]:
    """What the run came to."""

    def parts(found: list[float]) -> dict[str, float]:
        if len(found) < 2:
            return {}
        cuts = statistics.quantiles(found, n=20, method="inclusive")
        return {"p50": round(cuts[9], 2), "p95": round(cuts[18], 2)}

    quarter = max(1, len(seen_mib) // 4)
    return {
        "kind": "figures",
        "way": "library" if isinstance(run.pool, MemoryPool) else "server",
        "clients": clients,
        "minutes": minutes,
        "pause_s": run.pause_s,
        "tokens": run.tokens,
        "answers": len(run.whole_s),
        "updates": len(run.update_s),
        "errors": run.counts["error"],
        "failed_while_stopped": run.counts["stopped"],
        "first_token_s": parts(run.first_s),
        "answer_s": parts(run.whole_s),
        "update_s": parts(run.update_s),
        "rss_mib": [round(seen_mib[min(at * quarter, len(seen_mib) - 1)]) for at in range(1, 5)] if seen_mib else [],
    }


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Load, stop in the middle, check, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds on average between a client's calls")
    parser.add_argument(
        "--tokens", type=int, default=48, help="longest answer: what a memory lacks is not said shortly"
    )
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--library", action="store_true", help="the library alone, in this process")
    parser.add_argument("--out", type=Path, help="raw rows; appended to")
    asked = parser.parse_args()
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        out = opened.enter_context((asked.out or folder / "rows.jsonl").open("a", encoding="utf-8"))
        server: Server | None = None
        pool: RemotePool | MemoryPool
        if asked.library:
            pool = opened.enter_context(MemoryPool(f"sqlite:///{folder / 'plume.db'}", model=asked.model))
            pool.memory("warm").ask("Hello?", max_new_tokens=1, unknown="bare")
        else:
            server = Server(folder, asked.model)
            opened.callback(server.close)
            pool = opened.enter_context(RemotePool.open(server.url))
        begun = time.monotonic()
        run = Run(pool, out, begun, begun + 60 * asked.minutes, asked.pause, asked.tokens)
        clients = [Client(run, number) for number in range(asked.clients)]
        for client in clients:
            client.start()
        seen_mib: list[float] = []
        stopped: dict[str, Any] = {}
        while any(client.is_alive() for client in clients):
            time.sleep(min(5.0, 6 * asked.minutes))
            seen_mib.append(resident_mib(os.getpid() if server is None else server.process.pid))
            run.write({"kind": "rss", "mib": round(seen_mib[-1], 1)})
            if server and not stopped and time.monotonic() - begun > 30 * asked.minutes:
                run.is_stopping.set()
                stopped = server.restart()
                run.is_stopping.clear()
        logs = {name: pool.memory(name, create=False).history() for name in sorted({one._name for one in clients})}
        row = {**figures(run, asked.clients, asked.minutes, seen_mib), **checked(run, logs), "restart": stopped}
        run.write(row)
        print(json.dumps(row))


if __name__ == "__main__":
    main()
