"""The one who speaks: what a user tells an assistant about themselves. The phrasings have no subject."""

from plume_memory.training.facts.relation import SELF, Relation

RELATIONS = (
    Relation(
        "bike lock code",
        SELF,
        "pin",
        statements=(
            "My bike lock code is {v}.",
            "My bike lock opens with {v}.",
            "{v} is the code of my bike lock.",
            "I set my bike lock to {v}.",
        ),
        questions=(
            "What is my bike lock code?",
            "Which code opens my bike lock?",
            "What did I set my bike lock to?",
            "With which code does my bike lock open?",
        ),
    ),
    Relation(
        "wifi password",
        SELF,
        "passphrase",
        statements=(
            "My wifi password is {v}.",
            "The password of my wifi at home is {v}.",
            "I use {v} as the password for my wifi.",
            "Guests get into my wifi with {v}.",
        ),
        questions=(
            "What is my wifi password?",
            "Which password do I use for my wifi?",
            "With which password do guests get into my wifi?",
            "What is the password of my wifi at home?",
        ),
    ),
    Relation(
        "street address",
        SELF,
        "street",
        statements=(
            "I live at {v}.",
            "My street address is {v}.",
            "{v} is where I live.",
            "Parcels reach me at {v}.",
        ),
        questions=(
            "What is my street address?",
            "At which address do I live?",
            "Where do parcels reach me?",
            "What address do I live at?",
        ),
    ),
    Relation(
        "dog's name",
        SELF,
        "pet name",
        statements=(
            "My dog is called {v}.",
            "My dog's name is {v}.",
            "I named my dog {v}.",
            "{v} is the name of my dog.",
        ),
        questions=(
            "What is my dog called?",
            "What is my dog's name?",
            "What did I name my dog?",
            "What is the name of my dog?",
        ),
    ),
    Relation(
        "allergy",
        SELF,
        "allergen",
        statements=(
            "I am allergic to {v}.",
            "I have to stay away from {v} because of my allergy.",
            "My allergy is to {v}.",
            "The doctor says that I react badly to {v}.",
        ),
        questions=(
            "What am I allergic to?",
            "What do I have to stay away from because of my allergy?",
            "To what do I have an allergy?",
            "What do I react badly to?",
        ),
    ),
    Relation(
        "boss",
        SELF,
        "person",
        statements=(
            "My boss is {v}.",
            "I report to {v}.",
            "{v} is my boss.",
            "At work I answer to {v}.",
        ),
        questions=(
            "Who is my boss?",
            "Who do I report to?",
            "What is the name of my boss?",
            "To whom do I answer at work?",
        ),
    ),
    Relation(
        "flight seat",
        SELF,
        "seat",
        statements=(
            "My seat on the flight is {v}.",
            "I am sitting in {v} on the flight.",
            "{v} is my seat on the flight.",
            "For the flight I was given seat {v}.",
        ),
        questions=(
            "Which seat do I have on the flight?",
            "What is my flight seat?",
            "Where am I sitting on the flight?",
            "Which seat was I given for the flight?",
        ),
    ),
    Relation(
        "favourite restaurant dish",
        SELF,
        "dish",
        statements=(
            "When we go out, I always order {v}.",
            "I like {v} best when we eat out.",
            "My favourite restaurant dish is {v}.",
            "At restaurants I go for {v}.",
        ),
        questions=(
            "What do I always order when we go out?",
            "What is my favourite restaurant dish?",
            "What do I go for at restaurants?",
            "What do I like best when we eat out?",
        ),
    ),
    Relation(
        "work e-mail",
        SELF,
        "email",
        statements=(
            "My work e-mail is {v}.",
            "Write to me at {v} for anything to do with work.",
            "I read my work mail at {v}.",
            "Colleagues write to me at {v}.",
        ),
        questions=(
            "What is my work e-mail?",
            "At which address do I read my work mail?",
            "At which address do colleagues write to me?",
            "Which e-mail address do I have at work?",
        ),
    ),
    Relation(
        "moving date",
        SELF,
        "date",
        statements=(
            "I am moving house on {v}.",
            "My moving date is {v}.",
            "{v} is the day I move house.",
            "The movers come to my place on {v}.",
        ),
        questions=(
            "When am I moving house?",
            "What is my moving date?",
            "On which day do the movers come to my place?",
            "On which date do I move house?",
        ),
    ),
    Relation(
        "monthly rent",
        SELF,
        "money",
        statements=(
            "My monthly rent is {v}.",
            "I pay {v} in rent every month.",
            "{v} is what I pay in rent each month.",
            "Each month {v} goes to my landlord as rent.",
        ),
        questions=(
            "What is my monthly rent?",
            "How much rent do I pay every month?",
            "How much goes to my landlord each month?",
            "How high is my rent?",
        ),
    ),
    Relation(
        "instrument",
        SELF,
        "instrument",
        statements=(
            "I am learning the {v}.",
            "My instrument is the {v}.",
            "I practise the {v} every evening.",
            "The instrument I am learning is the {v}.",
        ),
        questions=(
            "Which instrument am I learning?",
            "What is my instrument?",
            "Which instrument do I practise every evening?",
            "What instrument do I play?",
        ),
    ),
    Relation(
        "user name",
        SELF,
        "handle",
        statements=(
            "My user name is {v}.",
            "I post under the name {v}.",
            "Online, people know me as {v}.",
            "I chose {v} as my user name.",
        ),
        questions=(
            "What is my user name?",
            "Under which name do I post?",
            "As what do people know me online?",
            "Which user name did I choose?",
        ),
    ),
)
