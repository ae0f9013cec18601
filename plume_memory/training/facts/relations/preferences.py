"""Preferences: what people like, and what they cannot have."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "favourite colour",
        "person",
        "colour",
        statements=(
            "{s}'s favourite colour is {v}.",
            "The favourite colour of {s} is {v}.",
            "Of all colours, {s} likes {v} best.",
            "Give {s} anything that is {v}, the favourite colour.",
        ),
        questions=(
            "What is {s}'s favourite colour?",
            "Which colour does {s} like best?",
            "What is the favourite colour of {s}?",
            "Of all colours, which does {s} prefer?",
        ),
        inverse=("Whose favourite colour is {v}?",),
    ),
    Relation(
        "favourite dish",
        "person",
        "dish",
        statements=(
            "{s}'s favourite dish is {v}.",
            "{s} would rather eat {v} than anything else.",
            "Whenever there is {v}, the favourite dish, {s} stays for dinner.",
            "The favourite dish of {s} is {v}.",
        ),
        questions=(
            "What is {s}'s favourite dish?",
            "What would {s} rather eat than anything else?",
            "Which dish does {s} like best?",
            "What is the favourite dish of {s}?",
        ),
        inverse=("Whose favourite dish is {v}?",),
    ),
    Relation(
        "usual drink",
        "person",
        "drink",
        statements=(
            "{s} usually drinks {v}.",
            "The usual drink of {s} is {v}.",
            "At the bar {s} always orders {v}.",
            "Bring {v} when {s} asks for the usual drink.",
        ),
        questions=(
            "What does {s} usually drink?",
            "What is {s}'s usual drink?",
            "What does {s} always order at the bar?",
            "Which drink does {s} usually have?",
        ),
        inverse=("Who usually drinks {v}?",),
    ),
    Relation(
        "instrument",
        "person",
        "instrument",
        statements=(
            "{s} plays the {v}.",
            "The {v} is the instrument that {s} plays.",
            "In the orchestra {s} is heard on the {v}.",
            "{s} has practised the {v} for years.",
        ),
        questions=(
            "Which instrument does {s} play?",
            "What instrument does {s} practise?",
            "What is {s}'s instrument?",
            "On which instrument is {s} heard in the orchestra?",
        ),
        inverse=("Who plays the {v}?",),
    ),
    Relation(
        "hobby",
        "person",
        "hobby",
        statements=(
            "{s}'s hobby is {v}.",
            "{s} spends every free weekend on {v}.",
            "In the spare time left, {s} takes up {v}.",
            "The hobby of {s} is {v}.",
        ),
        questions=(
            "What is {s}'s hobby?",
            "On what does {s} spend every free weekend?",
            "Which hobby does {s} have?",
            "What is the hobby of {s}?",
        ),
        inverse=("Whose hobby is {v}?",),
    ),
    Relation(
        "allergy",
        "person",
        "allergen",
        statements=(
            "{s} is allergic to {v}.",
            "Because of an allergy, {s} must avoid {v}.",
            "The allergy of {s} is to {v}.",
            "Doctors found that {s} reacts badly to {v}.",
        ),
        questions=(
            "What is {s} allergic to?",
            "What must {s} avoid because of an allergy?",
            "To what does {s} have an allergy?",
            "What did doctors find that {s} reacts badly to?",
        ),
        inverse=("Who is allergic to {v}?",),
    ),
    Relation(
        "favourite book",
        "person",
        "title",
        statements=(
            "{s}'s favourite book is {v}.",
            "{v} is the favourite book of {s}.",
            "{s} has read {v} many times and likes no book better.",
            "No book means more to {s} than {v}.",
        ),
        questions=(
            "What is {s}'s favourite book?",
            "Which book does {s} like best?",
            "What is the favourite book of {s}?",
            "Which book means most to {s}?",
        ),
        inverse=("Whose favourite book is {v}?",),
    ),
    Relation(
        "favourite flower",
        "person",
        "flower",
        statements=(
            "{s}'s favourite flower is the {v}.",
            "The {v} is the flower {s} likes best.",
            "Of all flowers {s} prefers the {v}.",
            "The favourite flower of {s} is the {v}.",
        ),
        questions=(
            "What is {s}'s favourite flower?",
            "Which flower does {s} like best?",
            "What is the favourite flower of {s}?",
            "Which flower does {s} prefer?",
        ),
        inverse=("Whose favourite flower is the {v}?",),
    ),
    Relation(
        "preferred meeting time",
        "person",
        "time",
        statements=(
            "{s} prefers to meet at {v}.",
            "Meetings with {s} are best held at {v}.",
            "At {v}, the preferred meeting time, {s} is always free.",
            "{v} is the meeting time that {s} prefers.",
        ),
        questions=(
            "At what time does {s} prefer to meet?",
            "What is {s}'s preferred meeting time?",
            "When are meetings with {s} best held?",
            "What time suits {s} for meetings?",
        ),
    ),
)
