"""Mails: the newest part, and the mails it quotes, which are older however they stand.

The headers are read by the standard library. Of a mail in MIME the parts are read one by one; one that is encoded
(base64, quoted-printable) is said as it reads, and its unit points at the whole part.
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from email import message_from_string, policy
from email.errors import MessageError
from email.message import EmailMessage

from plume_memory.segmentation.forms.html import html_pieces
from plume_memory.segmentation.forms.piece import Piece, lines_of
from plume_memory.segmentation.forms.quoting import body_pieces, quoted_pieces, sender_of
from plume_memory.segmentation.stamps import mail_time
from plume_memory.segmentation.statements import statements_of

_HEADER = re.compile(
    r"(?:From|To|Cc|Bcc|Subject|Date|Sent|Reply-To|Message-ID|Received|Return-Path|MIME-Version|Content-Type|"
    r"Delivered-To|In-Reply-To|References|X-[\w-]+|DKIM-Signature):(?: |\t|$)",
    re.IGNORECASE,
)
_ANY_HEADER = re.compile(r"[A-Za-z][\w-]{0,40}:")
_BASE64 = re.compile(r"^Content-Transfer-Encoding:[ \t]*base64", re.MULTILINE | re.IGNORECASE)
_MOST_HEADER_LINES = 60
UNPARSED = (MessageError, LookupError, ValueError, AttributeError, TypeError, OverflowError, RecursionError)
"""What the standard library's parser of mails raises on a head or body that it cannot read, beside its own errors:
IndexError for `From: "`, LookupError for a character set that there is not, OverflowError for a zone of many digits,
RecursionError for comments in comments. A text is in the log before it is read, so an
error that went on would end every later read of the memory."""


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
    """Read a mail, or what a mail program shows of one; the oldest part first. None if it is none or cannot be read."""
    try:
        return _pieces(text)
    except UNPARSED:
        return None


def _pieces(text: str) -> list[Piece] | None:
    begun = len(text) - len(text.lstrip("\ufeff\r\n"))
    if not is_email(text):
        return None
    first_line = text.find("\n", begun) + 1 if text.startswith("From ", begun) else begun
    head_end = _head_end(text, first_line)
    whole = text[first_line:head_end].rstrip() + "\n\n" + text[head_end:]
    mail = message_from_string(whole, EmailMessage, policy=policy.default)
    speaker, time = sender_of(str(mail["From"] or "")), mail_time(str(mail["Date"] or mail["Sent"] or ""))
    subject = " ".join(str(mail["Subject"] or "").split())
    headings = (f"Subject: {subject}",) if subject else ()
    to = ", ".join(sender_of(str(mail[key])) or "" for key in ("To", "Cc") if mail[key])
    head = f"Mail from {speaker} to {to}{f' about {subject}' if subject else ''}." if to else subject
    first = Piece(begun, head_end, said=head or None, speaker=speaker, time=time)
    own = Piece(head_end, len(text), headings, speaker=speaker, time=time)
    if mail.is_multipart() or mail["Content-Transfer-Encoding"] or mail.get_content_type() != "text/plain":
        return [first, *_mime(text, head_end, mail, own)]
    return [*body_pieces(text, head_end, own), first]


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
        found = quoted_pieces(html_pieces(content) or [], own) if html else list(body_pieces(content, 0, own))
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
    body = piece.body + by if piece.body else 0
    return replace(piece, start=start, end=end, headings=headings, body=body)


def _read_parts(mail: EmailMessage) -> list[EmailMessage]:
    """Its texts; of two forms of one text the plain one."""
    body = mail.get_body(preferencelist=("plain", "html"))
    others = (
        [part for part in mail.iter_attachments() if part.get_content_maintype() == "text"]
        if mail.is_multipart()
        else []
    )
    return [part for part in ([body] if body is not None else []) + others if isinstance(part, EmailMessage)]
