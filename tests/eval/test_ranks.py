"""Candidate ranks against decoding itself."""

import pytest
import torch

from eval.caches import CountingCache
from eval.methods.decoding import Answerer
from eval.methods.parametric import Plume
from eval.ranks import candidate_ranks, forced_logits, ranks_of
from eval.records import MuseQuestion, MuseTransition
from plume_memory import AnswerPolicy, Engine
from plume_memory.answering.options import settings_of
from plume_memory.testing import tiny_engine

TEXTS = ("Ann lives in Bern.", "Ann lives in Zug.")


def asked(answer: str) -> MuseQuestion:
    return MuseQuestion(id="q", question="Where does Ann live?", answers=(answer,), old_answers=("x",), affected=True)


def plume(engine: Engine) -> Plume:
    return Plume(engine, CountingCache(), Answerer(engine.scheduler, settings_of(engine.policy, {}), 1))


@pytest.mark.parametrize("form", ["adapter", "states", "both"])
def test_what_greedy_decoding_says_has_rank_one_throughout(form: str) -> None:
    policy = AnswerPolicy(evidence=form, max_new_tokens=8, unit_tokens=64)  # type: ignore[arg-type]
    engine = tiny_engine(bias=True, policy=policy)
    prepared = plume(engine).prepare(MuseTransition("t", "d", 1, TEXTS, ()))
    question = asked("x")
    query = prepared.prepared(question).query
    said = [step.token_id for step in engine.scheduler.decode([query], settings_of(engine.policy, {}))[0].trace]
    ranks = ranks_of(prepared, question, said)
    assert len(said) > 2
    assert ranks.ranks == [1] * len(said)
    assert ranks.forced == engine.base.tokenizer.decode(said)


def test_a_rank_counts_the_better_candidates() -> None:
    engine = tiny_engine()
    prepared = plume(engine).prepare(MuseTransition("t", "d", 1, TEXTS, ()))
    question = asked("Zug")
    ranks = candidate_ranks(prepared, question)
    query = prepared.prepared(question).query
    assert query.evidence_row is not None
    g, e = (
        forced_logits(engine.base, row, ranks.token_ids).log_softmax(-1)
        for row in (query.global_row, query.evidence_row)
    )
    m = torch.logaddexp(g, e) - torch.log(torch.tensor(2.0))
    js = 0.5 * ((g.exp() * (g - m)).sum(-1) + (e.exp() * (e - m)).sum(-1))
    scores = g + (js / (js + 0.3))[:, None] * e
    wanted = [int((scores[i] > scores[i, token]).sum()) + 1 for i, token in enumerate(ranks.token_ids)]
    assert ranks.ranks == wanted
    assert max(ranks.ranks) > 1
