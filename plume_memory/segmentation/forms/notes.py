"""Notes and prose, where a caller names them: each line a note, or sentences however the lines are broken."""

from plume_memory.segmentation.forms.piece import Piece, lines_of
from plume_memory.segmentation.sentences import sentence_spans


def note_pieces(text: str) -> list[Piece]:
    """A line is a note; one that is further in than the first goes on with the one before."""
    pieces: list[Piece] = []
    for start, line in lines_of(text):
        if line.strip() and (not pieces or line[0] not in " \t"):
            pieces.append(Piece(start, start + len(line)))
        elif line.strip():
            pieces[-1] = Piece(pieces[-1].start, start + len(line))
    return pieces


def prose_pieces(text: str) -> list[Piece]:
    """Sentences; no line is a list or a title."""
    return [Piece(start, end) for start, end in sentence_spans(text) if text[start:end].strip()]
