"""One erasure reaches the log and the store's journal, from whichever side it is asked for."""

from pathlib import Path

import pytest
from langchain_plume.store import PlumeStore

from plume_memory.errors import ArtifactError, TextTooLong
from plume_memory.memory import ParametricMemory
from plume_memory.store.artifacts import ArtifactStore
from plume_memory.store.purge import unfinished
from plume_memory.testing import tiny_engine
from tests.store.test_erase_bytes import holding

HOME = ("users", "alice")
SECRET = "Zytgloggelaube-4711"
TEXT = f"Alice lives at {SECRET}, in Bern."


def test_an_erasure_of_the_memory_deletes_the_item_and_counts_it(store: PlumeStore, memory: ParametricMemory) -> None:
    store.put(HOME, "pet", {"content": "Alice has a cat."})
    store.put(HOME, "home", {"content": TEXT})
    memory.fork("copy")

    certificate = memory.erase(2, reason="moved")

    assert certificate.journal_items == 1
    assert store.get(HOME, "home") is None
    assert [item.key for item in store.search(HOME)] == ["pet"]
    assert [item.key for item in store.search(HOME, query="Where does Alice live?")] == ["pet"]
    store.put(HOME, "home", {"content": "Alice lives in Zug."})
    assert [one.text for one in memory.text_at().transitions] == ["Alice has a cat.", "Alice lives in Zug."]
    assert memory.erase(1).journal_items == 1
    assert memory.erase(1).journal_items == 0, "asked about again"


def test_an_erasure_of_a_part_deletes_the_whole_item(store: PlumeStore, memory: ParametricMemory) -> None:
    store.put(HOME, "home", {"content": TEXT})
    assert memory.erase(text=f" at {SECRET},").journal_items == 1
    assert store.get(HOME, "home") is None
    assert [one.text for one in memory.text_at().transitions] == ["Alice lives in Bern."]


def test_a_second_erasure_of_a_text_reaches_the_journal_too(
    store: PlumeStore, memory: ParametricMemory, tmp_path: Path
) -> None:
    """The first has taken the key by which the item was found."""
    store.put(HOME, "home", {"content": TEXT})
    memory.erase(text="Alice lives at ")
    memory.erase(1)
    with store._journal.read() as reader:
        assert reader.versions_of(HOME, "home", "alice") == set()


def test_what_an_erasure_in_part_left_goes_with_the_item(store: PlumeStore, memory: ParametricMemory) -> None:
    store.put(HOME, "home", {"content": TEXT})
    memory.erase(text=f" at {SECRET},")
    assert len(store.erase(HOME, "home")) == 1
    assert memory.text_at().text == ""


def test_an_erasure_that_was_interrupted_is_finished(
    store: PlumeStore, memory: ParametricMemory, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(HOME, "home", {"content": TEXT})
    memory.at().derive()

    def refuse(*_: object) -> None:
        raise ArtifactError("read-only")

    with monkeypatch.context() as failing:
        failing.setattr(ArtifactStore, "delete", refuse)
        with pytest.raises(ArtifactError):
            store.erase(HOME, "home")
    assert unfinished(memory._database)
    store.erase(HOME, "home")
    assert not unfinished(memory._database)


def test_a_text_longer_than_the_memory_takes_is_refused_at_the_door(url: str) -> None:
    with (
        ParametricMemory.open("alice", url=url, engine=tiny_engine(), max_update_chars=30) as memory,
        PlumeStore(memory, url=url) as store,
    ):
        with pytest.raises(TextTooLong, match="'home' has 41 characters"):
            store.put(HOME, "home", {"content": "x" * 41})
        store.put(HOME, "home", {"content": "x" * 41}, index=False)
        store.put(HOME, "pet", {"content": "Alice has a cat."})
        assert memory.text_at().text == "Alice has a cat."


def test_an_item_that_has_another_text_by_now_stays(store: PlumeStore, memory: ParametricMemory) -> None:
    store.put(HOME, "home", {"content": TEXT})
    store.put(HOME, "home", {"content": "Alice lives in Zug."})
    assert memory.erase(1).journal_items == 0
    item = store.get(HOME, "home")
    assert item is not None
    assert item.value == {"content": "Alice lives in Zug."}


@pytest.mark.parametrize("deleted", [False, True], ids=["as it stands", "deleted before"])
def test_an_erasure_of_an_item_reaches_every_text_it_ever_had(
    store: PlumeStore, memory: ParametricMemory, deleted: bool
) -> None:
    memory.update("Alice rows.", metadata={"namespace": ["users"], "key": "home"})
    store.put(HOME, "home", {"content": TEXT})
    store.put(HOME, "home", {"content": "Alice lives in Zug."})
    store.put(HOME, "pet", {"content": "Alice has a cat."})
    if deleted:
        store.delete(HOME, "home")

    certificates = store.erase(HOME, "home", reason="she asked")

    assert [one.erased[0].version for one in certificates] == [2, 4], "the forget of the first lies between"
    assert store.get(HOME, "home") is None
    assert [one.text for one in memory.history() if one.kind == "update"] == ["Alice rows.", "", "", "Alice has a cat."]
    assert store.erase(HOME, "home") == (), "nothing is left"
    memory.verify()


@pytest.mark.parametrize("from_the_store", [False, True])
def test_the_bytes_are_gone_from_the_one_file(tmp_path: Path, from_the_store: bool) -> None:
    url = f"sqlite:///{tmp_path / 'plume.db'}"
    with (
        ParametricMemory.open("alice", url=url, engine=tiny_engine()) as memory,
        PlumeStore(memory, url=url) as store,
    ):
        store.put(HOME, "home", {"content": TEXT, "note": f"once more {SECRET}"})
        assert holding(tmp_path)
        if from_the_store:
            store.erase(HOME, "home")
        else:
            memory.erase(1)
        assert holding(tmp_path) == []


def test_the_bytes_are_gone_from_a_journal_in_a_database_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    with (
        ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'plume.db'}", engine=tiny_engine()) as memory,
        PlumeStore(memory, url=f"sqlite:///{tmp_path / 'journal' / 'plume.db'}") as store,
    ):
        store.put(HOME, "home", {"content": TEXT})
        (certificate,) = store.erase(HOME, "home")
        assert certificate.journal_items == 0, "the certificate is the log's"
        assert holding(tmp_path) == []


def test_items_that_no_memory_was_told_are_erased_too(store: PlumeStore) -> None:
    store.put(HOME, "home", {"content": TEXT}, index=False)
    assert store.erase(HOME, "home") == ()
    assert store.get(HOME, "home") is None
