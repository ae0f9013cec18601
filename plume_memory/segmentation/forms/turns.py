"""What a message answers: the question that somebody else has just asked.

"Aisha." says nothing without "Who owns billing?" before it.
"""

from collections.abc import Sequence
from dataclasses import replace

from plume_memory.segmentation.acts import SURE, acts_of
from plume_memory.segmentation.forms.piece import Piece
from plume_memory.segmentation.sentences import sentence_spans

_MOST_QUOTED = 160


def answering(pieces: Sequence[Piece], words: Sequence[str]) -> list[Piece]:
    """Return messages, each under the question that the one before it ends with, if another asked it.

    Args:
        pieces: messages that follow one another.
        words: what each of them says.
    """
    told = list(pieces[:1])
    for at in range(1, len(pieces)):
        piece, before = pieces[at], pieces[at - 1]
        question = None if piece.speaker == before.speaker or piece.headings else _asked(words[at - 1])
        told.append(piece if question is None else replace(piece, headings=(quoted(before.speaker, question),)))
    return told


def quoted(speaker: str | None, said: str) -> str:
    """Return the heading of what is an answer to something said."""
    return f'In answer to {speaker or "me"}: "{" ".join(said.split())[:_MOST_QUOTED]}"'


def _asked(said: str) -> str | None:
    """The question that a message ends with."""
    start, end = sentence_spans(said)[-1] if said.strip() else (0, 0)
    last = said[start:end].strip()
    return last if last and acts_of(last).asks >= SURE else None
