"""Mails: the newest part, and the mails it quotes, which are older however they stand.

The headers are read by the standard library. Of a mail in MIME the parts are read one by one; one that is encoded
(base64, quoted-printable) is said as it reads, and its unit points at the whole part.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from email import message_from_string, policy
from email.message import EmailMessage
from email.utils import getaddresses
from typing import NamedTuple

from plume_memory.segmentation.forms.html import html_pieces
from plume_memory.segmentation.forms.piece import Piece, lines_of
from plume_memory.segmentation.stamps import STAMP, DayOrder, day_alone, mail_time
from plume_memory.segmentation.statements import statements_of

_FROM = r"(?:From|Von|De|Da|Van)"
_HEADER = re.compile(
    r"(?:From|To|Cc|Bcc|Subject|Date|Sent|Reply-To|Message-ID|Received|Return-Path|MIME-Version|Content-Type|"
    r"Delivered-To|In-Reply-To|References|X-[\w-]+|DKIM-Signature):(?: |\t|$)",
    re.IGNORECASE,
)
_ANY_HEADER = re.compile(r"[A-Za-z][\w-]{0,40}:")
_BASE64 = re.compile(r"^Content-Transfer-Encoding:[ \t]*base64", re.MULTILINE | re.IGNORECASE)
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
_MOST_HEADER_LINES = 60


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


def is_email(text: str) -> bool:
    """Whether a text begins with the headers of a mail: two of them at least, and who it is from."""
    head = text.lstrip("\ufeff\r\n").split("\n\n", maxsplit=1)[0].split("\n")[:_MOST_HEADER_LINES]
    found = [match.group().split(":")[0].lower() for line in head if (match := _HEADER.match(line))]
    first = bool(head) and (_HEADER.match(head[0]) is not None or head[0].startswith("From "))
    return first and len(found) > 1 and "from" in found and not found.count("from") > 1


def is_encoded(text: str) -> bool:
    """Whether what people read of a mail is in base64."""
    return _BASE64.search(text) is not None


def email_pieces(text: str) -> list[Piece] | None:
    """Read a mail, or what a mail program shows of one; the oldest part first. None if it has no headers."""
    begun = len(text) - len(text.lstrip("\ufeff\r\n"))
    if not is_email(text):
        return None
    first_line = text.find("\n", begun) + 1 if text.startswith("From ", begun) else begun
    head_end = _head_end(text, first_line)
    whole = text[first_line:head_end].rstrip() + "\n\n" + text[head_end:]
    mail = message_from_string(whole, EmailMessage, policy=policy.default)
    speaker, time = _who(str(mail["From"] or "")), mail_time(str(mail["Date"] or mail["Sent"] or ""))
    subject = " ".join(str(mail["Subject"] or "").split())
    headings = (f"Subject: {subject}",) if subject else ()
    to = ", ".join(_who(str(mail[key])) or "" for key in ("To", "Cc") if mail[key])
    head = f"Mail from {speaker} to {to}{f' about {subject}' if subject else ''}." if to else subject
    first = Piece(begun, head_end, said=head or None, speaker=speaker, time=time)
    own = Piece(head_end, len(text), headings, speaker=speaker, time=time)
    if mail.is_multipart() or mail["Content-Transfer-Encoding"] or mail.get_content_type() != "text/plain":
        return [first, *_mime(text, head_end, mail, own)]
    return [*_body(text, head_end, own), first]


def _head_end(text: str, start: int) -> int:
    """Where the body begins: behind the blank line, or where people left none behind the last header they know."""
    end, has_blank = start, "\n\n" in text
    for at, line in lines_of(text[start:]):
        if not line.strip():
            return min(start + at + len(line) + 1, len(text))
        if not _HEADER.match(line) and not (has_blank and _ANY_HEADER.match(line)) and line[0] not in " \t":
            return start + at
        end = min(start + at + len(line) + 1, len(text))
    return end


def _mime(text: str, start: int, mail: EmailMessage, own: Piece) -> Iterator[Piece]:
    """Yield the parts that people read, each found in the text again where it stands there as it reads."""
    for part in _read_parts(mail):
        content = part.get_content()
        at = text.find(content.strip(), start) if content.strip() else -1
        html = part.get_content_type() == "text/html"
        found = html_pieces(content) or [] if html else list(_body(content, 0, own))
        if at >= 0:
            lead = at - (len(content) - len(content.lstrip()))
            yield from (_under(own, piece, piece.start + lead, piece.end + lead) for piece in found)
        else:  # encoded
            for piece in found:
                under = _under(own, piece, start, len(text))
                words = statements_of(content[piece.start : piece.end]) if piece.said is None else [piece.said]
                yield from (replace(under, said=said, cut="never") for said in words)


def _under(own: Piece, piece: Piece, start: int, end: int) -> Piece:
    by = start - piece.start
    headings = piece.headings if piece.headings[:1] == own.headings else (*own.headings, *piece.headings)
    return replace(piece, start=start, end=end, headings=headings, body=piece.body + by if piece.body else 0,
                   speaker=piece.speaker or own.speaker, time=piece.time or own.time)  # fmt: skip


def _read_parts(mail: EmailMessage) -> list[EmailMessage]:
    """Its texts; of two forms of one text the plain one."""
    body = mail.get_body(preferencelist=("plain", "html"))
    others = (
        [part for part in mail.iter_attachments() if part.get_content_maintype() == "text"]
        if mail.is_multipart()
        else []
    )
    return [part for part in ([body] if body is not None else []) + others if isinstance(part, EmailMessage)]


def _body(text: str, start: int, own: Piece) -> Iterator[Piece]:
    """Yield the parts of a body, the oldest first: what is quoted deeper is older."""
    parts = [part for part in _parts(text, start, own) if any(_unmarked(line) for _, line in part.lines)]
    for part in sorted(parts, key=lambda part: -part.depth):
        if part.is_head or any(_QUOTE.match(line) for _, line in part.lines):
            yield from _quoted(part, own)
        else:
            (first, _), (last, line) = part.lines[0], part.lines[-1]
            yield Piece(first, last + len(line), own.headings, None, part.speaker, part.time, cut="statements")


def _quoted(part: _Part, own: Piece) -> Iterator[Piece]:
    """Yield the paragraphs of a quote, said without its marks."""
    paragraph: list[tuple[int, str]] = []
    for start, line in [*part.lines, (0, "")]:
        if _unmarked(line):
            paragraph.append((start, line))
        elif paragraph:
            said = ("\n" if part.is_head else " ").join(_unmarked(line) for _, line in paragraph)
            end = paragraph[-1][0] + len(paragraph[-1][1])
            yield Piece(paragraph[0][0], end, own.headings, said, part.speaker, part.time)
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
    return _Head(taken, _who(sender), _long_time(sent) if sent else None, True)


def _depth(line: str) -> int:
    marks = _QUOTE.match(line)
    return marks.group(1).count(">") if marks else 0


def _unmarked(line: str) -> str:
    marks = _QUOTE.match(line)
    return (line[marks.end() :] if marks else line).strip()


def _who(written: str) -> str | None:
    """A person's name in a header, else the address."""
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
