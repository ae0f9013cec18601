"""Draws facts that go together in one text: no question about them has two answers.

Facts cluster, as they do in life: several facts about one subject, and one relation for several subjects.
Both force a memory to bind a value to its subject and its relation, not to either alone.
"""

import random
from collections.abc import Sequence
from typing import NamedTuple

from plume_memory.training.facts.names import SUBJECTS, last_name
from plume_memory.training.facts.relation import SELF, Relation
from plume_memory.training.facts.values import VALUES


class Fact(NamedTuple):
    """One relation of one subject."""

    relation: Relation
    subject: str
    """Name; empty for the one who speaks."""
    value: str


class _Habit(NamedTuple):
    """How the facts of a text cluster."""

    same_subject: float
    """Share of facts that are about a subject named before."""
    same_relation: float
    """Share of facts that repeat a relation for another subject."""


_HABITS = (_Habit(0.75, 0.1), _Habit(0.1, 0.75), _Habit(0.4, 0.4), _Habit(0.1, 0.1))
_NAMESAKES = 0.1
"""Share of people who have the first name of someone in the text: only the whole name tells them apart."""
_TRIES = 40


def draw_facts(chance: random.Random, relations: Sequence[Relation], count: int) -> list[Fact]:
    """Draw `count` facts, no two of a subject with the same relation or topic, no name part of another.

    Values of one relation differ unless its kind is too small for the count.
    """
    habit = chance.choice(_HABITS)
    facts: list[Fact] = []
    while len(facts) < count:
        roll = chance.random() if facts else 1.0
        relation, subject = chance.choice(relations), None
        if roll < habit.same_subject:
            subject, relation = _another_relation(chance, facts, relations)
        elif roll < habit.same_subject + habit.same_relation:
            relation = chance.choice(facts).relation
        if subject is None:
            subject = "" if relation.subject == SELF else new_name(chance, relation.subject, facts)
        if not any(fact.subject == subject and _alike(fact.relation, relation) for fact in facts):
            facts.append(Fact(relation, subject, new_value(chance, relation, facts)))
    return facts


def new_name(chance: random.Random, kind: str, facts: Sequence[Fact]) -> str:
    """Draw a name that is no part of another subject's name, nor the other way round."""
    for _ in range(_TRIES):
        name = SUBJECTS[kind](chance)
        if kind == "person" and facts and chance.random() < _NAMESAKES:
            name = _namesake(chance, chance.choice(facts)) or name
        if not any(fact.subject and _overlap(name, fact.subject) for fact in facts):
            return name
    return f"{SUBJECTS[kind](chance)} {len(facts) + 2}"


def _namesake(chance: random.Random, fact: Fact) -> str | None:
    """Draw someone with the first name of the fact's subject, if that is a person of two names."""
    first, _, last = fact.subject.partition(" ")
    if fact.relation.subject != "person" or not last or first.endswith("."):
        return None
    return f"{first} {last_name(chance)}"


def new_value(chance: random.Random, relation: Relation, facts: Sequence[Fact]) -> str:
    """Draw a value that no other fact of the relation has, unless the kind is used up."""
    taken = {fact.value for fact in facts if fact.relation.value == relation.value}
    for _ in range(_TRIES):
        value = VALUES[relation.value](chance)
        if value not in taken:
            break
    return value


def _another_relation(
    chance: random.Random, facts: Sequence[Fact], relations: Sequence[Relation]
) -> tuple[str, Relation]:
    """Draw a subject of the facts and a relation for its kind; the pair may exist already."""
    known = chance.choice(facts)
    for _ in range(_TRIES):
        relation = chance.choice(relations)
        if relation.subject == known.relation.subject:
            return known.subject, relation
    return known.subject, known.relation


def most_of_self(relations: Sequence[Relation]) -> int:
    """How many facts can be drawn of one who speaks: one of each relation, and of each topic."""
    return len({relation.topic or relation.label for relation in relations if relation.subject == SELF})


def _alike(one: Relation, other: Relation) -> bool:
    return one is other or (one.subject == other.subject and one.topic != "" and one.topic == other.topic)


def _overlap(one: str, other: str) -> bool:
    return one in other or other in one
