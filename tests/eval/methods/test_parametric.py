"""PLUME in the suite is PLUME in the product, and its ablations take away what they say."""

from pathlib import Path

import pytest
import torch

from eval.caches import CountingCache
from eval.methods.decoding import Answerer
from eval.methods.parametric import D2L, D2LOracle, Plume
from eval.records import MuseQuestion, MuseTransition
from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.answering.options import settings_of
from plume_memory.errors import InvalidInput
from plume_memory.lora.algebra import frobenius_norm
from plume_memory.lora.factors import LoraFactors
from plume_memory.records import join_units
from plume_memory.testing import tiny_base, tiny_engine

TEXTS = ("Ann lives in Bern.\n\nHer cat is Mistral.", "Ann lives in Zug.", "The cat is called Föhn.")


def asked(question: str, evidence: str = "") -> MuseQuestion:
    return MuseQuestion(
        id=question, question=question, answers=("x",), old_answers=("x",), affected=False, gold_evidence=evidence
    )


QUESTIONS = (
    asked("Where does Ann live?", "Ann lives in Zug."),
    asked("What is the cat called?", "Her cat is Mistral."),
)
TRANSITION = MuseTransition("t", "d", 2, TEXTS, QUESTIONS)


def answerer(engine: Engine) -> Answerer:
    return Answerer(engine.scheduler, settings_of(engine.policy, {}))


def plume(engine: Engine, **how: str) -> Plume:
    return Plume(engine, CountingCache(), answerer(engine), **how)  # type: ignore[arg-type]


READ = AnswerPolicy(
    retrieval="reader", evidence="both", evidence_units=2, retry_scale=2.0, max_new_tokens=8, unit_tokens=64
)


@pytest.mark.parametrize("policy", [None, READ])
@pytest.mark.parametrize(("additive", "bias"), [(True, True), (True, False), (False, True), (False, False)])
def test_the_suite_answers_as_the_product_does(
    tmp_path: Path, additive: bool, bias: bool, policy: AnswerPolicy | None
) -> None:
    engine = tiny_engine(additive=additive, bias=bias, policy=policy)
    with ParametricMemory.open("ann", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as memory:
        for text in TEXTS:
            memory.update(text)
        wanted = [memory.ask(question.question) for question in QUESTIONS]
    found = plume(engine).prepare(TRANSITION).answer(QUESTIONS)
    assert [reply.text for reply in found] == [answer.text for answer in wanted]
    assert [reply.tokens for reply in found] == [answer.usage.completion_tokens for answer in wanted]
    for reply, answer in zip(found, wanted, strict=True):
        assert reply.detail is not None
        assert answer.evidence is not None
        assert reply.detail["evidence"] == join_units([one.unit for one in answer.evidence_units])
        assert reply.detail["evidence_from"] == answer.evidence.unit.version
        assert reply.detail["mean_weight"] == pytest.approx(answer.mean_weight)


def test_each_stream_alone_is_a_row_of_the_fused_query() -> None:
    engine = tiny_engine()
    whole, memory_only, global_only = (
        plume(engine, streams=streams).prepare(TRANSITION) for streams in ("fused", "memory only", "global only")
    )
    for question in QUESTIONS:
        fused = whole.prepared(question).query
        alone = [one.prepared(question).query for one in (memory_only, global_only)]
        assert all(query.evidence_row is None for query in alone)
        assert fused.evidence_row is not None
        assert same(alone[0].global_row.factors, fused.evidence_row.factors)
        assert same(alone[1].global_row.factors, fused.global_row.factors)


def test_scaled_full_has_the_norm_of_the_difference_and_the_direction_of_full() -> None:
    engine = tiny_engine()
    difference = plume(engine).prepare(TRANSITION).global_adapter
    scaled = plume(engine, global_form="scaled full").prepare(TRANSITION).global_adapter
    assert difference is not None
    assert scaled is not None
    norms = [sum(float((n**2).sum()) for n in frobenius_norm(one).values()) for one in (difference, scaled)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-6)
    full = engine.parameterizer.parameterize([TRANSITION.full])[0] if engine.parameterizer else None
    assert full is not None
    own, wanted = scaled.delta("mlp.down_proj", 1), full.delta("mlp.down_proj", 1)
    assert torch.nn.functional.cosine_similarity(own.flatten(), wanted.flatten(), dim=0) == pytest.approx(1.0, abs=1e-5)


def test_whole_texts_are_written_in_one_pass_each() -> None:
    """α·full + β·(full − old), with full and old as one text, where an additive network would add up units."""
    settings = AnswerPolicy(alpha=1.0, beta=0.75, unit_tokens=16, max_new_tokens=4)
    engine = tiny_engine(additive=True, policy=settings)
    assert engine.parameterizer is not None
    found = plume(engine, global_form="whole texts").prepare(TRANSITION).global_adapter
    full, old = engine.parameterizer.parameterize([TRANSITION.full, TRANSITION.old])
    assert found is not None
    wanted = 1.75 * full.delta("mlp.down_proj", 0) - 0.75 * old.delta("mlp.down_proj", 0)
    torch.testing.assert_close(found.delta("mlp.down_proj", 0), wanted)
    assert not same(found, plume(engine).prepare(TRANSITION).global_adapter)


def test_gold_evidence_is_the_unit_that_holds_it() -> None:
    engine = tiny_engine(policy=AnswerPolicy(unit_tokens=24, max_new_tokens=4))
    method = plume(engine, evidence="gold")
    assert method.settings["evidence_unit"] == "gold", "a row says so"
    assert method.settings["retrieval"] == engine.policy.retrieval, "and which one it did not ask"
    prepared = method.prepare(TRANSITION)
    assert len(prepared.index) > len(TEXTS), "the first text has two units"
    assert [prepared.evidence(question)[0].unit.text.strip() for question in QUESTIONS] == [
        "Ann lives in Zug.",
        "Her cat is Mistral.",
    ]


def test_d2l_is_one_adapter_of_the_whole_history_with_the_bias_once() -> None:
    engine = tiny_engine(bias=True)
    parameterizer = engine.parameterizer
    assert parameterizer is not None
    assert parameterizer.bias is not None
    D2L(engine, CountingCache(), answerer(engine)).prepare(TRANSITION)
    assert parameterizer.calls == [TRANSITION.full]  # type: ignore[attr-defined]
    oracle = D2LOracle(engine, CountingCache(), answerer(engine)).prepare(TRANSITION)
    assert len(oracle.answer(QUESTIONS)) == 2
    assert parameterizer.calls[1:] == ["Ann lives in Zug.", "Her cat is Mistral."]  # type: ignore[attr-defined]


def test_an_engine_without_a_network_has_no_d2l() -> None:
    base = tiny_base("llama")
    engine = Engine(base, None, AnswerPolicy(evidence="states", max_new_tokens=4))
    with pytest.raises(InvalidInput, match="needs a hypernetwork"):
        D2L(engine, CountingCache(), answerer(engine)).prepare(TRANSITION)


def test_no_method_leaves_anything_on_the_model() -> None:
    engine = tiny_engine()
    ids = torch.tensor([engine.base.chat.prompt_ids("Where?")])
    with torch.no_grad():
        before = engine.base.model(input_ids=ids).logits
    for streams in ("fused", "memory only", "global only"):
        plume(engine, streams=streams).prepare(TRANSITION).answer(QUESTIONS)
    with torch.no_grad():
        assert torch.equal(engine.base.model(input_ids=ids).logits, before)


def same(first: LoraFactors | None, second: LoraFactors | None) -> bool:
    if first is None or second is None:
        return first is second
    return all(
        torch.allclose(first.delta(name, layer), second.delta(name, layer))
        for name in first.modules
        for layer in first.layers
    )


def test_row_order_of_a_batch_does_not_matter() -> None:
    engine = tiny_engine()
    prepared = plume(engine).prepare(TRANSITION)
    together = prepared.answer(QUESTIONS)
    apart = [prepared.answer([question])[0] for question in QUESTIONS]
    assert [reply.text for reply in together] == [reply.text for reply in apart]
