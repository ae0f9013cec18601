"""One reader of JSON, one set of limits: what is let in at the door comes out of every file again."""

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_plume.items import checked_value

from plume_memory.errors import ArchiveError, InvalidInput
from plume_memory.store.archive import write_archive
from plume_memory.store.archive_reading import read_archive
from plume_memory.store.chain import canonical_json, chain_hash
from plume_memory.store.database import Database
from plume_memory.store.json_values import MAX_DEPTH, check_json, read_json
from plume_memory.store.log import Log

ANY_TEXT = st.text(st.characters(codec=None), max_size=5)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(ANY_TEXT, inner), max_leaves=8)
HALVES = ["\ud800", {"\udfff": 1}, [{"a": ["b\ud9abc"]}]]


def nested(depth: int, *, in_lists: bool = False) -> Any:
    """`depth` objects, or an object and lists, within each other."""
    inner: Any = {} if depth == 1 else ([] if in_lists else {})
    for _ in range(depth - 1):
        inner = [inner] if in_lists else {"a": inner}
    return inner


@settings(max_examples=60)
@given(metadata=st.dictionaries(ANY_TEXT, VALUES, max_size=3) | st.sampled_from([195, 199, 200, 201, 260]).map(nested))
def test_what_an_update_takes_an_export_writes_and_an_import_reads(tmp_path_factory, metadata):
    folder = tmp_path_factory.mktemp("round")
    with Database(f"sqlite:///{folder / 'a.db'}") as database:
        try:
            Log(database).append("alice", "Alice sails.", metadata=metadata)
        except InvalidInput:
            return
        write_archive(database, "alice", folder / "alice.plume")
        read_archive(database, folder / "alice.plume", name="again")
        assert Log(database).version("again", 1).metadata == metadata


@pytest.mark.parametrize("half", HALVES, ids=["text", "key", "within"])
@pytest.mark.parametrize("door", [canonical_json, checked_value, check_json, lambda v: read_json(json.dumps(v))])
def test_half_a_surrogate_pair_is_refused_at_every_door(door, half):
    with pytest.raises(InvalidInput, match="half a surrogate pair"):
        door({"a": half})


@pytest.mark.parametrize("in_lists", [False, True])
@pytest.mark.parametrize("door", [canonical_json, checked_value, check_json, lambda v: read_json(json.dumps(v))])
def test_every_door_takes_values_of_one_depth(door, in_lists):
    """Of a dict, or of lists in one."""
    deepest = {"a": nested(MAX_DEPTH - 1, in_lists=in_lists)}
    door(deepest)
    with pytest.raises(InvalidInput, match=f"deeper than {MAX_DEPTH}"):
        door({"a": nested(MAX_DEPTH, in_lists=in_lists)})


@pytest.mark.parametrize("written", ["NaN", "[-Infinity]", "9" * 5000, b'"\xff"', "[" * 200_000])
def test_what_is_no_value_of_json_is_refused_in_words(written):
    with pytest.raises(InvalidInput):
        read_json(written)


@pytest.mark.parametrize("metadata", [{"a": "\ud800"}, nested(MAX_DEPTH + 1)], ids=["half", "deep"])
def test_what_an_older_release_let_in_is_not_exported_into_a_file_that_nobody_reads(tmp_path: Path, metadata):
    """The file that was there stays, and the message names the version and the way out."""
    with Database(f"sqlite:///{tmp_path / 'a.db'}") as database:
        log = Log(database)
        log.append("alice", "Alice sails.")
        write_archive(database, "alice", tmp_path / "alice.plume")
        before = (tmp_path / "alice.plume").read_bytes()
        let_in(database, log, metadata)
        with pytest.raises(ArchiveError, match=r"alice\.plume, log\.jsonl, line 2: .* Erase the version"):
            write_archive(database, "alice", tmp_path / "alice.plume")
        assert (tmp_path / "alice.plume").read_bytes() == before
        assert [path.name for path in tmp_path.glob(".tmp-*")] == []


def let_in(database: Database, log: Log, metadata: Any) -> None:
    """Append a second version as a release without the limits did."""
    parent = log.head("alice")
    row = log.append("alice", "Alice rows.")
    fields = {"restores": None, "forgets": None, "text_sha256": row.text_sha256, "created_at": row.created_at}
    written = json.dumps(metadata, sort_keys=True, separators=(",", ":"))
    hashed = chain_hash(parent_hash=parent.chain_hash, number=2, kind="update", metadata_json=written, **fields)
    with sa.create_engine(database.url).begin() as connection:
        for (trigger,) in connection.execute(sa.text("SELECT name FROM sqlite_master WHERE type = 'trigger'")).all():
            connection.execute(sa.text(f"DROP TRIGGER {trigger}"))
        connection.execute(
            sa.text("UPDATE versions SET metadata_json = :json, chain_hash = :hash WHERE number = 2"),
            {"json": written, "hash": hashed},
        )
        connection.execute(sa.text("UPDATE memories SET head_hash = :hash"), {"hash": hashed})
