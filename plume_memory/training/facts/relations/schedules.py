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
        changes=(
            "The contract of {s} was changed: first day at the office {v}.",
            "{s} did not begin on {o} but on {v}.",
            "We had {o} in the file of {s}; payroll has it as {v}.",
            "oh and {s} joined on {v}, not on {o}.",
        ),
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
        changes=(
            "{s} had to reschedule the dentist from {o} to {v}.",
            "The dental surgery put {s} off until {v}.",
            "{s} cannot go on {o}; the teeth have to wait for {v}.",
            "fyi {s} gets the filling on {v} instead.",
        ),
        ends=(
            "{s} has cancelled the dentist.",
            "The dentist called off the appointment of {s} on {o}.",
        ),
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
        changes=(
            "The railway moved the train of {s} from {o} to {v}.",
            "{s} missed the one at {o} and leaves at {v}.",
            "{s} has rebooked and sets off at {v}.",
            "ok so {s} is on the {v} now.",
        ),
        ends=(
            "The train of {s} at {o} has been cancelled.",
            "{s} is not taking the train after all.",
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
        changes=(
            "After moving house, {s} is on the road for {v}.",
            "The new line changed the trip of {s} to the office from {o} to {v}.",
            "It used to be {o} from door to door for {s}; today it is {v}.",
            "oh and {s} sits on the bus for {v} these days.",
        ),
        ends=(
            "{s} no longer commutes.",
            "{s} works from home and is spared the {o} on the way.",
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
        changes=(
            "{s} swapped {o} for {v}.",
            "The rota has changed: {s} rests on {v}.",
            "You can reach {s} on {o} again, but not on {v}.",
            "Agreed: {s} gets {v} off instead of {o}.",
        ),
        ends=(
            "{s} no longer has a day off.",
            "{s} is back at work on {o}.",
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
        changes=(
            "{s} finished university in {v}, not in {o}.",
            "The alumni office has corrected the entry of {s} to {v}.",
            "We put {s} in the class of {o}, but it was that of {v}.",
            "hm, {s} says it was {v} when they got the degree.",
        ),
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
        changes=(
            "{s} has changed its hours; you can get in from {v} on.",
            "It is no use coming to {s} at {o} any more, it stays shut until {v}.",
            "The caretaker unlocks {s} at {v} instead of {o}.",
            "fyi you can get into {s} at {v} from now on, not at {o}.",
        ),
        ends=(
            "{s} has been closed down.",
            "{s} no longer opens at {o}.",
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
        changes=(
            "The survey of {s} was put off to {v}.",
            "The inspectors will not see {s} on {o} but on {v}.",
            "{s} has to be ready for the authorities by {v}; {o} fell through.",
            "Minutes: inspection of {s} rescheduled to {v}.",
        ),
        ends=(
            "The inspection of {s} has been called off.",
            "Nobody will inspect {s} on {o}.",
        ),
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
        changes=(
            "The oldest minutes of {s} are dated {v}, so {o} cannot be right.",
            "{s} was founded on {v}, not on {o}.",
            "The anniversary of {s} was moved from {o} to {v} after a look into the archive.",
            "wait, {s} started out on {v}.",
        ),
    ),
)
