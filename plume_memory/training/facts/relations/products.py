"""Products: makers, prices, weights, parts."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "maker",
        "product",
        "company",
        statements=(
            "The {s} is made by {v}.",
            "{v} makes the {s}.",
            "{v} is the maker of the {s}.",
            "The maker behind the {s} is {v}.",
        ),
        questions=(
            "Who makes the {s}?",
            "Which company is the maker of the {s}?",
            "By whom is the {s} made?",
            "Which company is behind the {s}?",
        ),
        inverse=("Which product does {v} make?", "What is made by {v}?"),
    ),
    Relation(
        "price",
        "product",
        "money",
        statements=(
            "The {s} costs {v}.",
            "The price of the {s} is {v}.",
            "{v} is the price of one {s}.",
            "In shops the {s} sells for {v}.",
        ),
        questions=(
            "How much does the {s} cost?",
            "What is the price of the {s}?",
            "For how much does the {s} sell in shops?",
            "What does one {s} cost?",
        ),
        inverse=("Which product costs {v}?",),
    ),
    Relation(
        "weight",
        "product",
        "weight",
        statements=(
            "The {s} weighs {v}.",
            "The weight of the {s} is {v}.",
            "On the scales the {s} shows {v}.",
            "{v} is the weight of the {s} with its box.",
        ),
        questions=(
            "How much does the {s} weigh?",
            "What is the weight of the {s}?",
            "How heavy is the {s}?",
            "What do the scales show for the {s}?",
        ),
        inverse=("Which product weighs {v}?",),
    ),
    Relation(
        "launch month",
        "product",
        "month",
        statements=(
            "The {s} was launched in {v}.",
            "The launch of the {s} took place in {v}.",
            "{v} saw the launch of the {s}.",
            "Since {v}, when it was launched, the {s} has been on sale.",
        ),
        questions=(
            "When was the {s} launched?",
            "In which month and year was the {s} launched?",
            "When did the launch of the {s} take place?",
            "What was the launch month of the {s}?",
        ),
        inverse=("Which product was launched in {v}?",),
    ),
    Relation(
        "warranty",
        "product",
        "span",
        statements=(
            "The {s} comes with a warranty of {v}.",
            "The warranty of the {s} lasts {v}.",
            "{v} is how long the warranty of the {s} lasts.",
            "Buyers of the {s} get a warranty of {v}.",
        ),
        questions=(
            "How long does the warranty of the {s} last?",
            "How long is the {s} under warranty?",
            "With what warranty does the {s} come?",
            "How long a warranty do buyers of the {s} get?",
        ),
    ),
    Relation(
        "housing material",
        "product",
        "material",
        statements=(
            "The housing of the {s} is made of {v}.",
            "The {s} has a housing of {v}.",
            "For the housing of the {s}, {v} is used.",
            "The {s} is housed in {v}.",
        ),
        questions=(
            "What is the housing of the {s} made of?",
            "Which material is used for the housing of the {s}?",
            "Of what material is the {s}'s housing?",
            "What material is the {s} housed in?",
        ),
    ),
    Relation(
        "designer",
        "product",
        "person",
        statements=(
            "The {s} was designed by {v}.",
            "{v} designed the {s}.",
            "{v} is the designer of the {s}.",
            "The designer of the {s} is {v}.",
        ),
        questions=(
            "Who designed the {s}?",
            "Who is the designer of the {s}?",
            "By whom was the {s} designed?",
            "What is the name of the {s}'s designer?",
        ),
        inverse=("Which product did {v} design?",),
    ),
    Relation(
        "power draw",
        "product",
        "power",
        statements=(
            "The {s} draws {v}.",
            "The power draw of the {s} is {v}.",
            "At full load the {s} needs {v}.",
            "{v} is the power draw of the {s}.",
        ),
        questions=(
            "How much power does the {s} draw?",
            "What is the power draw of the {s}?",
            "How many watts does the {s} need at full load?",
            "How much power does the {s} need?",
        ),
    ),
)
