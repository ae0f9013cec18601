"""The figures to watch."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from plume_memory.model.adapters import AdapterRows
from plume_memory.model.base import BaseModel
from plume_memory.training import evaluate
from plume_memory.training.build import Built, build
from plume_memory.training.evaluate import Evaluator
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.settings import TrainSettings
from plume_memory.training.writing import Written, rows_of

Small = Callable[..., TrainSettings]


@pytest.fixture
def prose(tmp_path: Path) -> dict[str, Any]:
    passages = [
        {
            "context": f"Person {i} lives in town {i * 7} now.",
            "qas": [{"question": "Which town?", "answers": [str(i * 7)]}],
        }
        for i in range(12, 40)
    ]
    (tmp_path / "qa.jsonl").write_text("".join(json.dumps(p) + "\n" for p in passages))
    return {"prose": [{"kind": "jsonl", "name": "qa", "paths": [str(tmp_path / "qa.jsonl")]}]}


def silenced(built: Built) -> Built:
    """A network that writes nothing."""
    with torch.no_grad():
        built.writer.network.get_parameter("out").zero_()
    return built


def test_the_same_weights_give_the_same_figures(small: Small, prose: dict[str, Any], tiny_llama: BaseModel) -> None:
    settings = small(
        data=[{"kind": "facts", "exclude_families": ["codes"]}],
        evaluation=prose | {"facts": [1, 8], "families": ["codes"]},
    )
    built = build(tiny_llama, settings)
    figures = Evaluator(tiny_llama, settings, built).figures()

    assert Evaluator(tiny_llama, settings, built).figures() == figures
    assert figures.keys() == {
        *("exact_1", "swapped_1", "held_out_1", "exact_8", "swapped_8", "held_out_8"),
        *("update_current", "update_stale", "update_kept"),
        *("prose_qa", "prose_qa_swapped", "prose_qa_exact", "kept_qa"),
    }
    assert all(0 <= v <= 1 for name, v in figures.items() if name != "kept_qa")
    assert figures["kept_qa"] != 1.0


def test_a_stage_with_states_is_judged_with_them_beside(small: Small, tiny_llama: BaseModel) -> None:
    """Beside states even a silent adapter sees the text: an other's says the same, and more than no text at all."""
    settings = small(curriculum={"states_share": 0.5}, evaluation={"facts": [1, 2], "updates": 0})
    built = build(tiny_llama, settings)
    figures = Evaluator(tiny_llama, settings, built).figures()
    assert figures.keys() == {
        f"{name}_{count}{both}" for name in ("exact", "swapped") for count in (1, 2) for both in ("", "_both")
    }

    evaluator = Evaluator(tiny_llama, settings, silenced(built))
    samples = evaluator._facts(2, 3)
    rows = [[built.item_writer.answer(ask) for ask in sample.asks] for sample in samples]
    own, swapped = (evaluator._run(told, rows, states_of=samples)[1] for told in (samples, samples[::-1]))
    assert torch.equal(own, swapped)
    assert not torch.allclose(own, evaluator._run(samples, rows)[1], atol=1e-2)


def test_without_a_memory_swapping_changes_nothing_and_all_is_kept(
    small: Small, prose: dict[str, Any], tiny_llama: BaseModel
) -> None:
    settings = small(evaluation=prose)
    figures = Evaluator(tiny_llama, settings, silenced(build(tiny_llama, settings))).figures()

    assert figures["prose_qa"] == figures["prose_qa_swapped"]
    assert figures["kept_qa"] == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("count", [2, 8, 9, 17])
def test_a_swapped_text_is_never_the_own_one(
    small: Small, tiny_llama: BaseModel, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Also where the last group of eight holds one text only."""
    settings = small(largest_tokens=16)
    built = build(tiny_llama, settings)
    samples = [
        Sample(f"The secret number is {i:04d}, they say.", (Ask("What is it?", str(i)),), "x") for i in range(count)
    ]
    told: list[str] = []
    texts: list[Sequence[Sequence[int]]] = []
    write = type(built.writer).write

    def watched_write(self: Any, given: Sequence[Sequence[int]]) -> Written:
        texts.append(given)
        return write(self, given)

    def watched_rows(written: Written, reads: Sequence[Sequence[tuple[int, float]]], *rest: Any) -> AdapterRows:
        for row in reads:
            told.append("".join(str(tiny_llama.tokenizer.decode(texts[-1][at])) for at, _ in row))
        return rows_of(written, reads, *rest)

    monkeypatch.setattr(type(built.writer), "write", watched_write)
    monkeypatch.setattr(evaluate, "rows_of", watched_rows)
    evaluator = Evaluator(tiny_llama, settings, built)

    evaluator._share(samples, swap=False, exact=True)
    own, told[:] = list(told), []
    evaluator._share(samples, swap=True, exact=True)
    assert own == [sample.text for sample in samples]
    assert all(a != b for a, b in zip(told, own, strict=True))
    assert sorted(told) == sorted(own)


def test_stale_answers_are_scored_in_the_statement_they_would_be_said_in(small: Small, tiny_llama: BaseModel) -> None:
    settings = small(objectives={"statements": True})
    built = build(tiny_llama, settings)
    ask = Ask("Where does Al live?", "Rome", affected=True, stale="Bern", reply="Al lives in Rome.")

    _, stale = Evaluator(tiny_llama, settings, built)._targets(ask)
    assert tiny_llama.tokenizer.decode(stale.target_ids).startswith("Al lives in Bern.")
