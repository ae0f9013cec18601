"""Companies: founders, seats, sizes, what they make."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "founder",
        "company",
        "person",
        statements=(
            "{s} was founded by {v}.",
            "{v} founded {s}.",
            "The founder of {s} is {v}.",
            "{v} is the person who started {s}, the founder.",
        ),
        questions=(
            "Who founded {s}?",
            "Who is the founder of {s}?",
            "By whom was {s} founded?",
            "Which person started {s}?",
        ),
        inverse=("Which company did {v} found?", "What company was founded by {v}?"),
    ),
    Relation(
        "headquarters",
        "company",
        "town",
        statements=(
            "{s} has its headquarters in {v}.",
            "The headquarters of {s} are in {v}.",
            "{v} is home to the headquarters of {s}.",
            "From its headquarters in {v}, {s} runs all its business.",
        ),
        questions=(
            "Where are the headquarters of {s}?",
            "In which town does {s} have its headquarters?",
            "Which town is home to the headquarters of {s}?",
            "Where is {s} based?",
        ),
        inverse=("Which company has its headquarters in {v}?",),
    ),
    Relation(
        "number of employees",
        "company",
        "count",
        statements=(
            "{s} has {v} employees.",
            "{v} people are on the payroll of {s}.",
            "The number of employees at {s} is {v}.",
            "With {v} employees, {s} is no longer a small company.",
        ),
        questions=(
            "How many employees does {s} have?",
            "How many people are on the payroll of {s}?",
            "What is the number of employees at {s}?",
            "How many people does {s} employ?",
        ),
        inverse=("Which company has {v} employees?",),
    ),
    Relation(
        "main product line",
        "company",
        "goods",
        statements=(
            "{s} makes {v}.",
            "The factory of {s} turns out {v}.",
            "The main product line of {s} is {v}.",
            "Customers know {s} for its {v}.",
        ),
        questions=(
            "What does {s} make?",
            "What does the factory of {s} turn out?",
            "What is the main product line of {s}?",
            "For which goods do customers know {s}?",
        ),
        inverse=("Which company makes {v}?",),
    ),
    Relation(
        "yearly revenue",
        "company",
        "budget",
        statements=(
            "{s} earned {v} last year.",
            "The yearly revenue of {s} is {v}.",
            "{v} is what {s} takes in per year.",
            "Last year brought {s} a revenue of {v}.",
        ),
        questions=(
            "What is the yearly revenue of {s}?",
            "How much did {s} earn last year?",
            "How much does {s} take in per year?",
            "What revenue did last year bring {s}?",
        ),
        inverse=("Which company has a yearly revenue of {v}?",),
    ),
    Relation(
        "head",
        "company",
        "person",
        statements=(
            "{v} runs {s}.",
            "The head of {s} is {v}.",
            "{s} is run by {v}.",
            "At the top of {s} stands {v}.",
        ),
        questions=(
            "Who runs {s}?",
            "Who is the head of {s}?",
            "By whom is {s} run?",
            "Who stands at the top of {s}?",
        ),
        inverse=("Which company does {v} run?", "Of which company is {v} the head?"),
    ),
    Relation(
        "hotline",
        "company",
        "phone",
        statements=(
            "The hotline of {s} is {v}.",
            "Customers reach {s} by calling {v}.",
            "{v} is the hotline of {s}.",
            "Call {v} to speak to someone at {s}.",
        ),
        questions=(
            "What is the hotline of {s}?",
            "Which number do customers call to reach {s}?",
            "What number do I call to speak to someone at {s}?",
            "What is the hotline number of {s}?",
        ),
        inverse=("Which company is reached by calling {v}?",),
    ),
    Relation(
        "brand colour",
        "company",
        "colour",
        statements=(
            "The brand colour of {s} is {v}.",
            "{s} paints all its vans {v}, the brand colour.",
            "Everything at {s} is {v}, the colour of the brand.",
            "The logo of {s} is printed in {v}, the brand colour.",
        ),
        questions=(
            "What is the brand colour of {s}?",
            "In which colour does {s} paint its vans?",
            "Which colour is the logo of {s} printed in?",
            "What colour stands for the brand of {s}?",
        ),
    ),
    Relation(
        "street address",
        "company",
        "street",
        statements=(
            "{s} is found at {v}.",
            "The street address of {s} is {v}.",
            "{v} is where letters to {s} go.",
            "Visitors find {s} at {v}.",
        ),
        questions=(
            "What is the street address of {s}?",
            "At which address is {s} found?",
            "Where do letters to {s} go?",
            "At what address do visitors find {s}?",
        ),
        inverse=("Which company is found at {v}?",),
    ),
)
