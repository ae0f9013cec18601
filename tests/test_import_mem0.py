"""A mem0 export becomes memories: in order, once, and with what was left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from plume_memory.errors import IdempotencyConflict, InvalidInput, StoreUnavailable
from plume_memory.importers.mem0 import LeftOut, import_mem0
from plume_memory.memory import ParametricMemory


def entry(mem0_id: str, text: str, day: int, *, user: str | None = "alice", **more: Any) -> dict[str, Any]:
    created = {"created_at": f"2025-03-{day:02}T06:12:33.123456-08:00", "updated_at": None}
    return {
        "id": mem0_id,
        "memory": text,
        "hash": "5d41",
        "metadata": {"topic": "home"},
        "user_id": user,
        **created,
    } | more


MOVED = entry("b", "Alice moved to Zurich.", 9, score=0.7)
LIVES = entry("a", "Alice lives in Bern.", 2)
OTHER = entry("c", "Bob plays chess.", 5, user="bob")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'plume.db'}"


def written(tmp_path: Path, content: Any, name: str = "export.json") -> Path:
    path = tmp_path / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def texts(url: str, name: str) -> list[str]:
    with ParametricMemory.open(name, url=url, create=False) as memory:
        return [transition.text for transition in memory.text_at().transitions]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ({"results": [MOVED, LIVES, OTHER], "relations": []}, "export.json"),
        ([MOVED, LIVES, OTHER], "export.json"),
        ("\n".join(json.dumps(one) for one in (MOVED, LIVES, OTHER)), "export.jsonl"),
        ("\n\n".join(json.dumps(one) for one in (MOVED, LIVES, OTHER)) + "\n", "export.json"),
        ("\ufeff" + json.dumps([MOVED, LIVES, OTHER], indent=1), "export.txt"),
    ],
    ids=["results", "list", "jsonl", "jsonl by content", "indented, with a BOM"],
)
def test_each_form_of_an_export_is_imported_oldest_first_one_memory_per_user(
    tmp_path: Path, url: str, content: Any, name: str
) -> None:
    report = import_mem0(written(tmp_path, content, name), url=url)

    assert (report.written, report.unchanged, report.replaced) == (3, 0, 0)
    assert report.memories == ("alice", "bob")
    assert report.left_out == ()
    assert texts(url, "alice") == ["Alice lives in Bern.", "Alice moved to Zurich."]
    assert texts(url, "bob") == ["Bob plays chess."]


def test_everything_but_text_and_score_is_kept_in_the_metadata(tmp_path: Path, url: str) -> None:
    import_mem0(written(tmp_path, [MOVED]), url=url)

    with ParametricMemory.open("alice", url=url) as memory:
        (version,) = memory.history()
    assert version.metadata == {"mem0": {k: v for k, v in MOVED.items() if k not in ("memory", "score")}}


def test_a_second_run_writes_nothing_twice_and_an_interrupted_one_goes_on(tmp_path: Path, url: str) -> None:
    import_mem0(written(tmp_path, [LIVES]), url=url)
    again = import_mem0(written(tmp_path, [LIVES, MOVED, MOVED]), url=url)
    third = import_mem0(written(tmp_path, [LIVES, MOVED]), url=url)

    assert (again.written, again.unchanged) == (1, 2)
    assert (third.written, third.unchanged) == (0, 2)
    assert texts(url, "alice") == ["Alice lives in Bern.", "Alice moved to Zurich."]


def test_a_text_changed_in_mem0_replaces_the_one_imported_and_an_older_export_does_not_undo_it(
    tmp_path: Path, url: str
) -> None:
    changed = LIVES | {"memory": "Alice lives in Basel.", "updated_at": "2025-04-01T00:00:00+00:00"}
    import_mem0(written(tmp_path, [LIVES, OTHER]), url=url)
    second = import_mem0(written(tmp_path, [changed]), url=url)
    third = import_mem0(written(tmp_path, [LIVES, changed]), url=url)

    assert (second.written, second.replaced) == (1, 1)
    assert (third.written, third.replaced, third.unchanged) == (0, 0, 2)
    assert texts(url, "alice") == ["Alice lives in Basel."]


def test_a_text_without_a_time_that_changed_in_mem0_replaces_the_one_imported(tmp_path: Path, url: str) -> None:
    undated = entry("x", "Alice lives in Bern.", 1, created_at=None)
    changed = written(tmp_path, [undated | {"memory": "Alice lives in Basel."}], "changed.json")
    import_mem0(written(tmp_path, [undated]), url=url)

    second = import_mem0(changed, url=url)
    third = import_mem0(changed, url=url)

    assert (second.written, second.replaced) == (1, 1)
    assert (third.written, third.replaced, third.unchanged) == (0, 0, 1)
    assert texts(url, "alice") == ["Alice lives in Basel."]


def test_an_import_that_fails_or_stops_half_way_loses_no_fact_and_the_next_one_finishes_it(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(*args: Any, **options: Any) -> Any:
        raise StoreUnavailable("locked")

    import_mem0(written(tmp_path, [LIVES]), url=url)
    changed = LIVES | {"memory": "Alice lives in Basel.", "updated_at": "2025-04-01T00:00:00+00:00"}
    path = written(tmp_path, [changed])
    for method, held in (("update", ["Alice lives in Bern."]), ("forget", [LIVES["memory"], changed["memory"]])):
        with monkeypatch.context() as patch:
            patch.setattr(ParametricMemory, method, refusing)
            with pytest.raises(StoreUnavailable):
                import_mem0(path, url=url)
        assert texts(url, "alice") == held

    report = import_mem0(path, url=url)

    assert (report.written, report.replaced, report.unchanged) == (0, 1, 1)
    assert texts(url, "alice") == ["Alice lives in Basel."]


def test_a_change_that_was_rolled_back_stays_rolled_back(tmp_path: Path, url: str) -> None:
    import_mem0(written(tmp_path, [LIVES]), url=url)
    path = written(tmp_path, [LIVES | {"memory": "Alice lives in Basel.", "updated_at": "2025-04-01T00:00:00+00:00"}])
    import_mem0(path, url=url)
    with ParametricMemory.open("alice", url=url) as memory:
        memory.rollback(to=1)

    report = import_mem0(path, url=url)

    assert (report.written, report.replaced, report.unchanged) == (0, 0, 1)
    assert texts(url, "alice") == ["Alice lives in Bern."]


def test_a_text_comes_when_it_was_last_changed_not_when_its_entry_was_created(tmp_path: Path, url: str) -> None:
    rewritten = entry("r", "Alice moved to Basel in June.", 1, updated_at="2025-06-01T00:00:00+00:00")

    import_mem0(written(tmp_path, [rewritten, MOVED]), url=url)

    assert texts(url, "alice") == ["Alice moved to Zurich.", "Alice moved to Basel in June."]


def test_a_state_older_than_the_imported_one_is_not_imported(tmp_path: Path, url: str) -> None:
    changed = LIVES | {"memory": "Alice lives in Basel.", "updated_at": "2025-04-01T00:00:00+00:00"}
    import_mem0(written(tmp_path, [changed]), url=url)

    report = import_mem0(written(tmp_path, [LIVES]), url=url)

    assert (report.written, report.unchanged) == (0, 1)
    assert texts(url, "alice") == ["Alice lives in Basel."]


def test_what_was_forgotten_after_the_import_stays_forgotten(tmp_path: Path, url: str) -> None:
    path = written(tmp_path, [LIVES, MOVED])
    import_mem0(path, url=url)
    with ParametricMemory.open("alice", url=url) as memory:
        memory.forget(1)

    report = import_mem0(path, url=url)

    assert (report.written, report.unchanged) == (0, 2)
    assert texts(url, "alice") == ["Alice moved to Zurich."]


def test_what_was_erased_after_the_import_is_not_imported_again(tmp_path: Path, url: str) -> None:
    path = written(tmp_path, [LIVES, OTHER | {"created_at": None}])
    import_mem0(path, url=url, memory="alice")
    with ParametricMemory.open("alice", url=url) as memory:
        for number in (1, 2):
            memory.erase(number, derive=False)

    done = import_mem0(path, url=url, memory="alice")

    assert (done.written, done.unchanged) == (0, 2)


def test_one_memory_for_everything_takes_entries_without_a_user(tmp_path: Path, url: str) -> None:
    agent = entry("d", "The agent speaks German.", 1, user=None, agent_id="guide")

    report = import_mem0(written(tmp_path, [MOVED, OTHER, agent]), url=url, memory="team")

    assert report.memories == ("team",)
    assert texts(url, "team") == ["The agent speaks German.", "Bob plays chess.", "Alice moved to Zurich."]


def test_entries_without_a_user_or_a_text_are_left_out_and_named(tmp_path: Path, url: str) -> None:
    lines = [json.dumps(one) for one in (entry("d", "Nobody's.", 1, user=None), entry("e", "  ", 1), LIVES)]

    report = import_mem0(written(tmp_path, "\n".join(lines), "export.jsonl"), url=url)

    assert report.written == 1
    assert report.left_out == (
        LeftOut("export.jsonl, line 1", "d: it has no user_id; import it with memory=..."),
        LeftOut("export.jsonl, line 2", "e: its text is empty"),
    )


def test_entries_without_a_time_come_first_as_they_stand(tmp_path: Path, url: str) -> None:
    undated = [entry(i, f"Fact {i}.", 1, created_at=None) for i in ("y", "x")]

    import_mem0(written(tmp_path, [LIVES, *undated]), url=url)

    assert texts(url, "alice") == ["Fact y.", "Fact x.", "Alice lives in Bern."]


GOOD = json.dumps(LIVES)
UNDATED = entry("x", "Fact x.", 1, created_at=None)


@pytest.mark.parametrize(
    ("content", "name", "said"),
    [
        (f"{GOOD}\n{{'id': 1}}", "e.jsonl", "line 2: not JSON"),
        ('[\n{"id": "a",\n oops}]', "e.json", "line 3: not JSON"),
        (f"{GOOD}\n[1]", "e.jsonl", "line 2: a memory is an object"),
        (f'{GOOD}\n{{"id": "b", "memory": "x", "user_id": "u", "n": NaN}}', "e.jsonl", "line 2: NaN"),
        (f"{GOOD}\n{json.dumps(MOVED | {'created_at': 'yesterday'})}", "e.jsonl", "line 2: `created_at`"),
        (f"{GOOD}\n{json.dumps(MOVED | {'created_at': 17})}", "e.jsonl", "line 2: `created_at`"),
        ([LIVES, MOVED | {"updated_at": "0001-01-01T00:00:00+14:00"}], "e.json", "entry 2: `updated_at`"),
        ([LIVES, MOVED | {"id": 7}], "e.json", "entry 2: `id`"),
        ([LIVES, MOVED | {"memory": None}], "e.json", "entry 2: `memory`"),
        ([LIVES, MOVED | {"memory": "a\x00b"}], "e.json", "entry 2: memory cannot be stored"),
        ([LIVES, MOVED | {"user_id": 12}], "e.json", "entry 2: user_id must be"),
        ([LIVES, MOVED | {"metadata": "INF"}], "e.json", "entry 2: metadata is not JSON"),
        ([LIVES, MOVED, LIVES | {"memory": "x"}], "e.json", "entry 3: 'a' has another text in e.json, entry 1"),
        ([UNDATED, UNDATED | {"memory": "x"}], "e.json", "entry 2: 'x' has another text"),
        ([LIVES, UNDATED | {"memory": "\ud800"}], "e.json", "entry 2: memory cannot be stored"),
        ("[" * 100_000, "e.json", "line 1: nested too deeply"),
        ({"memories": []}, "e.json", "is no mem0 export"),
        ("7", "e.json", "is no mem0 export"),
        ("", "e.json", "line 1: not JSON"),
    ],
)
def test_a_malformed_export_is_refused_by_line_before_anything_is_written(
    tmp_path: Path, url: str, content: Any, name: str, said: str
) -> None:
    text = content if isinstance(content, str) else json.dumps(content).replace('"INF"', "1e999")

    with pytest.raises(InvalidInput, match=said):
        import_mem0(written(tmp_path, text, name), url=url)

    assert not (tmp_path / "plume.db").exists()


def test_a_file_that_cannot_be_read_is_refused_by_its_path(tmp_path: Path, url: str) -> None:
    (tmp_path / "latin.json").write_bytes('[{"memory": "Zürich"}]'.encode("latin-1"))

    with pytest.raises(InvalidInput, match=r"Cannot read .*missing\.json"):
        import_mem0(tmp_path / "missing.json", url=url)
    with pytest.raises(InvalidInput, match=r"Cannot read .*latin\.json"):
        import_mem0(tmp_path / "latin.json", url=url)


def test_another_text_for_a_state_that_the_memory_has_already_is_a_conflict(tmp_path: Path, url: str) -> None:
    with ParametricMemory.open("alice", url=url) as memory:
        memory.update("Something else.", idempotency_key="mem0:a@2025-03-02T14:12:33.123456+00:00", derive=False)

    with pytest.raises(IdempotencyConflict, match="version 1"):
        import_mem0(written(tmp_path, [LIVES]), url=url)
