"""Decode speed as an interleaved ratio on the real model; the figures of record are in bench/results/."""

import importlib.util
from pathlib import Path

import pytest

from plume_memory.model.base import BaseModel


@pytest.mark.model
def test_a_fused_step_costs_far_less_than_two_sequential_ones(smollm2: BaseModel) -> None:
    """Measured 0.52 and 1.15; the bounds leave room for a busy machine."""
    path = Path(__file__).parents[1] / "bench" / "decode.py"
    spec = importlib.util.spec_from_file_location("bench_decode", path)
    assert spec is not None
    assert spec.loader is not None
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)

    found = bench.measure(smollm2, 20, 64, (24, 16), False)

    assert found["fused/two_sequential"] <= 0.65
    assert found["fused/base"] <= 1.3
