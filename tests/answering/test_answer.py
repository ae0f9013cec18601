"""From questions to answers on a tiny model: the rows, the one retry, and that a stream says what a batch says."""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from eval.caches import CountingCache
from eval.methods.decoding import Answerer
from eval.methods.parametric import Plume
from eval.records import MuseQuestion, MuseTransition
from plume_memory import AnswerPolicy, Engine, ParametricMemory
from plume_memory.answering.answer import ABSTENTION, PreparedQuestion, decode_all, decode_stream, finish, prepare
from plume_memory.answering.calibration import confidence, mean_log_probability
from plume_memory.answering.evidence import leads
from plume_memory.answering.grounding import source_of
from plume_memory.answering.options import DecodeOptions, settings_of
from plume_memory.errors import InvalidInput
from plume_memory.model.base import BaseModel
from plume_memory.model.grammar import Grammar
from plume_memory.model.queries import Decoded, DecodeSettings, Query, Step, collect
from plume_memory.model.streams import Row
from plume_memory.policy import Calibration
from plume_memory.records import ScoredUnit, Signals, TokenTrace, Unit
from plume_memory.scheduling import Scheduler
from plume_memory.terms import FUNCTION_WORDS, terms_of
from plume_memory.testing import HashParameterizer, random_factors, tiny_base, tiny_engine
from tests.passes import watched

MODULE = "mlp.down_proj"
QUESTION = "Where does Alice live?"
SETTINGS = DecodeSettings(max_new_tokens=24, lambda_max=2.0, tau=0.2)
NEVER = Query(Row(()))
"""A query that cannot be decoded: it has no prompt."""


def scored(*texts: str, gain: float | None = None) -> tuple[ScoredUnit, ...]:
    """One unit per version, as the reader or the words (without a gain) ranked them."""
    return tuple(ScoredUnit(Unit(i, i + 1, 0, len(text), text), 0.5, gain) for i, text in enumerate(texts))


# --- once more, and only where the answer is not grounded -----------------------------------------


def asked(base: BaseModel, seed: int) -> PreparedQuestion:
    """A question with two rows, and the same with a louder evidence row; its evidence is to be said."""
    prompt = tuple(base.chat.prompt_ids(QUESTION))
    first = Row(prompt, random_factors(base, seed=seed))
    quiet, loud = (Row(prompt, random_factors(base, seed=10 + seed, size=size)) for size in (0.1, 0.3))
    return PreparedQuestion(QUESTION, (), Query(first, quiet), Query(first, loud))


def both(decoder: Scheduler, one: PreparedQuestion, settings: DecodeSettings = SETTINGS) -> tuple[Decoded, Decoded]:
    """What the model says to a question, and louder."""
    assert one.retry is not None
    first, second = decoder.decode([one.query, one.retry], settings)
    return first, second


def word_of(text: str, *, but: str = "") -> str:
    """A word that an answer has, and another has not."""
    return next(term for term in terms_of(text) if term not in {*FUNCTION_WORDS, *terms_of(QUESTION), *terms_of(but)})


def streamed(decoder: Scheduler, one: PreparedQuestion, settings: DecodeSettings = SETTINGS) -> Decoded:
    return collect(one.query, list(decode_stream(decoder, one, settings)))


def answered(decoder: Scheduler, one: PreparedQuestion, settings: DecodeSettings = SETTINGS) -> Decoded:
    """The answer of a batch, which is that of a stream."""
    (found,) = decode_all(decoder, [one], settings)
    again = streamed(decoder, one, settings)
    assert (again.text, again.finish_reason) == (found.text, found.finish_reason)
    assert [token.token_id for token in again.trace] == [token.token_id for token in found.trace]
    assert again.retried == found.retried
    return found


def test_an_answer_without_a_word_of_its_evidence_gives_way_to_a_second_that_has_one(tiny: BaseModel) -> None:
    decoder, one = Scheduler(tiny), asked(tiny, 0)
    first, second = both(decoder, one)
    found = answered(decoder, replace(one, evidence=scored(word_of(second.text, but=first.text))))
    assert found.text == second.text != first.text
    assert found.finish_reason == second.finish_reason
    assert found.retried


def test_a_second_answer_that_is_not_grounded_does_not_replace_the_first(tiny: BaseModel) -> None:
    decoder, one = Scheduler(tiny), asked(tiny, 0)
    first, second = both(decoder, one)
    assert first.text != second.text
    assert answered(decoder, replace(one, evidence=scored("Zytgloggelaube"))).text == first.text


def test_a_grounded_answer_is_not_decoded_again(tiny: BaseModel) -> None:
    decoder, one = Scheduler(tiny), asked(tiny, 0)
    first, _ = both(decoder, one)
    never = replace(one, retry=NEVER)
    assert answered(decoder, replace(never, evidence=scored(word_of(first.text)))).text == first.text

    ungrounded = replace(never, evidence=scored("Zytgloggelaube"))
    with pytest.raises(InvalidInput, match="at least one token"):
        decode_all(decoder, [ungrounded], SETTINGS)
    with pytest.raises(InvalidInput, match="at least one token"):
        streamed(decoder, ungrounded)


def test_a_grammar_never_retries(tiny_llama: BaseModel) -> None:
    """It leaves no choice of words."""
    decoder = Scheduler(tiny_llama)
    settings = replace(SETTINGS, grammar=Grammar.lark("start: /[a-f]{3}/"))
    one = replace(asked(tiny_llama, 0), evidence=scored("Zytgloggelaube"), retry=NEVER)
    assert re.fullmatch("[a-f]{3}", answered(decoder, one, settings).text)


@contextmanager
def writing_letters(base: BaseModel) -> Iterator[None]:
    """Let a model write some letters and blanks only: a tiny one then writes words."""
    allowed = [base.tokenizer.encode(letter, add_special_tokens=False)[0] for letter in "abde "]
    closed = torch.full((base.model.config.vocab_size,), -1e9)
    closed[allowed] = 0.0
    with watched(base, says=lambda logits: logits + closed):
        yield


def cases(decoder: Scheduler, one: PreparedQuestion) -> list[tuple[str, str]]:
    """Evidence of which the first answer has a word, the second only, and neither; and the answer to be given."""
    first, second = (each.text for each in both(decoder, one))
    new = set(terms_of(second)) - set(terms_of(first)) - FUNCTION_WORDS
    return [(first, first), ("Zytgloggelaube", first), (" ".join(sorted(new)) or first, second if new else first)]


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "mistral"])
@pytest.mark.parametrize("seed", [3, 4])
def test_a_batch_gives_each_question_the_answer_that_its_stream_gives(family: str, seed: int) -> None:
    """Some are decoded again with and without avail, some not, some cannot be, and some are watched for running on."""
    base = tiny_base(family, seed=seed)
    decoder = Scheduler(base)
    questions: list[PreparedQuestion] = []
    wanted: list[str] = []
    one = asked(base, seed)
    assert one.retry is not None
    with writing_letters(base):
        first, second = (each.text for each in both(decoder, one))
        for evidence, answer in cases(decoder, one):
            own = replace(one, evidence=scored(evidence))
            sources = (evidence,)
            watched = replace(own, query=replace(one.query, sources=sources), retry=replace(one.retry, sources=sources))
            questions += [own, watched, replace(own, retry=None)]
            wanted += [answer, answer, first]
        batch = decode_all(decoder, questions, SETTINGS, batch=5)
        streams = [streamed(decoder, one) for one in questions]

    assert [one.text for one in batch] == wanted
    assert second in wanted
    for own_answer, stream in zip(batch, streams, strict=True):
        assert (own_answer.text, own_answer.finish_reason) == (stream.text, stream.finish_reason)
        assert [token.token_id for token in own_answer.trace] == [token.token_id for token in stream.trace]


class Scripted(Scheduler):
    """Says what it is told to, a piece a token; `drawn` is what was taken of it so far."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.drawn: list[str] = []

    def stream(
        self, queries: Sequence[Query], settings: DecodeSettings, *, owner: str = ""
    ) -> Generator[Step, None, None]:
        pieces = self.answers.pop(0)
        for at, text in enumerate(pieces):
            self.drawn.append(text)
            last = at == len(pieces) - 1
            yield Step(0, text, TokenTrace(at, text, 0.0, 0.0, -0.1), "stop" if last else None)


PIECES = ("A car", "pet ", "and a", " lamp")


def test_a_stream_begins_when_a_word_of_the_evidence_is_whole() -> None:
    decoder = Scripted(PIECES)
    steps = decode_stream(decoder, PreparedQuestion(QUESTION, scored("The carpet."), NEVER, NEVER), SETTINGS)
    assert next(steps).text == "A car"
    assert decoder.drawn == ["A car", "pet "]
    assert [step.text for step in steps] == ["pet ", "and a", " lamp"]


def test_the_beginning_of_a_word_grounds_no_stream() -> None:
    """ "car" of "carpet" is in no text; were it given out at once, streams would say what answers do not."""
    decoder = Scripted(PIECES, ["Her ", "car."])
    one = PreparedQuestion(QUESTION, scored("The car."), NEVER, NEVER)
    assert [step.text for step in decode_stream(decoder, one, SETTINGS)] == ["Her ", "car."]
    decoder = Scripted(PIECES, ["A car", "a", "van"])
    assert [step.text for step in decode_stream(decoder, one, SETTINGS)] == list(PIECES)


def test_a_stream_without_a_retry_gives_each_token_when_it_comes() -> None:
    decoder = Scripted(PIECES)
    steps = decode_stream(decoder, PreparedQuestion(QUESTION, scored("The lamp."), NEVER), SETTINGS)
    assert next(steps).text == "A car"
    assert decoder.drawn == ["A car"]


def test_a_stream_that_is_closed_midway_leaves_the_decoder_free(tiny_llama: BaseModel) -> None:
    decoder, one = Scheduler(tiny_llama), asked(tiny_llama, 0)
    before = streamed(decoder, one)
    steps = decode_stream(decoder, one, SETTINGS)
    next(steps)
    steps.close()
    assert streamed(decoder, one).text == before.text


# --- rows -----------------------------------------------------------------------------------------


def rows(engine: Engine, evidence: Sequence[ScoredUnit], *, tools: bool = False) -> PreparedQuestion:
    framed = engine.base.chat.framed([{"role": "user", "content": QUESTION}])
    adapter = random_factors(engine.base, seed=99)
    return prepare(engine, QUESTION, framed, evidence, adapter, CountingCache(), tools=tools)


def reading(**numbers: object) -> Engine:
    return tiny_engine(policy=AnswerPolicy(retrieval="reader", unit_tokens=64, **numbers))


def test_without_evidence_there_is_one_row_and_no_adapter(tiny_llama: BaseModel) -> None:
    engine = reading(retry_scale=3.0)
    found = rows(engine, ())
    assert (found.query.evidence_row, found.query.sources, found.retry) == (None, None, None)
    assert (found.query.global_row.factors, found.query.global_row.states) == (None, None)
    bare = Scheduler(tiny_llama).decode([Query(Row(tuple(tiny_llama.chat.prompt_ids(QUESTION))))], SETTINGS)
    assert decode_all(engine.scheduler, [found], SETTINGS)[0].text == bare[0].text


@pytest.mark.parametrize("form", ["adapter", "states", "both"])
def test_the_prompt_of_both_rows_holds_the_question_only(form: str) -> None:
    engine = reading(evidence=form, evidence_units=2)
    query = rows(engine, scored("Alice lives in Bern.", "Bob has a boat.")).query
    assert query.evidence_row is not None
    assert (query.evidence_row.factors is None) == (form == "states")
    assert (query.evidence_row.states is None) == (form == "adapter")
    for row in (query.global_row, query.evidence_row):
        assert "Bern" not in engine.base.tokenizer.decode(row.prompt_ids)
        assert QUESTION in engine.base.tokenizer.decode(row.prompt_ids)


@pytest.mark.parametrize(
    ("gain", "min_gain", "again"),
    [(7.9, 8.0, False), (8.0, 8.0, True), (0.0, None, True), (None, 8.0, True), (None, None, True)],
)
def test_what_may_be_decoded_again_gains_at_least_min_gain(
    gain: float | None, min_gain: float | None, again: bool
) -> None:
    """Evidence that is enough because it names what is asked for, but gains little, is not said louder."""
    evidence = scored("Alice lives in Bern.", "Bob has a boat.", gain=gain)
    assert (rows(reading(retry_scale=3.0, min_gain=min_gain), evidence).retry is not None) is again
    assert rows(reading(min_gain=min_gain), evidence).retry is None, "not without a retry_scale"


def test_the_best_gain_of_the_evidence_counts() -> None:
    evidence = (*scored("Alice lives in Bern.", gain=1.0), *scored("Bob has a boat.", gain=9.0))
    assert rows(reading(retry_scale=3.0, min_gain=8.0), evidence).retry is not None
    assert rows(reading(retry_scale=3.0, min_gain=9.5), evidence).retry is None


@pytest.mark.parametrize("texts", [("Alice lives in Bern.",), ("Alice lives in Bern.", "Bob has a boat.")])
@pytest.mark.parametrize("form", ["adapter", "both"])
def test_a_retry_has_the_same_rows_with_the_evidence_at_its_scale(texts: tuple[str, ...], form: str) -> None:
    engine = reading(evidence=form, evidence_units=2, retry_scale=3.0)
    found = rows(engine, scored(*texts))
    assert found.retry is not None
    once, again = found.query.evidence_row, found.retry.evidence_row
    assert once is not None
    assert again is not None
    assert once.factors is not None
    assert again.factors is not None
    torch.testing.assert_close(again.factors.delta(MODULE, 0), 3.0 * once.factors.delta(MODULE, 0))
    assert (again.prompt_ids, again.states) == (once.prompt_ids, once.states)
    assert found.retry.global_row.prompt_ids == found.query.global_row.prompt_ids
    assert found.retry.global_row.factors is found.query.global_row.factors
    assert found.retry.sources == found.query.sources


def test_what_is_prepared_for_a_retry_is_what_is_said_then() -> None:
    engine = reading(evidence_units=2, retry_scale=4.0)
    found = rows(engine, scored("Alice lives in Bern.", "Bob has a boat."))
    with writing_letters(engine.base):
        first, second = both(engine.scheduler, found)
        neither = answered(engine.scheduler, found)
        assert (neither.text, neither.retried) == (first.text, True), "a model that knows five letters names no town"
        said = replace(found, evidence=scored(word_of(second.text, but=first.text)))
        assert answered(engine.scheduler, said).text == second.text != first.text


def test_an_answer_is_watched_for_running_on_where_units_are_read_and_it_is_no_call() -> None:
    evidence = scored("Alice lives in Bern.", "Bob's boat")
    sources = ("Where does Alice live?", "Alice lives in Bern.", "Bob's boat")
    assert rows(reading(evidence_units=2), evidence).query.sources == sources
    assert rows(reading(evidence_units=2), evidence, tools=True).query.sources is None
    by_words = tiny_engine(policy=AnswerPolicy(evidence_units=2, retry_scale=3.0))
    assert rows(by_words, evidence).query.sources is None


# --- the whole way --------------------------------------------------------------------------------

FACTS = ("Alice lives in Bern.", "Bob owns boats.", "Carol sings.", "Alice now lives by a lake.", "Dora paints.")
ASKED = ("Where does Alice live?", "Who has a boat?", "Is Carol ill?", "What is the capital of France?")
POLICY = {"evidence_units": 3, "lead": 0.6, "min_gain": 15.5}
"""By which the tiny model finds three units for a question, one that leads, or none."""
Opened = Callable[[Engine], ParametricMemory]


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    def told(engine: Engine) -> ParametricMemory:
        memory = ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'log.db'}", engine=engine)
        for text in FACTS[memory.version :]:
            memory.update(text)
        return memory

    return told


@pytest.mark.parametrize("form", ["adapter", "states", "both"])
@pytest.mark.parametrize("tokens", [4, 12])
def test_questions_asked_together_alone_and_streamed_have_one_answer(opened: Opened, form: str, tokens: int) -> None:
    retry = {} if form == "states" else {"retry_scale": 3.0}
    with opened(reading(evidence=form, **POLICY, **retry)) as memory:
        options: DecodeOptions = {"max_new_tokens": tokens, "unknown": "bare"}
        together = memory.ask_many(ASKED, **options)
        for question, answer in zip(ASKED, together, strict=True):
            *pieces, last = memory.stream(question, **options)
            assert "".join(piece.text for piece in [*pieces, last]) == answer.text
            for again in (memory.ask(question, **options), last.answer):
                assert again is not None
                assert (again.text, again.finish_reason) == (answer.text, answer.finish_reason)
                assert (again.evidence, again.evidence_units) == (answer.evidence, answer.evidence_units)
                assert again.confidence == pytest.approx(answer.confidence, abs=1e-5)
    assert [len(answer.evidence_units) for answer in together] == [1, 0, 1, 3]


def test_a_unit_that_leads_is_the_evidence_alone(opened: Opened) -> None:
    with opened(reading(evidence_units=3, lead=0.0)) as memory:
        for question in ASKED:
            current = [one for one in memory.route(question, k=9) if not one.superseded and one.gain is not None][:3]
            evidence = current[:1] if leads(current, 0.0) else current
            wanted = tuple(sorted(evidence, key=lambda one: one.unit.position))
            assert memory.ask(question, max_new_tokens=4).evidence_units == wanted
            *_, last = memory.stream(question, max_new_tokens=4)
            assert last.answer is not None
            assert last.answer.evidence_units == wanted
    with opened(reading(evidence_units=3)) as memory:
        assert len(memory.ask(ASKED[0], max_new_tokens=4).evidence_units) > 1


def test_a_memory_that_is_not_relevant_answers_as_the_bare_model_does(opened: Opened) -> None:
    engine = reading(evidence_units=3, min_gain=1e9, retry_scale=3.0)
    prompts = [tuple(engine.base.chat.prompt_ids(question)) for question in ASKED]
    settings = settings_of(engine.policy, {"max_new_tokens": 8})
    bare = engine.scheduler.decode([Query(Row(prompt)) for prompt in prompts], settings)
    with opened(engine) as memory:
        for answer, own in zip(memory.ask_many(ASKED, max_new_tokens=8, unknown="bare"), bare, strict=True):
            assert (answer.text, answer.evidence, answer.evidence_units) == (own.text, None, ())
            assert answer.mean_weight == 0.0


def test_an_answer_names_its_source_and_every_unit_in_temporal_order_and_how_sure_it_is() -> None:
    fitted = Calibration(slope=0.5, offset=0.3, per_nat=0.1)
    base = tiny_base()
    engine = Engine(base, HashParameterizer(base), AnswerPolicy(retrieval="reader"), calibration=fitted)
    evidence = scored("Alice lives in Bern.", "Alice works in Geneva.", "Bob has a boat.", gain=6.0)[::-1]
    decoded = replace(
        engine.scheduler.decode([rows(engine, evidence).query], SETTINGS)[0], text="Alice lives in Geneva."
    )

    (answer,) = finish(engine, [PreparedQuestion(QUESTION, evidence, NEVER)], [decoded], memory="alice", version=3)

    assert answer.evidence == source_of(answer.text, QUESTION, evidence) == evidence[1]
    assert [one.unit.version for one in answer.evidence_units] == [1, 2, 3]
    assert (answer.memory, answer.version, answer.usage) == ("alice", 3, decoded.usage)
    own = Signals(mean_log_probability(decoded.trace), gain=6.0)
    assert (answer.signals, answer.known) == (own, True)
    assert answer.confidence == pytest.approx(confidence(own, fitted))
    assert answer.confidence != pytest.approx(confidence(own, Calibration()))
    cut = replace(decoded, text="Alice lives in Be", finish_reason="length")
    asked = [PreparedQuestion(QUESTION, evidence, NEVER)]
    (answer,) = finish(engine, asked, [cut], memory="alice", version=3, known_at=1e-9)
    assert not answer.known


def test_what_a_sentence_became_is_not_stored(opened: Opened, tmp_path: Path) -> None:
    """It is sooner encoded again than read; and erasing it would have to look for it."""
    engine = reading(**POLICY, retry_scale=3.0)
    assert isinstance(engine.parameterizer, HashParameterizer)
    with opened(engine) as memory:
        _ = memory.at().global_adapter
        files, calls = stored(tmp_path), engine.parameterizer.calls
        before = len(calls)
        answers = memory.ask_many(ASKED, max_new_tokens=4)
        assert [len(answer.evidence_units) for answer in answers] == [1, 0, 1, 3]
        assert len(calls) == before + 3
        memory.ask_many(ASKED, max_new_tokens=4)
        assert len(calls) == before + 3, "kept in this process"
        assert stored(tmp_path) == files


def stored(folder: Path) -> set[Path]:
    """Artifacts, whatever their names."""
    found = {path for path in (folder / "log.db.artifacts").rglob("*") if path.is_file()}
    assert found
    return found


def test_the_suite_answers_from_several_units_as_the_product_does(opened: Opened) -> None:
    engine = reading(**POLICY, retry_scale=3.0, max_new_tokens=5)
    with opened(engine) as memory:
        wanted = [memory.ask(question, unknown="bare") for question in ASKED]
    questions = [MuseQuestion(id=q, question=q, answers=("x",), old_answers=("x",), affected=False) for q in ASKED]
    transition = MuseTransition("t", "d", len(FACTS), FACTS, tuple(questions))
    method = Plume(engine, CountingCache(), Answerer(engine.scheduler, settings_of(engine.policy, {})))
    found = method.prepare(transition).answer(questions)
    assert [reply.text for reply in found] == [answer.text for answer in wanted]
    for reply, answer in zip(found, wanted, strict=True):
        assert reply.detail is not None
        assert reply.detail["evidence"] == " ".join(one.unit.text for one in answer.evidence_units)


# --- known or not ---------------------------------------------------------------------------------


def test_what_the_memory_has_nothing_about_is_answered_so_and_nothing_is_decoded(opened: Opened) -> None:
    with opened(reading(evidence_units=3, min_gain=1e9)) as memory:
        for answer in (memory.ask(QUESTION), *memory.ask_many([QUESTION])):
            assert (answer.text, answer.known, answer.confidence) == (ABSTENTION, False, 0.0)
            assert (answer.evidence, answer.trace, answer.signals) == (None, (), None)
            assert answer.usage.total_tokens == 0
        assert [piece.text for piece in memory.stream(QUESTION)] == [ABSTENTION]
        assert memory.at(version=0).ask(QUESTION).text == ABSTENTION, "an empty memory knows nothing"


def test_an_answer_that_is_not_sure_enough_is_withheld_unless_asked_for(opened: Opened) -> None:
    with opened(reading(known_at=1.0)) as memory:
        bare = memory.ask(QUESTION, unknown="bare", max_new_tokens=6)
        withheld = memory.ask(QUESTION, max_new_tokens=6)
        *pieces, last = memory.stream(QUESTION, unknown="bare", max_new_tokens=6)
    assert not bare.known
    assert bare.text != ABSTENTION
    assert withheld == replace(bare, text=ABSTENTION), "what it would have been from is left"
    assert "".join(piece.text for piece in [*pieces, last]) == bare.text
    with opened(reading(known_at=1.0)) as memory:  # a single call may ask for less
        (answer,) = memory.ask_many([QUESTION], known_at=0.0, max_new_tokens=6)
        assert memory.ask(QUESTION, known_at=0.0, max_new_tokens=6) == answer
        with pytest.raises(InvalidInput, match="a confidence between 0 and 1; got 2"):
            memory.ask(QUESTION, known_at=2)
    assert (answer.known, answer.text) == (True, bare.text)


def test_the_form_of_an_answer_stands_above_an_abstention(opened: Opened) -> None:
    with opened(reading(known_at=1.0)) as memory:
        found = memory.ask(QUESTION, grammar=Grammar.json_schema({"type": "boolean"}), max_new_tokens=8)
    assert (found.known, found.text in ("true", "false")) == (False, True)


def test_another_word_for_the_unknown_is_refused(opened: Opened) -> None:
    with opened(reading()) as memory, pytest.raises(InvalidInput, match=r"one of abstain, bare; got 'guess'"):
        memory.ask(QUESTION, unknown="guess")  # type: ignore[arg-type]


class Doubts:
    """A judge that finds every claim supported with the log-odds of its length."""

    sha256 = "doubts"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, str]] = []

    def support(self, claims: Sequence[tuple[str, str, str]]) -> list[float]:
        self.asked += claims
        return [float(len(answer)) for _, _, answer in claims]


def test_the_judge_reads_the_evidence_the_question_and_the_answer(opened: Opened) -> None:
    engine = reading(evidence_units=2)
    judge = Doubts()
    engine.judge = judge  # type: ignore[assignment]
    with opened(engine) as memory:
        answer = memory.ask(QUESTION, max_new_tokens=6)
    text = " ".join(one.unit.text for one in answer.evidence_units)
    assert judge.asked == [(text, QUESTION, ""), (text, QUESTION, answer.text)]
    assert answer.signals is not None
    assert (answer.signals.answerable, answer.signals.support) == (0.0, float(len(answer.text)))
