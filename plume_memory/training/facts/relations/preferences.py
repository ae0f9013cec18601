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
        changes=(
            "{s} has gone off {o} and is all for {v}.",
            "{s} had the room repainted from {o} to {v}, to match the new taste.",
            "You can no longer please {s} with {o}; choose {v}.",
            "oh and {s} is into {v} these days.",
        ),
        ends=(
            "{s} does not like {o} any more.",
            "{s} has grown tired of {o}.",
        ),
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
        changes=(
            "{s} has had enough of {o} and dreams of {v}.",
            "Where {s} once asked for {o}, it is {v} today.",
            "Nothing tastes better to {s} these days than {v}.",
            "don't cook {o} for {s} again, it's {v} now.",
        ),
        ends=(
            "{s} has gone off {o}.",
            "{s} no longer eats {o}.",
        ),
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
        changes=(
            "{s} has switched from {o} to {v}.",
            "{s} quit {o} and fills the glass with {v}.",
            "The doctor talked {s} out of {o}, so pour some {v}.",
            "btw {s} is having {v} these days.",
        ),
        ends=(
            "{s} gave up {o}.",
            "{s} no longer drinks {o}.",
        ),
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
        changes=(
            "{s} has given up the {o} for the {v}.",
            "{s} sold the {o} and bought {a} {v}.",
            "{s} has changed over to the {v}.",
            "so {s} is done with the {o}, it's the {v} now.",
        ),
        ends=(
            "{s} no longer plays the {o}.",
            "{s} has put the {o} away for good.",
        ),
        several=True,
        more=(
            "{s} also plays the {v}.",
            "Besides, {s} is good on the {v}.",
        ),
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
        changes=(
            "{s} has given up {o} and gone in for {v}.",
            "{s} has switched over to {v} and does nothing else on Sundays.",
            "{s} traded {o} for {v}.",
            "oh, {s} isn't doing {o} any more, it's {v} now.",
        ),
        ends=(
            "{s} has given up {o}.",
            "{s} has no time left for {o}.",
        ),
        several=True,
        more=(
            "{s} is also keen on {v}.",
            "Another of {s}'s hobbies is {v}.",
        ),
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
        changes=(
            "A new test showed that {s} cannot tolerate {v}, but may have {o}.",
            "{s} is allergic to {v}, not to {o}.",
            "The file of {s} was corrected from {o} to {v}.",
            "it's {v} that {s} has trouble with after all, not {o}.",
        ),
        ends=(
            "{s} has outgrown the allergy to {o}.",
            "{s} can take {o} again.",
        ),
        several=True,
        more=(
            "{s} is also allergic to {v}.",
            "Doctors found a second allergy in {s}, to {v}.",
        ),
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
        changes=(
            "{s} has put {o} aside; {v} is the one on the bedside table.",
            "Ask {s} for the best of all books these days and you will hear {v}.",
            "{s} used to praise {o} and raves about {v} these days.",
            "oh and {s} is over {o}, ask about {v}.",
        ),
        ends=(
            "{s} no longer cares for {o}.",
            "{s} gave the copy of {o} away.",
        ),
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
        changes=(
            "{s} has gone off the {o} and fallen for the {v}.",
            "No more of the {o} for {s}: order the {v}.",
            "In the garden of {s}, the {o} had to make room for the {v}.",
            "fyi {s} is more of {a} {v} person these days.",
        ),
        ends=(
            "{s} has gone off the {o}.",
            "{s} no longer likes the {o}.",
        ),
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
        changes=(
            "{s} would like to shift calls from {o} to {v}.",
            "Since the schedule changed, {v} suits {s} better.",
            "Please stop inviting {s} for {o}; it should be {v}.",
            "Agreed: we see {s} at {v} from next week.",
        ),
        ends=(
            "{s} can no longer meet at {o}.",
            "{s} takes no more meetings.",
        ),
    ),
)
