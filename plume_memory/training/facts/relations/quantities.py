"""Quantities: numbers with units, of ships, rooms and teams."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "length",
        "ship",
        "length",
        statements=(
            "{s} is {v} long.",
            "The length of {s} is {v}.",
            "From bow to stern {s} measures {v}.",
            "{v} is the length of {s}.",
        ),
        questions=(
            "How long is {s}?",
            "What is the length of {s}?",
            "What does {s} measure from bow to stern?",
            "How many metres long is {s}?",
        ),
        inverse=("Which ship is {v} long?",),
    ),
    Relation(
        "cargo capacity",
        "ship",
        "tonnes",
        statements=(
            "{s} carries {v} of cargo.",
            "The cargo capacity of {s} is {v}.",
            "{v} of cargo fit into {s}.",
            "Fully loaded, {s} takes {v} of cargo.",
        ),
        questions=(
            "How much cargo does {s} carry?",
            "What is the cargo capacity of {s}?",
            "How much cargo fits into {s}?",
            "How much cargo does {s} take when fully loaded?",
        ),
        inverse=("Which ship has a cargo capacity of {v}?",),
    ),
    Relation(
        "top speed",
        "ship",
        "knots",
        statements=(
            "{s} has a top speed of {v}.",
            "The top speed of {s} is {v}.",
            "At most {s} makes {v}.",
            "{v} is the top speed that {s} reaches.",
        ),
        questions=(
            "What is the top speed of {s}?",
            "How fast does {s} go at most?",
            "What top speed does {s} reach?",
            "How many knots does {s} make at most?",
        ),
    ),
    Relation(
        "crew",
        "ship",
        "few",
        statements=(
            "{s} sails with a crew of {v}.",
            "The crew of {s} counts {v}.",
            "{v} people make up the crew of {s}.",
            "It takes a crew of {v} to sail {s}.",
        ),
        questions=(
            "How large is the crew of {s}?",
            "How many people make up the crew of {s}?",
            "With a crew of how many does {s} sail?",
            "How many does the crew of {s} count?",
        ),
    ),
    Relation(
        "floor area",
        "room",
        "floor",
        statements=(
            "{s} has a floor area of {v}.",
            "The floor area of {s} is {v}.",
            "{s} covers {v}.",
            "{v} is the floor area of {s}.",
        ),
        questions=(
            "What is the floor area of {s}?",
            "How large is {s}?",
            "How much floor does {s} cover?",
            "How many square metres does {s} have?",
        ),
        inverse=("Which room has a floor area of {v}?",),
    ),
    Relation(
        "number of seats",
        "room",
        "count",
        statements=(
            "{s} has {v} seats.",
            "{v} people can sit down in {s}.",
            "The number of seats in {s} is {v}.",
            "There are {v} seats in {s}.",
        ),
        questions=(
            "How many seats does {s} have?",
            "How many people can sit down in {s}?",
            "What is the number of seats in {s}?",
            "How many seats are there in {s}?",
        ),
        inverse=("Which room has {v} seats?",),
    ),
    Relation(
        "set temperature",
        "room",
        "temperature",
        statements=(
            "{s} is kept at {v}.",
            "The set temperature in {s} is {v}.",
            "The thermostat in {s} stands at {v}.",
            "{v} is the temperature set for {s}.",
        ),
        questions=(
            "At what temperature is {s} kept?",
            "What is the set temperature in {s}?",
            "At how many degrees does the thermostat in {s} stand?",
            "Which temperature is set for {s}?",
        ),
    ),
    Relation(
        "points",
        "team",
        "number",
        statements=(
            "{s} finished the season with {v} points.",
            "{v} points are what {s} collected over the season.",
            "Over the season {s} won {v} points.",
            "The table shows {s} with {v} points.",
        ),
        questions=(
            "How many points did {s} finish the season with?",
            "How many points did {s} collect over the season?",
            "How many points does the table show for {s}?",
            "How many points did {s} win?",
        ),
    ),
    Relation(
        "number of members",
        "team",
        "count",
        statements=(
            "{s} has {v} members.",
            "{v} members pay their dues to {s}.",
            "The number of members of {s} is {v}.",
            "On its list {s} has {v} members.",
        ),
        questions=(
            "How many members does {s} have?",
            "What is the number of members of {s}?",
            "How many members pay their dues to {s}?",
            "How many members are on the list of {s}?",
        ),
        inverse=("Which club has {v} members?",),
    ),
    Relation(
        "forest area",
        "town",
        "area",
        statements=(
            "The forest of {s} covers {v}.",
            "{v} of forest belong to {s}.",
            "{s} owns {v} of forest.",
            "The forest area of {s} is {v}.",
        ),
        questions=(
            "How large is the forest of {s}?",
            "How much forest belongs to {s}?",
            "What is the forest area of {s}?",
            "How many hectares of forest does {s} own?",
        ),
    ),
    Relation(
        "water use",
        "town",
        "litres",
        statements=(
            "Each household in {s} uses {v} of water a week.",
            "The weekly water use of a household in {s} is {v}.",
            "In {s} a household needs {v} of water every week.",
            "{v} of water a week are used by each household in {s}.",
        ),
        questions=(
            "How much water does each household in {s} use a week?",
            "What is the weekly water use of a household in {s}?",
            "How many litres of water does a household in {s} need every week?",
            "How much water a week does a household in {s} use?",
        ),
    ),
)
