"""A process killed (SIGKILL) at any moment has lost nothing it acknowledged, and nothing is there twice.

A short pass by default; `make soak` (PLUME_SOAK=1) kills 500 times on SQLite and 200 times on PostgreSQL. Seeds are
printed and can be set: PLUME_SEED=7.
"""

import importlib.util
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest

from plume_memory.errors import ArtifactMissing
from plume_memory.store import schema
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.chain import sha256_of
from plume_memory.store.database import Database
from plume_memory.store.log import Log

HERE = Path(__file__).parent
SOAK = os.environ.get("PLUME_SOAK") == "1"
SEED = int(os.environ.get("PLUME_SEED", "20261121"))
KILLS = {"sqlite": 500, "postgresql": 200} if SOAK else {"sqlite": 14, "postgresql": 8}
MIGRATIONS = {"sqlite": 60, "postgresql": 30} if SOAK else {"sqlite": 6, "postgresql": 4}
STEPS = 12
LIFE_S = 0.6
"""A child is killed within this time: about what a dozen steps take."""
KILLS_PER_LIFE = 7
"""Then it may live on: on a slow machine its last step alone may take longer than `LIFE_S`."""


def _module(path: Path) -> ModuleType:
    """Import a file that lies on no import path."""
    found = sys.modules.get(path.stem)
    if found is not None:
        return found
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


planned = _module(HERE / "plan.py")


class Nursery:
    """Forks children on demand (nursery.py) and kills them."""

    def __init__(self) -> None:
        command = [sys.executable, str(HERE / "nursery.py")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, job: dict[str, Any], *, kill_after: float | None) -> bool:
        """Run a job; returns whether it ended by itself. A job that fails fails the test, with its traceback."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({**job, "kill_after": kill_after}) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        assert code in (0, -signal.SIGKILL), Path(job["failed"]).read_text()
        return code == 0

    def close(self) -> None:
        """End the nursery."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(30)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    """One for all tests: it imports torch."""
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A PostgreSQL server whose commits are on the disk, for it is killed as well."""
    with _module(HERE.parent / "postgres.py").PostgresServer.running(durable=True) as server:
        yield server


def test_whatever_is_killed_and_whenever_every_acknowledged_step_is_there_once_sqlite(nursery, tmp_path):
    rng = random.Random(SEED)
    kills = life = 0
    while kills < KILLS["sqlite"]:
        folder = tmp_path / str(life)
        folder.mkdir()
        job = new_job(folder, f"sqlite:///{folder / 'plume.db'}", SEED + life)
        kills += lead_to_the_end(nursery, job, rng)
        assert_no_erased_byte_is_left(job, folder)
        life += 1


def test_whatever_is_killed_and_whenever_every_acknowledged_step_is_there_once_postgresql(nursery, server, tmp_path):
    rng = random.Random(SEED + 1)
    kills = life = 0
    while kills < KILLS["postgresql"]:
        folder = tmp_path / str(life)
        folder.mkdir()
        job = new_job(folder, server.url(server.create_database()), SEED + 1 + life)
        kills += lead_to_the_end(nursery, job, rng, server=server)
        life += 1


OLDER = sorted(
    path.stem.removeprefix("schema_")
    for path in (HERE.parent / "store").glob("schema_????.sql")
    if path.stem != f"schema_{schema.latest_revision()}"
)
"""Every released schema but the newest."""


@pytest.mark.parametrize("revision", OLDER)
def test_a_killed_migration_leaves_the_old_schema_or_the_new_one_sqlite(nursery, tmp_path, revision):
    rng = random.Random(SEED + 2)
    for trial in range(MIGRATIONS["sqlite"]):
        path = tmp_path / f"{trial}.db"
        with sqlite3.connect(path) as connection:
            connection.executescript((HERE.parent / "store" / f"schema_{revision}.sql").read_text(encoding="utf-8"))
        connection.close()
        assert_migrates(nursery, f"sqlite:///{path}", tmp_path, revision, rng)


def test_a_killed_migration_leaves_the_old_schema_or_the_new_one_postgresql(nursery, server, tmp_path):
    rng = random.Random(SEED + 3)
    for trial in range(MIGRATIONS["postgresql"]):
        revision = OLDER[trial % len(OLDER)]
        url = server.url(server.create_database())
        with psycopg.connect(url, autocommit=True) as connection:
            script = HERE.parent / "store" / f"schema_{revision}_postgresql.sql"
            connection.execute(script.read_text(encoding="utf-8"))
        assert_migrates(nursery, url, tmp_path, revision, rng)


def new_job(folder: Path, url: str, seed: int) -> dict[str, Any]:
    """A life of its own database and artifacts."""
    places = {name: str(folder / name) for name in ("acknowledged", "answers", "failed", "artifacts")}
    return {"kind": "live", "url": url, "seed": seed, "steps": STEPS, **places}


def lead_to_the_end(nursery: Nursery, job: dict[str, Any], rng: random.Random, *, server: Any = None) -> int:
    """Kill a life again and again until it is through; returns the number of kills."""
    kills = 0
    while True:
        kill_server = server is not None and kills % 4 == 3
        ended = nursery.run(job, kill_after=rng.uniform(0, LIFE_S) if kills < KILLS_PER_LIFE else None)
        if kill_server:
            server.kill()
            server.start()
        check(job)
        if ended:
            break
        kills += 1
    answers = json.loads(Path(job["answers"]).read_text())
    assert answers == undisturbed_answers(nursery, job)
    return kills


def check(job: dict[str, Any]) -> None:
    """What is acknowledged is there, in order and once; hashes hold; artifacts are whole."""
    path = Path(job["acknowledged"])
    acknowledged = len(path.read_text().splitlines()) if path.exists() else 0
    with Database(job["url"]) as database:
        log = Log(database)
        if not log.exists("alice"):
            assert acknowledged == 0
            return
        found = log.versions("alice")
        assert log.verify("alice") == len(found)
        assert acknowledged <= len(found) <= acknowledged + 1
        steps = planned.plan(job["seed"], job["steps"])[: len(found)]
        gone = planned.erased(steps)
        for step, version in zip(steps, found, strict=True):
            assert (version.number, version.kind) == (step.number, step.kind)
            assert version.text == ("" if step.number in gone else step.text)
            assert step.kind != "update" or version.text_sha256 == sha256_of(step.text)
        for number in range(1, len(found) + 1):
            assert [t.version for t in log.history("alice", number).transitions] == planned.holding(steps, number)
        check_artifacts(database, job)


def check_artifacts(database: Database, job: dict[str, Any]) -> None:
    """Every artifact that is recorded is whole, or gone: then it is built again."""
    store = ArtifactStore(job["artifacts"])
    with database.read() as connection:
        recorded = connection.exec_driver_sql("SELECT sha256 FROM derivations").scalars().all()
    for sha256 in recorded:
        try:
            store.get(sha256)  # raises ArtifactDamaged where its bytes are not what they were
        except ArtifactMissing:
            continue


def undisturbed_answers(nursery: Nursery, job: dict[str, Any]) -> list[str]:
    """What the same life answers when nobody kills it."""
    folder = Path(job["artifacts"]).parent / "undisturbed"
    folder.mkdir()
    calm = new_job(folder, f"sqlite:///{folder / 'plume.db'}", job["seed"])
    assert nursery.run(calm, kill_after=None)
    check(calm)
    answers: list[str] = json.loads(Path(calm["answers"]).read_text())
    return answers


def assert_no_erased_byte_is_left(job: dict[str, Any], folder: Path) -> None:
    """No file of the life holds a text that was erased, whatever was killed while it was being erased."""
    steps = planned.plan(job["seed"], job["steps"])
    content = b"".join(path.read_bytes() for path in folder.glob("plume.db*"))
    content += b"".join(path.read_bytes() for path in (folder / "artifacts").rglob("*") if path.is_file())
    for number in planned.erased(steps):
        assert steps[number - 1].text.encode() not in content


def assert_migrates(nursery: Nursery, url: str, folder: Path, revision: str, rng: random.Random) -> None:
    """Kill a migration, then check that the schema is the old one or the new one, and that it can be completed."""
    job = {"kind": "migrate", "url": url, "failed": str(folder / "failed")}
    nursery.run(job, kill_after=rng.uniform(0, 0.15))
    with Database(url) as database:
        with database._made().connect() as connection:
            assert schema.revision_of(connection) in (revision, schema.latest_revision())
        assert database.upgrade() == schema.latest_revision()
        log = Log(database)
        assert all(log.verify(name) == log.head_number(name) for name in log.names())
        assert max(log.head_number(name) for name in log.names()) > 0
