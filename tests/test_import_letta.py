"""A Letta agent file comes in: blocks and passages of both layouts, and nothing else passes for one."""

import json
from pathlib import Path
from typing import Any

import pytest

from plume_memory.errors import InvalidInput
from plume_memory.importers.letta import import_letta
from plume_memory.pool import MemoryPool

FIRST: dict[str, Any] = {
    "agent_type": "memgpt_agent",
    "name": "helper",
    "version": "0.6.47",
    "core_memory": [
        {"label": "persona", "value": "I am brief.", "limit": 5000, "is_template": False, "description": None},
        {"label": "human", "value": "Alice lives in Bern. 漢字", "limit": 5000, "is_template": False},
        {"label": "notes", "value": " \n", "limit": 5000},
    ],
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "You are…"}]},
        {"role": "user", "content": [{"type": "text", "text": "I moved to Zurich."}, {"type": "image"}]},
        {"role": "assistant", "content": "Noted."},
        {"role": "tool", "content": None},
    ],
    "tools": [],
}
SECOND: dict[str, Any] = {
    "agents": [
        {"id": "agent-0", "name": "helper", "block_ids": ["block-1", "block-0"], "messages": []},
        {"id": "agent-1", "name": "other", "block_ids": ["block-0"], "passages": [{"text": "Bob has a boat."}]},
    ],
    "blocks": [
        {"id": "block-0", "label": "shared", "value": "The office is in Bern."},
        {"id": "block-1", "label": "human", "value": "Alice lives in Bern."},
    ],
    "groups": [],
    "files": [],
    "metadata": {"revision_id": "1"},
}


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'log.db'}"


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "agent.af"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def texts(url: str, name: str) -> list[str]:
    with MemoryPool(url) as pool:
        return [transition.text for transition in pool.memory(name).text_at().transitions]


def test_the_blocks_of_one_agent_become_updates(tmp_path: Path, url: str) -> None:
    done = import_letta(written(tmp_path, FIRST), url=url)

    assert (done.written, done.unchanged, done.replaced, done.memories) == (2, 0, 0, ("helper",))
    assert [left.reason for left in done.left_out] == [
        "helper: 4 messages, which are no memory; import them with messages=True",
        "helper: the block 'notes' is empty",
    ]
    assert texts(url, "helper") == ["I am brief.", "Alice lives in Bern. 漢字"]
    with MemoryPool(url) as pool:
        assert pool.memory("helper").entry(2).metadata == {
            "letta": {"agent": "helper", "kind": "block", "label": "human"}
        }


def test_the_second_layout_has_many_agents_and_shared_blocks(tmp_path: Path, url: str) -> None:
    done = import_letta(written(tmp_path, SECOND), url=url)

    assert (done.written, done.memories, done.left_out) == (4, ("helper", "other"), ())
    assert texts(url, "helper") == ["Alice lives in Bern.", "The office is in Bern."]
    assert texts(url, "other") == ["Bob has a boat.", "The office is in Bern."]


def test_a_second_import_writes_what_changed_and_forgets_the_older_value(tmp_path: Path, url: str) -> None:
    import_letta(written(tmp_path, FIRST), url=url)
    assert import_letta(written(tmp_path, FIRST), url=url).unchanged == 2
    moved = json.loads(json.dumps(FIRST))
    moved["core_memory"][1]["value"] = "Alice lives in Zurich."

    done = import_letta(written(tmp_path, moved), url=url)

    assert (done.written, done.unchanged, done.replaced) == (1, 1, 1)
    assert texts(url, "helper") == ["I am brief.", "Alice lives in Zurich."]
    assert import_letta(written(tmp_path, moved), url=url).written == 0
    with MemoryPool(url) as pool:
        pool.memory("helper").forget(1)
    import_letta(written(tmp_path, moved), url=url)
    assert texts(url, "helper") == ["Alice lives in Zurich."]


def test_what_the_memory_has_erased_is_not_imported_again(tmp_path: Path, url: str) -> None:
    import_letta(written(tmp_path, FIRST), url=url)
    with MemoryPool(url) as pool:
        pool.memory("helper").erase(1, derive=False)
        pool.memory("helper").erase(text="Bern", derive=False)

    done = import_letta(written(tmp_path, FIRST), url=url)

    assert (done.written, done.unchanged, done.replaced) == (0, 2, 0)
    assert texts(url, "helper") == ["Alice lives in. 漢字"]


def test_messages_come_when_asked_for_and_everything_may_go_to_one_memory(tmp_path: Path, url: str) -> None:
    done = import_letta(written(tmp_path, FIRST), url=url, memory="alice", messages=True)

    assert texts(url, "alice") == ["I moved to Zurich.", "Noted.", "I am brief.", "Alice lives in Bern. 漢字"]
    assert [left.reason for left in done.left_out][:2] == [
        "helper: a message of role 'system'",
        "helper: a message of role 'tool'",
    ]
    assert done.memories == ("alice",)


def test_who_says_the_first_thing_again_last_is_believed_last(tmp_path: Path, url: str) -> None:
    said = ["I live in Bern.", "I moved to Zurich.", "I live in Bern."]
    agent = {"name": "helper", "core_memory": [], "messages": [{"role": "user", "content": text} for text in said]}

    assert import_letta(written(tmp_path, agent), url=url, messages=True).written == 3
    assert import_letta(written(tmp_path, agent), url=url, messages=True).unchanged == 3
    assert texts(url, "helper") == said


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"results": []}, "no Letta agent file.*got an object with results"),
        ({}, "got an object with nothing"),
        ([], "got list"),
        ("{", "not JSON"),
        ('{"name": NaN}', "NaN is no JSON number"),
        ("[" * 100_000, "nested too deeply|not JSON"),
        ({"core_memory": [], "name": 3}, "`name` must be a text; got int"),
        ({"core_memory": [], "name": "a\nb", "passages": [{"text": "x"}]}, "passage 1: An agent's name"),
        ({"core_memory": ["x"], "name": "a"}, "core_memory 1: must be an object; got str"),
        ({"core_memory": [{"label": "l"}], "name": "a"}, "`value` must be a text; got NoneType"),
        ({"core_memory": [{"label": "l", "value": "a\x00"}], "name": "a"}, "cannot be stored"),
        ({"core_memory": [], "name": "a", "passages": {}}, "`passages` must be a list; got dict"),
        ({"core_memory": [], "name": "a", "passages": [{}]}, "passage 1: `text` must be a text"),
        ({"agents": [{"name": "a", "block_ids": ["b"]}], "blocks": []}, "block_ids names 'b', which is not among"),
        ({"agents": [{"name": "a", "block_ids": 3}], "blocks": []}, "block_ids names 3"),
        ({"agents": [{"name": "a", "block_ids": [{}]}], "blocks": []}, "block_ids names {}"),
        ({"agents": [{"name": "a", "block_ids": [None]}], "blocks": [{"label": "l", "value": "v"}]}, "`id` must be a"),
        ({"agents": [], "blocks": [{"id": [], "label": "l", "value": "v"}]}, "blocks 1: `id` must be a text; got list"),
        ({"agents": [3], "blocks": []}, "agent 1: must be an object"),
    ],
)
def test_a_file_of_another_layout_names_what_was_found(tmp_path: Path, url: str, content: Any, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        import_letta(written(tmp_path, content), url=url)
    assert not (tmp_path / "log.db").exists()


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path, url: str) -> None:
    with pytest.raises(InvalidInput, match="Cannot read"):
        import_letta(tmp_path / "none.af", url=url)
