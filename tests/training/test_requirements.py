"""What must fit together before a run begins, and what a run says and remembers of its data."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from plume_memory.errors import TrainingError
from plume_memory.model.base import BaseModel
from plume_memory.testing import tiny_base
from plume_memory.training.build import build
from plume_memory.training.inputs import inputs_of
from plume_memory.training.overrides import read_settings
from plume_memory.training.requirements import require_use
from plume_memory.training.settings import TrainSettings
from plume_memory.training.sources import JsonlSource

Small = Callable[..., TrainSettings]
HELD = {"families": ["codes"]}


def jsonl(folder: Path, rows: list[tuple[str, list[tuple[str, str]]]], name: str = "qa.jsonl") -> dict[str, Any]:
    lines = [{"context": c, "qas": [{"question": q, "answers": [a]} for q, a in qas]} for c, qas in rows]
    (folder / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    return {"kind": "jsonl", "name": name.partition(".")[0], "paths": [name]}


DATED = [(f"Town {i} was founded in {1700 + i}.", [(f"When was town {i} founded?", str(1700 + i))]) for i in range(8)]
COLOURS = [(f"The door {i} is painted red.", [(f"Is door {i} red?", "painted")]) for i in range(8)]


def test_the_configs_that_we_keep_fit_together() -> None:
    root = Path(__file__).parents[2]
    for path in [*(root / "bench" / "training").glob("*.json"), root / "examples" / "train.json"]:
        require_use(read_settings(TrainSettings, path, []), vocabulary=49152)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"objectives": {"answer": 0, "reconstruction": 0, "completion": 0}}, "nothing would be learnt"),
        ({"objectives": {"distillation": 1, "top_k": 10**6}}, "top_k is 1000000; the base model has"),
        (
            {"curriculum": {"states_share": 0.5}, "objectives": {"answer": 0}},
            "states_share is 0.5, and objectives.answer",
        ),
        (
            {"curriculum": {"states_share": 1}, "data": [{"kind": "text", "name": "t", "folder": "t"}]},
            "states_share is 1, and no source has questions",
        ),
        (
            {"curriculum": {"states_share": 0.5}, "network": {"kind": "reranker"}, "start": "net"},
            "states_share is 0.5, and a reranker",
        ),
        ({"evaluation": {"families": ["typo"]}}, "evaluation.families names typo"),
        ({"evaluation": HELD}, "holds out codes, and a source of facts is trained on it"),
        ({"data": [{"kind": "jsonl", "name": "a", "paths": ["x"]}], "prose": ["x"]}, "x is training data and"),
        ({"data": [{"kind": "facts"}], "prose": ["x", "y"]}, "has the name 'p' twice"),
    ],
)
def test_what_would_mislead_is_refused_before_the_data_is_read(
    small: Small, tiny_llama: BaseModel, parts: dict[str, Any], message: str
) -> None:
    prose = [{"kind": "jsonl", "name": "p", "paths": [path]} for path in parts.pop("prose", [])]
    if prose:
        parts["evaluation"] = {"prose": prose}
    with pytest.raises(TrainingError, match=message):
        build(tiny_llama, small(**parts))


def test_held_out_prose_of_one_passage_has_no_control(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    prose = {"prose": [jsonl(tmp_path, DATED[:1])]}
    with pytest.raises(TrainingError, match="has one passage"):
        build(tiny_llama, small(data_root=str(tmp_path), evaluation=prose))


def test_families_that_no_source_draws_from_are_not_evaluated_as_trained(small: Small, tiny_llama: BaseModel) -> None:
    data = [
        {"kind": "facts", "exclude_families": ["codes", "people"]},
        {"kind": "facts", "exclude_families": ["codes"]},
    ]
    without = build(tiny_llama, small(data=data[1:])).data.facts(1, False)
    mixed = build(tiny_llama, small(data=data)).data.facts(1, False)

    drawn = [[source.draw(random.Random(i), largest=1, update=False) for i in range(60)] for source in (without, mixed)]
    assert drawn[0] == drawn[1], "what one of two sources draws from is trained on"
    assert build(tiny_llama, small()).data.facts(1, False).draw(random.Random(0), largest=1, update=False)


def test_updates_are_made_of_the_sources_that_can(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    data = [{"kind": "facts"}, jsonl(tmp_path, DATED, "dated.jsonl"), jsonl(tmp_path, COLOURS, "colours.jsonl")]
    parts = {"data_root": str(tmp_path), "update": {"share": 0.5}}
    built = build(tiny_llama, small(data=data, **parts))

    drawn = [built.data.updates.draw(random.Random(i), largest=2, update=True) for i in range(30)]
    assert {sample.source for sample in drawn} == {"facts", "dated"}
    assert "colours: none of its answers can be edited, so no update is made of it" in built.data.sources
    with pytest.raises(TrainingError, match="no source can make an update"):
        build(tiny_llama, small(data=data[2:], **parts))


def test_a_source_that_can_rarely_be_edited_always_makes_an_update(tmp_path: Path) -> None:
    """One passage of six hundred: two hundred draws miss it more often than not."""
    rows = [(f"Door {i} is painted red.", [("How is it?", "painted")]) for i in range(600)]
    source = JsonlSource("qa", [tmp_path / jsonl(tmp_path, [*rows, DATED[0]])["paths"][0]])

    assert source.can_update
    drawn = [source.draw(random.Random(i), largest=1, update=True) for i in range(12)]
    assert {sample.text for sample in drawn} == {DATED[0][0]}


def test_what_is_used_and_what_is_left_out_is_said(small: Small, tmp_path: Path, tiny_llama: BaseModel) -> None:
    rows = [
        ("Ann lives in Bern.", [("Where does Ann live?", "Bern"), ("Is she happy?", "perhaps")]),
        ("Bo sings.", [("Why?", "nobody knows")]),
        ("Cy is 40.", [("word " * 300, "40")]),
    ]
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "A.TXT").write_text("Eight plain words that say nothing at all here.")
    (tmp_path / "texts" / "b.pdf").write_bytes(b"%PDF")
    data = [jsonl(tmp_path, rows), {"kind": "text", "name": "plain", "folder": "texts"}]

    assert build(tiny_llama, small(data=data, data_root=str(tmp_path))).data.sources == [
        "qa: 1 of 3 contexts, 1 question; 3 left out (no answer, too long, or not in the text)",
        "plain: 1 passage of 1 file; 1 other file left out (not .txt or .md)",
    ]


def test_the_inputs_of_a_run_change_with_every_byte_it_reads(small: Small, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("Some words.")
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "config.json").write_text("{}")
    data = [{"kind": "facts"}, jsonl(tmp_path, DATED), {"kind": "text", "name": "plain", "folder": "texts"}]
    settings = small(data=data, data_root=str(tmp_path), start=str(tmp_path / "net"))
    base = tiny_base("llama")
    before = inputs_of(base, settings)
    assert before.keys() == {"base", "qa/qa.jsonl", "plain/texts", "start"}
    assert inputs_of(base, settings) == before

    jsonl(tmp_path, DATED[:-1])
    (tmp_path / "texts" / "b.txt").write_text("")
    (tmp_path / "net" / "config.json").write_text("{ }")
    after = inputs_of(tiny_base("llama", layers=4), settings)
    assert all(after[name] != before[name] for name in before)
