"""MUSE records and chains: what files hold, and the transitions made of them."""

import json
from pathlib import Path

import pytest

from eval.datasets.muse import CONTINUAL_STEPS, MINI, load
from eval.records import MuseChain, before, of_chain, of_record, read_chains, read_records
from plume_memory.errors import InvalidInput
from plume_memory.records import NOTICE

RECORD = {
    "id": "r1",
    "dataset": "d",
    "source_id": "original",
    "context_old": "Ann lives in Bern.",
    "context_update": "Ann lives in Zug.",
    "qas": [
        {"id": "r1-q1", "question": "Where?", "answers": ["Zug"], "old_answers": ["Bern"], "affected": True},
        {"id": "r1-q2", "question": "Who?", "answers": ["Ann"], "old_answers": ["Ann"], "affected": False},
    ],
}
CHAIN = {
    "id": "c",
    "dataset": "chain",
    "context_0": "The crop is radish.",
    "updates": [{"t": 1, "text": "Lettuce now."}, {"t": 2, "text": "A turbine stands."}, {"t": 3, "text": "Kale now."}],
    "questions": [
        {
            "id": "c-q1",
            "question": "Which crop?",
            "timeline": [
                {"t": 0, "answers": ["radish"]},
                {"t": 1, "answers": ["lettuce"]},
                {"t": 3, "answers": ["kale"]},
            ],
        },
        {"id": "c-q2", "question": "What stands?", "timeline": [{"t": 2, "answers": ["a turbine"]}]},
    ],
}


def written(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_a_record_joins_its_texts_with_one_notice(tmp_path: Path) -> None:
    record = read_records(written(tmp_path / "r.jsonl", RECORD))[0]
    transition = of_record(record)
    assert transition.full == record.context_full == f"Ann lives in Bern.\n{NOTICE}\nAnn lives in Zug."
    assert transition.full.count(NOTICE) == 1
    assert transition.old == "Ann lives in Bern."


def test_before_the_update_old_answers_hold_and_nothing_is_affected(tmp_path: Path) -> None:
    static = before(read_records(written(tmp_path / "r.jsonl", RECORD))[0])
    assert static.texts == ("Ann lives in Bern.",)
    assert [q.answers for q in static.questions] == [("Bern",), ("Ann",)]
    assert not any(q.affected for q in static.questions)


def test_a_chain_asks_what_holds_at_its_step() -> None:
    chain = MuseChain.model_validate(CHAIN)
    first, second, third = (of_chain(chain, step) for step in (1, 2, 3))
    assert [q.answers for q in first.questions] == [("lettuce",)], "the turbine does not stand yet"
    assert first.questions[0].affected
    assert [q.affected for q in second.questions] == [False, False], "a new fact changes no answer"
    assert second.questions[0].old_answers == ("radish",), "what was replaced earlier can still be stale"
    assert third.questions[0].old_answers == ("lettuce", "radish"), "an answer from two updates ago is stale too"
    assert third.questions[0].gold_evidence == "Kale now."
    assert third.full.count(NOTICE) == 3


def test_a_chain_has_no_step_beyond_its_updates() -> None:
    with pytest.raises(InvalidInput, match=r"has 3 updates; step 4"):
        of_chain(MuseChain.model_validate(CHAIN), 4)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", r"(?s)r\.jsonl is not of MuseRecords .*\nline 2: all: Invalid JSON"),
        (json.dumps({**RECORD, "id": "r2", "extra": 1}), r"\nline 2: extra: Extra inputs"),
        (json.dumps({**RECORD, "id": "r2", "qas": []}), r"\nline 2: qas: Tuple should have at least 1 item"),
        (json.dumps(RECORD), "holds 'r1' twice"),
        (json.dumps({**RECORD, "id": "r2", "qas": [RECORD["qas"][0]] * 2}), "question ids of record r2 repeat"),  # type: ignore[index]
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(json.dumps(RECORD) + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(InvalidInput, match=said):
        read_records(path)


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"id": "a", "context_old": ""}\n\n{"qas": [{"affected": true}], "more": 1}\n', encoding="utf-8")
    with pytest.raises(InvalidInput) as refused:
        read_records(path)
    said = str(refused.value)
    wrong = ["line 1: context_old", "line 1: context_update", "line 1: qas", "line 3: qas.0.question"]
    wrong += ["line 3: qas.0.answers", "line 3: qas.0.old_answers", "line 3: id", "line 3: more"]
    assert [one for one in wrong if one not in said] == []
    path.write_text("{}\n" * 30, encoding="utf-8")
    with pytest.raises(InvalidInput, match="… and 130 more"):
        read_records(path)


def test_what_a_record_of_ones_own_leaves_out_is_filled_in(tmp_path: Path) -> None:
    texts = {"context_old": "Ann lives in Bern.", "context_update": "Ann lives in Zug."}
    where = {"question": "Where?", "answers": ["Zug"], "old_answers": ["Bern"], "affected": True}
    kept = {"question": "Who?", "answers": ["Ann"]}
    (record,) = read_records(written(tmp_path / "r.jsonl", {"id": "r1", **texts, "qas": [where, kept]}))
    assert (record.dataset, record.source_id) == ("own", "r1")
    assert [(q.id, q.affected, q.old_answers) for q in record.qas] == [("q1", True, ("Bern",)), ("q2", False, ("Ann",))]


def test_the_example_in_the_docs_is_a_record(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text("utf-8")
    example = page.split("```json\n")[1].split("```")[0]
    (tmp_path / "r.jsonl").write_text(" ".join(example.split("\n")), encoding="utf-8")
    (record,) = read_records(tmp_path / "r.jsonl")
    assert [q.affected for q in record.qas] == [True, False]


def test_a_timeline_outside_its_chain_is_refused(tmp_path: Path) -> None:
    late = json.loads(json.dumps(CHAIN))
    late["questions"][1]["timeline"][0]["t"] = 9
    with pytest.raises(InvalidInput, match="not ascending within the chain"):
        read_chains(written(tmp_path / "c.jsonl", late))


def test_the_bundled_benchmark_is_whole() -> None:
    mini = load("muse-mini")
    assert {t.dataset for t in mini} == set(MINI)
    assert (len(mini), sum(len(t.questions) for t in mini)) == (100, 373)
    chains = load("muse-chains")
    assert [t.step for t in chains] == list(CONTINUAL_STEPS) * 6
    assert all(len(t.texts) == t.step + 1 for t in chains)
    assert len({q.id for t in chains for q in t.questions}) == sum(len(t.questions) for t in chains)


def test_a_limit_counts_records_of_each_dataset() -> None:
    assert len(load("muse-mini", limit=2)) == 2 * len(MINI)
    assert [t.id for t in load("muse-chains", limit=1, steps=(5,))] == ["chain-01@5"]
    with pytest.raises(InvalidInput, match="at least 1"):
        load("mini-squad", limit=0)


def test_an_unknown_dataset_names_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"Bundled: muse-mini, mini-squad"):
        load("mini-squat")
    file = written(tmp_path / "own.jsonl", RECORD)
    assert [t.id for t in load(str(file))] == ["r1"]
    assert [t.id for t in load(str(written(tmp_path / "own2.jsonl", CHAIN)), steps=(1, 3))] == ["c@1", "c@3"]
