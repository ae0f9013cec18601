"""How `make vllm` compares two programs' answers. vLLM itself is not run here: its environment is 3.5 GB."""

from types import SimpleNamespace

import pytest

from tests.benches import bench

SERVED = bench("served_by_vllm")


def test_equal_answers_agree() -> None:
    said = SERVED.Said([3, 5], [{3: 9.0, 1: 8.5}, {5: 7.0, 2: 1.0}])
    near = SERVED.Said([3, 5], [{3: 9.0, 1: 8.25}, {5: 7.0, 4: 6.0}])
    found = SERVED.agreement([said], [near])
    assert (found.same_cases, found.tokens, found.same_tokens) == (1, 2, 2)
    assert (found.compared_logits, found.largest_difference) == (3, 0.25)  # of what both name
    assert found.margin is None


def test_after_the_first_other_token_nothing_is_compared() -> None:
    said = SERVED.Said([3, 5, 5], [{3: 9.0, 1: 8.0}, {5: 7.0, 2: 6.5}, {5: 1.0, 2: 0.0}])
    other = SERVED.Said([3, 2, 5], [{3: 9.0, 1: 8.0}, {5: 6.5, 2: 7.0}, {5: 99.0, 2: 0.0}])
    found = SERVED.agreement([said, said], [said, other])
    assert (found.cases, found.same_cases, found.tokens, found.same_tokens) == (2, 1, 6, 4)
    assert (found.largest_difference, found.margin) == (0.5, 0.5)  # the step that differs counts, as its prompt is one


def test_answers_of_other_lengths_are_no_answers_to_the_same() -> None:
    said = SERVED.Said([3], [{3: 9.0}])
    with pytest.raises(ValueError, match=r"shorter|longer"):
        SERVED.agreement([said], [SERVED.Said([3, 5], [{3: 9.0}, {5: 1.0}])])


def test_what_the_other_process_writes_is_read_as_it_was() -> None:
    steps = [{3: SimpleNamespace(logprob=9.0), 1: SimpleNamespace(logprob=8.0)}]
    output = SimpleNamespace(outputs=[SimpleNamespace(token_ids=(3,), logprobs=steps)])
    assert SERVED.read_said(SERVED.said_by(output)) == SERVED.Said([3], [{3: 9.0, 1: 8.0}])


def test_our_modules_do_not_hide_vllm_from_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/somewhere")
    own = SERVED.environment(1, VLLM_PLUGINS="a")
    assert "PYTHONPATH" not in own
    assert (own["OMP_NUM_THREADS"], own["VLLM_PLUGINS"]) == ("1", "a")
