"""Codes: keys, numbers and words that identify or unlock."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "badge code",
        "person",
        "code",
        statements=(
            "The badge code of {s} is {v}.",
            "{s}'s badge carries the code {v}.",
            "{v} is the badge code of {s}.",
            "Code {v} is printed on the badge that {s} wears.",
            "Security issued {s} a badge with code {v}.",
        ),
        questions=(
            "What is the badge code of {s}?",
            "Which code is on {s}'s badge?",
            "What is {s}'s badge code?",
            "Which badge code was issued to {s}?",
        ),
        inverse=("Who has the badge code {v}?", "Whose badge carries the code {v}?"),
    ),
    Relation(
        "locker number",
        "person",
        "number",
        statements=(
            "{s} uses locker {v}.",
            "Locker {v} belongs to {s}.",
            "The locker number of {s} is {v}.",
            "{s} was given locker number {v}.",
        ),
        questions=(
            "Which locker does {s} use?",
            "What is {s}'s locker number?",
            "What number is on {s}'s locker?",
            "Which locker was {s} given?",
        ),
        inverse=("Who uses locker {v}?", "Who does locker {v} belong to?"),
    ),
    Relation(
        "phone extension",
        "person",
        "extension",
        statements=(
            "{s} can be reached at extension {v}.",
            "Extension {v} rings at the desk of {s}.",
            "{s}'s phone extension is {v}.",
            "Dial {v} to reach {s}.",
        ),
        questions=(
            "What is {s}'s phone extension?",
            "At which extension can {s} be reached?",
            "Which extension should I dial to reach {s}?",
            "What is the phone extension of {s}?",
        ),
        inverse=("Whose phone extension is {v}?", "Who can be reached at extension {v}?"),
    ),
    Relation(
        "door code",
        "room",
        "pin",
        statements=(
            "The door code of {s} is {v}.",
            "{s} opens with the code {v}.",
            "Enter {v} at the door to get into {s}.",
            "{v} is the code for the door of {s}.",
            "Anyone entering {s} has to type {v} at the door.",
        ),
        questions=(
            "What is the door code of {s}?",
            "Which code opens {s}?",
            "What do I type at the door of {s}?",
            "With which code does the door of {s} open?",
        ),
        inverse=("Which room opens with the code {v}?",),
    ),
    Relation(
        "serial number",
        "product",
        "serial",
        statements=(
            "The {s} on the shelf has the serial number {v}.",
            "{v} is the serial number of the {s}.",
            "The serial number stamped on the {s} is {v}.",
            "On the back of the {s} it says {v}, the serial number.",
        ),
        questions=(
            "What is the serial number of the {s}?",
            "Which serial number does the {s} have?",
            "What serial number is stamped on the {s}?",
            "Under which serial number is the {s} known?",
        ),
        inverse=("Which product has the serial number {v}?",),
    ),
    Relation(
        "licence plate",
        "person",
        "plate",
        statements=(
            "{s} drives a car with the licence plate {v}.",
            "The licence plate of {s} reads {v}.",
            "{v} is the licence plate of the car that {s} drives.",
            "{s}'s car is registered under the plate {v}.",
        ),
        questions=(
            "What is the licence plate of {s}'s car?",
            "Which licence plate does {s} have?",
            "Under which plate is {s}'s car registered?",
            "What does {s}'s licence plate read?",
        ),
        inverse=("Whose car has the licence plate {v}?", "Who drives the car with the plate {v}?"),
    ),
    Relation(
        "filing code",
        "project",
        "code",
        statements=(
            "{s} is filed under {v}.",
            "The filing code of {s} is {v}.",
            "{v} is the code under which {s} is filed.",
            "In the archive, {s} has the filing code {v}.",
        ),
        questions=(
            "Under which code is {s} filed?",
            "What is the filing code of {s}?",
            "Which filing code does {s} have?",
            "What code is {s} filed under in the archive?",
        ),
        inverse=("Which project is filed under {v}?", "What has the filing code {v}?"),
    ),
    Relation(
        "recovery phrase",
        "device",
        "passphrase",
        statements=(
            "The recovery phrase of {s} is {v}.",
            "To restore {s}, use the phrase {v}.",
            "Use {v} as the recovery phrase when {s} is locked.",
            "{s} is protected by the recovery phrase {v}.",
        ),
        questions=(
            "What is the recovery phrase of {s}?",
            "Which phrase restores {s}?",
            "With which recovery phrase is {s} protected?",
            "Which phrase do I need when {s} is locked?",
        ),
        inverse=("Which machine has the recovery phrase {v}?",),
    ),
)
