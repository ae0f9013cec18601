"""One database, several tenants: what is another's is not there."""

from datetime import UTC, datetime, timedelta

import pytest

from plume_memory.errors import InvalidInput, KeyNotFound, MemoryExists, MemoryNotFound
from plume_memory.store.database import Database
from plume_memory.store.directory import Directory
from plume_memory.store.keys import Keys
from plume_memory.store.log import Log
from plume_memory.store.memories import is_id

DATABASES = ("sqlite", "postgresql")


@pytest.fixture
def directory(database: Database) -> Directory:
    return Directory(database)


def test_a_memory_of_the_library_is_the_default_tenants_and_has_an_id(log: Log, directory: Directory):
    log.append("alice", "Alice lives in Bern.")
    found = directory.get("default", "alice")
    assert is_id(found.id)
    assert (found.name, found.log_name, found.head_number) == ("alice", "alice", 1)
    assert directory.get("default", found.id) == found
    assert directory.find("acme", found.id) is directory.find("acme", "alice") is None


def test_tenants_use_the_same_names_and_see_their_own(directory: Directory, log: Log):
    mine, theirs = directory.create("acme", "alice"), directory.create("initech", "alice")
    assert mine.id != theirs.id
    assert mine.log_name == mine.id
    log.append(mine.log_name, "Alice lives in Bern.", create=False)
    assert directory.get("acme", "alice").head_number == 1
    assert directory.get("initech", "alice").head_number == 0
    assert [one.id for one in directory.page("acme", limit=10)] == [mine.id]
    assert list(directory.by_log_names("acme", [mine.log_name, theirs.log_name])) == [mine.log_name]
    with pytest.raises(MemoryExists):
        directory.create("acme", "alice")
    with pytest.raises(MemoryNotFound):
        directory.get("acme", theirs.id)
    with pytest.raises(MemoryNotFound):
        directory.page("acme", limit=1, after=theirs.id)


def test_a_fork_is_whose_it_is_said_to_be(directory: Directory, log: Log):
    mine = directory.create("acme", "alice")
    log.append(mine.log_name, "Alice lives in Bern.", create=False)
    listing = directory.listing("acme", "copy")
    log.fork(mine.log_name, listing.id, listing=listing)
    found = directory.get("acme", "copy")
    assert (found.id, found.origin, found.origin_version) == (listing.id, mine.log_name, 1)
    assert directory.find("default", "copy") is None


def test_pages_go_on_where_the_last_one_ended(directory: Directory):
    made = [directory.create("acme", f"m{n}").id for n in range(5)]
    first = directory.page("acme", limit=2)
    rest = directory.page("acme", limit=10, after=first[-1].id)
    assert [one.id for one in (*first, *rest)] == made


def test_a_name_that_could_be_an_id_is_refused(directory: Directory):
    with pytest.raises(InvalidInput, match="form of a memory's id"):
        directory.create("acme", "mem_" + "0" * 26)
    with pytest.raises(InvalidInput):
        directory.create("acme", "")


def test_a_key_opens_what_it_is_for_until_it_is_revoked(database: Database):
    moment = [datetime(2026, 3, 1, tzinfo=UTC)]
    keys = Keys(database, clock=lambda: moment[0])
    assert not keys.any_made()
    made = keys.create(tenant="acme", scopes=["memory:read", "memory:write"], writes=True, label="agent")
    found = keys.authenticate(made.secret)
    assert found is not None
    assert (found.id, found.tenant, found.writes) == (made.key.id, "acme", True)
    assert found.scopes == {"memory:read", "memory:write"}
    assert keys.get(found.id).last_used_at == moment[0]
    for wrong in (
        "",
        "plk_",
        made.secret[:-1],
        made.secret[:-1] + "é",
        made.secret.swapcase(),
        "plk_aaaaaaaa_" + "a" * 32,
    ):
        assert keys.authenticate(wrong) is None
    keys.revoke(found.id)
    moment[0] += timedelta(hours=1)
    assert keys.revoke(found.id).revoked_at == datetime(2026, 3, 1, tzinfo=UTC)
    assert keys.authenticate(made.secret) is None
    assert not keys.is_valid(found.id)
    assert keys.any_made()
    with pytest.raises(KeyNotFound):
        keys.revoke("nobody")


def test_a_key_expires(database: Database):
    moment = [datetime(2026, 3, 1, tzinfo=UTC)]
    keys = Keys(database, clock=lambda: moment[0])
    made = keys.create(tenant="acme", scopes=["admin"], expires_in=timedelta(hours=1))
    assert keys.authenticate(made.secret) is not None
    moment[0] += timedelta(hours=1)
    assert keys.authenticate(made.secret) is None
    assert not keys.is_valid(made.key.id)


def test_a_key_is_bound_to_a_memory_of_its_tenant_alone(database: Database, directory: Directory):
    mine, theirs = directory.create("acme", "alice"), directory.create("initech", "bob")
    keys = Keys(database)
    assert keys.create(tenant="acme", scopes=["memory:read"], memory="alice").key.memory == mine.id
    with pytest.raises(MemoryNotFound):
        keys.create(tenant="acme", scopes=["memory:read"], memory=theirs.id)


@pytest.mark.parametrize("wrong", [{"scopes": []}, {"scopes": ["all"]}, {"tenant": "Ac me"}, {"label": "a\x00"}])
def test_bad_keys_are_refused(database: Database, wrong: dict):
    with pytest.raises(InvalidInput):
        Keys(database).create(**{"tenant": "acme", "scopes": ["admin"], **wrong})
