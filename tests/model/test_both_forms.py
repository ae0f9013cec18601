"""An evidence row with states and an adapter against a plain slow reference: full passes, no cache, float32.

The states are those of the bare model: the adapter changes only what is read behind them. In the reference one pass
reads everything, and ΔW is added at the positions behind the states alone.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch

from plume_memory.lora.factors import LoraFactors
from plume_memory.model.base import BaseModel
from plume_memory.model.grammar import Grammar
from plume_memory.model.queries import Decoded, DecodeSettings, Query
from plume_memory.model.reading import compile_states
from plume_memory.model.streams import Row
from plume_memory.model.transformer import Transformer
from plume_memory.scheduling import Scheduler
from plume_memory.testing import random_factors

EVIDENCE = ("Alice moved to Zurich in May. ", "No.", "The third ferry leaves at nine, they say; " * 2)
QUESTIONS = ("Where does Alice live?", "Hi", "Which of the three ferries leaves the old harbour first?")
SETTINGS = DecodeSettings(max_new_tokens=16, lambda_max=4.0, tau=0.1)


@contextmanager
def added_behind(base: BaseModel, factors: LoraFactors | None, start: int) -> Iterator[None]:
    """Add ΔW·x to every adapted layer's output from a position on; nothing of our runtime is used."""
    handles = []
    for layer in factors.layers if factors else ():
        delta = factors.delta("mlp.down_proj", layer)  # type: ignore[union-attr]

        def hook(_: object, inputs: tuple[torch.Tensor, ...], output: torch.Tensor, delta: torch.Tensor = delta):  # type: ignore[no-untyped-def]
            changed = output.clone()
            changed[:, start:] += inputs[0][:, start:] @ delta.T
            return changed

        handles.append(base.model.model.layers[layer].mlp.down_proj.register_forward_hook(hook))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def log_probs(base: BaseModel, ids: Sequence[int], factors: LoraFactors | None, start: int) -> torch.Tensor:
    with torch.no_grad(), added_behind(base, factors, start):
        return base.model(input_ids=torch.tensor([list(ids)]), use_cache=False).logits[0, -1].double().log_softmax(-1)


def slow_reference(base: BaseModel, query: Query, evidence: Sequence[int]) -> list[int]:
    first, second = query.global_row, query.evidence_row
    assert second is not None
    made: list[int] = []
    while len(made) < SETTINGS.max_new_tokens:
        log_g = log_probs(base, [*first.prompt_ids, *made], first.factors, 0)
        log_e = log_probs(base, [*evidence, *second.prompt_ids, *made], second.factors, len(evidence))
        m = ((log_g.exp() + log_e.exp()) / 2).log()
        js = 0.5 * (log_g.exp() * (log_g - m)).sum() + 0.5 * (log_e.exp() * (log_e - m)).sum()
        weight = SETTINGS.lambda_max * js / (js + SETTINGS.tau)
        made.append(int((log_g + weight * log_e).argmax()))
        if made[-1] in base.stop_ids:
            break
    return made


def queries(base: BaseModel) -> list[tuple[Query, list[int]]]:
    """Questions with states of three lengths, adapters of three ranks, and the ids behind the states."""
    made = []
    for seed, (question, evidence) in enumerate(zip(QUESTIONS, EVIDENCE, strict=True)):
        framed = base.chat.framed([{"role": "user", "content": question}])
        ids = framed.evidence_ids(evidence)
        g = random_factors(base, rank=3 + seed, seed=seed) if seed else None
        e = random_factors(base, rank=6 - seed, seed=10 + seed)
        row = Row(tuple(framed.continuation_ids()), e, compile_states(base, [ids])[0])
        made.append((Query(Row(tuple(framed.prompt_ids()), g), row), ids))
    return made


def ids_of(decoded: Decoded) -> list[int]:
    return [token.token_id for token in decoded.trace]


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_rows_with_states_and_adapters_are_token_identical_to_the_slow_reference(
    tiny: BaseModel, fixed_shapes: bool
) -> None:
    """In one batch, with states of different length, through sliding windows too."""
    asked = queries(tiny)

    decoded = Scheduler(tiny, fixed_shapes=fixed_shapes).decode([query for query, _ in asked], SETTINGS)

    for (query, evidence), answer in zip(asked, decoded, strict=True):
        assert ids_of(answer) == slow_reference(tiny, query, evidence)


@pytest.mark.parametrize("fixed_shapes", [False, True])
def test_a_batch_of_mixed_rows_equals_each_alone(tiny: BaseModel, fixed_shapes: bool) -> None:
    """Rows with both forms, with one of them, and with neither share one prefill."""
    (both, _), (other, _), (third, _) = queries(tiny)
    assert other.evidence_row is not None
    assert third.evidence_row is not None
    plain = Query(other.global_row, Row(other.global_row.prompt_ids, other.evidence_row.factors))
    states = Query(third.global_row, Row(third.evidence_row.prompt_ids, None, third.evidence_row.states))
    asked = [both, plain, states, Query(third.global_row)]
    decoder = Scheduler(tiny, fixed_shapes=fixed_shapes)

    together = decoder.decode(asked, SETTINGS)
    alone = [decoder.decode([query], SETTINGS)[0] for query in asked]

    assert [ids_of(answer) for answer in together] == [ids_of(answer) for answer in alone]


def test_all_rows_are_read_in_one_forward_pass(tiny: BaseModel, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = [query for query, _ in queries(tiny)]
    passes: list[tuple[int, ...]] = []
    run = Transformer.run

    def counted(self: Transformer, ids: torch.Tensor, *rest: Any, **named: Any) -> torch.Tensor:
        passes.append(tuple(ids.shape))
        return run(self, ids, *rest, **named)

    monkeypatch.setattr(Transformer, "run", counted)
    Scheduler(tiny).decode(asked, DecodeSettings(max_new_tokens=1))

    longest = max(len(row.prompt_ids) for query in asked for row in (query.global_row, query.evidence_row) if row)
    assert passes == [(6, longest)]


def test_each_form_counts(tiny_llama: BaseModel) -> None:
    query, _ = queries(tiny_llama)[0]
    row = query.evidence_row
    assert row is not None
    decoder = Scheduler(tiny_llama)
    without_adapter = Query(query.global_row, Row(row.prompt_ids, None, row.states))
    without_states = Query(query.global_row, Row(query.global_row.prompt_ids, row.factors))

    whole, *others = decoder.decode([query, without_adapter, without_states], SETTINGS)

    assert all([token.js for token in whole.trace] != [token.js for token in other.trace] for other in others)


def test_streams_and_grammars_go_with_both_forms(tiny_llama: BaseModel) -> None:
    query, _ = queries(tiny_llama)[0]
    decoder = Scheduler(tiny_llama)
    whole = decoder.decode([query], SETTINGS)[0]
    assert "".join(step.text for step in decoder.stream([query], SETTINGS)) == whole.text

    one_of = DecodeSettings(max_new_tokens=16, grammar=Grammar.lark('start: "Bern" | "Zurich"'))
    assert decoder.decode([query], one_of)[0].text in ("Bern", "Zurich")
