"""The hashes are those of the documented bytes."""

import hashlib
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plume_memory.errors import InvalidInput
from plume_memory.store.chain import NO_PARENT, canonical_json, chain_hash, sha256_of

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=UTC)


def hash_of(**changes) -> str:
    fields = {
        "parent_hash": NO_PARENT,
        "number": 1,
        "kind": "update",
        "restores": None,
        "forgets": None,
        "text_sha256": sha256_of("x"),
        "created_at": MOMENT,
        "metadata_json": "{}",
    }
    return chain_hash(**{**fields, **changes})


def test_the_chain_hash_is_the_sha256_of_the_documented_bytes():
    written = b"plume-log-1\n" + b"0" * 64 + b"\n1\nupdate\n\n" + hashlib.sha256(b"x").hexdigest().encode()
    written += b"\n2026-01-02T03:04:05.000060Z\n{}"
    assert hash_of() == hashlib.sha256(written).hexdigest()
    undo = written.replace(b"\n1\nupdate\n\n", b"\n7\nforget\n3\n")
    assert hash_of(number=7, kind="forget", forgets=3) == hashlib.sha256(undo).hexdigest()


def test_every_field_changes_the_hash_and_the_time_zone_does_not():
    changes = [
        {"parent_hash": "1" * 64},
        {"number": 2},
        {"kind": "rollback"},
        {"kind": "rollback", "restores": 1},
        {"kind": "rollback", "restores": 2},
        {"kind": "forget", "forgets": 1},
        {"kind": "forget", "forgets": 2},
        {"text_sha256": sha256_of("y")},
        {"created_at": MOMENT + timedelta(microseconds=1)},
        {"metadata_json": '{"a":1}'},
    ]
    assert len({hash_of(), *(hash_of(**change) for change in changes)}) == len(changes) + 1
    assert hash_of(created_at=MOMENT.astimezone(timezone(timedelta(hours=5)))) == hash_of()


@given(metadata=st.dictionaries(st.text(), JSON, max_size=4))
def test_canonical_json_does_not_depend_on_the_order_of_keys_and_is_one_ascii_line(metadata):
    written = canonical_json(metadata)
    assert written == canonical_json(dict(reversed(metadata.items())))
    assert written.isascii()
    assert "\n" not in written


def nested(depth: int) -> dict:
    inner: dict = {}
    for _ in range(depth):
        inner = {"a": inner}
    return inner


@pytest.mark.parametrize(
    "metadata",
    [{1: "a"}, {"a": (1, 2)}, {"a": float("nan")}, {"a": {1, 2}}, {"a": b"x"}, ["a"], {"a": MOMENT}, nested(100_000)],
    ids=["int key", "tuple", "nan", "set", "bytes", "list", "datetime", "deep"],
)
def test_metadata_that_json_would_change_is_refused(metadata):
    with pytest.raises(InvalidInput, match="metadata"):
        canonical_json(metadata)
