"""Events: where, when, for whom, for how much."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "venue",
        "event",
        "room",
        statements=(
            "The {s} takes place in {v}.",
            "The venue of the {s} is {v}.",
            "{v} is the venue of the {s}.",
            "Visitors of the {s} gather in {v}.",
        ),
        questions=(
            "Where does the {s} take place?",
            "What is the venue of the {s}?",
            "In which venue is the {s} held?",
            "Where do visitors of the {s} gather?",
        ),
        inverse=("Which event takes place in {v}?",),
    ),
    Relation(
        "opening day",
        "event",
        "date",
        statements=(
            "The {s} opens on {v}.",
            "{v} is the opening day of the {s}.",
            "The opening day of the {s} is {v}.",
            "On {v} the {s} begins.",
        ),
        questions=(
            "When does the {s} open?",
            "On which day does the {s} begin?",
            "What is the opening day of the {s}?",
            "On what date does the {s} open?",
        ),
        inverse=("Which event opens on {v}?",),
    ),
    Relation(
        "ticket price",
        "event",
        "money",
        statements=(
            "A ticket for the {s} costs {v}.",
            "The ticket price of the {s} is {v}.",
            "{v} is the price of a ticket for the {s}.",
            "Visitors pay {v} to get into the {s}.",
        ),
        questions=(
            "How much is a ticket for the {s}?",
            "What is the ticket price of the {s}?",
            "What does a ticket for the {s} cost?",
            "How much do visitors pay to get into the {s}?",
        ),
        inverse=("For which event does a ticket cost {v}?",),
    ),
    Relation(
        "number of visitors",
        "event",
        "people",
        statements=(
            "The {s} drew {v} visitors.",
            "{v} visitors came to the {s}.",
            "The number of visitors at the {s} was {v}.",
            "Organisers of the {s} counted {v} visitors.",
        ),
        questions=(
            "How many visitors did the {s} draw?",
            "How many visitors came to the {s}?",
            "What was the number of visitors at the {s}?",
            "How many visitors did organisers of the {s} count?",
        ),
        inverse=("Which event drew {v} visitors?",),
    ),
    Relation(
        "sponsor",
        "event",
        "company",
        statements=(
            "The {s} is sponsored by {v}.",
            "{v} sponsors the {s}.",
            "{v} pays for the {s} as its sponsor.",
            "The sponsor of the {s} is {v}.",
        ),
        questions=(
            "Who sponsors the {s}?",
            "Which company is the sponsor of the {s}?",
            "By whom is the {s} sponsored?",
            "Who pays for the {s} as its sponsor?",
        ),
        inverse=("Which event does {v} sponsor?",),
    ),
    Relation(
        "winner",
        "event",
        "person",
        statements=(
            "{v} won first prize at the {s}.",
            "The winner of the {s} is {v}.",
            "First prize at the {s} went to {v}.",
            "The jury of the {s} gave first prize to {v}.",
        ),
        questions=(
            "Who won first prize at the {s}?",
            "Who is the winner of the {s}?",
            "To whom did first prize at the {s} go?",
            "Whom did the jury of the {s} give first prize?",
        ),
        inverse=("At which event did {v} win first prize?",),
    ),
    Relation(
        "opening speaker",
        "event",
        "person",
        statements=(
            "{v} gives the opening speech at the {s}.",
            "The opening speaker of the {s} is {v}.",
            "The opening speech of the {s} is given by {v}.",
            "For its opening speech the {s} invited {v}.",
        ),
        questions=(
            "Who gives the opening speech at the {s}?",
            "Who is the opening speaker of the {s}?",
            "By whom is the opening speech of the {s} given?",
            "Whom did the {s} invite for its opening speech?",
        ),
        inverse=("At which event does {v} give the opening speech?",),
    ),
    Relation(
        "duration",
        "event",
        "span",
        statements=(
            "The {s} lasts {v}.",
            "The duration of the {s} is {v}.",
            "{v} is how long the {s} goes on.",
            "From beginning to end the {s} takes {v}.",
        ),
        questions=(
            "How long does the {s} last?",
            "What is the duration of the {s}?",
            "How long does the {s} go on?",
            "How long does the {s} take from beginning to end?",
        ),
    ),
    Relation(
        "main dish",
        "event",
        "dish",
        statements=(
            "At the {s} they serve {v}.",
            "The main dish at the {s} is {v}.",
            "Guests of the {s} are served {v}.",
            "The kitchen of the {s} cooks {v} as the main dish.",
        ),
        questions=(
            "What do they serve at the {s}?",
            "What is the main dish at the {s}?",
            "What are guests of the {s} served?",
            "What does the kitchen of the {s} cook as the main dish?",
        ),
        inverse=("At which event do they serve {v}?",),
    ),
)
