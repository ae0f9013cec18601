"""Derivations are a cache: recorded, replaced, forgotten, cleared."""

import threading

import pytest

from plume_memory.errors import InvalidInput
from plume_memory.store.database import Database
from plume_memory.store.derivations import Derivations

DATABASES = ("sqlite", "memory", "postgresql")

KEY, OTHER, SHA = "a" * 64, "b" * 64, "c" * 64


@pytest.fixture
def derivations(database: Database) -> Derivations:
    """An empty table."""
    return Derivations(database)


def test_what_was_recorded_is_found(derivations: Derivations):
    assert derivations.lookup(KEY) is None
    recorded = derivations.record(KEY, "factors", SHA, 2**40)
    assert derivations.lookup(KEY) == recorded
    assert (recorded.kind, recorded.sha256, recorded.size) == ("factors", SHA, 2**40)
    assert derivations.lookup(OTHER) is None


def test_a_rebuilt_artifact_replaces_the_earlier_one(derivations: Derivations):
    derivations.record(KEY, "factors", SHA, 1)
    derivations.record(KEY, "factors", OTHER, 2)
    assert derivations.lookup(KEY).sha256 == OTHER


def test_rows_are_forgotten_one_by_one_or_all(derivations: Derivations):
    for key in (KEY, OTHER):
        derivations.record(key, "factors", SHA, 1)
    derivations.forget(KEY)
    derivations.forget(KEY)
    assert derivations.lookup(KEY) is None
    assert derivations.lookup(OTHER) is not None
    derivations.clear()
    assert derivations.lookup(OTHER) is None


def test_threads_that_record_one_key_agree(derivations: Derivations):
    threads = [threading.Thread(target=derivations.record, args=(KEY, "factors", SHA, 1)) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert derivations.lookup(KEY).sha256 == SHA


def test_a_key_that_is_no_sha256_is_refused(derivations: Derivations):
    for key in ("", "x", "A" * 64):
        for call in (derivations.lookup, derivations.forget, lambda key: derivations.record(KEY, "f", key, 1)):
            with pytest.raises(InvalidInput, match="64 lowercase"):
                call(key)
