"""Tokens that are guessed from the texts an answer is made from: read together, and never another answer."""

from collections.abc import Callable
from dataclasses import replace

import pytest

import plume_memory.model.running as running
from plume_memory.model.base import BaseModel
from plume_memory.model.drafts import Drafts
from plume_memory.model.modules import Modules
from plume_memory.model.queries import Decoded, DecodeSettings, Query
from plume_memory.model.running import GUESSED
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler
from plume_memory.scheduling.scheduler import Counters
from plume_memory.testing import random_factors

SETTINGS = DecodeSettings(max_new_tokens=24)


class Letters:
    """A tokenizer of one token a letter."""

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [ord(letter) for letter in text]}


@pytest.mark.parametrize(
    ("said", "guess"),
    [("I l", "ive i"), ("xx?", ""), ("Ber", "n"), ("zz", ""), ("", ""), ("t", ""), ("wh", "ere d")],
)
def test_a_guess_is_what_followed_the_last_token(said: str, guess: str) -> None:
    drafts = Drafts(["I live in Bern", "where do I live?"], Letters())
    assert "".join(map(chr, drafts.after([ord(letter) for letter in said], 5))) == guess


def test_what_comes_first_is_looked_at_first_and_no_guess_is_longer_than_asked() -> None:
    drafts = Drafts(["abcdef", "abxyz"], Letters())
    assert drafts.after([98], 2) == [99, 100]
    assert drafts.after([98], 0) == []


@pytest.fixture
def decoded(tiny: BaseModel, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[list[Decoded], Counters]]:
    def decode(
        queries: list[Query], rows: int, settings: DecodeSettings = SETTINGS, *, fixed: bool = False
    ) -> tuple[list[Decoded], Counters]:
        monkeypatch.setattr(running, "GUESSED", rows)
        scheduler = Scheduler(tiny, fixed_shapes=fixed)
        return scheduler.decode(queries, settings), scheduler.counters()

    return decode


def of(base: BaseModel, count: int, *texts: str) -> list[Query]:
    """Queries whose sources are some texts."""
    prompts = [tuple(base.chat.prompt_ids(asked)) for asked in ("Where does Alice live?", "Hi", "Who?")[:count]]
    pairs = [(random_factors(base, rank=3, seed=n), random_factors(base, rank=4, seed=9 + n)) for n in range(count)]
    return [
        Query(Row(prompt, one), Row(prompt, other), ("", *texts))
        for prompt, (one, other) in zip(prompts, pairs, strict=True)
    ]


def same(one: list[Decoded], other: list[Decoded]) -> bool:
    return [(each.text, [t.token_id for t in each.trace]) for each in one] == [
        (each.text, [t.token_id for t in each.trace]) for each in other
    ]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_an_answer_is_the_same_with_guesses_and_takes_fewer_steps(
    tiny: BaseModel, decoded: Callable, count: int
) -> None:
    first, _ = decoded(of(tiny, count), 0)
    queries = of(tiny, count, *(one.text for one in first))
    plain, slow = decoded(queries, 0)
    ahead, quick = decoded(queries, 8 * count)
    assert same(ahead, plain)
    assert quick.rows < slow.rows, "the tiny model says again what its evidence says"
    assert [one.usage for one in ahead] == [one.usage for one in plain]


def test_so_does_a_model_that_keeps_its_own_forward(tiny: BaseModel, decoded: Callable) -> None:
    own = BaseModel.wrap(tiny.model, tiny.tokenizer, name=tiny.name, fingerprint=tiny.fingerprint)
    own.__dict__["passes"] = Modules(own.model)
    [first] = Scheduler(own, fixed_shapes=False).decode(of(own, 1), SETTINGS)
    scheduler = Scheduler(own, fixed_shapes=False)
    ahead = scheduler.decode(of(own, 1, first.text), SETTINGS)
    assert same(ahead, decoded(of(tiny, 1, first.text), 0)[0])
    assert scheduler.counters().steps < len(ahead[0].trace) - 1


def test_a_guess_never_outruns_the_budget_or_a_stop(tiny: BaseModel, decoded: Callable) -> None:
    [first], _ = decoded(of(tiny, 1), 0)
    for settings in (replace(SETTINGS, max_new_tokens=19), replace(SETTINGS, stop=(first.text[-4:-1],))):
        plain, _ = decoded(of(tiny, 1, first.text), 0, settings)
        ahead, quick = decoded(of(tiny, 1, first.text), GUESSED, settings)
        assert quick.steps < len(ahead[0].trace) - 1
        assert same(ahead, plain)
        assert ahead[0].finish_reason == plain[0].finish_reason


def test_one_ends_within_a_pass_while_another_goes_on_and_a_third_has_no_evidence(
    tiny: BaseModel, decoded: Callable
) -> None:
    first, _ = decoded(of(tiny, 3), 0)
    one, two, three = of(tiny, 3, *(each.text for each in first))
    queries = [one, replace(two, evidence_row=None), three]
    for settings in (SETTINGS, replace(SETTINGS, stop=(first[0].text[2:6],))):
        assert same(decoded(queries, 24, settings)[0], decoded(queries, 0, settings)[0])


def test_nothing_is_guessed_where_turns_depend_on_the_length(
    tiny: BaseModel, decoded: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    [first], slow = decoded(of(tiny, 1), 0)
    monkeypatch.setattr(running, "has_fixed_turns", lambda config: False)
    assert decoded(of(tiny, 1, first.text), GUESSED)[1].steps == slow.steps


def test_nothing_is_guessed_without_sources_nor_at_fixed_shapes(tiny: BaseModel, decoded: Callable) -> None:
    [first], _ = decoded(of(tiny, 1), 0)
    bare = [replace(one, sources=None) for one in of(tiny, 1, first.text)]
    assert decoded(bare, GUESSED)[1].steps == decoded(bare, 0)[1].steps
    queries = of(tiny, 1, first.text)
    assert decoded(queries, GUESSED, fixed=True)[1].steps == decoded(queries, 0)[1].steps
