"""Reads a mailbox in the mbox format: each mail as it was written, with the head that says from whom and when."""

import mailbox
from collections.abc import Iterator
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.message import Message as Mail
from email.parser import BytesHeaderParser
from email.utils import parseaddr
from pathlib import Path

from plume_memory.errors import InvalidInput
from plume_memory.importers.messages import Message, Passed, said_order
from plume_memory.segmentation.forms.email import UNPARSED
from plume_memory.segmentation.forms.html import html_text
from plume_memory.segmentation.stamps import mail_time
from plume_memory.store.chain import sha256_of

_HEADERS = ("From", "To", "Cc", "Date", "Subject")


def mbox_messages(path: str | Path) -> Iterator[Message | Passed]:
    """Yield the mails of a mailbox in the order of their dates. Of several forms of a mail its plain text is taken.

    It is read twice, a mail at a time: first the dates, then the mails.

    Raises:
        InvalidInput: it cannot be read.
    """
    source = Path(path).expanduser()
    if not source.is_file():
        raise InvalidInput(f"Cannot read {source}: there is no such file.")
    mails = mailbox.mbox(source, create=False)
    try:
        heads = BytesHeaderParser(policy=policy.compat32)
        dates = {key: _date(heads.parsebytes(mails.get_bytes(key))) for key in mails.iterkeys()}
        for key in sorted(dates, key=lambda key: said_order(dates[key])):
            try:
                yield _mail(message_from_bytes(mails.get_bytes(key), policy=policy.default), dates[key])
            except UNPARSED:
                yield Passed("its head or text cannot be parsed")
    finally:
        mails.close()


def _mail(mail: EmailMessage, said_at: datetime | None) -> Message | Passed:
    body = mail.get_body(preferencelist=("plain", "html"))
    try:
        text = "" if body is None else str(body.get_content())
    except (LookupError, UnicodeError):  # a character set that there is not
        return Passed("its text cannot be decoded")
    if body is not None and body.get_content_type() == "text/html":
        text = html_text(text)
    if not text.strip():
        return Passed("it has no text")
    heads = [(name, " ".join(str(mail[name]).split())) for name in _HEADERS if mail[name]]
    written = "\n".join([*(f"{name}: {value}" for name, value in heads), "", text])
    own = str(mail["Message-ID"] or sha256_of(written))
    name, address = parseaddr(str(mail["From"] or ""))
    return Message(own, written, name or address or None, said_at, form="email")


def _date(mail: Mail) -> datetime | None:
    return mail_time(str(mail["Date"] or ""))
