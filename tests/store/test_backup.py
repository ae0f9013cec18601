"""Copies of a database, and databases that may only be read."""

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from plume_memory.errors import InvalidInput, StoreUnavailable
from plume_memory.store.backup import write_backup
from plume_memory.store.database import Database
from plume_memory.store.log import Log

READS = """
import sys
from plume_memory.memory import ParametricMemory
from plume_memory.errors import StoreUnavailable
with ParametricMemory.open("alice", url=sys.argv[1]) as memory:
    print(memory.text_at().text)
    try:
        memory.update("y", derive=False)
    except StoreUnavailable as err:
        print(err)
"""


def test_a_backup_of_a_database_in_use_is_whole(tmp_path: Path, url: str):
    """Also while another thread writes on; a plain copy of the file lacks what is in the write-ahead log."""
    with Database(url) as database:
        log = Log(database)
        for number in range(20):
            log.append("alice", f"text {number}")
        writer = threading.Thread(target=lambda: [log.append("bob", f"text {number}") for number in range(20)])
        writer.start()
        size = write_backup(database, tmp_path / "copy.db")
        writer.join()
    assert size == (tmp_path / "copy.db").stat().st_size
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    with Database(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert Log(copy).verify("alice") == 20
        assert Log(copy).append("alice", "and on").number == 21


def test_a_backup_replaces_an_older_one_and_leaves_nothing_else(tmp_path: Path):
    """A database in memory can be kept this way, too."""
    (tmp_path / "copy.db").write_text("old")
    with Database("sqlite://") as database:
        Log(database).append("alice", "text")
        write_backup(database, tmp_path / "copy.db")
    with Database(f"sqlite:///{tmp_path / 'copy.db'}") as copy:
        assert Log(copy).head("alice").text == "text"
    assert {path.name.removesuffix("-wal").removesuffix("-shm") for path in tmp_path.iterdir()} == {"copy.db"}


def test_a_backup_that_cannot_be_written_is_refused_in_words(tmp_path: Path, url: str):
    with Database(url) as database:
        Log(database).append("alice", "text")
        with pytest.raises(InvalidInput, match="is the database itself"):
            write_backup(database, tmp_path / "plume.db")
        with pytest.raises(InvalidInput, match="cannot be written"):
            write_backup(database, tmp_path / "absent" / "copy.db")
    with Database("postgresql://localhost/x") as server, pytest.raises(InvalidInput, match="pg_dump"):
        write_backup(server, tmp_path / "copy.db")


def test_a_plain_copy_of_an_open_database_has_its_schema(tmp_path: Path, url: str):
    with Database(url) as database:
        Log(database).create("alice")
        shutil.copy(tmp_path / "plume.db", tmp_path / "copy.db")
    tables = sqlite3.connect(tmp_path / "copy.db").execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    assert tables > 5


def test_a_new_database_is_its_owners_alone(tmp_path: Path):
    before = os.umask(0o022)
    try:
        with Database(f"sqlite:///{tmp_path / 'new.db'}") as database:
            Log(database).append("alice", "text")
            modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes
    assert set(modes.values()) == {0o600}, modes


def test_a_database_in_a_folder_that_cannot_be_written_is_read(tmp_path: Path, url: str, monkeypatch):
    """As on a mount that is read-only; root may write everywhere, so the answer of the system is put on."""
    with Database(url) as database:
        Log(database).append("alice", "text")
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with Database(url) as database:
        assert Log(database).verify("alice") == 1
        with pytest.raises(StoreUnavailable, match="is read-only"):
            Log(database).append("alice", "y")
    assert [path.name for path in tmp_path.iterdir()] == ["plume.db"], "no file was made beside it"


@pytest.mark.parametrize("left", ["", "-wal"], ids=["closed", "not closed"])
def test_a_database_on_a_read_only_mount_is_read(tmp_path: Path, left: str):
    """Unless its newest versions are in a write-ahead log: then it is said where they are."""
    place = tmp_path / "place"
    place.mkdir()
    with Database(f"sqlite:///{tmp_path / 'plume.db'}") as database:
        Log(database).append("alice", "Alice sails.")
        if left:
            for end in ("", "-wal"):
                shutil.copy(tmp_path / f"plume.db{end}", place)
    if not left:
        shutil.copy(tmp_path / "plume.db", place)
    url = f"sqlite:///{place / 'plume.db'}"
    mounted = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" "$0" && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, str(place)]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        pytest.skip("nothing may be mounted here")
    done = subprocess.run([*command, sys.executable, "-c", READS, url], capture_output=True, text=True)
    if left:
        assert "its newest versions are in" in done.stderr
    else:
        assert done.stdout.startswith("Alice sails.\n"), done.stderr
        assert "is read-only" in done.stdout
