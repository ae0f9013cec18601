"""Whose the parts of a mail's body are: what is quoted, by marks or below headers, is its own writer's and day's."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from email.utils import getaddresses
from typing import NamedTuple

from plume_memory.segmentation.forms.piece import Piece, lines_of
from plume_memory.segmentation.stamps import STAMP, DayOrder, day_alone, mail_time

_FROM = r"(?:From|Von|De|Da|Van)"
_QUOTE = re.compile(r"[ \t]*((?:>[ ]?)+)")
_WROTE = re.compile(
    r"(?:On|Am|Le|El|Il|Op) .{6,200}(?:wrote|schrieb(?: .{1,80})?|a écrit|escribió|ha scritto|schreef) ?:\s*$"
)
_ORIGINAL = re.compile(
    r"\s*(?:[-_]{5,}\s*$|-{2,} ?(?:Original|Forwarded|Ursprüngliche|Weitergeleitete)[\w ]{0,30}-{2,}\s*$"
    r"|Begin forwarded message:)",
    re.IGNORECASE,
)
_QUOTED_HEADER = re.compile(
    rf"[*]?({_FROM}|Sent|Date|Gesendet|Datum|Envoyé|To|An|À|Cc|Subject|Betreff|Objet|Oggetto|Asunto)"
    r"[*]?:[*]?[ \t]+(.*)$"
)
_ADDRESS = re.compile(r"[<\[]?(?:mailto:)?[\w.+-]{1,64}@[\w.-]{1,120}[>\]]?")
_LONG_DAY = re.compile(
    r"\d{1,2}\.?,? (?:\w{3,9}\.?,? )?\d{4}|\w{3,9}\.? \d{1,2},? \d{4}|\d{1,4}[./-]\d{1,2}[./-]\d{2,4}"
)
_WROTE_BEGINS = re.compile(r"(?:On|Am|Le|El|Il|Op) ")
_SENT = frozenset(["Sent", "Date", "Gesendet", "Datum", "Envoyé"])
_MOST_QUOTED_HEADERS = 8


@dataclass(slots=True)
class _Part:
    """What one person wrote in a mail."""

    depth: int
    """0 the mail itself, 1 what it quotes, …"""
    lines: list[tuple[int, str]]
    speaker: str | None = None
    time: datetime | None = None
    is_head: bool = False
    """Whether it says whose the next part is."""


def body_pieces(text: str, start: int, own: Piece) -> Iterator[Piece]:
    """Yield the parts of a body, the oldest first: what is quoted deeper is older."""
    parts = [part for part in _parts(text, start, own) if any(_unmarked(line) for _, line in part.lines)]
    for part in sorted(parts, key=lambda part: -part.depth):
        for piece in _said(part, own):
            yield _by(piece, part.depth, part.speaker, part.time, own)


def quoted_pieces(pieces: Sequence[Piece], own: Piece) -> list[Piece]:
    """Say whose the pieces of a page are that is a mail's body, by how deep each is quoted; the oldest first."""
    writers: dict[int, tuple[str | None, datetime | None]] = {}
    found = []
    for piece in pieces:
        depth = piece.depth
        if _WROTE.match(piece.said or ""):
            depth += 1
            writers[depth] = _announced(piece.said or "")
        found.append(_by(piece, depth, *writers.get(depth, (None, None)), own))
    return sorted(found, key=lambda piece: -piece.depth)


def _by(piece: Piece, depth: int, speaker: str | None, time: datetime | None, own: Piece) -> Piece:
    """A piece with its writer and day; what nothing says of a quote is not as the mail says it of itself."""
    if not depth:
        return replace(piece, speaker=own.speaker, time=own.time)
    unknown = speaker is None or time is None
    return replace(piece, depth=depth, speaker=speaker, time=time or own.time, is_of_others=unknown)


def _said(part: _Part, own: Piece) -> Iterator[Piece]:
    """Yield what a part says."""
    if part.is_head or any(_QUOTE.match(line) for _, line in part.lines):
        yield from _quoted(part, own)
    else:
        (first, _), (last, line) = part.lines[0], part.lines[-1]
        yield Piece(first, last + len(line), own.headings, cut="statements")


def _quoted(part: _Part, own: Piece) -> Iterator[Piece]:
    """Yield the paragraphs of a quote, said without its marks."""
    paragraph: list[tuple[int, str]] = []
    for start, line in [*part.lines, (0, "")]:
        if _unmarked(line):
            paragraph.append((start, line))
        elif paragraph:
            said = ("\n" if part.is_head else " ").join(_unmarked(line) for _, line in paragraph)
            end = paragraph[-1][0] + len(paragraph[-1][1])
            yield Piece(paragraph[0][0], end, own.headings, said)
            paragraph = []


def _parts(text: str, start: int, own: Piece) -> Iterator[_Part]:
    """Yield what follows one another in a body, a part for each writer."""
    writers: dict[int, tuple[str | None, datetime | None]] = {0: (own.speaker, own.time)}
    inner = 0  # how deep is what no line marks: a mail below its own headers is quoted by those above
    part = _Part(0, [], own.speaker, own.time)
    lines = [(start + at, line) for at, line in lines_of(text[start:])]
    number = 0
    while number < len(lines):
        at, line = lines[number]
        depth = inner + _depth(line)
        head = _head_of(lines, number)
        if head is not None:
            inner += head.is_unmarked and depth == inner
            deeper = max(depth + 1, inner)
            writers[deeper] = (head.speaker, head.time)
            yield part
            yield _Part(deeper, lines[number : number + head.lines], head.speaker, head.time, is_head=True)
            part = _Part(deeper, [], head.speaker, head.time)
            number += head.lines
            continue
        if not line.strip():
            depth = part.depth  # a blank line belongs to what it stands in
        if depth != part.depth:
            yield part
            part = _Part(depth, [], *writers.get(depth, (None, None)))
        part.lines.append((at, line))
        number += 1
    yield part


class _Head(NamedTuple):
    """Lines that announce a quoted mail."""

    lines: int
    speaker: str | None
    time: datetime | None
    is_unmarked: bool
    """Whether the mail below them is not marked line by line."""


def _head_of(lines: Sequence[tuple[int, str]], number: int) -> _Head | None:
    words = _unmarked(lines[number][1])
    following = [_unmarked(line) for _, line in lines[number + 1 : number + 1 + _MOST_QUOTED_HEADERS]]
    if _WROTE.match(words):
        return _Head(1, *_announced(words), False)
    if following and _WROTE_BEGINS.match(words) and _WROTE.match(f"{words} {following[0]}"):
        return _Head(2, *_announced(f"{words} {following[0]}"), False)
    fields: dict[str, str] = {}
    taken = 1 if _ORIGINAL.match(words) else 0
    for said in [words, *following][taken:]:
        field = _QUOTED_HEADER.match(said)
        if field is None and (said or fields):
            break
        taken += 1
        if field:
            fields.setdefault(field.group(1), field.group(2))
    sender = next((value for key, value in fields.items() if re.fullmatch(_FROM, key)), None)
    if sender is None or len(fields) < 2:
        return None
    sent = next((value for key, value in fields.items() if key in _SENT), None)
    return _Head(taken, sender_of(sender), _long_time(sent) if sent else None, True)


def _depth(line: str) -> int:
    marks = _QUOTE.match(line)
    return marks.group(1).count(">") if marks else 0


def _unmarked(line: str) -> str:
    marks = _QUOTE.match(line)
    return (line[marks.end() :] if marks else line).strip()


def sender_of(written: str) -> str | None:
    """Return a person's name in a header, else the address."""
    names = [name or address for name, address in getaddresses([written.replace("[mailto:", "<").replace("]", ">")])]
    return ", ".join(name.strip("'\" ") for name in names if name) or written.strip() or None


def _announced(line: str) -> tuple[str | None, datetime | None]:
    """Who wrote what is quoted, and when: "On Tue, 3 Mar 2026 at 10:12, Anna Keller <anna@example.org> wrote:"."""
    who = _ADDRESS.sub("", re.sub(r"(?:wrote|schrieb|a écrit|escribió|ha scritto|schreef)", ",", line))
    stamp = re.split(rf"{STAMP}(?: ?\w{{2,4}})?,?|\d{{4}},?", who)[-1]
    return " ".join(stamp.replace(":", " ").split()).strip(" ,<>") or None, _long_time(line)


def _long_time(written: str) -> datetime | None:
    """The time of a line that says it in words or numbers."""
    found = mail_time(written)
    if found is not None:
        return found
    day, clock = _LONG_DAY.search(written), re.search(r"\d{1,2}:\d{2}(?: ?[AaPp][Mm])?", written)
    if day is None:
        return None
    written_day = _read_day(day.group())
    if written_day is None or clock is None:
        return written_day
    timed = DayOrder([]).read(f"{written_day:%d.%m.%Y} {clock.group()}")
    return timed or written_day


def _read_day(written: str) -> datetime | None:
    numbers = (
        DayOrder([written]).read(written) if written[-1].isdigit() and not any(map(str.isalpha, written)) else None
    )
    return numbers or day_alone(written.replace(",", "").replace(".", ""))
