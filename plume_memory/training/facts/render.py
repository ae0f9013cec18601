"""Writes facts down as people do: sentences, notes, prose, chat, a small document; and writes corrections.

Knows facts and phrasings, not questions. Every fact's value stands in the text exactly as it is.
"""

import random
from collections.abc import Callable, Sequence

from plume_memory.training.facts.draw import Fact
from plume_memory.training.facts.filler import (
    ALSO,
    ASIDES,
    CORRECTION_NOTES,
    CORRECTIONS,
    HEADINGS,
    REPLIES,
    filler,
)
from plume_memory.training.facts.relation import SELF


class Teller:
    """Writes facts in one hand; a fact that is told twice is told in other words the second time."""

    def __init__(self, chance: random.Random, *, distractors: float) -> None:
        self._chance = chance
        self._distractors = distractors
        self._told: dict[tuple[str, str], int] = {}

    def tell(self, facts: Sequence[Fact]) -> str:
        """Write the facts down in a style drawn at random, in the order given or by subject."""
        return self._chance.choice(_STYLES)(self, facts)

    def correct(self, facts: Sequence[Fact]) -> str:
        """Write one short correction for each fact."""
        return self._chance.choice((" ", "\n")).join(self._correction(fact) for fact in facts)

    def _correction(self, fact: Fact) -> str:
        if self._chance.random() < 0.35:
            note = self._chance.choice(CORRECTION_NOTES)
            return note.format(label=owned(self._chance, fact), v=fact.value)
        opening = self._chance.choice(CORRECTIONS)
        return opening + self._sentence(fact, inside=True)

    def _sentence(self, fact: Fact, *, inside: bool = False) -> str:
        """State the fact in words not used for it before; `inside` a sentence that has begun already."""
        key = (fact.relation.label, fact.subject)
        before = self._told.get(key)
        count = len(fact.relation.statements)
        drawn = self._chance.randrange(count if before is None else count - 1)
        index = drawn if before is None or drawn < before else drawn + 1
        self._told[key] = index
        phrasing = fact.relation.statements[index]
        if inside and not phrasing.startswith(_KEPT_OPENINGS):
            phrasing = phrasing.replace("{A}", "{a}", 1) if phrasing[0] == "{" else phrasing[0].lower() + phrasing[1:]
        return fact.relation.fill(phrasing, fact.subject, fact.value)

    def _lines(self, facts: Sequence[Fact]) -> str:
        """Plain sentences, one a line."""
        return "\n".join(self._with_filler([self._sentence(fact) for fact in facts]))

    def _prose(self, facts: Sequence[Fact]) -> str:
        """Sentences in a flow, in paragraphs of a few."""
        told = [
            self._chance.choice(ALSO) + self._sentence(fact, inside=True)
            if index and self._chance.random() < 0.35
            else self._sentence(fact)
            for index, fact in enumerate(facts)
        ]
        sentences = self._with_filler(told)
        per_paragraph = self._chance.choice((3, 5, 8, len(sentences)))
        starts = range(0, len(sentences), per_paragraph)
        return "\n\n".join(" ".join(sentences[start : start + per_paragraph]) for start in starts)

    def _chat(self, facts: Sequence[Fact]) -> str:
        """What someone tells an assistant, at times with its replies."""
        told = [self._chance.choice(ASIDES) + self._sentence(fact, inside=True) for fact in facts]
        if self._chance.random() < 0.5:
            return "\n".join(self._with_filler(told))
        return "\n".join(f"User: {line}\nAssistant: {self._chance.choice(REPLIES)}" for line in told)

    def _notes(self, facts: Sequence[Fact]) -> str:
        """Labels and values, one a line."""
        bullet = self._chance.choice(("- ", "- ", "* ", "• ", ""))
        form = self._chance.choice(_NOTE_FORMS)
        return "\n".join(bullet + form(self._chance, fact) for fact in facts)

    def _document(self, facts: Sequence[Fact]) -> str:
        """A heading, and a section for each subject."""
        mark, blank = self._chance.choice((("# ", "## "), ("", ""), ("## ", "### ")))
        plain = self._chance.random() < 0.5
        parts = [mark + self._chance.choice(HEADINGS)]
        for subject in dict.fromkeys(fact.subject for fact in facts):
            own = [fact for fact in facts if fact.subject == subject]
            if plain:
                body = " ".join(self._with_filler([self._sentence(fact) for fact in own]))
            else:
                body = "\n".join(f"- {capitalised(fact.relation.label)}: {fact.value}" for fact in own)
            parts.append(f"{blank}{subject or 'About me'}\n{body}")
        return "\n\n".join(parts)

    def _with_filler(self, told: list[str]) -> list[str]:
        lines: list[str] = []
        for line in told:
            if self._chance.random() < self._distractors:
                lines.append(filler(self._chance))
            lines.append(line)
        return lines


def owned(chance: random.Random, fact: Fact) -> str:
    """Name what the fact is about: "Mira Holm's badge code", "the badge code of Mira Holm", "my badge code"."""
    label = fact.relation.label
    if fact.relation.subject == SELF:
        return f"my {label}"
    if chance.random() < 0.5 and not set(label.split()) & _PREPOSITIONS:
        return f"the {label} of {fact.subject}"
    return f"{fact.subject}'s {label}"


def capitalised(phrase: str) -> str:
    """Write the first letter large and leave the rest as it is."""
    return phrase[0].upper() + phrase[1:]


def _owned_note(chance: random.Random, fact: Fact) -> str:
    label = owned(chance, fact).removeprefix("the ")
    return f"{label if fact.subject and label.startswith(fact.subject) else capitalised(label)}: {fact.value}"


def _subject_note(_: random.Random, fact: Fact) -> str:
    return f"{fact.subject or 'Me'} – {fact.relation.label}: {fact.value}"


def _label_note(_: random.Random, fact: Fact) -> str:
    return f"{capitalised(fact.relation.label)} ({fact.subject or 'mine'}): {fact.value}"


def _table_note(_: random.Random, fact: Fact) -> str:
    return f"{fact.subject or 'me'} | {fact.relation.label} | {fact.value}"


_NOTE_FORMS = (_owned_note, _owned_note, _subject_note, _label_note, _table_note)
_PREPOSITIONS = frozenset(["of", "to", "for", "from", "in", "on", "at", "with", "by"])
_KEPT_OPENINGS = ("{s", "{v", "I ", "I'")
_STYLES: tuple[Callable[[Teller, Sequence[Fact]], str], ...] = (
    Teller._lines,
    Teller._lines,
    Teller._prose,
    Teller._prose,
    Teller._notes,
    Teller._chat,
    Teller._document,
)
