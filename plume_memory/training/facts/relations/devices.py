"""Devices: machines by host name, and how they are set up."""

from plume_memory.training.facts.relation import Relation

RELATIONS = (
    Relation(
        "address",
        "device",
        "address",
        statements=(
            "The address of {s} is {v}.",
            "The host {s} answers at {v}.",
            "{v} is the address of {s}.",
            "To reach {s}, connect to {v}.",
        ),
        questions=(
            "What is the address of {s}?",
            "At which address does {s} answer?",
            "Which address do I connect to in order to reach {s}?",
            "Which address does the host {s} have?",
        ),
        inverse=("Which host has the address {v}?", "Which machine answers at {v}?"),
        changes=(
            "We renumbered the network, and the machine {s} ended up on {v}.",
            "The record of {s} was changed from {o} to {v}.",
            "Pings to {o} fail because {s} has moved to {v}.",
            "heads-up, {s} got a new IP, it's {v}.",
        ),
        ends=(
            "The address {o} no longer belongs to {s}.",
            "The host {s} was taken off the network.",
        ),
    ),
    Relation(
        "firmware version",
        "device",
        "version",
        statements=(
            "The machine {s} runs firmware {v}.",
            "The firmware version of {s} is {v}.",
            "Version {v} of the firmware is installed on {s}.",
            "{v} is the firmware version on {s}.",
        ),
        questions=(
            "Which firmware version does {s} run?",
            "What is the firmware version of {s}?",
            "Which version of the firmware is installed on {s}?",
            "What firmware is on {s}?",
        ),
        inverse=("Which machine runs firmware {v}?",),
        changes=(
            "We upgraded {s} from {o} to {v}.",
            "The vendor's patch took {s} to {v}.",
            "After the rollback, {s} is on {v} instead of {o}.",
            "fyi flashed {s} last night, it reports {v}.",
        ),
        ends=("The firmware {o} was wiped from {s}.",),
    ),
    Relation(
        "port",
        "device",
        "extension",
        statements=(
            "The service on {s} listens on port {v}.",
            "Port {v} is open on {s}.",
            "The port of {s} is {v}.",
            "On {s} the service is bound to port {v}.",
        ),
        questions=(
            "On which port does the service on {s} listen?",
            "Which port is open on {s}?",
            "What is the port of {s}?",
            "To which port is the service on {s} bound?",
        ),
        inverse=("On which machine is port {v} open?",),
        changes=(
            "The service on {s} was moved from port {o} to {v}.",
            "Connections to {s} on {o} are refused; use {v}.",
            "I edited the config of {s}, so point your client to {v}.",
            "Done: {o} is closed on {s}, {v} is what it listens on.",
        ),
        ends=(
            "Port {o} on {s} has been closed.",
            "Nothing listens on {s} any more.",
        ),
    ),
    Relation(
        "disk space",
        "device",
        "storage",
        statements=(
            "There are {v} of free disk space on {s}.",
            "The disk space left on {s} is {v}.",
            "The machine {s} has {v} of disk space left.",
            "{v} of disk space are free on {s}.",
        ),
        questions=(
            "How much disk space is left on {s}?",
            "How much free disk space is there on {s}?",
            "How many gigabytes are free on {s}?",
            "What is the disk space left on {s}?",
        ),
        changes=(
            "After the clean-up, {v} are available on {s}.",
            "The logs keep changing things: {s} had {o} free yesterday and has {v} today.",
            "The alarm for {s} was reset: {v} available in place of {o}.",
            "hm, just ran df on {s}, we are at {v}.",
        ),
        ends=("The disk of {s} is full.",),
    ),
    Relation(
        "rack location",
        "device",
        "room number",
        statements=(
            "The machine {s} stands in room {v}.",
            "Room {v} is where {s} is racked.",
            "The rack location of {s} is room {v}.",
            "To find {s}, go to room {v}.",
        ),
        questions=(
            "In which room does {s} stand?",
            "Where is {s} racked?",
            "What is the rack location of {s}?",
            "To which room do I go to find {s}?",
        ),
        changes=(
            "We carried {s} over from {o} to {v}.",
            "The hardware of {s} was relocated to {v}.",
            "You will not find {s} in {o} any longer, it went to {v}.",
            "oh and {s} got a new home in {v}.",
        ),
        ends=(
            "The machine {s} was taken out of room {o}.",
            "The machine {s} has been unracked and sent for recycling.",
        ),
    ),
    Relation(
        "administrator",
        "device",
        "person",
        statements=(
            "{v} looks after {s}.",
            "The administrator of {s} is {v}.",
            "The machine {s} is looked after by {v}.",
            "Ask {v} about {s}; that is its administrator.",
        ),
        questions=(
            "Who looks after {s}?",
            "Who is the administrator of {s}?",
            "By whom is {s} looked after?",
            "Whom should I ask about {s}?",
        ),
        inverse=("Which machine does {v} look after?",),
        changes=(
            "{v} has taken {s} over from {o}.",
            "{o} handed the root password of {s} to {v}.",
            "From this week on, problems with {s} are for {v} to solve.",
            "Agreed: {s} goes from {o} to {v}.",
        ),
        ends=(
            "{o} no longer looks after {s}.",
            "The machine {s} has no administrator any more.",
        ),
    ),
    Relation(
        "backup time",
        "device",
        "time",
        statements=(
            "The machine {s} is backed up at {v}.",
            "The backup time of {s} is {v}.",
            "At {v} the backup of {s} starts.",
            "{v} is when the backup of {s} starts.",
        ),
        questions=(
            "When is {s} backed up?",
            "What is the backup time of {s}?",
            "At what time does the backup of {s} start?",
            "When does the backup of {s} start?",
        ),
        changes=(
            "The nightly dump of {s} was rescheduled from {o} to {v}.",
            "It clashed with other jobs, so the snapshot of {s} runs at {v}.",
            "I edited the cron entry of {s}: {v} instead of {o}.",
            "btw {s} gets saved at {v} from tonight on.",
        ),
        ends=(
            "The machine {s} is no longer backed up.",
            "The {o} backup of {s} has been switched off.",
        ),
    ),
)
