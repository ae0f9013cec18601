"""Rivals: the surest answer is given, and it is the one that its rival gives alone."""

import re
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial

import pytest

from plume_memory.model import rivals
from plume_memory.model.base import BaseModel
from plume_memory.model.decode import Decoded, DecodeSettings, FusedDecoder, Query, Step, collect
from plume_memory.model.grammar import Grammar
from plume_memory.model.rivals import Contest, Insistence, Telling, ToldBy, decode_contests, stream_contest
from plume_memory.model.streams import Row
from plume_memory.records import TokenTrace, Usage
from plume_memory.testing import random_factors, tiny_base

SETTINGS = DecodeSettings(max_new_tokens=12, lambda_max=2.0, tau=0.2)


def said(*log_probs: float, reason: str = "stop") -> Decoded:
    trace = tuple(TokenTrace(5, "a", 0.0, 0.0, log_prob) for log_prob in log_probs)
    return Decoded("a" * len(trace), reason, Usage(3, len(trace)), trace)  # type: ignore[arg-type]


QUERY = Query(Row((5, 6)))


@pytest.mark.parametrize(
    ("margin", "winner"),
    [(0.0, 2), (0.25, 2), (0.35, 0)],
)
def test_another_wins_only_if_its_tokens_are_surer_by_the_margin(margin: float, winner: int) -> None:
    contest = Contest((QUERY, QUERY, QUERY), margin)
    assert contest.winner([said(-0.4, -0.4), said(-0.2, -0.6), said(-0.1, -0.1, -0.1)]) == winner


def test_of_equals_the_earlier_wins() -> None:
    assert Contest((QUERY,) * 3).winner([said(-0.5), said(-0.2), said(-0.2)]) == 1
    assert Contest((QUERY,) * 2).winner([said(-0.2), said(-0.2)]) == 0


def test_what_says_nothing_never_wins_over_what_says_something() -> None:
    """A lone end token is as sure as can be."""
    ended = replace(said(-0.01), text=" ")
    contest = Contest((QUERY,) * 3, 0.2)
    assert contest.winner([said(-0.5), ended, said(-0.4)]) == 0
    assert contest.winner([ended, said(-2.5), said(-2.4)]) == 2
    assert contest.winner([ended, ended, ended]) == 0


def telling(*versions: int | None, scores: tuple[float, ...] = (0.5, 0.5, 0.5)) -> ToldBy:
    return lambda rival, _: None if (at := versions[rival]) is None else Telling(at, scores[rival])


@pytest.mark.parametrize(
    ("versions", "winner"),
    [
        ((1, 1, 2), 2),  # told later, and sure enough
        ((2, 1, 2), 0),  # not later
        ((1, 2, 2), 1),  # of one version the earlier rival
        ((1, 2, 3), 2),
        ((None, 1, 2), 0),  # the surest is said by nobody: there is nothing to replace
        ((1, None, None), 0),
    ],
)
def test_of_sure_answers_the_one_told_last_wins(versions: tuple[int | None, ...], winner: int) -> None:
    answers = [said(-0.2), said(-0.35), said(-0.4)]
    assert Contest((QUERY,) * 3, 0.0, telling(*versions), 0.2).winner(answers) == winner
    assert Contest((QUERY,) * 3, 0.0, telling(*versions), 0.1).winner(answers) == 0  # none is sure enough
    assert Contest((QUERY,) * 3, 0.0).winner(answers) == 0


@pytest.mark.parametrize(("score", "winner"), [(0.62, 1), (0.6, 0), (2.0, 1)])
def test_what_bears_less_on_the_question_replaces_nothing(score: float, winner: int) -> None:
    """Asked where somebody was born, "I live in Rome" is told after "I was born in Oslo". exp(-0.5) is 0.607."""
    answers = [said(-0.2), said(-0.3)]
    assert Contest((QUERY,) * 2, 0.0, telling(1, 2, scores=(1.0, score)), 0.2).winner(answers) == winner


def test_what_its_evidence_is_worth_counts_beside_an_answers_sureness() -> None:
    answers = [said(-0.5), said(-0.3), said(-0.2)]
    assert Contest((QUERY,) * 3, 0.1, head_starts=(0.0, 0.0, -0.2)).winner(answers) == 1
    assert Contest((QUERY,) * 3, 0.1, head_starts=(0.0, -0.15, -0.25)).winner(answers) == 0  # none beats the margin


def test_an_answer_that_is_told_counts_more_and_recency_asks_for_sureness_alone() -> None:
    answers = [said(-0.5), said(-0.3), said(-0.2)]
    assert Contest((QUERY,) * 3, 0.0, telling(None, 1, None), told_weight=0.2).winner(answers) == 1
    assert Contest((QUERY,) * 3, 0.0, telling(None, 1, None), told_weight=0.05).winner(answers) == 2
    later = Contest((QUERY,) * 3, 0.0, telling(2, 1, None), told_weight=0.2)
    assert later.winner(answers) == 1, "without a recency margin nothing is replaced"
    assert replace(later, recency_margin=0.2).winner(answers) == 0


def test_an_answer_that_was_cut_says_nothing_yet() -> None:
    answers = [said(-0.2), said(-0.2, reason="length")]
    assert Contest((QUERY,) * 2, 0.0, telling(1, 2), 0.2).winner(answers) == 0
    assert Contest((QUERY,) * 2, 0.0, telling(1, 2), 0.2).winner(answers[::-1]) == 0


def contests(base: BaseModel) -> list[Contest]:
    """One of three rivals, one of a single query, one of two."""
    adapters = [random_factors(base.model, rank=4, seed=seed) for seed in range(4)]

    def query(prompt: tuple[int, ...], own: int) -> Query:
        return Query(Row(prompt, adapters[0]), Row(prompt, adapters[own]))

    return [
        Contest(tuple(query((5, 6, 7), own) for own in (1, 2, 3)), 0.0),
        Contest((query((8, 9), 2),)),
        Contest(tuple(query((9, 7, 5, 4), own) for own in (2, 3)), 0.01),
    ]


@pytest.fixture(scope="module")
def tiny() -> BaseModel:
    return tiny_base("llama")


@pytest.mark.parametrize("trial", [1, 3, 11, 12, 40])
def test_what_is_given_is_what_the_winner_says_alone_however_long_the_trial(
    tiny: BaseModel, trial: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "TRIAL_TOKENS", trial)
    decoder = FusedDecoder(tiny)
    asked = contests(tiny)

    found = decode_contests(decoder.decode, asked, SETTINGS)

    for contest, won in zip(asked, found, strict=True):
        tried = decoder.decode(contest.rivals, replace(SETTINGS, max_new_tokens=min(trial, 12)))
        assert won.rival == contest.winner(tried)
        (alone,) = decoder.decode([contest.rivals[won.rival]], SETTINGS)
        assert [step.token_id for step in won.decoded.trace] == [step.token_id for step in alone.trace]
        assert (won.decoded.text, won.decoded.finish_reason) == (alone.text, alone.finish_reason)

        steps = list(stream_contest(decoder, contest, SETTINGS))
        assert {rival for rival, _ in steps} == {won.rival}
        streamed = collect(contest.rivals[won.rival], [step for _, step in steps])
        assert streamed.text == won.decoded.text
        assert streamed.finish_reason == won.decoded.finish_reason
    assert {won.rival for won in found} != {0}, "some other than the favourite must win for this to mean anything"


def counted(decode: Callable[[Sequence[Query], DecodeSettings], list[Decoded]], calls: list[tuple[int, int]]):  # type: ignore[no-untyped-def]
    def counting(queries: Sequence[Query], settings: DecodeSettings) -> list[Decoded]:
        calls.append((len(queries), settings.max_new_tokens))
        return decode(queries, settings)

    return counting


def test_only_contests_are_tried_and_only_what_goes_on_is_decoded_again(
    tiny: BaseModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rivals, "TRIAL_TOKENS", 4)
    calls: list[tuple[int, int]] = []
    decode_contests(counted(FusedDecoder(tiny).decode, calls), contests(tiny), SETTINGS)
    assert calls == [(5, 4), (3, 12)]

    calls.clear()
    short = replace(SETTINGS, max_new_tokens=3, min_new_tokens=3)
    decode_contests(counted(FusedDecoder(tiny).decode, calls), contests(tiny), short)
    assert calls == [(5, 3), (1, 3)], "an answer as short as the trial is decoded once"


def test_under_a_grammar_the_favourite_answers_alone(tiny: BaseModel) -> None:
    """Every rival must write the same tokens there: how sure it is of them tells nothing."""
    decoder = FusedDecoder(tiny)
    calls: list[tuple[int, int]] = []
    grammar = Grammar.lark("start: /[a-f]{3}/")
    settings = replace(SETTINGS, grammar=grammar)

    found = decode_contests(counted(decoder.decode, calls), contests(tiny), settings)

    assert [won.rival for won in found] == [0, 0, 0]
    assert [queries for queries, _ in calls] == [0, 3]
    for contest, won in zip(contests(tiny), found, strict=True):
        steps = list(stream_contest(decoder, contest, settings))
        assert {rival for rival, _ in steps} == {0}
        assert "".join(step.text for _, step in steps) == won.decoded.text
        assert re.fullmatch("[a-f]{3}", won.decoded.text)


def test_no_contest_is_no_answer(tiny: BaseModel) -> None:
    assert decode_contests(FusedDecoder(tiny).decode, [], SETTINGS) == []


def test_an_answer_that_ends_in_the_trial_is_given_as_it_is(tiny: BaseModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ended by a stop text: nothing is decoded twice, and the stream says the same."""
    monkeypatch.setattr(rivals, "TRIAL_TOKENS", 6)
    decoder = FusedDecoder(tiny)
    contest = contests(tiny)[0]
    (plain,) = decode_contests(decoder.decode, [contest], SETTINGS)
    stopping = replace(SETTINGS, stop=(plain.decoded.text[2],))
    calls: list[tuple[int, int]] = []

    (won,) = decode_contests(counted(decoder.decode, calls), [contest], stopping)

    steps = [step for _, step in stream_contest(decoder, contest, stopping)]
    assert won.decoded.finish_reason == "stop"
    assert collect(contest.rivals[won.rival], steps).text == won.decoded.text
    assert [queries for queries, _ in calls] == [3, 0]


def insisting(base: BaseModel, takes: Callable[[int, str], bool]) -> list[Contest]:
    """The three contests; the louder query has an adapter of its own for each rival."""

    def louder(contest: Contest, rival: int) -> Query:
        prompt = contest.rivals[rival].global_row.prompt_ids
        return Query(Row(prompt, random_factors(base.model, rank=4, seed=10 + rival)))

    return [replace(one, insistence=Insistence(takes, partial(louder, one))) for one in contests(base)]


def streamed(decoder: FusedDecoder, contest: Contest, settings: DecodeSettings = SETTINGS) -> tuple[int, Decoded]:
    steps = list(stream_contest(decoder, contest, settings))
    (rival,) = {own for own, _ in steps}
    return rival, collect(contest.rivals[rival], [step for _, step in steps])


def test_what_took_nothing_is_asked_again_louder_and_given_if_it_took_something(tiny: BaseModel) -> None:
    decoder = FusedDecoder(tiny)
    first = decode_contests(decoder.decode, contests(tiny), SETTINGS)
    ignored = {won.decoded.text for won in first}
    calls: list[tuple[int, int]] = []

    asked = insisting(tiny, lambda _, text: bool(text) and not any(one.startswith(text) for one in ignored))
    found = decode_contests(counted(decoder.decode, calls), asked, SETTINGS)

    assert calls[-1] == (3, 12), "all that took nothing, at once"
    for contest, before, now in zip(asked, first, found, strict=True):
        assert contest.insistence is not None
        (louder,) = decoder.decode([contest.insistence.louder(before.rival)], SETTINGS)
        assert now.rival == before.rival
        assert now.decoded.text == louder.text != before.decoded.text
        rival, said = streamed(decoder, contest)
        assert (rival, said.text, said.finish_reason) == (now.rival, louder.text, louder.finish_reason)


def test_what_takes_nothing_a_second_time_leaves_the_first_answer(tiny: BaseModel) -> None:
    decoder = FusedDecoder(tiny)
    first = decode_contests(decoder.decode, contests(tiny), SETTINGS)
    asked = insisting(tiny, lambda _rival, _text: False)
    found = decode_contests(decoder.decode, asked, SETTINGS)
    assert [won.decoded.text for won in found] == [won.decoded.text for won in first]
    assert [streamed(decoder, one)[1].text for one in asked] == [won.decoded.text for won in first]


def test_what_took_something_is_not_asked_again_and_streams_from_there(tiny: BaseModel) -> None:
    decoder = FusedDecoder(tiny)
    calls: list[tuple[int, int]] = []
    asked = insisting(tiny, lambda _rival, text: len(text) > 2)
    found = decode_contests(counted(decoder.decode, calls), asked, SETTINGS)
    assert len(calls) == 2
    assert [streamed(decoder, one)[1].text for one in asked] == [won.decoded.text for won in found]


def test_under_a_grammar_nothing_is_insisted_on(tiny: BaseModel) -> None:
    decoder = FusedDecoder(tiny)
    settings = replace(SETTINGS, grammar=Grammar.lark("start: /[a-f]{3}/"))
    plain = decode_contests(decoder.decode, contests(tiny), settings)
    asked = insisting(tiny, lambda _rival, _text: False)
    assert [won.decoded for won in decode_contests(decoder.decode, asked, settings)] == [won.decoded for won in plain]
    assert [streamed(decoder, one, settings)[1].text for one in asked] == [won.decoded.text for won in plain]


def test_a_word_counts_when_it_is_whole() -> None:
    """ "car" of "carpet" is in no text; were it given out at once, streams would say what answers do not."""
    pieces = ("A car", "pet ", "and a", " lamp")
    seen: list[str] = []

    class Saying(FusedDecoder):
        def __init__(self) -> None:
            pass

        def stream(self, queries: Sequence[Query], settings: DecodeSettings) -> Generator[Step, None, None]:
            for at, text in enumerate(pieces):
                yield Step(0, text, TokenTrace(at, text, 0.0, 0.0, -0.1), "stop" if at == 3 else None)

    def takes(_rival: int, text: str) -> bool:
        seen.append(text)
        return "carpet" in text

    contest = Contest((QUERY,), insistence=Insistence(takes, lambda _: QUERY))
    told = [step.text for _, step in stream_contest(Saying(), contest, SETTINGS)]
    assert told == list(pieces)
    assert seen == ["A ", "A carpet "], "nothing is asked once it took something"
