"""Batches: pure, weighted as the composition says, and never wider than they must be."""

import hashlib
import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from plume_memory.testing import tiny_base
from plume_memory.training.batches import Batch, Batches, BatchRow, largest_at
from plume_memory.training.facts import FactSource
from plume_memory.training.items import ItemWriter, tokens_of
from plume_memory.training.samples import Ask, Sample, Source
from plume_memory.training.settings import TrainSettings

Small = Callable[..., TrainSettings]
BASE = tiny_base("llama")
LETTERS = "abcdefghijklmnop"
QUIET = {"reconstruction": 0, "completion": 0, "kept": 0}


def batches(settings: TrainSettings, source: Source, **more: Any) -> Batches:
    writer = ItemWriter(BASE.chat, 2, settings.objectives.span_tokens)
    return Batches(source, writer, settings, BASE.chat.encode, **more)


def decoded(ids: tuple[int, ...]) -> str:
    return str(BASE.tokenizer.decode(ids))


def rows_of(made: Batches, count: int) -> list[tuple[Batch, BatchRow]]:
    return [(batch, row) for batch in map(made.micro_batch, range(count)) for row in batch.rows]


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_batch_is_a_function_of_seed_and_number(small: Small, share: float) -> None:
    """Asked for in order, backwards, or by a process that starts in the middle."""
    parts = {"curriculum": {"companions": 2, "chunks": 3}, "update": {"share": share}, "pool": 3}
    source = FactSource("facts")
    forward = [batches(small(**parts), source).micro_batch(n) for n in range(7)]
    made = batches(small(**parts), source)

    assert [made.micro_batch(n) for n in reversed(range(7))] == forward[::-1]
    assert batches(small(**parts), source).micro_batch(5) == forward[5]
    assert batches(small(**parts, run={"seed": 1}), source).micro_batch(0) != forward[0]
    assert len(set(forward)) == 7


def test_a_question_reads_every_chunk_of_its_text_and_the_chunks_rebuild_it(small: Small) -> None:
    settings = small(
        curriculum={"chunks": 4, "chunk_share": 1.0, "largest": [[0, 6]]}, objectives=QUIET, largest_tokens=40
    )
    texts: list[str] = []

    class Watched(FactSource):
        def draw(self, *args: Any, **kwargs: Any) -> Sample:
            sample = super().draw(*args, **kwargs)
            texts.append(sample.text)
            return sample

    found = []
    for batch, row in rows_of(batches(settings, Watched("facts")), 4):
        assert all(weight == 1.0 for _, weight in row.reads)
        indices = [i for i, _ in row.reads]
        assert indices == list(range(indices[0], indices[0] + len(indices)))
        assert all(len(batch.texts[i]) <= 40 for i in indices)
        found.append(decoded(tuple(id_ for i in indices for id_ in batch.texts[i])))  # a cut can part a character
    assert sorted("".join(one.split()) for one in found) == sorted("".join(one.split()) for one in texts)
    assert max(len(row.reads) for _, row in rows_of(batches(settings, FactSource("facts")), 4)) > 3


def test_an_updates_rows_weigh_as_the_composition_does(small: Small, fixed: Any, moves: tuple[Sample, ...]) -> None:
    settings = small(update={"share": 1.0, "alpha": 0.9, "beta": 0.6}, objectives=QUIET, curriculum={"asks": 3})
    kinds = set()
    for batch, row in rows_of(batches(settings, fixed(moves)), 6):
        told = {i: decoded(batch.texts[i]) for i, _ in row.reads}
        olds = [i for i, text in told.items() if text in {m.text for m in moves}]
        news = [i for i, text in told.items() if text in {m.update for m in moves}]
        if row.pairs:
            assert all(weight == 1.0 for _, weight in row.reads)
            assert len(told) == 1
            assert row.before == ()
            kinds.add("new" if news else "old")
        else:
            assert dict(row.reads) == {olds[0]: 0.9, news[0]: pytest.approx(1.5)}
            assert row.before == ((olds[0], 0.9),)
    assert kinds == {"new", "old"}


def test_an_evidence_row_asks_what_its_side_can_answer(small: Small, fixed: Any, moves: tuple[Sample, ...]) -> None:
    """ "Bo" stands in "Bo said" but not in "both"; "figs" stands in neither update."""
    both = Sample(moves[0].text, moves[0].asks, "moves", update="Al moved to Rome with both cats.")
    settings = small(update={"share": 1.0}, objectives=QUIET, curriculum={"asks": 3})
    for batch, row in rows_of(batches(settings, fixed((moves[1], both))), 6):
        if row.pairs:
            ((index, _),) = row.reads
            evidence = decoded(batch.texts[index])
            answers = {decoded(item.target_ids).removesuffix("<|im_end|>") for item in row.items}
            assert answers <= {"Rome", "Bo", "figs"}
            if "Rome" in evidence:
                assert answers == {"Rome"} | ({"Bo"} if "Bo " in evidence else set())
            else:
                assert "Rome" not in answers


def test_pairs_point_at_the_same_exchange_of_the_composed_row(
    small: Small, fixed: Any, moves: tuple[Sample, ...]
) -> None:
    settings = small(update={"share": 1.0}, objectives={"kept": 1.0, "kept_share": 1.0}, curriculum={"asks": 3})
    made = batches(settings, fixed(moves))
    for n in range(4):
        whole: BatchRow | None = None
        seen: list[int] = []
        for row in (*made.micro_batch(n).rows, None):
            if row is None or not row.pairs:
                if whole is not None:
                    answers = [i for i, item in enumerate(whole.items) if item.kind == "answer"]
                    assert sorted(seen) == answers, "every question has its evidence once"
                whole, seen = row, []
                continue
            assert whole is not None
            assert tuple(whole.items[i] for i in row.pairs) == row.items
            seen += row.pairs


def test_companions_are_other_texts_at_alpha_also_before_the_update(
    small: Small, fixed: Any, moves: tuple[Sample, ...], codes: tuple[Sample, ...]
) -> None:
    settings = small(
        update={"share": 0.5, "alpha": 0.8},
        curriculum={"companions": 2, "companion_share": 1.0},
        objectives=QUIET,
        texts=4,
    )
    numbers = set()
    for batch, row in rows_of(batches(settings, fixed((*moves, *codes))), 8):
        indices = [i for i, _ in row.reads]
        assert len(set(indices)) == len(indices)
        if row.pairs:
            assert len(indices) == 1
            continue
        own = 2 if row.before else 1
        others = row.reads[own:]
        numbers.add(len(others))
        assert all(weight == 0.8 for _, weight in others)
        if row.before:
            assert row.before[1:] == others
        assert all(decoded(batch.texts[i]) not in {m.update for m in moves} for i, _ in others)
    assert numbers == {0, 1, 2}  # none of a text that has a sentence of its own


@pytest.mark.parametrize("companions", [0, 2])
def test_what_is_kept_is_no_part_of_the_memory(small: Small, fixed: Any, companions: int) -> None:
    """Neither the row's own sample nor one whose text is a companion in the same memory."""
    samples = tuple(Sample(f"Key {n} opens {n}{n}.", (Ask(f"What does {n} open?", n + n),), n) for n in LETTERS)
    asked_of = {tuple(BASE.chat.encode(s.asks[0].question + BASE.chat.suffix)): s.text for s in samples}

    class InTurn:
        name = "in turn"

        def __init__(self) -> None:
            self.samples = itertools.cycle(samples)

        def draw(self, *_: Any, **__: Any) -> Sample:
            return next(self.samples)

    settings = small(
        objectives={"kept": 1.0, "kept_share": 1.0, "reconstruction": 0, "completion": 0},
        curriculum={"companions": companions, "companion_share": 1.0},
    )
    kept = 0
    for batch, row in rows_of(batches(settings, InTurn()), 8):
        read = {decoded(batch.texts[i]) for i, _ in row.reads}
        for item in row.items:
            if item.kind == "kept":
                kept += 1
                told = decoded((*item.prompt_ids, *item.target_ids))
                assert asked_of.get(item.prompt_ids, told) not in read
                assert not any(text.startswith(told) for text in read)
    assert kept > 10


@pytest.mark.parametrize("words", ["short", "long"])
def test_filling_never_widens_a_batch(small: Small, fixed: Any, words: str) -> None:
    """Prompts of eight long words are longer than the room that is left."""
    text = "It is so." if words == "short" else "Antidisestablishmentarianism incomprehensibly characterises them. " * 2
    asks = tuple(Ask(f"What is number {i}?", "one") for i in range(4))
    source = fixed((Sample(text.strip(), asks, "many"), Sample(text.strip(), asks[:1], "one")))
    made = batches(small(objectives={"retell_share": 0.0, "kept": 0}, curriculum={"asks": 4}), source)
    filled = 0
    for n in range(12):
        batch = made.micro_batch(n)
        widths = [tokens_of(row.items) for row in batch.rows]
        own = [tokens_of([i for i in row.items if i.kind == "answer"]) for row in batch.rows]
        filled += sum(w > o for w, o in zip(widths, own, strict=True))
        assert max(widths) == max(own)
        assert all(item.target_ids for row in batch.rows for item in row.items)
    assert filled > 0


def test_the_curriculum_is_linear_between_its_points() -> None:
    points = ((10, 1), (110, 11), (210, 16))

    assert [largest_at(points, step) for step in (0, 10, 60, 109, 110, 160, 210, 10**6)] == [
        1,
        1,
        6,
        11,
        11,
        13,
        16,
        16,
    ]
    assert largest_at(((0, 3),), 7) == 3


@given(st.integers(0, 600))
@hypothesis_settings(max_examples=30)
def test_the_curriculum_never_falls_between_rising_points(step: int) -> None:
    points = ((0, 2), (300, 6), (1200, 16))
    assert largest_at(points, step) <= largest_at(points, step + 1) <= largest_at(points, step) + 1


def test_the_curriculum_follows_the_steps_whoever_shares_the_work(small: Small) -> None:
    """Four micro-batches of a step are four of one process, or two of each of two."""
    settings = small(run={"accumulation": 4}, curriculum={"largest": [[0, 1], [2, 9]]})
    shared = small(run={"accumulation": 2}, curriculum={"largest": [[0, 1], [2, 9]]})
    source = FactSource("facts")

    for n in (0, 4, 8, 9):
        assert batches(settings, source).micro_batch(n) == batches(shared, source, processes=2).micro_batch(n)


def test_updates_come_from_the_sources_that_can_make_them(
    small: Small, fixed: Any, codes: tuple[Sample, ...], moves: tuple[Sample, ...]
) -> None:
    made = batches(small(update={"share": 0.5}), fixed(codes), updates=fixed(moves))
    sources = {row.source for n in range(6) for row in made.micro_batch(n).rows}

    assert sources == {"codes", "moves-update", "moves-evidence"}


def test_what_the_memory_holds_is_never_kept_from_it(small: Small, fixed: Any) -> None:
    """A small corpus draws the same context twice into one batch: its questions are no strange ones."""
    texts = [f"The code of room {letter} is {letter * 3}. All doors are shut." for letter in "AB"]
    samples = tuple(Sample(text, (Ask(f"Code of {text[17]}?", text[22:25]),), "x") for text in texts)
    settings = small(
        objectives={"kept": 1.0, "kept_share": 1.0, "reconstruction": 0, "completion": 0, "span_tokens": 30},
        curriculum={"companions": 2, "companion_share": 1.0},
    )
    shared = [row for _, row in rows_of(batches(settings, fixed(samples)), 12)]
    assert all(item.kind != "kept" for row in shared for item in row.items), "both texts share a sentence"
    assert all(len(row.reads) == 1 for row in shared), "no companion says the same"

    apart = tuple(
        Sample(text.partition(" All")[0], sample.asks, "x") for text, sample in zip(texts, samples, strict=True)
    )
    kept = 0
    for batch, row in rows_of(batches(small(objectives=settings.objectives.model_dump()), fixed(apart)), 12):
        own = decoded(batch.texts[row.reads[0][0]])
        for item in row.items:
            if item.kind == "kept":
                kept += 1
                assert own[17] not in decoded(item.prompt_ids + item.target_ids)
    assert kept > 10


def test_a_memory_of_several_texts_is_not_asked_to_repeat_the_text(small: Small) -> None:
    settings = small(
        objectives={"reconstruction": 1.0, "completion": 0, "retell_share": 1.0, "kept": 0},
        curriculum={"companions": 2, "companion_share": 0.5},
        largest_tokens=512,
    )
    rows = [row for _, row in rows_of(batches(settings, FactSource("facts")), 12)]
    alone = [row for row in rows if len(row.reads) == 1]
    joined = [row for row in rows if len(row.reads) > 1]

    assert min(len(alone), len(joined)) > 5
    assert all(any(item.kind == "reconstruction" for item in row.items) for row in alone)
    assert all(all(item.kind == "answer" for item in row.items) for row in joined)


# --- states beside --------------------------------------------------------------------------------

MIXED: dict[str, Any] = {
    "curriculum": {"companions": 2, "companion_share": 0.3, "chunks": 3, "chunk_share": 0.5, "asks": 3},
    "objectives": {"retell_share": 0.7, "kept": 1.0, "kept_share": 0.6},
    "update": {"share": 0.3},
}
"""Every kind of row, and every kind of exchange."""


def mixed(states_share: float) -> dict[str, Any]:
    return MIXED | {"curriculum": MIXED["curriculum"] | {"states_share": states_share}}


def told_of(row: BatchRow) -> tuple[Any, ...]:
    return [(i.prompt_ids, i.target_ids, i.kind) for i in row.items], row.reads, row.before, row.pairs, row.retellable


@pytest.mark.parametrize("parts", [MIXED, mixed(0.0)])
def test_without_states_batches_are_what_they_were_before_there_were_any(
    small: Small, fixed: Any, moves: tuple[Sample, ...], codes: tuple[Sample, ...], parts: dict[str, Any]
) -> None:
    """The hash is of batches that the code drew when it knew no states, cut where sentences end today."""
    made = [batches(small(**parts), fixed((*moves, *codes))).micro_batch(n) for n in range(12)]
    assert not any(row.states for batch in made for row in batch.rows)
    told = [(batch.texts, [told_of(row) for row in batch.rows], batch.samples) for batch in made]

    digest = hashlib.sha256(repr(told).encode()).hexdigest()
    assert digest == "c0f711d3c458bba4e16c873dd6f85e1163fe9c93aed1b7223177f3ce015fb9ef"


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_text_stands_in_front_where_a_row_reads_it_alone_and_whole(small: Small, share: float) -> None:
    """Plain rows of one uncut text without companions, and evidence of one text; what is asked there is a question."""
    kinds: dict[tuple[str, bool], int] = {}
    for batch, row in rows_of(batches(small(**mixed(share), largest_tokens=200), FactSource("facts")), 24):
        text = batch.texts[row.reads[0][0]]
        both = bool(row.states)
        assert row.source.endswith("-both") == both
        kind = "composed" if row.before else "several" if len(row.reads) > 1 else "evidence" if row.pairs else "plain"
        kinds[kind, both] = kinds.get((kind, both), 0) + 1
        if both:
            assert decoded(row.states) == decoded(text) + "\n\n"
            assert {item.kind for item in row.items} == {"answer"}
            assert row.retellable is None

    able = {("plain", True), ("evidence", True)}
    others = {("composed", False), ("several", False)}
    assert kinds.keys() == able | others | ({("plain", False), ("evidence", False)} if share < 1 else set())
    assert min(kinds.values()) >= 3


def test_a_text_without_questions_never_stands_in_front(small: Small, fixed: Any) -> None:
    source = fixed((Sample("Al lives in Bern. He sings.", (), "plain"),))
    rows = [row for _, row in rows_of(batches(small(**mixed(1.0) | {"update": {"share": 0}}), source), 4)]

    assert all(row.items and not row.states and row.source == "plain" for row in rows)


def test_evidence_with_states_keeps_its_pairs(small: Small, fixed: Any, moves: tuple[Sample, ...]) -> None:
    parts = mixed(1.0) | {"update": {"share": 1.0}}
    pairs = 0
    for n in range(4):
        whole: BatchRow | None = None
        for row in batches(small(**parts), fixed(moves)).micro_batch(n).rows:
            if row.pairs:
                assert whole is not None
                assert row.states
                assert tuple(whole.items[i] for i in row.pairs) == row.items
                pairs += len(row.pairs)
            else:
                whole = row
    assert pairs > 20


def test_filling_never_makes_a_row_wider_than_one_with_states(small: Small) -> None:
    parts = {"objectives": {"retell_share": 0.0, "kept": 0}, "curriculum": {"states_share": 0.5, "largest": [[0, 3]]}}
    filled = 0
    for n in range(12):
        rows = batches(small(**parts, largest_tokens=200), FactSource("facts")).micro_batch(n).rows
        widths = [len(row.states) + tokens_of(row.items) for row in rows]
        own = [len(row.states) + tokens_of([i for i in row.items if i.kind == "answer"]) for row in rows]
        filled += sum(w > o for w, o in zip(widths, own, strict=True))
        assert max(widths) == max(own)
    assert filled > 0
