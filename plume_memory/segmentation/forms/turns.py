"""What a message answers: the question that somebody else has just asked.

"Aisha." says nothing without "Who owns billing?" before it.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import NamedTuple

from plume_memory.segmentation.acts import SURE, acts_of
from plume_memory.segmentation.forms.piece import Piece
from plume_memory.segmentation.sentences import sentence_spans

ANSWERS = "In answer to "
"""How the heading begins."""
_MOST_QUOTED = 160
_WITHIN = timedelta(days=1)
"""What is said later answers something else."""


class Turn(NamedTuple):
    """A message as it takes its turn."""

    piece: Piece
    words: str
    """What it says; empty: it asks nothing."""
    may_answer: bool = True
    """Whether it can answer the turn before it: somebody said it, and to nothing else."""


def answering(turns: Sequence[Turn]) -> list[Piece]:
    """Return the messages, each under the question that the turn before it ends with, if another asked it."""
    told = [turn.piece for turn in turns[:1]]
    for before, turn in pairwise(turns):
        question = answered(before, turn)
        if question is not None:
            told.append(replace(turn.piece, headings=(*turn.piece.headings, quoted(before.piece.speaker, question))))
        else:
            told.append(turn.piece)
    return told


def answered(before: Turn, turn: Turn) -> str | None:
    """Return the question that a turn answers: the one before it ends with it, and is another's; None of none."""
    return question_at_end(before.words) if _can_answer(before, turn) else None


def quoted(speaker: str | None, said: str) -> str:
    """Return the heading of what answers something that was said; of a long text its end."""
    who = f"{' '.join(speaker.split())}: " if speaker else ""
    return f'{ANSWERS}{who}"{" ".join(said.split())[-_MOST_QUOTED:]}"'


def _can_answer(before: Turn, turn: Turn) -> bool:
    one, other = before.piece, turn.piece
    return turn.may_answer and one.speaker != other.speaker and _follows(one.time, other.time)


def _follows(asked: datetime | None, answered: datetime | None) -> bool:
    if asked is None or answered is None or (asked.tzinfo is None) is not (answered.tzinfo is None):
        return asked is answered  # nobody knows when, or in which order
    return timedelta(0) <= answered - asked <= _WITHIN


def question_at_end(said: str) -> str | None:
    """Return the question that a message ends with; None where it ends with none."""
    if not said.strip():
        return None
    start, end = sentence_spans(said)[-1]
    last = said[start:end].strip()
    return last if any(map(str.isalpha, last)) and acts_of(last).asks >= SURE else None
