"""How `make vllm` compares two programs' answers. vLLM itself is not run here: its environment is 3.5 GB."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest


@pytest.fixture(scope="module")
def bench() -> ModuleType:
    path = Path(__file__).parents[2] / "bench" / "served_by_vllm.py"
    spec = importlib.util.spec_from_file_location("bench_served_by_vllm", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_equal_answers_agree(bench: ModuleType) -> None:
    said = bench.Said([3, 5], [{3: 9.0, 1: 8.5}, {5: 7.0, 2: 1.0}])
    near = bench.Said([3, 5], [{3: 9.0, 1: 8.25}, {5: 7.0, 4: 6.0}])
    found = bench.agreement([said], [near])
    assert (found.same_cases, found.tokens, found.same_tokens) == (1, 2, 2)
    assert (found.compared_logits, found.largest_difference) == (3, 0.25)  # of what both name
    assert found.margin is None


def test_after_the_first_other_token_nothing_is_compared(bench: ModuleType) -> None:
    said = bench.Said([3, 5, 5], [{3: 9.0, 1: 8.0}, {5: 7.0, 2: 6.5}, {5: 1.0, 2: 0.0}])
    other = bench.Said([3, 2, 5], [{3: 9.0, 1: 8.0}, {5: 6.5, 2: 7.0}, {5: 99.0, 2: 0.0}])
    found = bench.agreement([said, said], [said, other])
    assert (found.cases, found.same_cases, found.tokens, found.same_tokens) == (2, 1, 6, 4)
    assert (found.largest_difference, found.margin) == (0.5, 0.5)  # the step that differs counts, as its prompt is one


def test_answers_of_other_lengths_are_no_answers_to_the_same(bench: ModuleType) -> None:
    said = bench.Said([3], [{3: 9.0}])
    with pytest.raises(ValueError, match=r"shorter|longer"):
        bench.agreement([said], [bench.Said([3, 5], [{3: 9.0}, {5: 1.0}])])


def test_what_the_other_process_writes_is_read_as_it_was(bench: ModuleType) -> None:
    steps = [{3: SimpleNamespace(logprob=9.0), 1: SimpleNamespace(logprob=8.0)}]
    output = SimpleNamespace(outputs=[SimpleNamespace(token_ids=(3,), logprobs=steps)])
    assert bench.read_said(bench.said_by(output)) == bench.Said([3], [{3: 9.0, 1: 8.0}])


def test_our_modules_do_not_hide_vllm_from_its_process(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    own = bench.environment(1, VLLM_PLUGINS="a")
    assert "PYTHONPATH" not in own
    assert (own["OMP_NUM_THREADS"], own["VLLM_PLUGINS"]) == ("1", "a")
