"""Places: towns, and what there is to know about them."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "population",
        "town",
        "people",
        statements=(
            "{s} has a population of {v}.",
            "About {v} people live in {s}.",
            "The population of {s} is {v}.",
            "{v} is the population of {s} at the last census.",
        ),
        questions=(
            "What is the population of {s}?",
            "How many people live in {s}?",
            "How large is the population of {s}?",
            "How many inhabitants does {s} have?",
        ),
        inverse=("Which town has a population of {v}?",),
    ),
    Relation(
        "mayor",
        "town",
        "person",
        statements=(
            "The mayor of {s} is {v}.",
            "{v} is the mayor of {s}.",
            "{s} elected {v} as mayor.",
            "In {s} the office of mayor is held by {v}.",
            "{v} governs {s} as its mayor.",
        ),
        questions=(
            "Who is the mayor of {s}?",
            "Whom did {s} elect as mayor?",
            "Who governs {s} as its mayor?",
            "What is the name of the mayor of {s}?",
        ),
        inverse=("Of which town is {v} the mayor?", "Which town elected {v} as mayor?"),
    ),
    Relation(
        "elevation",
        "town",
        "elevation",
        statements=(
            "{s} lies at an elevation of {v}.",
            "The elevation of {s} is {v}.",
            "{s} stands {v} above the sea.",
            "{v} above the sea lies {s}.",
        ),
        questions=(
            "What is the elevation of {s}?",
            "At what elevation does {s} lie?",
            "How high above the sea does {s} stand?",
            "How many metres above the sea is {s}?",
        ),
        inverse=("Which town lies at an elevation of {v}?",),
    ),
    Relation(
        "distance to the coast",
        "town",
        "distance",
        statements=(
            "From {s} it is {v} to the coast.",
            "{s} lies {v} from the coast.",
            "The coast is {v} away from {s}.",
            "{v} separate {s} from the coast.",
        ),
        questions=(
            "How far is {s} from the coast?",
            "What is the distance from {s} to the coast?",
            "How far is it from {s} to the coast?",
            "What distance separates {s} from the coast?",
        ),
        inverse=("Which town lies {v} from the coast?",),
    ),
    Relation(
        "founding year",
        "town",
        "year",
        statements=(
            "{s} was founded in {v}.",
            "Settlers founded {s} in {v}.",
            "{v} is the year in which {s} was founded.",
            "The founding year of {s} is {v}.",
        ),
        questions=(
            "When was {s} founded?",
            "In which year was {s} founded?",
            "What is the founding year of {s}?",
            "In what year did settlers found {s}?",
        ),
        inverse=("Which town was founded in {v}?",),
    ),
    Relation(
        "market day",
        "town",
        "weekday",
        statements=(
            "Market day in {s} is {v}.",
            "The market of {s} takes place every {v}.",
            "{v} is market day in {s}.",
            "Every {v} farmers set up the market in {s}.",
        ),
        questions=(
            "Which day is market day in {s}?",
            "When does the market of {s} take place?",
            "On which day of the week is the market in {s}?",
            "What is the market day of {s}?",
        ),
    ),
    Relation(
        "main export",
        "town",
        "goods",
        statements=(
            "{s} is known for its main export, {v}.",
            "The main export of {s} is {v}.",
            "More than anything else, {s} exports {v}.",
            "Workshops in {s} send out {v}, the main export.",
        ),
        questions=(
            "What is the main export of {s}?",
            "What does {s} export more than anything else?",
            "Which goods are the main export of {s}?",
            "For which export is {s} known?",
        ),
        inverse=("Which town is known for exporting {v}?",),
    ),
    Relation(
        "twin town",
        "town",
        "town",
        statements=(
            "{s} is twinned with {v}.",
            "The twin town of {s} is {v}.",
            "Years ago {s} chose {v} as its twin town.",
            "{v} was declared the twin town of {s}.",
        ),
        questions=(
            "Which town is {s} twinned with?",
            "What is the twin town of {s}?",
            "Which town did {s} choose as its twin town?",
            "What town was declared the twin of {s}?",
        ),
    ),
    Relation(
        "town hall material",
        "town",
        "material",
        statements=(
            "The town hall of {s} is built of {v}.",
            "In {s} they built the town hall of {v}.",
            "Builders used {v} for the town hall of {s}.",
            "What makes the town hall of {s} special is the {v} it is built of.",
        ),
        questions=(
            "What is the town hall of {s} built of?",
            "Which material was used for the town hall of {s}?",
            "Of what material is the town hall in {s}?",
            "What did builders use for the town hall of {s}?",
        ),
    ),
)
