"""Which sentences answer which question: laws over hand-written and generated samples."""

import random

import pytest

from plume_memory.training.choices import Choice, choice_of
from plume_memory.training.facts import FactSource
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.sources.matching import holds

TEXT = "Alice lives in Bern. Bob has a boat in Rome. Cy keeps bees. The boat is red."
ASKS = (Ask("Where does Alice live?", "Bern"), Ask("Where is Bob's boat?", "Rome"))


def choice(sample: Sample, *, asks: int = 9, sentences: int = 9) -> Choice | None:
    return choice_of(sample, random.Random(0), asks=asks, sentences=sentences)


def test_a_question_is_answered_by_the_sentences_that_hold_its_answer() -> None:
    found = choice(Sample(TEXT, ASKS, "notes"))
    assert found is not None
    assert found.sentences == ("Alice lives in Bern.", "Bob has a boat in Rome.", "Cy keeps bees.", "The boat is red.")
    assert found.source == "notes"
    assert dict(zip(found.questions, found.answers, strict=True)) == {
        "Where does Alice live?": (True, False, False, False),
        "Where is Bob's boat?": (False, True, False, False),
    }


def test_an_outdated_answer_is_neither_right_nor_wrong_and_what_is_told_twice_is_one_sentence() -> None:
    moved = Ask("Where does Alice live?", "Zug", affected=True, stale="Bern")
    found = choice(Sample(TEXT, (moved, ASKS[1]), "notes", update="Alice moved to Zug. Cy keeps bees."))
    assert found is not None
    assert found.sentences[-1] == "Alice moved to Zug."
    assert len(found.sentences) == 5
    answers = dict(zip(found.questions, found.answers, strict=True))
    assert answers["Where does Alice live?"] == (None, False, False, False, True)
    assert answers["Where is Bob's boat?"] == (False, True, False, False, False)


def test_of_too_many_sentences_those_stay_that_share_most_with_a_question() -> None:
    found = choice(Sample(TEXT, ASKS[1:], "notes"), sentences=2)
    assert found is not None
    assert found.sentences == ("Bob has a boat in Rome.", "The boat is red.")


def test_questions_that_tell_no_sentences_apart_are_left_out() -> None:
    everywhere = Sample("Bern is old. Bern is big.", (Ask("Which town is old?", "Bern"),), "notes")
    nowhere = Sample("Bern is old. Rome is big.", (Ask("Which town is far?", "Oslo"),), "notes")
    alone = Sample("Alice lives in Bern.", ASKS[:1], "notes")
    assert choice(everywhere) is choice(nowhere) is choice(alone) is None
    both = Sample(TEXT, (ASKS[0], Ask("Who flies?", "Dora")), "notes")
    found = choice(both)
    assert found is not None
    assert found.questions == ("Where does Alice live?",)


@pytest.mark.parametrize("update", [False, True])
def test_choices_of_invented_facts_keep_to_what_the_sample_says(update: bool) -> None:
    source, chance = FactSource("facts"), random.Random(7)
    made = 0
    for _ in range(200):
        sample = source.draw(chance, largest=8, update=update)
        found = choice_of(sample, chance, asks=3, sentences=5)
        if found is None:
            continue
        made += 1
        assert len(found.sentences) <= 5
        assert 1 <= len(found.questions) <= 3
        by_question = {ask.question: ask for ask in sample.asks}
        for question, answers in zip(found.questions, found.answers, strict=True):
            ask = by_question[question]
            assert {True, False} <= set(answers)
            for sentence, own in zip(found.sentences, answers, strict=True):
                assert (own is True) == holds(sentence, ask.answer)
                assert own is not None or holds(sentence, ask.stale or "")
    assert made > 100


def test_the_same_generator_makes_the_same_choice() -> None:
    sample = Sample(TEXT, ASKS, "notes")
    assert choice(sample, asks=1, sentences=3) == choice(sample, asks=1, sentences=3)
