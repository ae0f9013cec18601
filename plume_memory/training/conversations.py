"""Reads conversations and notes that were written one by one, with questions and the texts that answer them.

{"turns": [{"speaker": "…" | null, "text": "…"}, …], "qas": [{"question": "…", "turns": [0, …]}, …]}

One JSON object a line; `turns` of a question are the places of the texts that answer it.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plume_memory.records import Unit
from plume_memory.retrieval.asking import only_asks
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.retrieve import SHORTLIST
from plume_memory.segmentation.dates import with_dates
from plume_memory.segmentation.units import who_line
from plume_memory.training.choices import Choice
from plume_memory.training.lines import lines_of

_STRICT = ConfigDict(extra="forbid", frozen=True)
_DATED = 0.7
"""Share of the conversations whose turns say their day."""
_FIRST_DAY, _DAYS = datetime(2023, 1, 1, tzinfo=UTC), 1200


class _Turn(BaseModel):
    model_config = _STRICT

    speaker: str | None
    text: str = Field(min_length=1)


class _Asked(BaseModel):
    model_config = _STRICT

    question: str = Field(min_length=1)
    turns: tuple[int, ...] = Field(min_length=1)


class _Conversation(BaseModel):
    model_config = _STRICT

    turns: tuple[_Turn, ...] = Field(min_length=2)
    qas: tuple[_Asked, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _places_are_its_own(self) -> Self:
        for asked in self.qas:
            if not all(0 <= at < len(self.turns) for at in asked.turns):
                raise ValueError(f"{asked.question!r} is answered by {list(asked.turns)}, and there are not so many")
        return self


@dataclass(frozen=True, slots=True)
class ToldConversation:
    """A conversation as the units of a memory have it."""

    texts: tuple[str, ...]
    asked: tuple[tuple[str, frozenset[int]], ...]
    """Questions, and the places of the texts that answer each."""


class WrittenConversations:
    """Conversations of some files, each drawn as often as any other.

    Args:
        paths: the files.

    Raises:
        TrainingError: a file is missing, empty, or a line has another shape; names the line.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._read = [one for path in paths for one in lines_of(path, _Conversation)]

    def told(self, chance: random.Random) -> Iterator[ToldConversation]:
        """Yield all of them, in order, each of a day that is drawn."""
        return (_told(one, chance) for one in self._read)

    def choice(self, chance: random.Random, *, asks: int, sentences: int) -> Choice | None:
        """Draw questions of one, with the texts that answer them and some of those that words would propose.

        Not those most like the questions: then of two texts the one with fewer of their words would mostly be the
        right one. None where no question tells the texts apart. What only asks is none of them, unless it answers: no
        reader is shown it.

        Args:
            chance: the only source of randomness.
            asks: most questions.
            sentences: most texts; of more that answer some are drawn.
        """
        told = _told(chance.choice(self._read), chance)
        asked = chance.sample(told.asked, min(asks, len(told.asked)))
        right = sorted({at for _, own in asked for at in own})
        right = chance.sample(right, min(len(right), sentences - 1))
        shown = _likest(told.texts, [question for question, _ in asked])[:SHORTLIST]
        others = [at for at in shown if at not in right]
        kept = sorted([*right, *chance.sample(others, min(len(others), sentences - len(right)))])
        rows = [(question, tuple(at in own for at in kept)) for question, own in asked]
        telling = [(question, own) for question, own in rows if True in own and False in own]
        if not telling:
            return None
        return Choice(
            tuple(told.texts[at] for at in kept),
            tuple(question for question, _ in telling),
            tuple(own for _, own in telling),
            "conversations",
        )


def _likest(texts: Sequence[str], questions: Sequence[str]) -> list[int]:
    """The places of texts that say something, those first whose words are most like one of the questions."""
    units = [Unit(at, at + 1, 0, len(text), text, _words_from(text)) for at, text in enumerate(texts)]
    index, scores = UnitIndex(units), [0.0] * len(units)
    for question in questions:
        for one in index.best(question, k=len(units), tied=len(units)):
            scores[one.unit.position] = max(scores[one.unit.position], one.score)
    saying = [unit.position for unit in units if not only_asks(unit)]
    return sorted(saying, key=lambda at: -scores[at])


def _words_from(text: str) -> int:
    """Where the words of a text of `_unit` begin, behind the line that says whose they are and of when."""
    return text.find(":\n") + 2 if ":\n" in text else 0


def _told(one: _Conversation, chance: random.Random) -> ToldConversation:
    day = _FIRST_DAY + timedelta(days=chance.randrange(_DAYS))
    said_at = day if chance.random() < _DATED else None
    texts = (_unit(turn, said_at) for turn in one.turns)
    return ToldConversation(tuple(texts), tuple((asked.question, frozenset(asked.turns)) for asked in one.qas))


def _unit(turn: _Turn, said_at: datetime | None) -> str:
    """What segmentation/units.py makes of a message, without the budget."""
    dated = turn.text if said_at is None else with_dates(turn.text, said_at)
    return "\n".join([*who_line(turn.speaker, said_at), dated])
