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
        changes=(
            "{o} has sold the {s} to {v}.",
            "With the plant of {o} closed, the {s} is produced by {v}.",
            "Production of the {s} was transferred to {v}.",
            "so the {s} comes out of the {v} factory now.",
        ),
        ends=(
            "{o} no longer makes the {s}.",
            "The {s} has been discontinued.",
        ),
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
        changes=(
            "The {s} went from {o} to {v}.",
            "The shops have put a new label on the {s}: {v}.",
            "You do not get the {s} for {o} any longer; be ready to pay {v}.",
            "just checked, they want {v} for the {s}.",
        ),
        ends=(
            "The {s} is no longer for sale.",
            "You cannot get the {s} for {o} any more.",
        ),
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
        changes=(
            "The new model of the {s} weighs in at {v} instead of {o}.",
            "With the redesigned case, the {s} comes to {v}.",
            "The data sheet of the {s} was wrong: not {o} but {v}.",
            "oh and the {s} is at {v} after the update.",
        ),
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
        changes=(
            "The launch of the {s} was postponed to {v}.",
            "The {s} will not come out in {o} but in {v}.",
            "Customers can buy the {s} from {v} on; {o} could not be kept.",
            "Minutes: the {s} slips from {o} to {v}.",
        ),
        ends=(
            "The launch of the {s} has been cancelled.",
            "The {s} will not be launched in {o}.",
        ),
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
        changes=(
            "The maker changed the guarantee on the {s} from {o} to {v}.",
            "Under the new terms, repairs of the {s} are free for {v}.",
            "It is no longer {o} but {v} that the {s} is covered.",
            "fyi you get {v} on the {s} these days.",
        ),
        ends=(
            "The {s} is sold without a warranty from this year on.",
            "The warranty of the {s} has run out.",
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
        changes=(
            "The engineers have replaced {o} with {v} in the shell of the {s}.",
            "From the new series on, the {s} comes in {v}.",
            "The case of the {s} cracked too often, so they went from {o} to {v}.",
            "Decided: no more {o}, the {s} gets {v}.",
        ),
        ends=("They no longer use {o} for the {s}.",),
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
        changes=(
            "The drawings of the {s} are by {v} and not by {o}.",
            "{o} was credited with the {s} by mistake; it was the work of {v}.",
            "The new look of the {s} comes from {v}, who started over.",
            "wait, {v} did the {s}, {o} only signed it off.",
        ),
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
        changes=(
            "The new chip changed what the {s} consumes from {o} to {v}.",
            "I put the meter on the {s} again and read {v}.",
            "The figure of {o} for the {s} was a misprint; it takes {v}.",
            "hm, with the latest firmware the {s} pulls {v}.",
        ),
    ),
)
