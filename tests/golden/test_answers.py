"""A refactoring keeps every golden answer; a change of behaviour shows in the diff of answers.json."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent


@pytest.mark.model
@pytest.mark.slow
def test_the_answers_are_the_golden_ones(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("golden_answers", FOLDER / "answers.py")
    made = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "golden_answers", made)
    spec.loader.exec_module(made)
    wanted = json.loads(made.FILE.read_text("utf-8"))
    found = made.answers()
    for policy, own in wanted.items():
        for one, again in zip(own, found[policy], strict=True):
            about = {"policy": policy, "question": one["question"]}
            assert {**about, "answer": again["answer"], "evidence": again["evidence"]} == {
                **about,
                "answer": one["answer"],
                "evidence": one["evidence"],
            }
            assert again["confidence"] == pytest.approx(one["confidence"], abs=1e-3), about
