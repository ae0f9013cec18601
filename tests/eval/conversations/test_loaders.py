"""Each benchmark's file becomes the same conversations, and another file is refused with what it should have been."""

import gzip
import json
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from eval.conversations.agentbench import read_agentbench
from eval.conversations.benchmarks import BENCHMARKS, benchmark_of, load_conversations
from eval.conversations.locomo import read_locomo
from eval.conversations.longmemeval import read_longmemeval
from eval.datasets.hub import HubPlace
from plume_memory.errors import InvalidInput
from tests.eval.conversations.conftest import AGENTBENCH, LOCOMO, LONGMEMEVAL, saved


def test_locomo_has_its_sessions_with_times_and_captions(locomo_file: Path) -> None:
    (one,) = read_locomo(locomo_file)

    assert one.id == "conv-a"
    assert [session.said_at for session in one.sessions][:2] == [
        datetime(2023, 5, 8, 13, 56),
        datetime(2023, 6, 10, 9, 5),
    ]
    assert [turn.id for turn in one.turns] == ["D1:1", "D1:2", "D2:1", "D2:2", "D3:1"]
    assert one.turns[1].line == "Tomas: Look! [shares a picture: a red kite over a dune]"


def test_locomo_s_questions_know_their_gold_turns_however_they_are_written(locomo_file: Path) -> None:
    (one,) = read_locomo(locomo_file)
    first, second, third, fourth = one.questions

    assert (first.answers, first.kind, first.gold) == (("a heron",), "single-hop", ("D1:1",))
    assert (second.answers, second.gold) == (("2023",), ("D2:1", "D1:2"))
    assert third.gold == ()
    assert (fourth.answerable, fourth.answers, fourth.gold, fourth.kind) == (False, (), (), "adversarial")


def test_a_gzipped_file_is_read_the_same(tmp_path: Path, locomo_file: Path) -> None:
    packed = tmp_path / "locomo10.json.gz"
    packed.write_bytes(gzip.compress(locomo_file.read_bytes()))

    assert read_locomo(packed) == read_locomo(locomo_file)


def test_longmemeval_is_a_conversation_a_question_in_the_order_of_its_days(longmemeval_file: Path) -> None:
    first, second = read_longmemeval(longmemeval_file)

    assert [turn.id for turn in first.turns] == ["s1:1", "s2:1", "s2:2", "s1#2:1"]
    (asked,) = first.questions
    assert (asked.id, asked.gold, asked.answers) == ("7a", ("s1:1",), ("In Lugano",))
    assert asked.asked_at == datetime(2023, 6, 1, 10, 0)
    assert first.turns[2].speaker == "assistant"
    (unknown,) = second.questions
    assert (unknown.answerable, unknown.answers, unknown.gold) == (False, (), ())


def test_memoryagentbench_is_told_in_pieces_and_names_no_gold_turns(agentbench_file: Path) -> None:
    (one,) = read_agentbench(agentbench_file)

    assert one.id == "mills-1"
    assert len(one.turns) > 1
    assert one.turns[0].speaker is None
    assert "".join(one.turns[0].text.split()) in "".join(AGENTBENCH[0]["context"].split())
    assert [(q.answers, q.answerable, q.gold, q.kind) for q in one.questions] == [
        (("Ada Voss", "Voss"), True, (), "mills"),
        ((), False, (), "mills"),
    ]


def test_memoryagentbench_as_parquet_and_jsonl_is_the_same(tmp_path: Path, agentbench_file: Path) -> None:
    from datasets import Dataset

    Dataset.from_list(AGENTBENCH).to_parquet(tmp_path / "split.parquet")
    (tmp_path / "split.jsonl").write_text("\n".join(map(json.dumps, AGENTBENCH)) + "\n", encoding="utf-8")

    for name in ("split.parquet", "split.jsonl"):
        assert read_agentbench(tmp_path / name) == read_agentbench(agentbench_file), name


@pytest.mark.parametrize("name", [one.name for one in BENCHMARKS])
def test_another_benchmark_s_file_says_what_was_wanted(tmp_path: Path, name: str) -> None:
    forms = {"locomo": LONGMEMEVAL, "longmemeval": AGENTBENCH, "memoryagentbench": LOCOMO}
    benchmark = benchmark_of(name)

    with pytest.raises(InvalidInput, match=rf"other\.json is not of {benchmark.title}'s form \(no .*Each of its"):
        load_conversations(benchmark, saved(tmp_path, "other.json", forms[name]))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"{", "is not JSON"),
        (b"[]", "it holds an empty list"),
        (b"[1]", "it holds a list of int"),
        (b'{"a": 1}', "it holds one dict"),
        (b"\xff", "Cannot read"),
    ],
)
def test_what_is_no_list_of_objects_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)

    with pytest.raises(InvalidInput, match=said):
        read_locomo(path)


@pytest.mark.parametrize("name", ["gone.json", "gone.parquet", "gone.json.gz"])
def test_a_missing_file_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidInput, match=rf"Cannot read .*{name}"):
        read_agentbench(tmp_path / name)


def test_broken_archives_and_parquet_are_refused(tmp_path: Path) -> None:
    for name in ("broken.json.gz", "broken.parquet"):
        (tmp_path / name).write_bytes(b"no archive")
        with pytest.raises(InvalidInput, match=name):
            read_agentbench(tmp_path / name)


def changed(rows: list[dict[str, Any]], **fields: Any) -> list[dict[str, Any]]:
    return [{**rows[0], **fields}]


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("locomo", changed(LOCOMO, conversation={})),
        ("locomo", changed(LOCOMO, conversation={"session_1_date_time": "yesterday", "session_1": []})),
        ("longmemeval", changed(LONGMEMEVAL, haystack_dates=["2023/05/21 (Sun) 08:00"])),
        ("longmemeval", changed(LONGMEMEVAL, question_date="1 June")),
        ("memoryagentbench", changed(AGENTBENCH, answers=[["Voss"]])),
    ],
)
def test_a_field_of_another_form_is_refused(tmp_path: Path, name: str, rows: list[dict[str, Any]]) -> None:
    with pytest.raises(InvalidInput, match="is not of"):
        load_conversations(benchmark_of(name), saved(tmp_path, "odd.json", rows))


def test_ids_that_repeat_are_named(tmp_path: Path) -> None:
    turns = [{"speaker": "Ines", "dia_id": "D1:1", "text": "Hi."}] * 2
    talk = {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": turns}

    with pytest.raises(InvalidInput, match="two turns 'D1:1'"):
        read_locomo(saved(tmp_path, "twice.json", changed(LOCOMO, conversation=talk)))


def test_what_cannot_be_chosen_says_what_there_is(locomo_file: Path) -> None:
    with pytest.raises(InvalidInput, match=r"'muse'; known are locomo, longmemeval, memoryagentbench\."):
        benchmark_of("muse")
    with pytest.raises(InvalidInput, match=r"not on the hub: fetch github\.com/snap-research/locomo"):
        load_conversations(benchmark_of("locomo"), None)
    with pytest.raises(InvalidInput, match="use one of them"):
        load_conversations(benchmark_of("longmemeval"), locomo_file, "s")
    with pytest.raises(InvalidInput, match="has no part 'xl'; it has s, m, oracle"):
        load_conversations(benchmark_of("longmemeval"), None, "xl")


def test_the_hub_is_asked_for_a_file_or_a_split(longmemeval_file: Path) -> None:
    asked: list[HubPlace] = []

    def file(place: HubPlace) -> Path:
        asked.append(place)
        return longmemeval_file

    def rows(place: HubPlace) -> list[dict[str, Any]]:
        asked.append(place)
        return AGENTBENCH

    found = load_conversations(benchmark_of("longmemeval"), None, "oracle", fetch_file=file, fetch_rows=rows)
    pieces = load_conversations(benchmark_of("memoryagentbench"), None, fetch_file=file, fetch_rows=rows)

    assert [one.id for one in found] == ["7a", "7b_abs"]
    assert [one.id for one in pieces] == ["mills-1"]
    assert [(one.repository, one.split, one.file) for one in asked] == [
        ("xiaowu0162/longmemeval-cleaned", "oracle", "longmemeval_oracle.json"),
        ("ai-hyz/MemoryAgentBench", "Accurate_Retrieval", None),
    ]


@pytest.mark.slow
def test_without_a_network_a_file_of_the_hub_says_what_to_pass(tmp_path: Path) -> None:
    code = (
        "from eval.conversations.benchmarks import benchmark_of, load_conversations\n"
        "from plume_memory.errors import HubUnreachable\n"
        "try:\n    load_conversations(benchmark_of('longmemeval'), None)\n"
        "except HubUnreachable as err:\n    print(err)\n"
    )
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)

    assert "xiaowu0162/longmemeval-cleaned" in done.stdout
    assert "--file" in done.stdout
