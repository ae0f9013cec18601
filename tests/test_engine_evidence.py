"""The engine's evidence: which units answer a question, and what several of them become together."""

import math
from collections.abc import Callable

import pytest
import torch

from plume_memory import AnswerPolicy, Engine
from plume_memory.engine import Evidence
from plume_memory.errors import InvalidInput
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.base import BaseModel
from plume_memory.model.reading import compile_states
from plume_memory.records import History, ScoredUnit, Transition, Unit, join_units
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.retrieve import SHORTLIST, WORDS_NATS, retrieve
from plume_memory.terms import terms_of
from plume_memory.testing import HashParameterizer, tiny_base, tiny_engine
from tests.passes import watched

MODULE = "mlp.down_proj"


class Kept:
    """A cache that shows what it holds."""

    def __init__(self, place: str = "here") -> None:
        self.place, self.owner, self.held = place, "alice", dict[str, bytes]()

    def get(self, key: str) -> bytes | None:
        return self.held.get(key)

    def put(self, key: str, kind: str, content: bytes) -> None:
        self.held[key] = content

    def is_current(self) -> bool:
        return True

    def discard(self, key: str) -> None:
        self.held.pop(key, None)


# --- what ranks the units -------------------------------------------------------------------------


LEXICAL, READER = (AnswerPolicy(evidence="states", retrieval=retrieval) for retrieval in ("lexical", "reader"))


def units(*texts: str) -> tuple[Unit, ...]:
    return tuple(Unit(i, i + 1, 0, len(text), text) for i, text in enumerate(texts))


def ranked(engine: Engine, index: UnitIndex, question: str, cache: Kept | None = None, *, k: int) -> list[ScoredUnit]:
    reader = engine.reader if cache is None else engine.reader.of(cache)
    return retrieve(index, question, reader, engine.policy, k=k)


def texts_read(counts: list[int]) -> Callable[[torch.Tensor, torch.Tensor], None]:
    """Texts of a pass: they begin at position 0, a question behind them."""
    return lambda ids, positions: counts.append(len(ids) if int(positions[0, 0]) == 0 else 0)


def test_the_reader_scores_a_shortlist_in_one_pass() -> None:
    engine = tiny_engine(policy=AnswerPolicy(retrieval="reader"))
    texts = [f"Alice lives at number {i}." if i % 2 else f"Bob has {i} boats." for i in range(50)]
    question = "Where does Alice live?"
    read: list[int] = []

    with watched(engine.base, texts_read(read)):
        found = ranked(engine, UnitIndex(units(*texts)), question, k=50)

    assert sum(read) == SHORTLIST + 1, "and no text, for the gain"
    assert len({one.unit.position for one in found}) == 50
    shown = found[:SHORTLIST]
    assert {texts[i] for i in range(50) if i % 2} <= {one.unit.text for one in shown}, "the best by shared words"
    expected = engine.reader.read([one.unit.text for one in shown], question)
    shared = UnitIndex(units(*texts)).shared(question)
    lacks = [WORDS_NATS * (1 - shared[one.unit.position]) for one in shown]
    assert [math.log(one.score) for one in shown] == pytest.approx(
        [one.log_p - own for one, own in zip(expected, lacks, strict=True)], abs=1e-5
    )
    assert [one.gain for one in shown] == pytest.approx([one.gain for one in expected], abs=1e-4)
    assert {(one.score, one.gain) for one in found[SHORTLIST:]} == {(0.0, None)}
    assert ranked(engine, UnitIndex(units(*texts)), question, k=1)[:1] == found[:1]


def test_what_was_read_for_one_question_is_not_read_for_the_next() -> None:
    engine, cache = tiny_engine(policy=AnswerPolicy(retrieval="reader")), Kept()
    index = UnitIndex(units("Alice lives in Bern.", "Bob has a boat.", "Carol paints."))
    read: list[int] = []
    longer = index.extended([Unit(3, 4, 0, 10, "Dora swims")])

    with watched(engine.base, texts_read(read)):
        ranked(engine, index, "Where does Alice live?", cache, k=3)
        found = ranked(engine, longer, "Who has a boat?", cache, k=4)

    assert sum(read) == 5, "four texts and no text, each once"
    assert found == ranked(engine, longer, "Who has a boat?", k=4)
    engine.discard(History("alice", 1, ()), cache)
    assert not engine.reader._kept


def test_words_and_the_reader_disagree_and_the_policy_chooses() -> None:
    base = tiny_base("llama")
    index = UnitIndex(units("Alice lives in Bern.", "x y z", "Where Alice does live, we say.", "Bob"))
    lexical, reader = (Engine(base, None, policy) for policy in (LEXICAL, READER))
    question = "Where does Alice live?"

    assert ranked(lexical, index, question, k=4) == index.rank(question, delta=0.5, k=4)
    assert ranked(reader, index, question, k=4) != index.rank(question, delta=0.5, k=4)


OBSERVATORY = (
    "The Varkesh Observatory stands on the Omblen Plateau at an elevation of 3,140 metres.",
    "Its principal instrument, a 2.6-metre reflector nicknamed the Heron, saw first light in 1987 under founding "
    "director Tislava Renquist.",
    "The observatory was built by the Polytechnic of Dorrafell, which still pays for its upkeep, while the "
    "neighbouring village of Sull supplies water and most of the kitchen staff.",
    "In 2007, two decades after it first looked at the sky, the Heron's mirror was stripped and re-coated with "
    "aluminium.",
    "The telescope is best known for the discovery of the ring arc around the minor planet Quenby.",
    "Visitors are admitted on the first Saturday of each month between May and September.",
)


@pytest.mark.model
@pytest.mark.parametrize(
    ("question", "at", "shared"),
    [("Where do the cooks mostly come from?", 2, {"the"}), ("How high above sea level is the facility?", 0, {"the"})],
)
def test_smollm2_finds_a_sentence_that_shares_no_telling_word_with_its_question(
    smollm2: BaseModel, question: str, at: int, shared: set[str]
) -> None:
    index = UnitIndex(units(*OBSERVATORY))
    lexical, reader = (Engine(smollm2, None, policy) for policy in (LEXICAL, READER))

    assert set(terms_of(question)) & set(terms_of(OBSERVATORY[at])) == shared
    assert ranked(lexical, index, question, k=1)[0].unit.position != at
    assert index.rank(question, delta=0.0, k=1)[0].unit.position != at, "δ is not to blame"
    assert ranked(reader, index, question, k=1)[0].unit.position == at


# --- several units as one evidence ----------------------------------------------------------------


def factors_of(evidence: Evidence) -> LoraFactors:
    assert evidence.factors is not None
    return evidence.factors


CHOSEN = units("Alice lives in Bern. ", "Bob has a boat.", "Carol plays chess.\n")
FRAMED = tiny_base("llama").chat.framed([{"role": "user", "content": "Who?"}])


@pytest.mark.parametrize("bias", [False, True])
def test_several_units_are_written_as_one_text_that_is_kept_in_the_process_only(bias: bool) -> None:
    engine, cache = tiny_engine(bias=bias), Kept()
    parameterizer = engine.parameterizer
    assert isinstance(parameterizer, HashParameterizer)

    found = engine.evidence((CHOSEN[2], CHOSEN[0]), FRAMED, cache)
    again = engine.evidence((CHOSEN[0], CHOSEN[2]), FRAMED, cache)

    assert parameterizer.calls == ["Alice lives in Bern. Carol plays chess."]
    expected = parameterizer.parameterize(parameterizer.calls)[0].delta(MODULE, 1)
    expected = expected + (parameterizer.bias.delta(MODULE, 1) if parameterizer.bias else 0)
    for one in (found, again):
        assert one.states is None
        torch.testing.assert_close(factors_of(one).delta(MODULE, 1), expected)
    assert not cache.held


def test_one_unit_in_a_sequence_is_the_unit() -> None:
    engine, cache = tiny_engine(), Kept()

    alone = engine.evidence(CHOSEN[:1], FRAMED, cache)

    assert engine.evidence(CHOSEN[:1], FRAMED, cache).factors is alone.factors
    assert list(cache.held) == [engine.encoder.factors_key("Alice lives in Bern. ")]
    with pytest.raises(InvalidInput, match="at least one unit"):
        engine.evidence((), FRAMED, cache)


def test_a_parameterizer_that_trains_on_each_text_is_not_asked_for_a_joined_one() -> None:
    """Its units are added at 1/k each; the bias enters once."""
    engine, cache = tiny_engine(additive=True, bias=True), Kept()
    parameterizer = engine.parameterizer
    assert isinstance(parameterizer, HashParameterizer)

    found = engine.evidence(CHOSEN, FRAMED, cache)

    assert parameterizer.calls == [unit.text for unit in CHOSEN]
    assert set(cache.held) == {engine.encoder.factors_key(unit.text) for unit in CHOSEN}
    own = sum(f.delta(MODULE, 2) for f in parameterizer.parameterize([unit.text for unit in CHOSEN]))
    assert parameterizer.bias is not None
    torch.testing.assert_close(factors_of(found).delta(MODULE, 2), own / 3 + parameterizer.bias.delta(MODULE, 2))


def test_several_units_are_compiled_as_one_text_that_is_kept_in_the_process_only() -> None:
    engine, cache = Engine(tiny_base("llama"), None), Kept()

    found = engine.evidence(CHOSEN[1:], FRAMED, cache)

    assert found.factors is None
    assert found.states is not None
    expected = compile_states(engine.base, [FRAMED.evidence_ids("Bob has a boat. Carol plays chess.")])[0]
    assert torch.equal(found.states.keys, expected.keys)
    assert engine.evidence(CHOSEN[1:], FRAMED, cache).states is found.states
    assert not cache.held


@pytest.mark.parametrize("form", ["adapter", "states", "both"])
def test_discarding_a_history_drops_what_its_units_became_together(form: str) -> None:
    engine = tiny_engine(policy=AnswerPolicy(evidence=form))  # type: ignore[arg-type]
    here, elsewhere = Kept(), Kept("elsewhere")
    first = [engine.evidence(CHOSEN, FRAMED, cache) for cache in (here, elsewhere)]

    engine.discard(History("alice", 1, (Transition(1, CHOSEN[0].text),)), here)

    again = [engine.evidence(CHOSEN, FRAMED, cache) for cache in (here, elsewhere)]
    for kind in ("factors", "states"):
        before, after = ([getattr(one, kind) for one in some] for some in (first, again))
        assert (after[0] is None) == (before[0] is None) == (form == {"factors": "states", "states": "adapter"}[kind])
        assert after[0] is None or after[0] is not before[0]
        assert after[1] is before[1]


def test_joined_units_stand_in_temporal_order_and_a_single_one_as_it_is() -> None:
    assert join_units(reversed(CHOSEN)) == "Alice lives in Bern. Bob has a boat. Carol plays chess."
    assert join_units(CHOSEN[2:]) == "Carol plays chess.\n"


def test_states_that_leave_no_room_for_an_answer_are_left_out_beside_an_adapter() -> None:
    base = tiny_base("llama", context_window=160)
    policy = AnswerPolicy(evidence="both", max_new_tokens=20)
    engine, cache = Engine(base, HashParameterizer(base), policy), Kept()
    for words, fits in (("Who?", True), ("Who? " * 20, False)):
        framed = base.chat.framed([{"role": "user", "content": words}])
        row = engine.query(framed, None, engine.evidence(CHOSEN[:1], framed, cache)).evidence_row
        assert row is not None
        assert row.factors is not None
        assert (row.states is not None) == fits
        assert row.prompt_ids == tuple(framed.continuation_ids() if fits else framed.prompt_ids())
