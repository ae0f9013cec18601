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
        changes=(
            "I have changed my plans from {o} to {v}.",
            "My holiday in {o} fell through, so I fly to {v}.",
            "I rebooked, and the ticket says {v}.",
            "forget {o}, I'm off to {v} instead.",
        ),
        ends=(
            "I have cancelled my trip to {o}.",
            "I am not travelling to {o} after all.",
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
        changes=(
            "The shower was broken, so I was moved from {o} to {v}.",
            "Reception gave me another key, for {v}.",
            "You will not find me in {o} any longer; knock at {v}.",
            "oh, they switched me to {v}.",
        ),
        ends=(
            "I have checked out of room {o}.",
            "I no longer have a room at the hotel.",
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
        changes=(
            "My flight has been moved from {o} to {v}.",
            "The screen sends me to {v} for boarding.",
            "I have to walk over to {v}, they no longer board me at {o}.",
            "gate change, I'm at {v}.",
        ),
        ends=("My flight no longer boards at {o}.",),
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
        changes=(
            "The rental firm took the keys back and gave me those of {a} {v}.",
            "There was no {o} left at the counter, so I was given {a} {v}.",
            "On this trip I get around in {a} {v}, since the {o} broke down.",
            "they upgraded me from the {o} to {a} {v}.",
        ),
        ends=(
            "I have returned the {o}.",
            "I have cancelled my rental car.",
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
        changes=(
            "{o} is ill, so {v} shows me around.",
            "The agency sends me {v} in place of {o}.",
            "I asked for someone else to lead my tour and got {v}.",
            "so no {o} today, I'm following {v} around.",
        ),
        ends=(
            "{o} is no longer my tour guide.",
            "I go around on my own, without a guide.",
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
        changes=(
            "I have changed my booking from {o} nights to {v}.",
            "I will not be gone for {o} nights but for {v}.",
            "I had to alter my trip, so it will be {v} nights in the hotel.",
            "ok make that {v} nights for me, not {o}.",
        ),
        ends=("I have called off my trip, so I am at home every night.",),
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
        changes=(
            "The airline rebooked {s} and sent a new code, {v}.",
            "{o} no longer brings up anything for {s}; type in {v}.",
            "The ticket of {s} was reissued, from {o} to {v}.",
            "fyi {s} checks in with {v} now.",
        ),
        ends=(
            "The booking {o} of {s} has been cancelled.",
            "{s} has cancelled the flight.",
        ),
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
        changes=(
            "{o} had to stay at home, so {v} goes along with {s}.",
            "{s} will not be on the road with {o} but with {v}.",
            "The second ticket of {s} was rewritten to {v}.",
            "change of plan, {s} is taking {v} along instead.",
        ),
        ends=(
            "{o} is not coming along with {s}.",
            "{s} will travel alone.",
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
        changes=(
            "{s} has had the visa extended to {v}.",
            "The consulate changed the date in the passport of {s} from {o} to {v}.",
            "{s} need not leave on {o}; the new stamp is good until {v}.",
            "oh and {s} may stay until {v}, not {o}.",
        ),
        ends=(
            "The visa of {s} was revoked.",
            "{s} no longer needs a visa.",
        ),
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
        changes=(
            "The airline changed the limit for {s} from {o} to {v}.",
            "With the new fare, {s} can bring suitcases of {v}.",
            "{s} has rebooked and may pack {v}, no longer {o}.",
            "heads-up, it's {v} of luggage for {s}.",
        ),
        ends=("The ticket of {s} no longer includes baggage.",),
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
        changes=(
            "{s} takes the holiday money to {v} instead of {o}.",
            "{s} was unhappy with {o} and plans holidays with {v}.",
            "The tickets of {s} have come from {v} since last summer.",
            "btw {s} dropped {o}, ask {v}.",
        ),
        ends=(
            "{s} no longer books through {o}.",
            "{o} has closed, and {s} books without an agency.",
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
        changes=(
            "The old case of {s} fell apart, and the new one is {v}.",
            "{s} swapped the {o} suitcase for one in {v}.",
            "At the belt, do not look for {o} but for {v}: {s} has bought new luggage.",
            "oh and {s} got another one, it's {v}.",
        ),
        ends=(
            "{s} threw the {o} suitcase away.",
            "{s} lost the suitcase and travels with a backpack.",
        ),
    ),
)
