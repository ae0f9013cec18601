"""Several units of which each answers alone too: the surest answer is given, and says what it came from."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from eval.caches import CountingCache
from eval.methods.decoding import Answerer
from eval.methods.parametric import Plume
from eval.records import MuseQuestion, MuseTransition
from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.answering.evidence import leader_of
from plume_memory.answering.grounding import source_of
from plume_memory.lora.factors import LoraFactors
from plume_memory.model import rivals
from plume_memory.model.decode import Decoded
from plume_memory.records import Answer, ScoredUnit, Transition
from plume_memory.testing import HashParameterizer, tiny_engine

FACTS = ("Alice lives in Bern.", "Bob has a boat.", "Where Alice lives there is a lake.", "Carol is ill.")
ASKED = ("Where does Alice live?", "Who has a boat?", "Is Carol ill?")
Opened = Callable[[Engine], ParametricMemory]


def engine_of(**options: object) -> Engine:
    own = {"evidence_units": 3, "router": "likelihood", "alone_margin": 0.0, **options}
    return tiny_engine(settings=AnswerPolicy(unit_tokens=64, delta=0.2, **own))  # type: ignore[arg-type]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    def told(engine: Engine) -> ParametricMemory:
        memory = ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine)
        for text in FACTS:
            memory.update(text)
        return memory

    return told


def sureness(decoded: Decoded | Answer) -> float:
    log_probs = [step.log_prob for step in decoded.trace[: rivals.TRIAL_TOKENS]]
    return sum(log_probs) / len(log_probs)


def said_by(memory: ParametricMemory, engine: Engine, question: str, side: list[ScoredUnit], tokens: int) -> Decoded:
    framed = engine.base.chat.framed([{"role": "user", "content": question}])
    adapter = memory.at(version=len(FACTS)).global_adapter
    evidence = engine.evidence([one.unit for one in side], framed, CountingCache())
    settings = engine.decode_settings(max_new_tokens=tokens)
    return engine.decoder.decode([engine.query(framed, adapter, evidence)], settings)[0]


@pytest.mark.parametrize("evidence", ["lora", "kv"])
@pytest.mark.parametrize("tokens", [4, 9])
def test_the_surest_answer_is_given_with_its_evidence(
    opened: Opened, evidence: str, tokens: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "TRIAL_TOKENS", 6)
    engine = engine_of(evidence=evidence)
    with opened(engine) as memory:
        answers = memory.ask_many(ASKED, max_new_tokens=tokens)
        for question, answer in zip(ASKED, answers, strict=True):
            routed = memory.route(question, k=3)
            sides = [routed, *([one] for one in routed)]
            said = [said_by(memory, engine, question, side, tokens) for side in sides]
            best = max(range(len(sides)), key=lambda i: sureness(said[i]))
            assert answer.text == said[best].text
            assert answer.evidence == source_of(answer.text, question, sides[best])
            assert answer.evidence_units == tuple(sorted(sides[best], key=lambda one: one.unit.position))

            *pieces, last = memory.stream(question, max_new_tokens=tokens)
            assert last.answer is not None
            assert "".join(piece.text for piece in [*pieces, last]) == answer.text == last.answer.text
            assert last.answer.evidence_units == answer.evidence_units
            assert memory.ask(question, max_new_tokens=tokens).evidence_units == answer.evidence_units
    assert {len(answer.evidence_units) for answer in answers} != {3}, "some unit alone must have won"


def test_a_margin_that_none_reaches_leaves_the_answer_to_all_units_together(opened: Opened, tmp_path: Path) -> None:
    wide = engine_of(alone_margin=50.0)
    with opened(wide) as memory:
        found = memory.ask(ASKED[0], max_new_tokens=4)
    with ParametricMemory.open(
        "alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine_of(alone_margin=None)
    ) as m:
        assert m.ask(ASKED[0], max_new_tokens=4).text == found.text
    assert len(found.evidence_units) == 3


def test_where_the_routers_score_is_all_that_counts_the_best_unit_answers_alone_or_with_the_others(
    opened: Opened,
) -> None:
    with opened(engine_of(score_weight=1000.0)) as memory:
        for question, answer in zip(ASKED, memory.ask_many(ASKED, max_new_tokens=4), strict=True):
            best = max(memory.route(question, k=3), key=lambda one: one.score)
            assert best in answer.evidence_units


@pytest.mark.parametrize("streamed", [False, True])
def test_of_answers_as_sure_the_one_told_last_is_given(
    opened: Opened, streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the tiny model says stands in no text: here its answers say what the test says they do."""
    asked: list[tuple[str, str, tuple[int, ...]]] = []

    def told(answer: str, question: str, units: list[ScoredUnit]) -> ScoredUnit:
        asked.append((answer, question, tuple(one.unit.version for one in units)))
        return min(units, key=lambda one: one.unit.version)

    monkeypatch.setattr("plume_memory.engine.last_telling", told)
    monkeypatch.setattr("plume_memory.model.rivals.RECENCY_REACH", 50.0)
    monkeypatch.setattr("plume_memory.model.rivals.Contest._telling", lambda self, i, one: self.told_by(i, one.text))
    with opened(engine_of(recency_margin=50.0)) as memory:
        latest = max(memory.route(ASKED[0], k=3), key=lambda one: one.unit.version)
        if streamed:
            *_, last = memory.stream(ASKED[0], max_new_tokens=4)
            assert last.answer is not None
            found = last.answer
        else:
            found = memory.ask(ASKED[0], max_new_tokens=4)
    assert found.evidence_units == (latest,)
    assert found.text in [answer for answer, question, versions in asked if versions == (latest.unit.version,)]
    assert {question for _, question, _ in asked} == {ASKED[0]}


def test_a_unit_without_company_has_no_rival(tmp_path: Path) -> None:
    engine = engine_of()
    with ParametricMemory.open("one", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as memory:
        assert engine.sides([]) == [[]]
        memory.update(FACTS[0])
        routed = memory.route(ASKED[0], k=3)
        assert engine.sides(routed) == [routed]
        assert memory.ask(ASKED[0], max_new_tokens=4).evidence_units == tuple(routed)


def test_a_unit_that_leads_answers_alone(opened: Opened) -> None:
    with opened(engine_of(alone_lead=0.0)) as memory:
        leaders = {question: leader_of(memory.route(question, k=3), 0.0) for question in ASKED}
        assert any(leaders.values())
        for question, first in leaders.items():
            if first is not None:
                assert memory.ask(question, max_new_tokens=4).evidence_units == (first,)
                *_, last = memory.stream(question, max_new_tokens=4)
                assert last.answer is not None
                assert last.answer.evidence_units == (first,)


def test_the_margin_parts_fingerprints_and_none_keeps_those_of_before() -> None:
    assert engine_of(alone_margin=0.2).fingerprint != engine_of(alone_margin=None).fingerprint
    assert engine_of(recency_margin=0.2).fingerprint != engine_of().fingerprint
    for own in ({"score_weight": 0.5}, {"told_weight": 0.1}, {"alone_lead": 0.5}):
        assert engine_of(**own).fingerprint != engine_of().fingerprint
    assert engine_of(insist_scale=3.0).fingerprint != engine_of().fingerprint
    later = {
        "alone_margin",
        "alone_lead",
        "recency_margin",
        "alone_scale",
        "insist_scale",
        "score_weight",
        "told_weight",
    }
    assert not later & set(AnswerPolicy().canonical())


def test_one_unit_is_written_louder_and_several_together_are_not(opened: Opened) -> None:
    plain, louder = engine_of(), engine_of(alone_scale=1.5)
    assert plain.fingerprint != louder.fingerprint
    framed = plain.base.chat.framed([{"role": "user", "content": ASKED[0]}])
    units = plain.segmenter.units([Transition(1, FACTS[0]), Transition(2, FACTS[1])])
    for chosen, factor in ((units[:1], 1.5), (units, 1.0)):
        once, now = (engine.evidence(chosen, framed, CountingCache()) for engine in (plain, louder))
        assert isinstance(once, LoraFactors)
        assert isinstance(now, LoraFactors)
        for name in once.modules:
            torch.testing.assert_close(now.delta(name, 0), factor * once.delta(name, 0))


def test_what_took_nothing_from_its_evidence_is_asked_again_louder(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiny model never says a word of its texts: here the louder answer is said to."""
    plain, engine = engine_of(), engine_of(insist_scale=4.0)
    with opened(plain) as memory:
        first = memory.ask_many(ASKED, max_new_tokens=6)
        sides = [list(answer.evidence_units) for answer in first]
        adapter = memory.at(version=len(FACTS)).global_adapter
    louder = []
    for question, side in zip(ASKED, sides, strict=True):
        framed = engine.base.chat.framed([{"role": "user", "content": question}])
        evidence = plain.evidence([one.unit for one in side], framed, CountingCache(), scale=4.0)
        settings = plain.decode_settings(max_new_tokens=6)
        louder += plain.decoder.decode([plain.query(framed, adapter, evidence)], settings)
    assert any(one.text != two.text for one, two in zip(first, louder, strict=True))

    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine) as memory:
        # the same memory; nothing is taken, so nothing changes
        assert [answer.text for answer in memory.ask_many(ASKED, max_new_tokens=6)] == [one.text for one in first]
        taken = {one.text for one in louder}
        monkeypatch.setattr("plume_memory.engine.takes_from", lambda answer, *_: answer in taken)
        answers = memory.ask_many(ASKED, max_new_tokens=6)
        assert [answer.text for answer in answers] == [one.text for one in louder]
        assert [list(answer.evidence_units) for answer in answers] == sides
        for question, answer in zip(ASKED, answers, strict=True):
            *_, last = memory.stream(question, max_new_tokens=6)
            assert last.answer is not None
            assert (last.answer.text, last.answer.evidence_units) == (answer.text, answer.evidence_units)


def test_what_bears_on_the_question_faintly_is_not_insisted_on(opened: Opened) -> None:
    engine = engine_of(insist_scale=4.0, insist_gain=1.0)
    framed = engine.base.chat.framed([{"role": "user", "content": ASKED[0]}])
    unit = engine.segmenter.units([Transition(1, FACTS[0])])[0]
    for gains, taken in (((0.9, 0.2), True), ((0.9, 1.0), False), ((None, None), False), ((None, 0.9), True)):
        sides = [[ScoredUnit(unit, 0.5, True, gain) for gain in gains]]
        insistence = engine.contest(ASKED[0], framed, None, sides, CountingCache()).insistence
        assert insistence is not None
        assert insistence.takes(0, "It depends.") is taken
        assert insistence.takes(0, "In Bern.")


def test_a_prefix_has_no_weight_to_insist_with(opened: Opened) -> None:
    engine = engine_of(evidence="kv", insist_scale=4.0)
    with opened(engine) as memory:
        assert memory.ask(ASKED[0], max_new_tokens=4).text == memory.ask(ASKED[0], max_new_tokens=4).text
        framed = engine.base.chat.framed([{"role": "user", "content": ASKED[0]}])
        sides = engine.sides(memory.route(ASKED[0], k=3))
        assert engine.contest(ASKED[0], framed, None, sides, CountingCache()).insistence is None


def test_what_a_sentence_became_is_not_stored(opened: Opened, tmp_path: Path) -> None:
    """It is sooner written again than read; and erasing it would have to look for it."""
    engine = engine_of(router="sentences")
    assert isinstance(engine.parameterizer, HashParameterizer)
    with opened(engine) as memory:
        files = sorted(tmp_path.rglob("*"))
        made = len(engine.parameterizer.calls)
        memory.ask(ASKED[0], max_new_tokens=4)
        assert len(engine.parameterizer.calls) == made + 4, "all together, and each alone"
        memory.ask(ASKED[0], max_new_tokens=4)
        assert len(engine.parameterizer.calls) == made + 4, "kept in this process"
        assert sorted(tmp_path.rglob("*")) == files


def test_the_suite_answers_as_the_product_does(opened: Opened) -> None:
    engine = engine_of(max_new_tokens=5)
    with opened(engine) as memory:
        wanted = [memory.ask(question) for question in ASKED]
    asked = [MuseQuestion(id=q, question=q, answers=("x",), old_answers=("x",), affected=False) for q in ASKED]
    transition = MuseTransition("t", "d", len(FACTS), FACTS, tuple(asked))
    method = Plume(engine, CountingCache(), Answerer(engine.decoder, engine.decode_settings()))
    found = method.prepare(transition).answer(asked)
    assert [reply.text for reply in found] == [answer.text for answer in wanted]
    for reply, answer in zip(found, wanted, strict=True):
        assert reply.detail is not None
        assert answer.evidence is not None
        assert reply.detail["evidence"] == " ".join(one.unit.text for one in answer.evidence_units)
