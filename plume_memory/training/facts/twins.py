"""Things with near names, of which the same is told: departments, plans, languages; mine and my wife's.

A memory that takes one for the other gives somebody else's value. Here they are drawn in pairs.
"""

import random
from dataclasses import dataclass

from plume_memory.training.facts.names import SUBJECTS, first_name, last_name, listed, project
from plume_memory.training.facts.values import VALUES


@dataclass(frozen=True, slots=True)
class Attribute:
    """What can be told of any of them; `{s}` is the thing, `{v}` the value, `{o}` the old value."""

    value: str
    statements: tuple[str, ...]
    changes: tuple[str, ...]
    question: str


ATTRIBUTES = (
    Attribute(
        "floor number",
        ("{s} is on floor {v}.", "You find {s} on floor {v}."),
        ("{s} moved up to floor {v}.", "{s} has left floor {o} for floor {v}."),
        "On which floor is {s}?",
    ),
    Attribute(
        "person",
        ("{s} is looked after by {v}.", "The one in charge of {s} is {v}.", "{v} is responsible for {s}."),
        ("{v} took over {s} from {o}.", "{o} handed {s} over to {v}.", "{s} now answers to {v}."),
        "Who is in charge of {s}?",
    ),
    Attribute(
        "minutes",
        ("{s} takes {v}.", "It takes {v} until {s} is done."),
        ("{s} is down from {o} to {v}.", "Since the last change {s} needs {v}."),
        "How long does {s} take?",
    ),
    Attribute(
        "time",
        ("{s} starts at {v}.", "{v} is when {s} begins."),
        ("{s} was put off until {v}.", "{s} begins at {v} from now on, not at {o}."),
        "When does {s} start?",
    ),
    Attribute(
        "code",
        ("The code of {s} is {v}.", "{s} has the code {v}.", "For {s} use {v}."),
        ("The code of {s} was changed to {v}.", "{o} is no longer valid for {s}, use {v}."),
        "What is the code of {s}?",
    ),
    Attribute(
        "colour",
        ("{s} is marked in {v}.", "The colour of {s} is {v}."),
        ("{s} was repainted in {v}.", "{s} is not {o} any more but {v}."),
        "What is the colour of {s}?",
    ),
    Attribute(
        "money",
        ("{s} costs {v}.", "The price of {s} is {v}.", "We pay {v} for {s}."),
        ("{s} went up to {v}.", "The price of {s} fell from {o} to {v}."),
        "How much does {s} cost?",
    ),
    Attribute(
        "weekday",
        ("{s} is on {v}.", "{v} is the day of {s}."),
        ("{s} was moved from {o} to {v}.", "{s} is on {v} this time."),
        "On which day is {s}?",
    ),
    Attribute(
        "extension",
        ("The number of {s} is {v}.", "{s} has the number {v}.", "You reach {s} at {v}."),
        ("The number of {s} was changed to {v}.", "{s} got a new number, {v}."),
        "What is the number of {s}?",
    ),
    Attribute(
        "city",
        ("{s} is in {v}.", "{v} is where {s} is."),
        ("{s} has been moved to {v}.", "{s} left {o} for {v}."),
        "Where is {s}?",
    ),
    Attribute(
        "tool",
        ("{s} uses {v}.", "{s} runs on {v}.", "{v} is what {s} is built with."),
        ("{s} switched to {v}.", "{s} gave up {o} and went over to {v}."),
        "What does {s} use?",
    ),
    Attribute(
        "count",
        ("{s} has {v} members.", "{v} people belong to {s}."),
        ("{s} has grown from {o} to {v}.", "{s} is down to {v} members."),
        "How many members does {s} have?",
    ),
    Attribute(
        "full date",
        ("{s} ends on {v}.", "The last day of {s} is {v}."),
        ("{s} was extended to {v}.", "{s} ends on {v} after all, not on {o}."),
        "When does {s} end?",
    ),
)
"""None says more of a thing than another asks for."""

_KINDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("the {n} department", listed("IT HR PR QA legal finance sales marketing export")),
    ("team {n}", listed("A B C D I X red blue green one two three North South Alpha Beta")),
    ("plan {n}", listed("A B C D E 1 2 3")),
    ("vitamin {n}", listed("A B C D E K B6 B12 D3")),
    ("the {n} build", listed("C C++ C# F# F Go Java JavaScript R .NET Node.js debug release nightly")),
    ("building {n}", listed("1 2 3 11 12 A B C East West")),
    ("room {n}", listed("101 102 110 201 A1 A2 B1 α β γ")),
    ("gate {n}", listed("A1 A2 A11 B1 B2 B12 C4")),
    ("the {n} backup", listed("daily weekly monthly nightly full partial local remote")),
    ("the {n} shift", listed("early late night morning day evening")),
    ("the {n} office", listed("old new north south main Berlin Bern London Lyon")),
    ("the {n} line", listed("red blue green yellow U1 U2 S1 S11 north south")),
    ("server {n}", listed("α β γ δ 1 2 3 01 02 alpha beta")),
    ("step +{n}", listed("1 2 3 4 5 10")),
    ("step −{n}", listed("1 2 3 4 5 10")),
    ("the course for {n}", listed("beginners adults children parents starters level-1 level-2")),
    ("{n}", listed("WHO UNICEF UNESCO NATO OPEC IMF IEA ILO IT HR")),
    ("{n}", listed("Will Mark May April June Rose Grace Hope Bill Art Sue Pat Drew Chase", separator=None)),
    ("{n}", ("The Who", "The Cure", "The The", "Yes", "It", "Them", "Us", "Up", "Her", "Now")),
    ("project {n}", listed("Alpha Beta Gamma Delta Atlas Aurora Borealis X Y Zeta")),
    ("form {n}", listed("A B 7 7a 7b 12 12-B W-2 W-4 1040")),
    ("version {n}", listed("1 1.1 1.10 2 2.0 2.1 3")),
)
OWNERS = listed(
    """
    my, my wife's, my husband's, my sister's, my brother's, my boss's, my daughter's, my son's, my dog's, my friend's,
    my neighbour's, my mother's, my flatmate's, her, his, their, our, your
    """,
    separator=",",
)
OTHERS = listed(
    """
    my wife, my husband, my sister, my brother, my boss, my daughter, my son, my friend, my neighbour, my mother,
    my flatmate, the landlord, her husband, his wife, her boss, his brother, the new colleague, our trainer
    """,
    separator=",",
)
"""Somebody without a name, told of in the words for anybody."""


RELATED = listed(
    """
    assistant, aunt, boss, brother, cat, cousin, daughter, deputy, doctor, dog, father, fiancé, flatmate, friend,
    grandmother, husband, landlord, mother, neighbour, nephew, parents, partner, predecessor, rival, secretary, sister,
    son, successor, team, trainer, twin, uncle, wife
    """,
    separator=",",
)
"""What somebody has, of whom the same can be told: another than he."""


def of_whom(chance: random.Random, name: str) -> str:
    """Somebody's somebody: not the one who is named."""
    return f"{name}{chance.choice(_ENDINGS)} {chance.choice(RELATED)}"


def twins(chance: random.Random) -> tuple[str, str]:
    """Draw two things with near names, or somebody and who is his."""
    roll = chance.random()
    if roll < 0.2:
        one = chance.choice((first_name, last_name, lambda chance: chance.choice(OTHERS)))(chance)
        pair = [one, of_whom(chance, one)]
        chance.shuffle(pair)
        return pair[0], pair[1]
    if roll < 0.4:
        one = chance.choice((first_name, project, last_name))(chance)
        return one, near_name(chance, one, one)
    form, own = chance.choice(_KINDS)
    first, second = chance.sample(own, 2)
    return form.format(n=first), form.format(n=second)


def near_name(chance: random.Random, name: str, fresh: str) -> str:
    """Change a name by little: a letter, a digit, an ending, one of its words.

    Args:
        chance: draws.
        name: of any kind.
        fresh: another name of its kind, whose words may stand in.
    """
    words, others = name.split(), fresh.split()
    at = chance.randrange(len(words))
    roll = chance.random()
    if len(words) > 1 and roll < 0.35 and others[-1] != words[-1]:
        words[-1] = others[-1]
    elif len(words) > 1 and roll < 0.5 and others[0] != words[0]:
        words[0] = others[0]
    elif any(char.isdigit() for char in words[at]):
        place = chance.choice([i for i, char in enumerate(words[at]) if char.isdigit()])
        digit = str((int(words[at][place]) + chance.randint(1, 9)) % 10)
        words[at] = words[at][:place] + digit + words[at][place + 1 :]
    elif roll < 0.65:
        words[at] += chance.choice(("s", "er", "e", "i", "a", "man", "son"))
    else:
        places = [i for i, char in enumerate(words[at]) if char.lower() in _VOWELS]
        if places:
            place = chance.choice(places)
            letter = chance.choice([char for char in _VOWELS if char != words[at][place].lower()])
            words[at] = (
                words[at][:place] + (letter.upper() if words[at][place].isupper() else letter) + words[at][place + 1 :]
            )
        else:
            words[at] += chance.choice("aeo")
    changed = " ".join(words)
    return changed if changed != name else f"{changed}s"


def draw_name(chance: random.Random, kind: str) -> str:
    """Draw a subject of a kind; of a person at times somebody without a name."""
    if kind == "person" and chance.random() < 0.25:
        return chance.choice(OTHERS)
    return SUBJECTS[kind](chance)


def draw_value(chance: random.Random, kind: str, taken: str = "") -> str:
    """Draw a value that is no part of another, nor the other way round."""
    for _ in range(40):
        value = str(chance.randint(1, 40)) if kind == "floor number" else VALUES[kind](chance)
        if not taken or (value.lower() not in taken.lower() and taken.lower() not in value.lower()):
            return value
    return f"{value} {chance.randint(2, 9)}"


_VOWELS = "aeiouäöüé"
_ENDINGS = ("'s", "'s", "'s", "\u2019s")
