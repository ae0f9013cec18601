"""Small cases of what users report are answered as often as when they were last counted."""

import json
import os
from pathlib import Path

import pytest

from plume_memory import Engine
from plume_memory.model.base import BaseModel
from tests.benches import bench

CASES = (
    Path(os.environ.get("PLUME_DATA", Path(__file__).parents[2] / "shared" / "data")).parent / "cases" / "cases.jsonl"
)
EACH, RIGHT = 5, 21
"""Every fifth case; 24 of the 25 answers were right on 2026-11-27, and other kinds of processor may differ in some."""


@pytest.mark.model
@pytest.mark.skipif(not CASES.is_file(), reason=f"no cases at {CASES}; set PLUME_DATA to the folder beside theirs")
def test_small_cases_are_answered_as_before(smollm2: BaseModel) -> None:
    ask = bench("experiments/cases").ask
    engine = Engine.load("smollm2-135m")
    lines = CASES.read_text("utf-8").splitlines()[::EACH]
    rows = [row for line in lines for row in ask(json.loads(line), engine)]
    wrong = [(row["question"], row["wanted"], row["said"]) for row in rows if not row["right"]]
    assert len(rows) - len(wrong) >= RIGHT, wrong
