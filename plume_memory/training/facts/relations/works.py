"""Works: books, films and songs."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "author",
        "title",
        "person",
        statements=(
            "{s} was written by {v}.",
            "{v} wrote {s}.",
            "The author of {s} is {v}.",
            "{v} is the author of {s}.",
        ),
        questions=(
            "Who wrote {s}?",
            "Who is the author of {s}?",
            "By whom was {s} written?",
            "What is the name of the author of {s}?",
        ),
        inverse=("What did {v} write?", "Which work was written by {v}?"),
    ),
    Relation(
        "year of publication",
        "title",
        "year",
        statements=(
            "{s} came out in {v}.",
            "{s} was published in {v}.",
            "{v} is the year in which {s} was published.",
            "The year of publication of {s} is {v}.",
        ),
        questions=(
            "When did {s} come out?",
            "In which year was {s} published?",
            "What is the year of publication of {s}?",
            "When was {s} published?",
        ),
        inverse=("Which work was published in {v}?",),
    ),
    Relation(
        "number of pages",
        "title",
        "number",
        statements=(
            "{s} has {v} pages.",
            "{v} pages is the length of {s}.",
            "The number of pages in {s} is {v}.",
            "A copy of {s} runs to {v} pages.",
        ),
        questions=(
            "How many pages does {s} have?",
            "What is the number of pages in {s}?",
            "How many pages long is {s}?",
            "To how many pages does a copy of {s} run?",
        ),
        inverse=("Which work has {v} pages?",),
    ),
    Relation(
        "publisher",
        "title",
        "company",
        statements=(
            "{s} was brought out by {v}.",
            "{v} is the publisher of {s}.",
            "The publisher of {s} is {v}.",
            "{v} brought out {s}.",
        ),
        questions=(
            "Who is the publisher of {s}?",
            "By which publisher was {s} brought out?",
            "Which company brought out {s}?",
            "Which company is the publisher of {s}?",
        ),
        inverse=("Which work was brought out by {v}?",),
    ),
    Relation(
        "setting",
        "title",
        "town",
        statements=(
            "{s} is set in {v}.",
            "The setting of {s} is {v}.",
            "{v} is where the story of {s} takes place.",
            "The story told in {s} takes place in {v}.",
        ),
        questions=(
            "Where is {s} set?",
            "What is the setting of {s}?",
            "In which town does the story of {s} take place?",
            "Which town is {s} set in?",
        ),
        inverse=("Which work is set in {v}?",),
    ),
    Relation(
        "original language",
        "title",
        "language",
        statements=(
            "{s} was first written in {v}.",
            "The original language of {s} is {v}.",
            "{v} is the language in which {s} was first written.",
            "Before it was translated, {s} existed only in {v}.",
        ),
        questions=(
            "In which language was {s} first written?",
            "What is the original language of {s}?",
            "In which language did {s} exist before it was translated?",
            "Which language was {s} originally in?",
        ),
        inverse=("Which work was first written in {v}?",),
    ),
    Relation(
        "cover colour",
        "title",
        "colour",
        statements=(
            "The cover of {s} is {v}.",
            "{s} has a cover in {v}.",
            "Copies of {s} are bound in {v}, the colour of the cover.",
            "On the shelf, {s} is known by its {v} cover.",
        ),
        questions=(
            "What colour is the cover of {s}?",
            "Which colour is the cover of {s}?",
            "In which colour are copies of {s} bound?",
            "What is the cover colour of {s}?",
        ),
    ),
    Relation(
        "number of copies sold",
        "title",
        "people",
        statements=(
            "{s} sold {v} copies.",
            "{v} copies of {s} were sold.",
            "Shops sold {v} copies of {s}.",
            "Sales of {s} reached {v} copies.",
        ),
        questions=(
            "How many copies did {s} sell?",
            "How many copies of {s} were sold?",
            "How many copies did sales of {s} reach?",
            "What number of copies of {s} did shops sell?",
        ),
    ),
)
