"""Invented facts: what is asked stands in the text, corrections are clean, and a seed gives the same text."""

import random
import re
import string
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plume_memory.errors import TrainingError
from plume_memory.training.facts import FAMILIES, FactSource
from plume_memory.training.facts.draw import Fact, draw_facts
from plume_memory.training.facts.names import SUBJECTS
from plume_memory.training.facts.relation import SELF, Relation
from plume_memory.training.facts.replies import value_reply
from plume_memory.training.facts.values import VALUES, opens_sentence
from plume_memory.training.samples import Sample

RELATIONS = [relation for family in FAMILIES.values() for relation in family]
SEEDS = st.integers(0, 2**32)
SOURCE = FactSource("facts")


def drawn(seed: int, *, largest: int = 12, update: bool = False, source: FactSource = SOURCE) -> Sample:
    return source.draw(random.Random(seed), largest=largest, update=update)


def placeholders(phrasing: str) -> set[str]:
    return {field for _, field, _, _ in string.Formatter().parse(phrasing) if field}


def named(relation: Relation) -> str:
    return f"{relation.subject}-{relation.label}"


def test_there_are_many_relations_and_no_two_of_a_subject_kind_share_a_label():
    assert len(RELATIONS) >= 60
    assert len({(relation.subject, relation.label) for relation in RELATIONS}) == len(RELATIONS)


@pytest.mark.parametrize("relation", RELATIONS, ids=named)
def test_every_relation_has_four_statements_and_four_questions_that_differ(relation):
    assert len(set(relation.statements)) == len(relation.statements) >= 4
    assert len(set(relation.questions)) == len(relation.questions) >= 4
    assert relation.subject == SELF or relation.subject in SUBJECTS
    assert relation.value in VALUES


def test_every_kind_of_value_is_used():
    assert set(VALUES) == {relation.value for relation in RELATIONS}


@pytest.mark.parametrize("relation", RELATIONS, ids=named)
def test_every_phrasing_names_what_it_must_and_reads_as_a_sentence(relation):
    subject = set() if relation.subject == SELF else {"s"}
    for phrasing in relation.statements:
        assert placeholders(phrasing) - {"a", "A"} == subject | {"v"}, phrasing
        assert phrasing.endswith("."), phrasing
        assert phrasing[0].isupper() or phrasing[0] == "{", phrasing
        assert not phrasing.startswith("{v}") or opens_sentence(relation.value), phrasing
    for phrasing in relation.questions:
        assert placeholders(phrasing) == subject, phrasing
    for phrasing in relation.inverse:
        assert placeholders(phrasing) - {"a"} == {"v"}, phrasing
    for phrasing in relation.questions + relation.inverse:
        assert phrasing.endswith("?"), phrasing


@pytest.mark.parametrize("relation", RELATIONS, ids=named)
def test_every_relation_can_change_in_four_ways_that_differ_and_some_that_name_the_old_value(relation):
    assert len(relation.changes) == 4
    assert any("{o}" in phrasing for phrasing in relation.changes)
    told = relation.statements + relation.changes + relation.ends + relation.more
    assert len({phrasing.casefold() for phrasing in told}) == len(told)
    assert sum("now" in re.findall(r"\w+", phrasing.replace("from now on", "")) for phrasing in relation.changes) <= 1


@pytest.mark.parametrize("relation", RELATIONS, ids=named)
def test_phrasings_of_a_change_an_end_and_an_addition_name_what_they_must(relation):
    subject = set() if relation.subject == SELF else {"s"}
    for phrasing in relation.changes:
        assert placeholders(phrasing) - {"a", "A", "o", "b"} == subject | {"v"}, phrasing
    for phrasing in relation.ends:
        assert placeholders(phrasing) - {"o", "b"} == subject, phrasing
    for phrasing in relation.more:
        assert placeholders(phrasing) - {"a", "A"} == subject | {"v"}, phrasing
    for phrasing in relation.changes + relation.ends + relation.more:
        assert "{b}" not in phrasing or "{o}" in phrasing, phrasing
    assert len(relation.ends) <= 2
    assert relation.several == (len(relation.more) == 2) == bool(relation.more)


@pytest.mark.parametrize("relation", RELATIONS, ids=named)
def test_phrasings_of_a_change_an_end_and_an_addition_read_as_sentences_or_as_one_line_of_chat(relation):
    chance = random.Random(named(relation))
    subject = "" if relation.subject == SELF else SUBJECTS[relation.subject](chance)
    old, value = (VALUES[relation.value](chance) for _ in range(2))
    chat = [phrasing for phrasing in relation.changes if phrasing[0].islower()]
    assert len(chat) <= 1
    for phrasing in relation.changes + relation.ends + relation.more:
        assert not phrasing.startswith(("{v}", "{o}")) or opens_sentence(relation.value), phrasing
        assert not phrasing.startswith("{s}") or relation.subject not in {"device", "event", "product"}, phrasing
        filled = relation.fill(phrasing, subject, value, old)
        assert not filled[0].islower() or phrasing in chat or phrasing.startswith(("{v}", "{o}")), filled
        assert filled.endswith("."), filled
        assert filled == " ".join(filled.split()), filled
        assert ("{v}" in phrasing) <= (value in filled), filled
        assert ("{o}" in phrasing) <= (old in filled), filled


def test_no_two_relations_share_a_phrasing_of_a_change_an_end_or_an_addition():
    told = Counter(phrasing for r in RELATIONS for phrasing in r.changes + r.ends + r.more)
    assert [phrasing for phrasing, count in told.items() if count > 1] == []


def test_most_facts_can_end_and_some_subjects_have_several_values():
    assert sum(bool(relation.ends) for relation in RELATIONS) > len(RELATIONS) // 2
    several = {relation.label for relation in RELATIONS if relation.several}
    assert {"allergy", "sister", "hobby"} <= several
    assert not {"birthplace", "employer", "deadline", "founder"} & several


@pytest.mark.parametrize("kind", sorted(SUBJECTS))
def test_names_of_subjects_are_many(kind):
    chance = random.Random(0)
    names = {SUBJECTS[kind](chance) for _ in range(1000)}
    assert len(names) > 850
    assert all(name == " ".join(name.split()) for name in names)


def test_some_statements_of_most_families_give_the_value_before_the_subject():
    for family, relations in FAMILIES.items():
        named = [relation for relation in relations if relation.subject != SELF]
        before = [s for r in named for s in r.statements if s.index("{v}") < s.index("{s}")]
        assert before or not named, family


@pytest.mark.parametrize("kind", sorted(VALUES))
def test_values_are_trimmed_and_open_sentences_as_declared(kind):
    chance = random.Random(0)
    values = [VALUES[kind](chance) for _ in range(300)]
    assert all(value == " ".join(value.split()) and value and not value.endswith(".") for value in values)
    assert not opens_sentence(kind) or not any(value[0].islower() for value in values if kind != "device")


@settings(max_examples=200)
@given(seed=SEEDS, largest=st.integers(1, 40))
def test_every_answer_stands_in_the_text_and_each_fact_is_asked_once(seed, largest):
    sample = drawn(seed, largest=largest)
    assert 1 <= sample.facts <= largest
    assert len(sample.asks) == sample.facts
    assert len({ask.question for ask in sample.asks}) == sample.facts
    assert sample.update is None
    for ask in sample.asks:
        assert ask.answer in sample.text
        assert not ask.affected
        assert ask.stale is None


@settings(max_examples=300)
@given(seed=SEEDS, largest=st.integers(1, 40))
def test_an_update_states_the_new_values_and_never_the_stale_ones(seed, largest):
    sample = drawn(seed, largest=largest, update=True)
    affected = [ask for ask in sample.asks if ask.affected]
    assert 1 <= len(affected) <= 3
    assert len(sample.asks) == sample.facts
    for ask in affected:
        assert ask.answer in sample.update
        assert ask.answer != ask.stale
        assert ask.stale in sample.text
        assert ask.stale.lower() not in sample.update.lower()
    for ask in sample.asks:
        assert ask.affected or (ask.answer in sample.text and ask.stale is None)


def test_updates_are_short_corrections_in_about_a_third_of_cases_and_restate_facts_in_others():
    samples = [drawn(seed, largest=12, update=True) for seed in range(600)]
    samples = [sample for sample in samples if sample.facts >= 6]
    restating = sum(any(not ask.affected and ask.answer in sample.update for ask in sample.asks) for sample in samples)
    assert 0.3 < restating / len(samples) < 0.8


@settings(max_examples=100)
@given(seed=SEEDS, count=st.integers(1, 64))
def test_no_subject_has_a_relation_twice_and_no_name_is_part_of_another(seed, count):
    facts = draw_facts(random.Random(seed), RELATIONS, count)
    assert len(facts) == count
    assert len({(fact.relation.label, fact.relation.subject, fact.subject) for fact in facts}) == count
    subjects = sorted({fact.subject for fact in facts if fact.subject})
    assert not [(one, other) for one in subjects for other in subjects if one != other and one in other]


@settings(max_examples=100)
@given(seed=SEEDS, count=st.integers(1, 20))
def test_no_two_relations_of_a_topic_are_told_of_one_subject(seed, count):
    """ "Where do I live?" has two answers where a text names a city and a street."""
    own = FAMILIES["life"] + FAMILIES["self"]
    facts = draw_facts(random.Random(seed), own, count)
    topics = [(fact.subject, fact.relation.topic) for fact in facts if fact.relation.topic]
    assert len(topics) == len(set(topics))


def test_topics_are_shared_or_there_are_none():
    topics = Counter(relation.topic for relation in RELATIONS if relation.topic)
    assert topics
    assert min(topics.values()) > 1


def test_facts_cluster_by_subject_and_by_relation():
    many = [draw_facts(random.Random(seed), RELATIONS, 8) for seed in range(200)]
    assert sum(len({fact.subject for fact in facts}) <= 5 for facts in many) > 20
    assert sum(len({named(fact.relation) for fact in facts}) <= 4 for facts in many) > 20


@given(seed=SEEDS, update=st.booleans())
@settings(max_examples=50)
def test_the_same_state_gives_the_same_sample(seed, update):
    assert drawn(seed, update=update) == drawn(seed, update=update, source=FactSource("facts"))


def test_styles_and_distractors_vary_the_texts():
    texts = [drawn(seed, largest=6).text for seed in range(300)]
    assert sum(text.startswith(("- ", "* ", "• ")) for text in texts) > 10
    assert sum("Assistant: " in text for text in texts) > 5
    assert sum(text.startswith("#") for text in texts) > 10
    bare = FactSource("bare", distractors=0.0)
    assert sum(map(len, texts)) > sum(len(drawn(seed, largest=6, source=bare).text) for seed in range(300))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_held_out_is_never_asked_and_a_family_alone_is_all_that_is(family):
    def asked_by(relations) -> set[str]:
        return {phrasing.split("{")[0] for relation in relations for phrasing in relation.questions + relation.inverse}

    source = FactSource("held", exclude_families=[family])
    assert set(source._relations).isdisjoint(FAMILIES[family])
    alone = FactSource("alone", only_families=[family])
    openings = tuple(asked_by(FAMILIES[family]))
    for seed in range(20):
        sample = drawn(seed, largest=30, update=seed % 2 == 0, source=alone)
        assert all(ask.question.startswith(openings) for ask in sample.asks)


def test_smallest_is_the_fewest_facts_unless_the_curriculum_allows_less():
    source = FactSource("many", smallest=5)
    assert {drawn(seed, largest=7, source=source).facts for seed in range(60)} == {5, 6, 7}
    assert drawn(1, largest=3, source=source).facts == 3


def test_a_relation_that_is_filled_in_has_the_article_of_its_value():
    job = next(relation for relation in FAMILIES["people"] if relation.label == "occupation")
    assert job.fill("{s} is {a} {v}.", "Ada", "optician") == "Ada is an optician."
    assert job.fill("{A} {v} is {s}.", "Ada", "one-eyed cat") == "A one-eyed cat is Ada."
    change = "{s}, once {b} {o}, is {a} {v}."
    assert job.fill(change, "Ada", "optician", "baker") == "Ada, once a baker, is an optician."
    assert job.fill("{s} is not {b} {o} any more.", "Ada", "", "actuary") == "Ada is not an actuary any more."


OWN = [relation for relation in RELATIONS if relation.subject == SELF]


@pytest.mark.parametrize("relation", OWN, ids=named)
def test_what_a_user_said_of_themselves_is_told_back_to_them(relation):
    value = VALUES[relation.value](random.Random(1))
    for question in relation.questions:
        reply = value_reply(question, Fact(relation, "", value))
        assert reply.endswith(f" {value}."), reply
        words = reply.removesuffix(f" {value}.").lower().split()
        assert not {"i", "i'm", "my", "me", "we", "our", "us", "am"} & set(words), reply


@pytest.mark.parametrize(
    ("label", "question", "value", "reply"),
    [
        ("place of residence", "Where do I live?", "Porto", "You live in Porto."),
        ("place of residence", "Where is my home?", "Porto", "Your home is in Porto."),
        ("dislike", "What do I hate?", "cilantro", "What you hate is cilantro."),
        ("spoken language", "Which languages do I speak?", "Danish and Urdu", "You speak Danish and Urdu."),
        ("occupation", "What am I by trade?", "optician", "By trade you are an optician."),
        ("birthday", "On which day was I born?", "3 May", "You were born on 3 May."),
        ("way with tea", "How do I take my tea?", "without milk", "You take your tea without milk."),
        ("dog's name", "What is my dog's name?", "Kiwi", "Your dog's name is Kiwi."),
        ("car", "What is my car?", "red Saab", "Your car is a red Saab."),
        ("number of children", "How many children do we have?", "four", "The number of children you have is four."),
        ("preferred name", "What should you call me?", "Juno", "You prefer to be called Juno."),
    ],
)
def test_the_reply_takes_the_words_of_the_question(label, question, value, reply):
    relation = next(relation for relation in OWN if relation.label == label)
    assert value_reply(question, Fact(relation, "", value)) == reply


def test_a_wrong_family_or_number_is_refused_with_what_there_is():
    with pytest.raises(TrainingError, match=r"no family wizards; choose from codes, companies"):
        FactSource("facts", only_families=["wizards"])
    with pytest.raises(TrainingError, match="every family is excluded"):
        FactSource("facts", exclude_families=list(FAMILIES))
    with pytest.raises(TrainingError, match="got smallest=0"):
        FactSource("facts", smallest=0)
    with pytest.raises(TrainingError, match="distractors=2"):
        FactSource("facts", distractors=2)
    with pytest.raises(TrainingError, match="largest must be at least 1"):
        drawn(0, largest=0)


def test_a_text_of_four_times_the_facts_takes_four_times_as_long(growth):
    assert growth(lambda n: [drawn(seed, largest=n, update=seed % 2 == 0) for seed in range(60)], 8) < 9
