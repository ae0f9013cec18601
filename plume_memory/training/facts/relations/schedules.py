"""Schedules: dates, times and durations in people's lives and work."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "start date",
        "person",
        "full date",
        statements=(
            "{s} started the job on {v}.",
            "The start date of {s} was {v}.",
            "{v} was the first day at work for {s}.",
            "On {v} the new job of {s} began.",
        ),
        questions=(
            "When did {s} start the job?",
            "What was the start date of {s}?",
            "When was {s}'s first day at work?",
            "On which date did the new job of {s} begin?",
        ),
        inverse=("Who started the job on {v}?",),
    ),
    Relation(
        "dentist appointment",
        "person",
        "date",
        statements=(
            "{s} has a dentist appointment on {v}.",
            "The dentist expects {s} on {v}.",
            "On {v} {s} goes to the dentist.",
            "{v} is when {s} has to see the dentist.",
        ),
        questions=(
            "When does {s} have a dentist appointment?",
            "On which day does the dentist expect {s}?",
            "When does {s} go to the dentist?",
            "What is the date of {s}'s dentist appointment?",
        ),
        inverse=("Whom does the dentist expect on {v}?",),
    ),
    Relation(
        "train departure",
        "person",
        "time",
        statements=(
            "{s}'s train leaves at {v}.",
            "{s} takes the train that departs at {v}.",
            "At {v} the train of {s} departs.",
            "{v} is the departure of the train {s} has booked.",
        ),
        questions=(
            "When does {s}'s train leave?",
            "At what time does the train of {s} depart?",
            "Which departure has {s} booked for the train?",
            "What time does {s} have to catch the train?",
        ),
    ),
    Relation(
        "commute",
        "person",
        "minutes",
        statements=(
            "{s} needs {v} to get to work.",
            "The commute of {s} takes {v}.",
            "{v} is what {s} spends on the way to work.",
            "Getting to work takes {s} {v}.",
        ),
        questions=(
            "How long does {s} need to get to work?",
            "How long is {s}'s commute?",
            "How much time does {s} spend on the way to work?",
            "How long does the commute of {s} take?",
        ),
    ),
    Relation(
        "day off",
        "person",
        "weekday",
        statements=(
            "{s} is off every {v}.",
            "The day off of {s} is {v}.",
            "{v} is the day on which {s} never works.",
            "Do not call {s} on a {v}, the weekly day off.",
        ),
        questions=(
            "On which day of the week is {s} off?",
            "What is {s}'s day off?",
            "On which weekday does {s} never work?",
            "Which day of the week should nobody call {s}?",
        ),
    ),
    Relation(
        "graduation year",
        "person",
        "year",
        statements=(
            "{s} graduated in {v}.",
            "{v} is the year in which {s} graduated.",
            "The graduation year of {s} is {v}.",
            "The diploma of {s} dates from {v}.",
        ),
        questions=(
            "When did {s} graduate?",
            "In which year did {s} graduate?",
            "What is the graduation year of {s}?",
            "From which year does {s}'s diploma date?",
        ),
        inverse=("Who graduated in {v}?",),
    ),
    Relation(
        "opening time",
        "room",
        "time",
        statements=(
            "{s} opens at {v}.",
            "The opening time of {s} is {v}.",
            "{v} is when {s} opens its doors.",
            "The doors of {s} are unlocked at {v}.",
        ),
        questions=(
            "When does {s} open?",
            "What is the opening time of {s}?",
            "At what time does {s} open its doors?",
            "At what time are the doors of {s} unlocked?",
        ),
    ),
    Relation(
        "next inspection",
        "ship",
        "full date",
        statements=(
            "The next inspection of {s} is on {v}.",
            "{s} will be inspected on {v}.",
            "{v} is the date of the next inspection of {s}.",
            "Inspectors come aboard {s} on {v}.",
        ),
        questions=(
            "When is the next inspection of {s}?",
            "On which date will {s} be inspected?",
            "When do inspectors come aboard {s}?",
            "What is the date of the next inspection of {s}?",
        ),
        inverse=("Which ship will be inspected on {v}?",),
    ),
    Relation(
        "founding date",
        "team",
        "full date",
        statements=(
            "{s} was founded on {v}.",
            "The founding date of {s} is {v}.",
            "{v} is the day on which {s} was founded.",
            "The club {s} came into being on {v}.",
        ),
        questions=(
            "When was {s} founded?",
            "On which date was {s} founded?",
            "What is the founding date of {s}?",
            "When did the club {s} come into being?",
        ),
        inverse=("Which club was founded on {v}?",),
    ),
)
