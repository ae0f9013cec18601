"""Sentences around the facts: openings, replies, headings, and lines that state nothing anyone asks for."""

import random

from plume_memory.training.facts import names


def filler(chance: random.Random) -> str:
    """Draw a sentence that answers no question about a fact."""
    if chance.random() < 0.3:
        return chance.choice(_PASSERS_BY).format(chance.choice(_DONE), name=names.last_name(chance))
    return chance.choice(_FILLERS)


_PASSERS_BY = (
    "Someone called {name} {0}.",
    "A neighbour, {name}, {0}.",
    "Old {name} {0}.",
    "A visitor named {name} {0}.",
)
_DONE = (
    "came by in the afternoon",
    "asked for directions",
    "left an umbrella behind",
    "complained about the noise",
    "waved from across the road",
    "told a long story about trains",
    "wanted to know when lunch would be served",
    "promised to write soon",
    "could not stay for long",
    "brought a basket of apples",
)
_FILLERS = (
    "It rained for most of the morning.",
    "The wind picked up towards the evening.",
    "Nobody had slept particularly well.",
    "The coffee machine was out of order again.",
    "The street was quiet apart from a few delivery vans.",
    "A dog barked somewhere behind the houses.",
    "The meeting started a little late, as usual.",
    "The windows had been left open overnight.",
    "There was a long queue at the bakery.",
    "The printer had run out of paper.",
    "Clouds gathered over the hills.",
    "The bus was late and rather full.",
    "Someone had moved the chairs around.",
    "The radio played softly in the background.",
    "Lunch was better than expected.",
    "The lights flickered once and then stayed on.",
    "Fresh snow lay on the roofs.",
    "The lift was being repaired.",
    "Most people were in a good mood.",
    "The discussion went on for longer than planned.",
    "A few birds sat on the fence.",
    "The garden needed water badly.",
    "The carpet had been cleaned the day before.",
    "There was not much else to report.",
    "It was warmer than it had been for weeks.",
    "The phone rang twice and stopped.",
    "Everyone agreed to speak again soon.",
    "The kitchen smelled of toast.",
    "Traffic was heavy near the station.",
    "The old clock in the hall had stopped.",
)
ALSO = (
    "Also, ",
    "In addition, ",
    "Meanwhile, ",
    "Besides, ",
    "As for the rest, ",
    "It is also known that ",
    "Note that ",
    "For the record, ",
    "At the same time, ",
    "It should be said that ",
)
ASIDES = (
    "By the way, ",
    "Oh, and ",
    "Just so you know, ",
    "Please remember that ",
    "I should mention that ",
    "Keep in mind that ",
    "One more thing: ",
    "Before I forget, ",
    "For later, ",
    "Someone told me that ",
    "Did I tell you that? Well, ",
    "So, ",
)
REPLIES = (
    "Noted.",
    "Got it.",
    "Thanks, I'll remember that.",
    "Okay.",
    "All right, saved.",
    "Understood.",
    "Good to know.",
)
HEADINGS = (
    "Notes",
    "Handover notes",
    "Summary",
    "Fact sheet",
    "Things to remember",
    "Overview",
    "Background",
    "Reference",
    "Minutes",
    "Key facts",
    "Briefing",
    "Profile",
    "Internal wiki",
)
CORRECTIONS = (
    "Correction: ",
    "Correction: ",
    "Update: ",
    "Actually, ",
    "In fact, ",
    "That was wrong: ",
    "To set the record straight, ",
    "It has changed: ",
    "Please note that now ",
    "I was mistaken: ",
    "New information: ",
)
CORRECTION_NOTES = (
    "Correction: {label} is {v}.",
    "Correction: {label} is now {v}.",
    "Update: {label} is {v}.",
    "Change {label} to {v}.",
    "It turns out that {label} is {v}.",
    "Please note that {label} is now {v}.",
    "For {label}, the right entry is {v}.",
    "Contrary to what was said before, {label} is {v}.",
)
