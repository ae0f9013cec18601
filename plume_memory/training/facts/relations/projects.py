"""Projects: who runs them, what they cost, when they end."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "lead",
        "project",
        "person",
        statements=(
            "{s} is led by {v}.",
            "{v} leads {s}.",
            "The lead of {s} is {v}.",
            "Responsibility for {s} lies with {v}, its lead.",
        ),
        questions=(
            "Who leads {s}?",
            "Who is the lead of {s}?",
            "By whom is {s} led?",
            "With whom does responsibility for {s} lie?",
        ),
        inverse=("Which project does {v} lead?", "What is led by {v}?"),
    ),
    Relation(
        "budget",
        "project",
        "budget",
        statements=(
            "{s} has a budget of {v}.",
            "The budget of {s} is {v}.",
            "{v} was set aside as the budget of {s}.",
            "The board approved {v} for the budget of {s}.",
        ),
        questions=(
            "What is the budget of {s}?",
            "How much money was set aside for {s}?",
            "How large is the budget of {s}?",
            "What budget did the board approve for {s}?",
        ),
        inverse=("Which project has a budget of {v}?",),
    ),
    Relation(
        "deadline",
        "project",
        "full date",
        statements=(
            "The deadline of {s} is {v}.",
            "{s} has to be finished by {v}.",
            "{v} is the deadline for {s}.",
            "Everything about {s} must be done by {v}.",
        ),
        questions=(
            "What is the deadline of {s}?",
            "By when does {s} have to be finished?",
            "When is the deadline for {s}?",
            "By what date must {s} be done?",
        ),
        inverse=("Which project has to be finished by {v}?",),
    ),
    Relation(
        "client",
        "project",
        "company",
        statements=(
            "The client behind {s} is {v}.",
            "{s} is being done for {v}.",
            "{v} ordered {s} and is its client.",
            "{v} is the client of {s}.",
        ),
        questions=(
            "Who is the client of {s}?",
            "For which client is {s} being done?",
            "Which company ordered {s}?",
            "Which company is the client behind {s}?",
        ),
        inverse=("Which project is being done for {v}?",),
    ),
    Relation(
        "team size",
        "project",
        "few",
        statements=(
            "{v} people work on {s}.",
            "The team of {s} has {v} members.",
            "{s} is staffed with {v} people.",
            "The team size of {s} is {v}.",
        ),
        questions=(
            "How many people work on {s}?",
            "How many members does the team of {s} have?",
            "What is the team size of {s}?",
            "With how many people is {s} staffed?",
        ),
    ),
    Relation(
        "main programming language",
        "project",
        "tool",
        statements=(
            "{s} is written in {v}.",
            "The code of {s} is in {v}.",
            "{v} is the main programming language of {s}.",
            "The developers of {s} program in {v}.",
        ),
        questions=(
            "In which programming language is {s} written?",
            "What is the main programming language of {s}?",
            "In what language is the code of {s}?",
            "Which language do the developers of {s} program in?",
        ),
        inverse=("Which project is written in {v}?",),
    ),
    Relation(
        "cause of delay",
        "project",
        "reason",
        statements=(
            "{s} was delayed by {v}.",
            "The cause of delay at {s} was {v}.",
            "Work on {s} stopped for a while because of {v}.",
            "It was {v} that delayed {s}.",
        ),
        questions=(
            "What delayed {s}?",
            "What was the cause of delay at {s}?",
            "Why did work on {s} stop for a while?",
            "Because of what was {s} delayed?",
        ),
        inverse=("Which project was delayed by {v}?",),
    ),
    Relation(
        "progress",
        "project",
        "percent",
        statements=(
            "{s} is {v} complete.",
            "The progress of {s} stands at {v}.",
            "{v} of the work on {s} is done.",
            "So far {s} has made {v} progress.",
        ),
        questions=(
            "How much of {s} is complete?",
            "At what percentage does the progress of {s} stand?",
            "What share of the work on {s} is done?",
            "What is the progress of {s}?",
        ),
    ),
    Relation(
        "test server",
        "project",
        "device",
        statements=(
            "{s} is tested on the server {v}.",
            "The test server of {s} is {v}.",
            "Builds of {s} run on {v} before release, the test server.",
            "For tests, {s} has the server {v}.",
        ),
        questions=(
            "On which server is {s} tested?",
            "What is the test server of {s}?",
            "Where do builds of {s} run before release?",
            "Which server does {s} have for tests?",
        ),
        inverse=("Which project is tested on {v}?",),
    ),
)
