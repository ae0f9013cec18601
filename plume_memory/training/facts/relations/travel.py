"""Journeys: where people go, how they get there, where they stay. Said of oneself, and of others.

The shipped network was never trained on this family: it is there to test on.
"""

from plume_memory.training.facts.relation import SELF, Relation

RELATIONS = (
    Relation(
        "destination",
        SELF,
        "city",
        statements=(
            "I am travelling to {v}.",
            "I have booked a trip to {v}.",
            "My trip goes to {v}.",
            "The destination of my trip is {v}.",
        ),
        questions=(
            "Where am I travelling to?",
            "Where have I booked a trip to?",
            "Where does my trip go?",
            "What is the destination of my trip?",
        ),
    ),
    Relation(
        "hotel room",
        SELF,
        "room number",
        statements=(
            "My hotel room is {v}.",
            "At the hotel I am in room {v}.",
            "The hotel has put me in room {v}.",
            "I sleep in room {v} of the hotel.",
        ),
        questions=(
            "What is my hotel room?",
            "Which room am I in at the hotel?",
            "Which room has the hotel put me in?",
            "In which room of the hotel do I sleep?",
        ),
    ),
    Relation(
        "boarding gate",
        SELF,
        "room number",
        statements=(
            "My boarding gate is {v}.",
            "I board at gate {v}.",
            "The gate I board at is {v}.",
            "Gate {v} is where I board.",
        ),
        questions=(
            "What is my boarding gate?",
            "At which gate do I board?",
            "Which gate do I board at?",
            "Where do I board?",
        ),
    ),
    Relation(
        "rental car",
        SELF,
        "car",
        statements=(
            "My rental car is {a} {v}.",
            "I have rented {a} {v}.",
            "For the trip I have rented {a} {v}.",
            "The car I have rented is {a} {v}.",
        ),
        questions=(
            "What is my rental car?",
            "Which car have I rented?",
            "What have I rented for the trip?",
            "What car have I rented?",
        ),
    ),
    Relation(
        "tour guide",
        SELF,
        "first name",
        statements=(
            "My tour guide is called {v}.",
            "{v} is my tour guide.",
            "The name of my tour guide is {v}.",
            "I am guided through the town by {v}.",
        ),
        questions=(
            "What is my tour guide called?",
            "Who is my tour guide?",
            "What is the name of my tour guide?",
            "Who guides me through the town?",
        ),
    ),
    Relation(
        "nights away",
        SELF,
        "numeral",
        statements=(
            "I am away for {v} nights.",
            "My trip lasts {v} nights.",
            "The nights of my trip are {v}.",
            "I stay for {v} nights.",
        ),
        questions=(
            "For how many nights am I away?",
            "How many nights does my trip last?",
            "How many nights has my trip?",
            "How many nights do I stay?",
        ),
    ),
    Relation(
        "booking reference",
        "person",
        "code",
        statements=(
            "The booking reference of {s} is {v}.",
            "{s} has booked under the reference {v}.",
            "{s}'s booking reference is {v}.",
            "Under {v} the airline has the booking of {s}.",
        ),
        questions=(
            "What is the booking reference of {s}?",
            "Under which reference has {s} booked?",
            "What is {s}'s booking reference?",
            "Under what reference does the airline have the booking of {s}?",
        ),
        inverse=("Whose booking reference is {v}?", "Who has booked under the reference {v}?"),
    ),
    Relation(
        "travel companion",
        "person",
        "person",
        statements=(
            "{s} travels with {v}.",
            "The travel companion of {s} is {v}.",
            "On the journey {s} shares a cabin with {v}, the travel companion.",
            "{v} accompanies {s} on the journey.",
        ),
        questions=(
            "Who does {s} travel with?",
            "Who is the travel companion of {s}?",
            "Who is {s}'s travel companion?",
            "Who accompanies {s} on the journey?",
        ),
    ),
    Relation(
        "visa expiry",
        "person",
        "full date",
        statements=(
            "{s}'s visa expires on {v}.",
            "The visa of {s} is valid until {v}.",
            "{s} has a visa that runs out on {v}.",
            "On {v} the visa of {s} expires.",
        ),
        questions=(
            "When does {s}'s visa expire?",
            "Until when is the visa of {s} valid?",
            "On what date does the visa of {s} run out?",
            "When does the visa of {s} expire?",
        ),
        inverse=("Whose visa expires on {v}?",),
    ),
    Relation(
        "baggage allowance",
        "person",
        "weight",
        statements=(
            "{s} may take {v} of baggage.",
            "The baggage allowance of {s} is {v}.",
            "{s}'s ticket includes {v} of baggage.",
            "On this ticket {s} can check in {v}.",
        ),
        questions=(
            "How much baggage may {s} take?",
            "What is the baggage allowance of {s}?",
            "How much baggage does {s}'s ticket include?",
            "How much can {s} check in on this ticket?",
        ),
    ),
    Relation(
        "travel agency",
        "person",
        "company",
        statements=(
            "{s} books journeys through {v}.",
            "The travel agency of {s} is {v}.",
            "{v} arranges the journeys of {s}.",
            "{s}'s travel agency is {v}.",
        ),
        questions=(
            "Through whom does {s} book journeys?",
            "What is the travel agency of {s}?",
            "Who arranges the journeys of {s}?",
            "What is {s}'s travel agency?",
        ),
    ),
    Relation(
        "suitcase colour",
        "person",
        "colour",
        statements=(
            "{s}'s suitcase is {v}.",
            "The colour of {s}'s suitcase is {v}.",
            "{s} travels with a suitcase in {v}.",
            "The suitcase of {s} is the one in {v}.",
        ),
        questions=(
            "What colour is {s}'s suitcase?",
            "What is the colour of {s}'s suitcase?",
            "In which colour is the suitcase {s} travels with?",
            "Which colour has the suitcase of {s}?",
        ),
        inverse=("Whose suitcase is {v}?",),
    ),
)
