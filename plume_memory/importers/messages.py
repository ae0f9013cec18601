"""Appends what people wrote elsewhere to a memory, a message an update; knows no format.

Every message has a key of its own, so an import that was broken off goes on when it is run again, and a newer export of
the same brings what is new. Loads no model: factors are derived by the next answer.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from plume_memory.defaults import DEFAULT_URL
from plume_memory.errors import IdempotencyConflict
from plume_memory.memory import ParametricMemory
from plume_memory.records import Form
from plume_memory.segmentation.forms.piece import Piece
from plume_memory.segmentation.forms.turns import Turn, answered
from plume_memory.store.chain import sha256_of
from plume_memory.store.checks import storable
from plume_memory.store.overruling import answered_end

_MOST_SPEAKER_CHARS = 100
_REPORTED_EVERY = 100
"""Messages between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message of an export."""

    id: str
    """Where it is from and which it is there: the same in every export."""
    text: str
    speaker: str | None = None
    """None: the owner's."""
    said_at: datetime | None = None
    form: Form | None = None
    in_answer_to: str | None = None
    """What was said before it that it answers."""


class Talk:
    """What is said by turns in one place, as it comes."""

    def __init__(self) -> None:
        self._before: Turn | None = None

    def answered(self, speaker: str | None, text: str, said_at: datetime | None) -> str | None:
        """Take the next turn, and return the question that it answers."""
        before, turn = self._before, Turn(Piece(0, len(text), speaker=speaker, time=said_at), text)
        self._before = turn
        return None if before is None else answered(before, turn)


@dataclass(frozen=True, slots=True)
class Passed:
    """A message of an export that is not imported."""

    reason: str


@dataclass(frozen=True, slots=True)
class Omission:
    """How many messages were left out for one reason."""

    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class MessageImport:
    """What an import did."""

    memory: str
    written: int
    """Updates appended."""
    unchanged: int
    """Messages that an earlier import had brought already."""
    left_out: tuple[Omission, ...]
    """The most frequent reason first."""


def import_messages(
    found: Iterable[Message | Passed],
    *,
    source: str,
    memory: str,
    url: str = DEFAULT_URL,
    progress: Callable[[int], None] | None = None,
) -> MessageImport:
    """Append messages to a memory as they come (see `in_order`); run twice, it writes nothing twice.

    A message whose text has changed since it was imported, or that was erased since, is left out: the log has its key.

    Args:
        found: of one of the readers beside this module.
        source: what kind of export it is: part of the keys, and kept in the versions' metadata.
        memory: name of the memory, made when it does not exist.
        url: SQLAlchemy URL of its database.
        progress: called with the number of messages seen, every hundred and at the end.

    Raises:
        InvalidInput: as the reader; or the name is none. What was appended stays.
        StoreUnavailable: the database cannot be written; what was appended stays.
    """
    written = unchanged = seen = 0
    passed: Counter[str] = Counter()
    with ParametricMemory.open(memory, url=url) as opened:
        before = opened.version
        for seen, one in enumerate(found, start=1):
            if progress is not None and seen % _REPORTED_EVERY == 0:
                progress(seen)
            if isinstance(one, Passed):
                passed[one.reason] += 1
                continue
            text = storable(one.text)
            if not text.strip():
                passed["it has no text"] += 1
            elif len(text) > opened.max_update_chars:
                passed["it is longer than an update may be"] += 1
            else:
                try:
                    number = _append(opened, one, text, source)
                except IdempotencyConflict:
                    passed["its text was changed or erased since it was imported"] += 1
                    continue
                written, unchanged = (written + 1, unchanged) if number > before else (written, unchanged + 1)
                before = max(before, number)
    if progress is not None:
        progress(seen)
    left_out = tuple(Omission(reason, count) for reason, count in passed.most_common())
    return MessageImport(memory, written, unchanged, left_out)


def in_order(found: Iterable[Message | Passed]) -> Iterator[Message | Passed]:
    """Yield messages in the order in which they were said, for what is appended later supersedes what was before it.

    Those without a time come last, as they stood. All are held; what is passed over is yielded as it comes.
    """
    messages: list[Message] = []
    for one in found:
        if isinstance(one, Passed):
            yield one
        else:
            messages.append(one)
    yield from sorted(messages, key=lambda one: said_order(one.said_at))


def said_order(said_at: datetime | None) -> tuple[bool, datetime]:
    """What times are sorted by: one without a zone as if it were UTC, none behind all."""
    if said_at is None:
        return True, datetime.min.replace(tzinfo=UTC)
    return False, said_at if said_at.utcoffset() is not None else said_at.replace(tzinfo=UTC)


def _append(memory: ParametricMemory, one: Message, text: str, source: str) -> int:
    """Append a message; returns its version, an old one where it is there already."""
    speaker = " ".join(storable(one.speaker or "").split())[:_MOST_SPEAKER_CHARS]
    version = memory.update(
        text,
        form=one.form,
        speaker=speaker or None,
        observed_at=one.said_at,
        in_answer_to=answered_end(one.in_answer_to or ""),
        idempotency_key=f"{source}:{sha256_of(one.id)[:40]}",
        metadata={"imported": {"from": source, "id": storable(one.id)}},
        derive=False,
    )
    return version.number
