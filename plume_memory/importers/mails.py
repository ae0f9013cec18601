"""Reads a mailbox in the mbox format: each mail as it was written, with the head that says from whom and when."""

import mailbox
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parseaddr, parsedate_to_datetime
from pathlib import Path

from plume_memory.errors import InvalidInput
from plume_memory.importers.messages import Message, Passed
from plume_memory.store.chain import sha256_of

_HEADERS = ("From", "To", "Cc", "Date", "Subject")


def mbox_messages(path: str | Path) -> Iterator[Message | Passed]:
    """Yield the mails of a mailbox, one at a time. Of several forms of a mail its plain text is taken.

    Raises:
        InvalidInput: it cannot be read.
    """
    source = Path(path).expanduser()
    if not source.is_file():
        raise InvalidInput(f"Cannot read {source}: there is no such file.")
    mails = mailbox.mbox(source, create=False)
    try:
        for key in mails.iterkeys():
            yield _mail(message_from_bytes(mails.get_bytes(key), policy=policy.default))
    finally:
        mails.close()


def _mail(mail: EmailMessage) -> Message | Passed:
    body = mail.get_body(preferencelist=("plain", "html"))
    try:
        text = "" if body is None else str(body.get_content())
    except (LookupError, UnicodeError):  # a character set that there is not
        return Passed("its text cannot be decoded")
    if not text.strip():
        return Passed("it has no text")
    heads = [(name, " ".join(str(mail[name]).split())) for name in _HEADERS if mail[name]]
    written = "\n".join([*(f"{name}: {value}" for name, value in heads), "", text])
    own = str(mail["Message-ID"] or sha256_of(written))
    name, address = parseaddr(str(mail["From"] or ""))
    return Message(own, written, name or address or None, _date(mail), form="email")


def _date(mail: EmailMessage) -> datetime | None:
    with suppress(TypeError, ValueError, IndexError):
        return parsedate_to_datetime(str(mail["Date"]))
    return None
