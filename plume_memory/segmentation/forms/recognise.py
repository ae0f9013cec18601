"""Which form a text has, and its pieces. In doubt none: then it is told as prose and lists are."""

from collections.abc import Iterator
from itertools import zip_longest

from plume_memory.records import Form
from plume_memory.segmentation.forms.chat import chat_pieces, is_chat
from plume_memory.segmentation.forms.data import data_pieces, is_data
from plume_memory.segmentation.forms.email import email_pieces, is_email
from plume_memory.segmentation.forms.exports import export_pieces, is_export
from plume_memory.segmentation.forms.html import html_pieces, is_html
from plume_memory.segmentation.forms.markdown import is_markdown, markdown_pieces
from plume_memory.segmentation.forms.notes import note_pieces, prose_pieces
from plume_memory.segmentation.forms.piece import Piece, shifted
from plume_memory.segmentation.forms.table import delimiter_of, table_pieces
from plume_memory.segmentation.forms.transcript import is_transcript, transcript_pieces
from plume_memory.segmentation.statements import statements

_LEAST_INNER_LINES = 3
_INNER: tuple[Form, ...] = ("table", "data", "markdown")
"""Forms that stand in a message or a mail."""


def form_of(text: str) -> Form | None:
    """Recognise a form; None where none is clear. The surest marks are asked for first."""
    if is_export(text):
        return "chat"
    if is_html(text):
        return "html"
    if is_email(text):
        return "email"
    if is_transcript(text):
        return "transcript"
    if is_chat(text):
        return "chat"
    if is_data(text):
        return "data"
    if delimiter_of(text) is not None:
        return "table"
    return "markdown" if is_markdown(text) else None


def pieces_of(text: str, form: Form) -> list[Piece] | None:
    """Read a text by its form; None where it is not what it is named (JSON that does not parse)."""
    found = _read(text, form)
    if found is None:
        return None
    opened = [one for piece in found for one in _opened(text, piece)]
    # what stands under a heading says it, so that it need not be told alone
    return [
        piece
        for piece, behind in zip_longest(opened, opened[1:])
        if not (piece.is_heading and behind is not None and piece.said in (*behind.headings, behind.said))
    ]


def _read(text: str, form: Form) -> list[Piece] | None:
    match form:
        case "chat":
            return export_pieces(text) or chat_pieces(text)
        case "markdown":
            return markdown_pieces(text)
        case "email":
            return email_pieces(text)
        case "html":
            return html_pieces(text)
        case "table":
            return table_pieces(text)
        case "data":
            return data_pieces(text)
        case "transcript":
            return transcript_pieces(text)
        case "notes":
            return note_pieces(text)
        case "prose":
            return prose_pieces(text)


def _opened(text: str, piece: Piece) -> Iterator[Piece]:
    """Read what stands in a piece by its own form, one deep; else as it is."""
    start = piece.body or piece.start
    inner = text[start : piece.end]
    if piece.cut == "never" or piece.said is not None or inner.count("\n") < _LEAST_INNER_LINES - 1:
        form = None
    else:
        form = next((form for form in _INNER if _has(inner, form)), None)
    found = None if form is None else _read(inner, form)
    if found is not None:
        yield from shifted(found, start, piece)
    elif piece.cut == "statements":
        told = (
            Piece(
                one.start,
                one.end,
                tuple(one.heading.split("\n")) if one.heading else (),
                body=one.body if one.start < one.body < one.end else 0,
            )
            for one in statements(inner)
        )
        yield from shifted(told, start, piece)
    else:
        yield piece


def _has(text: str, form: Form) -> bool:
    if form == "table":
        return delimiter_of(text) is not None
    return is_data(text) if form == "data" else is_markdown(text)
