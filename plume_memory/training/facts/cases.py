"""Cases of single invented facts, where all is known of what was said: every way in which one text meets another."""

import random
import re
from collections.abc import Sequence

from plume_memory.training.cases import ClaimSet, PairSet, Verdict, garbled
from plume_memory.training.facts.draw import Fact
from plume_memory.training.facts.filler import ASIDES, CORRECTION_NOTES, CORRECTIONS, filler
from plume_memory.training.facts.relation import SELF, Relation
from plume_memory.training.facts.render import capitalised
from plume_memory.training.facts.replies import value_reply
from plume_memory.training.facts.twins import (
    ATTRIBUTES,
    OWNERS,
    Attribute,
    draw_name,
    draw_value,
    near_name,
    of_whom,
    twins,
)

Earlier = tuple[str, Verdict]
Said = tuple[str, str, bool]


class FactCases:
    """Draws sets of cases of the relations of some families.

    Args:
        relations: to draw from.
        most: cases of a set.
    """

    def __init__(self, relations: Sequence[Relation], *, most: int = 5) -> None:
        self._relations = relations
        self._most = most

    def pairs(self, chance: random.Random) -> PairSet:
        """Draw a later text, and earlier ones of which it replaces some, or none."""
        roll = chance.random()
        if roll < 0.2:
            return self._of_twins(chance)
        if roll < 0.3:
            return self._of_owners(chance)
        relation, subject, old = self._fact(chance)
        new = draw_value(chance, relation.value, old)
        later, verdict = self._later(chance, relation, subject, old, new)
        earlier: list[Earlier] = [(_told(chance, relation, subject, old, changes=0.2), verdict)]
        if verdict == "replaces" and chance.random() < 0.4:
            earlier.append((_told(chance, relation, subject, old), verdict))
        if new in later:
            earlier.append((_told(chance, relation, subject, new), "adds"))
        other = self._other_relation(chance, relation)
        if other is not relation:
            earlier.append((_told(chance, other, subject, draw_value(chance, other.value, old)), "adds"))
        for _ in range(2):
            earlier.append(self._of_another(chance, relation, subject, chance.choice((old, new))))
        if relation.subject != SELF:
            earlier += _of_other(later, subject, _another_name(chance, relation, subject))
        if chance.random() < 0.3:
            earlier.append((self._anything(chance), "not replaces"))
        first, rest = earlier[0], earlier[1:]
        chosen = [first, *chance.sample(rest, min(len(rest), self._most - 1))]
        return PairSet(later, tuple(chance.sample(chosen, len(chosen))))

    def claims(self, chance: random.Random) -> ClaimSet:
        """Draw a text of one to three statements, and what is said of it, rightly or not."""
        if chance.random() < 0.25:
            return self._of_twins_said(chance)
        relation, subject, old = self._fact(chance)
        value = draw_value(chance, relation.value, old)
        roll = chance.random()
        changed = _changed(chance, relation, subject, old, value)
        told = changed if roll < 0.25 else _told(chance, relation, subject, value)
        ended = bool(relation.ends) and roll > 0.92
        if ended:
            told = relation.fill(chance.choice(relation.ends), subject, "", value)
        another = self._other_relation(chance, relation)
        beside = draw_value(chance, another.value, value)
        others = [_told(chance, another, subject, beside)] if another is not relation and chance.random() < 0.6 else []
        if relation.subject != SELF and chance.random() < 0.5:
            others.append(self._of_another(chance, relation, subject, value)[0])
        text = " ".join(chance.sample([told, *others], 1 + len(others)))

        def ask() -> str:
            return relation.fill(chance.choice(relation.questions), subject, value)

        said: list[Said] = [
            (*_answered(chance, relation, subject, ask(), value), not ended),
            (*_answered(chance, relation, subject, ask(), draw_value(chance, relation.value, value)), False),
            (*_answered(chance, relation, subject, ask(), garbled(chance, value) if len(value) > 3 else old), False),
        ]
        if not ended:
            said.append((ask(), "", True))
        if told is changed:
            said.append((*_answered(chance, relation, subject, ask(), old), False))
        said += self._not_told(chance, relation, subject, value, others)
        return ClaimSet(text, tuple(chance.sample(said, min(len(said), self._most))))

    # --- what a text does ----------------------------------------------------------------------------

    def _later(
        self, chance: random.Random, relation: Relation, subject: str, old: str, new: str
    ) -> tuple[str, Verdict]:
        """A later text about the same of the same, and what it does to the statement of the old value."""
        roll = chance.random()
        if roll < 0.12 and relation.ends:
            return capitalised(relation.fill(chance.choice(relation.ends), subject, "", old)), "replaces"
        if relation.several and roll < 0.6:
            more = relation.fill(chance.choice(relation.more), subject, new)
            return (capitalised(more) if roll < 0.4 else _told(chance, relation, subject, new)), "adds"
        if roll > 0.94:
            hedge = chance.choice(_HEDGES)
            return f"{hedge}{_lowered(relation.fill(relation.statements[0], subject, new))}", "adds"
        if relation.several or roll < 0.62:
            return _changed(chance, relation, subject, old, new), "replaces"
        return _told(chance, relation, subject, new), "replaces"

    def _not_told(
        self, chance: random.Random, relation: Relation, subject: str, value: str, others: Sequence[str]
    ) -> list[Said]:
        """Questions that the text does not answer: of a near name, of another relation, of the world."""
        found: list[Said] = []
        if relation.subject == SELF:
            label = f"{chance.choice(OWNERS[1:10])} {relation.label}"
            found.append((f"What is {label}?", chance.choice(("", value, f"{capitalised(label)} is {value}.")), False))
        else:
            fresh = draw_name(chance, relation.subject)
            name = near_name(chance, subject, fresh) if chance.random() < 0.6 else fresh
            if not any(name in one for one in others):
                question = relation.fill(chance.choice(relation.questions), name, value)
                answer = "" if chance.random() < 0.4 else _answered(chance, relation, name, question, value)[1]
                found.append((question, answer, False))
        third = self._other_relation(chance, relation)
        question = third.fill(chance.choice(third.questions), subject, value)
        if third is not relation and not others:
            found.append((question, chance.choice(("", value)), False))
        if chance.random() < 0.2:
            found.append((chance.choice(GENERAL), "", False))
        return found

    # --- near names, and whose -----------------------------------------------------------------------

    def _of_twins(self, chance: random.Random) -> PairSet:
        one, other = twins(chance)
        attribute, another = chance.sample(ATTRIBUTES, 2)
        old, new = _two_values(chance, attribute)
        later = _stated(chance, attribute, one, new, changes=0.5, old=old)
        earlier: list[Earlier] = [
            (_stated(chance, attribute, one, old), "replaces"),
            (_stated(chance, attribute, other, draw_value(chance, attribute.value, new)), "unrelated"),
            (_stated(chance, attribute, other, old), "unrelated"),
            *_of_other(later, one, other),
            (_stated(chance, another, one, draw_value(chance, another.value)), "adds"),
            (_stated(chance, attribute, one, new), "adds"),
        ]
        return PairSet(later, tuple(chance.sample(earlier, min(self._most, len(earlier)))))

    def _of_owners(self, chance: random.Random) -> PairSet:
        """Mine, my wife's, her: one label, several owners."""
        own = [one for one in self._relations if one.subject in (SELF, "person") and "'" not in one.label]
        relation, another = chance.sample(own, 2)
        mine, first, second = chance.sample(OWNERS, 3)
        forms = ("{o} {l} is {v}.", "{o} {l} is {v}.", "{o} {l}: {v}", "By the way, {o} {l} is {v}.")

        def say(owner: str, relation: Relation, value: str) -> str:
            return capitalised(chance.choice(forms).format(o=owner, l=relation.label, v=value))

        old = draw_value(chance, relation.value)
        new = draw_value(chance, relation.value, old)
        same: Verdict = "adds" if relation.several else "replaces"
        earlier: list[Earlier] = [
            (say(mine, relation, old), same),
            (say(first, relation, draw_value(chance, relation.value)), "unrelated"),
            (say(second, relation, new), "unrelated"),
            (say(mine, another, draw_value(chance, another.value)), "adds"),
        ]
        return PairSet(say(mine, relation, new), tuple(chance.sample(earlier, min(self._most, len(earlier)))))

    def _of_twins_said(self, chance: random.Random) -> ClaimSet:
        one, other = twins(chance)
        attribute = chance.choice(ATTRIBUTES)
        value, wrong = _two_values(chance, attribute)
        both = [_stated(chance, attribute, one, value)]
        if chance.random() < 0.6:
            both.append(_stated(chance, attribute, other, wrong))
        asked = [attribute.question.format(s=each) for each in (one, other)]

        def answered(thing: str, value: str) -> str:
            told = attribute.statements[0].format(s=thing, v=value)
            return capitalised(value if chance.random() < 0.4 else told)

        said: list[Said] = [
            (asked[0], answered(one, value), True),
            (asked[0], answered(one, wrong), False),
            (asked[0], "", True),
            (asked[1], answered(other, value), False),
            (asked[1], "", len(both) == 2),
            (asked[1], answered(other, wrong), len(both) == 2),
        ]
        text = " ".join(chance.sample(both, len(both)))
        return ClaimSet(text, tuple(chance.sample(said, min(self._most, len(said)))))

    # --- facts ---------------------------------------------------------------------------------------

    def _fact(self, chance: random.Random) -> tuple[Relation, str, str]:
        relation = chance.choice(self._relations)
        subject = "" if relation.subject == SELF else draw_name(chance, relation.subject)
        if relation.subject == "person" and chance.random() < 0.15:
            subject = of_whom(chance, subject)
        return relation, subject, draw_value(chance, relation.value, subject)

    def _other_relation(self, chance: random.Random, relation: Relation) -> Relation:
        """Another relation of the same kind of subject, half of the time with values of the same kind."""
        own = [
            one
            for one in self._relations
            if one.subject == relation.subject
            and one is not relation
            and not (one.topic and one.topic == relation.topic)
        ]
        same = [one for one in own if one.value == relation.value]
        return chance.choice(same if same and chance.random() < 0.5 else own or [relation])

    def _of_another(self, chance: random.Random, relation: Relation, subject: str, like: str) -> Earlier:
        """The same told of somebody or something else, mostly with a near name; at times with the value `like`."""
        value = like if chance.random() < 0.4 else draw_value(chance, relation.value, like)
        if relation.subject == SELF:
            return f"{capitalised(chance.choice(OWNERS[1:]))} {relation.label} is {value}.", "unrelated"
        name = _another_name(chance, relation, subject)
        return _told(chance, relation, name, value, changes=0.2), "unrelated"

    def _anything(self, chance: random.Random) -> str:
        if chance.random() < 0.4:
            return filler(chance)
        return _told(chance, *self._fact(chance))


def _another_name(chance: random.Random, relation: Relation, subject: str) -> str:
    """Mostly a near one; of a person at times one of theirs."""
    if relation.subject == "person" and chance.random() < 0.3:
        return subject.rsplit("'s ", 1)[0] if "'s " in subject else of_whom(chance, subject)
    fresh = draw_name(chance, relation.subject)
    name = near_name(chance, subject, fresh) if chance.random() < 0.6 else fresh
    return name if name != subject else _another_name(chance, relation, subject)


def _of_other(text: str, name: str, other: str) -> list[Earlier]:
    """The text word for word of somebody or something else; nothing where it does not hold the name."""

    def named(found: "re.Match[str]") -> str:
        return other if found.group() == name else capitalised(other)

    forms = "|".join(map(re.escape, dict.fromkeys((name, capitalised(name)))))
    told = re.sub(rf"(?<!\w)(?:{forms})(?!\w)", named, text)
    return [] if told == text else [(told, "unrelated")]


def _answered(chance: random.Random, relation: Relation, subject: str, question: str, value: str) -> tuple[str, str]:
    """A question, and an answer to it that gives the value: a statement or the value alone."""
    reply = value_reply(question, Fact(relation, subject, value))
    return question, reply if chance.random() < 0.7 and reply.count(value) == 1 else value


def _two_values(chance: random.Random, attribute: Attribute) -> tuple[str, str]:
    first = draw_value(chance, attribute.value)
    return first, draw_value(chance, attribute.value, first)


_HEDGES = (
    "Years ago: ",
    "Back in 1998 it was said: ",
    "For a while, long before: ",
    "Somebody joked that ",
    "Perhaps one day ",
)


def _told(
    chance: random.Random, relation: Relation, subject: str, value: str, *, changes: float = 0.0, ends: float = 0.0
) -> str:
    """State a fact in one of the hands people write in; at times as a change of an unknown value, or its end."""
    roll = chance.random()
    if roll < ends and relation.ends:
        return capitalised(relation.fill(chance.choice(relation.ends), subject, "", value))
    if roll < ends + changes and relation.changes:
        return capitalised(
            relation.fill(chance.choice(relation.changes), subject, value, draw_value(chance, relation.value, value))
        )
    roll = chance.random()
    owner = "My" if relation.subject == SELF else f"{subject}'s"
    if roll < 0.1:
        return f"{capitalised(owner)} {relation.label}: {value}"
    if roll < 0.16:
        return f"{capitalised(owner)} {relation.label} is {value}."
    if roll < 0.2 and subject:
        return f"{capitalised(subject)}\n{capitalised(relation.label)}: {value}"
    sentence = relation.fill(chance.choice(relation.statements), subject, value)
    if roll < 0.3:
        return chance.choice(ASIDES) + _lowered(sentence)
    if roll < 0.36:
        return f"{chance.choice(_SPEAKERS)}: {sentence}"
    if roll < 0.42:
        return sentence.rstrip(".") if roll < 0.39 else f"- {sentence}"
    return capitalised(sentence)


_SPEAKERS = ("Ana", "Tom", "User", "Priya", "Me", "Boss", "Lena", "Omar")


def _changed(chance: random.Random, relation: Relation, subject: str, old: str, new: str) -> str:
    """Say that a fact changed."""
    roll = chance.random()
    if relation.changes and roll < 0.7:
        told = relation.fill(chance.choice(relation.changes), subject, new, old)
        return f"{chance.choice(_SPEAKERS)}: {told}" if roll < 0.07 else capitalised(told)
    if roll < 0.82:
        owner = "my" if relation.subject == SELF else f"{subject}'s"
        return chance.choice(CORRECTION_NOTES).format(label=f"{owner} {relation.label}", v=new)
    return chance.choice(CORRECTIONS) + _lowered(relation.fill(chance.choice(relation.statements), subject, new))


def _lowered(sentence: str) -> str:
    first = sentence.split(" ", 1)[0]
    return sentence[0].lower() + sentence[1:] if first in _LOWERED else sentence


_LOWERED = frozenset(
    ["The", "At", "In", "On", "For", "Of", "We", "My", "Our", "A", "An", "It", "To", "By", "With", "From"]
)


def _stated(
    chance: random.Random, attribute: Attribute, thing: str, value: str, *, changes: float = 0.0, old: str = ""
) -> str:
    if chance.random() < changes:
        told = chance.choice(attribute.changes)
        return capitalised(told.format(s=thing, v=value, o=old or draw_value(chance, attribute.value, value)))
    return capitalised(chance.choice(attribute.statements).format(s=thing, v=value))


GENERAL = (
    "What is the capital of Mongolia?",
    "How many strings does a guitar have?",
    "Write a short poem about the sea.",
    "Translate 'good morning' into Italian.",
    "What is 17 times 6?",
    "Why do leaves turn red in autumn?",
    "Who composed the Moonlight Sonata?",
    "Give me three tips for better sleep.",
    "Explain how a bicycle stays upright.",
    "Name a fruit that is yellow.",
    "How far is the moon from the earth?",
    "How do I reverse a list in Python?",
    "Who wrote Don Quixote?",
    "What comes after Thursday?",
    "Tell me a joke.",
    "Which planet has rings?",
    "Summarise what photosynthesis is.",
    "Which language is spoken in Egypt?",
    "Suggest a name for a cat.",
    "How many minutes are in a day?",
    "What is the plural of mouse?",
    "Who was the first person on the moon?",
    "Write an e-mail that declines an invitation.",
    "What does HTTP stand for?",
    "Is a tomato a fruit?",
    "How do vaccines work?",
    "Recommend a film for a rainy evening.",
    "What is 12 percent of 250?",
    "Hello, how are you?",
    "Thanks, that was helpful!",
    "In which year did the Second World War end?",
    "What is a synonym of happy?",
)
"""Questions that no memory needs to be asked."""
