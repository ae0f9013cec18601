"""`plume verify` on each database: exit code 5 and the first altered row. No model is loaded."""

import json
from collections.abc import Callable

import pytest

from plume_memory.cli.main import main
from plume_memory.store.log import Log

DATABASES = ("sqlite", "postgresql")


@pytest.fixture
def filled(log: Log) -> Log:
    """Memories alice and bob: three updates each."""
    for name in ("alice", "bob"):
        for i in range(1, 4):
            log.append(name, f"text {i}")
    return log


def test_a_whole_log_verifies(filled: Log, url: str, capsys: pytest.CaptureFixture[str]):
    assert main(["verify", "-m", "alice", "--db", url, "--json"]) == 0
    head_hash = filled.head("alice").chain_hash
    assert json.loads(capsys.readouterr().out) == {"versions": 3, "head_hash": head_hash, "derived": 0}


@pytest.mark.parametrize(
    ("statement", "row"),
    [
        ("UPDATE versions SET text = 'other' WHERE memory_id = 1 AND number >= 2", "version 2: its text"),
        ("UPDATE versions SET metadata_json = '{\"a\":1}' WHERE memory_id = 1 AND number = 3", "version 3: its fields"),
        ("DELETE FROM versions WHERE memory_id = 1 AND number = 1", "version 1: it is missing"),
    ],
)
def test_an_altered_log_fails_with_code_5_and_names_the_first_row(
    filled: Log,
    url: str,
    tamper: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    statement: str,
    row: str,
):
    tamper(statement)
    assert main(["verify", "-m", "alice", "--db", url, "--json"]) == 5
    out, err = capsys.readouterr()
    assert out == ""
    reported = json.loads(err)
    assert reported["error"] == "IntegrityError"
    assert f"Memory 'alice', {row}" in reported["message"]
    assert main(["verify", "-m", "alice", "--db", url]) == 5
    assert row.split(":")[0] in " ".join(capsys.readouterr().err.split())
    assert main(["verify", "-m", "bob", "--db", url]) == 0, "another memory is not touched by it"
