"""Cases of single invented facts, where all is known of what was said: every way in which one text meets another."""

import random
from collections.abc import Sequence

from plume_memory.training.cases import UNSAID, Claim, Pair, garbled
from plume_memory.training.facts.draw import Fact
from plume_memory.training.facts.filler import ASIDES, CORRECTION_NOTES, CORRECTIONS, filler
from plume_memory.training.facts.relation import SELF, Relation
from plume_memory.training.facts.render import capitalised
from plume_memory.training.facts.replies import value_reply
from plume_memory.training.facts.twins import ATTRIBUTES, OWNERS, Attribute, draw_name, draw_value, near_name, twins
from plume_memory.training.sources.matching import holds


class FactPairs:
    """Draws pairs and claims of the relations of some families."""

    def __init__(self, relations: Sequence[Relation]) -> None:
        self._relations = relations

    def pair(self, chance: random.Random) -> Pair:
        """Draw a pair."""
        roll = chance.random()
        if roll < 0.25:
            return _of_twins(chance)
        if roll < 0.37:
            return _of_owners(chance, self._relations)
        return self._of_relation(chance)

    def claim(self, chance: random.Random) -> Claim:
        """Draw a claim: of one to three statements, a question about one or about something near."""
        if chance.random() < 0.3:
            return _twin_claim(chance)
        if chance.random() < 0.06:
            some = [_told(chance, *self._fact(chance)) for _ in range(chance.choice((1, 2, 3)))]
            return Claim(" ".join(some), chance.choice(GENERAL), "", supported=False)
        relation, subject, value = self._fact(chance)
        question = relation.fill(chance.choice(relation.questions), subject, value)
        told = _told(chance, relation, subject, value)
        others = [self._beside(chance, relation, subject, value) for _ in range(chance.choice((0, 1, 1, 2)))]
        roll = chance.random()
        said = value
        supported = True
        unsaid = chance.random() < UNSAID
        if roll < 0.5 or (unsaid and roll < 0.68):
            pass
        elif roll < 0.6:
            said = draw_value(chance, relation.value, value)
            supported = False
        elif roll < 0.68 and len(value) > 3:
            said = garbled(chance, value)
            supported = False
        elif roll < 0.76:
            old, said = value, draw_value(chance, relation.value, value)
            told = _changed(chance, relation, subject, old, said)
            if not unsaid and chance.random() < 0.5 and holds(told, old):
                said = old
            supported = said != old
        elif roll < 0.82 and relation.ends:
            told = relation.fill(chance.choice(relation.ends), subject, "", value)
            supported = False
        else:  # asked about somebody else, or something else of the same
            told = self._elsewhere(chance, relation, subject, value)
            supported = False
        evidence = [told, *others]
        chance.shuffle(evidence)
        if unsaid:
            return Claim(" ".join(evidence), question, "", supported)
        reply = value_reply(question, Fact(relation, subject, said))
        answer = reply if chance.random() < 0.75 and reply.count(said) == 1 else said
        return Claim(" ".join(evidence), question, answer, supported)

    # --- pairs -------------------------------------------------------------------------------------------

    def _of_relation(self, chance: random.Random) -> Pair:
        relation, subject, old = self._fact(chance)
        new = draw_value(chance, relation.value, old)
        earlier = _told(chance, relation, subject, old, changes=0.15)
        roll = chance.random()
        if roll < 0.42:
            return self._of_same(chance, relation, subject, old, new, earlier)
        if roll < 0.52:
            return Pair(earlier, _told(chance, relation, subject, old), "adds")
        if roll < 0.70:
            other = self._other_relation(chance, relation)
            later = _told(chance, other, subject, draw_value(chance, other.value, old), changes=0.4, ends=0.1)
            return Pair(earlier, later, "adds")
        if roll < 0.92 and relation.subject != SELF:
            fresh = draw_name(chance, relation.subject)
            name = near_name(chance, subject, fresh) if chance.random() < 0.7 else fresh
            return Pair(earlier, _told(chance, relation, name, new, changes=0.4, ends=0.08), "unrelated")
        if roll < 0.95:
            return Pair(earlier, relation.fill(chance.choice(relation.questions), subject, old), "unrelated")
        if roll < 0.97:
            return Pair(earlier, filler(chance), "unrelated")
        other = chance.choice(self._relations)
        name = "" if other.subject == SELF else draw_name(chance, other.subject)
        return Pair(earlier, _told(chance, other, name, draw_value(chance, other.value), changes=0.3), "not replaces")

    def _of_same(
        self, chance: random.Random, relation: Relation, subject: str, old: str, new: str, earlier: str
    ) -> Pair:
        roll = chance.random()
        if roll < 0.15 and relation.ends:
            return Pair(earlier, relation.fill(chance.choice(relation.ends), subject, "", old), "replaces")
        if relation.several and roll < 0.6:
            more = relation.fill(chance.choice(relation.more), subject, new)
            return Pair(earlier, more if roll < 0.4 else _told(chance, relation, subject, new), "adds")
        if roll > 0.93:
            again = f"{chance.choice(_HEDGES)}{_lowered(relation.fill(relation.statements[0], subject, new))}"
            return Pair(earlier, again, "adds")
        if relation.several or roll < 0.65:
            return Pair(earlier, _changed(chance, relation, subject, old, new), "replaces")
        return Pair(earlier, _told(chance, relation, subject, new), "replaces")

    # --- facts -------------------------------------------------------------------------------------------

    def _fact(self, chance: random.Random) -> tuple[Relation, str, str]:
        relation = chance.choice(self._relations)
        subject = "" if relation.subject == SELF else draw_name(chance, relation.subject)
        return relation, subject, draw_value(chance, relation.value, subject)

    def _other_relation(self, chance: random.Random, relation: Relation) -> Relation:
        own = [
            one
            for one in self._relations
            if one.subject == relation.subject
            and one is not relation
            and not (one.topic and one.topic == relation.topic)
        ]
        same = [one for one in own if one.value == relation.value]
        return chance.choice(same if same and chance.random() < 0.5 else own or [relation])

    def _beside(self, chance: random.Random, relation: Relation, subject: str, value: str) -> str:
        """A statement that stands beside: another relation of the subject, or the relation of another."""
        if chance.random() < 0.5 or relation.subject == SELF:
            other = self._other_relation(chance, relation)
            return (
                filler(chance)
                if other is relation
                else _told(chance, other, subject, draw_value(chance, other.value, value))
            )
        return _told(chance, relation, draw_name(chance, relation.subject), draw_value(chance, relation.value, value))

    def _elsewhere(self, chance: random.Random, relation: Relation, subject: str, value: str) -> str:
        """A statement that gives the value to another subject, or to another relation of the subject."""
        if relation.subject != SELF and chance.random() < 0.7:
            fresh = draw_name(chance, relation.subject)
            name = near_name(chance, subject, fresh) if chance.random() < 0.5 else fresh
            return _told(chance, relation, name, value, changes=0.2)
        other = self._other_relation(chance, relation)
        if relation.subject == SELF and chance.random() < 0.5:
            return f"{capitalised(chance.choice(OWNERS[1:]))} {relation.label} is {value}."
        kept = value if other.value == relation.value and other is not relation else None
        return (
            filler(chance)
            if other is relation
            else _told(chance, other, subject, kept or draw_value(chance, other.value))
        )


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


# --- near names, and whose ------------------------------------------------------------------------------------


def _of_twins(chance: random.Random) -> Pair:
    one, other = twins(chance)
    attribute = chance.choice(ATTRIBUTES)
    old = draw_value(chance, attribute.value)
    new = draw_value(chance, attribute.value, old)
    earlier = _stated(chance, attribute, one, old)
    if chance.random() < 0.6:
        return Pair(earlier, _stated(chance, attribute, other, new, changes=0.4), "unrelated")
    if chance.random() < 0.25:
        another = chance.choice([each for each in ATTRIBUTES if each is not attribute])
        return Pair(earlier, _stated(chance, another, one, draw_value(chance, another.value), changes=0.4), "adds")
    if chance.random() < 0.15:
        return Pair(earlier, _stated(chance, attribute, one, old), "adds")
    return Pair(earlier, _stated(chance, attribute, one, new, changes=0.6, old=old), "replaces")


def _twin_claim(chance: random.Random) -> Claim:
    one, other = twins(chance)
    attribute = chance.choice(ATTRIBUTES)
    value = draw_value(chance, attribute.value)
    wrong = draw_value(chance, attribute.value, value)
    question = attribute.question.format(s=one)
    both = [_stated(chance, attribute, one, value), _stated(chance, attribute, other, wrong)]
    roll = chance.random()
    if chance.random() < UNSAID:
        chance.shuffle(told := [both[0], *both[1 : 1 + chance.randint(0, 1)]])
        return Claim(both[1] if roll < 0.5 else " ".join(told), question, "", supported=roll >= 0.5)
    if roll < 0.35:  # the other alone
        return Claim(both[1], question, chance.choice((wrong, both[1].replace(other, one))), supported=False)
    chance.shuffle(both)
    said = value if roll < 0.7 else wrong
    answer = said if chance.random() < 0.4 else attribute.statements[0].format(s=one, v=said)
    return Claim(" ".join(both), question, capitalised(answer), supported=said == value)


def _stated(
    chance: random.Random, attribute: Attribute, thing: str, value: str, *, changes: float = 0.0, old: str = ""
) -> str:
    if chance.random() < changes:
        told = chance.choice(attribute.changes)
        return capitalised(told.format(s=thing, v=value, o=old or draw_value(chance, attribute.value, value)))
    return capitalised(chance.choice(attribute.statements).format(s=thing, v=value))


def _of_owners(chance: random.Random, relations: Sequence[Relation]) -> Pair:
    """Mine, my wife's, her: one label, two owners."""
    own = [one for one in relations if one.subject in (SELF, "person") and "'" not in one.label]
    relation = chance.choice(own)
    one, other = chance.sample(OWNERS, 2)
    old = draw_value(chance, relation.value)
    new = draw_value(chance, relation.value, old)
    form = chance.choice(("{o} {l} is {v}.", "{o} {l}: {v}", "By the way, {o} {l} is {v}."))
    again = form if chance.random() < 0.7 else chance.choice(("{o} {l} is {v}.", "{o} {l} is {v} now."))

    def say(form: str, owner: str, value: str) -> str:
        return capitalised(form.format(o=owner, l=relation.label, v=value))

    if chance.random() < 0.65:
        return Pair(say(form, one, old), say(again, other, new), "unrelated")
    return Pair(say(form, one, old), say(again, one, new), "adds" if relation.several else "replaces")
