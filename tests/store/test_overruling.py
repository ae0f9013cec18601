"""What a caller decided of what an update replaces, as it stands in the log."""

import json

import pytest

from plume_memory.records import Overrules
from plume_memory.store.overruling import overrules_of, with_overrules


@pytest.mark.parametrize(
    ("replaces", "keep", "read"),
    [
        ([3, 1, 3], False, Overrules((1, 3))),
        ([], [2], Overrules((), (2,))),
        ([1], True, Overrules((1,), (), keeps_all=True)),
        ([], True, Overrules(keeps_all=True)),
    ],
)
def test_what_is_written_is_read(replaces: list[int], keep: bool | list[int], read: Overrules) -> None:
    written = with_overrules({"from": "chat"}, replaces=replaces, keep=keep)
    assert written is not None
    assert written["from"] == "chat"
    assert overrules_of(json.dumps(written)) == read


def test_nothing_decided_is_nothing_written() -> None:
    assert with_overrules(None, replaces=(), keep=False) is None
    assert with_overrules({"a": 1}, replaces=(), keep=()) == {"a": 1}


@pytest.mark.parametrize(
    "metadata",
    [
        "{}",
        '{"plume": "x"}',
        '{"plume": [1]}',
        '{"plume": {"replaces": "x", "keeps": 3}}',
        '["plume"]',
        '{"a": "plume"}',
    ],
)
def test_what_was_not_written_here_decides_nothing(metadata: str) -> None:
    assert overrules_of(metadata) == Overrules()
