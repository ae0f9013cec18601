"""Chats written as lines: one unit a message, with who wrote it and when.

WhatsApp ("[04.03.26, 09:15:22] Anna: text" and "04/03/2026, 09:15 - Anna: text"), IRC ("[09:15] <anna> text"), what is
copied from Slack, Discord, Teams and Telegram (a line with name and time above the text), and "Anna: text". What
follows a message's first line is part of it.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

from plume_memory.segmentation.forms.piece import Piece, lines_of
from plume_memory.segmentation.forms.turns import Turn, answering
from plume_memory.segmentation.said import is_small_talk
from plume_memory.segmentation.stamps import STAMP, DayOrder, day_alone, has_day

_NO_CLAUSE = r"(?!(?i:i|we|you|he|she|it|they)['’ ])(?![^:\n]{0,48}\b(?:is|are|am|was|were|has|have|had)\b)"
"""A name that no time stands beside is none: "I have a cat: Mia." is what somebody said."""
_NAME = r"[^\s:<>|\[\](){}#=*\"-](?:[^:\n<>|\[\]{}]{0,48}?[^\s:<>|\[\]{}])?"
_MARKS = "[\u200e\u200f\u202a-\u202e]*"
_STAMPED = re.compile(
    rf"{_MARKS}[\[(]?(?P<stamp>{STAMP})[\])]?[ \u202f]?(?:[-–—] )?[ ]*"
    rf"(?:<[@+%~& ]?(?P<nick>[^<>\s]{{1,40}})>|\* (?P<actor>[^\s:]{{1,40}})(?= )"
    rf"|{_MARKS}(?P<name>{_NAME}):(?= |$))[ ]?{_MARKS}"
)
_UNSAID = re.compile(rf"{_MARKS}[\[(]?(?P<stamp>{STAMP})[\])]?[ \u202f]?(?:[-–—] |\* |\*\*\* |-!- )?[ ]*{_MARKS}")
_ABOVE = re.compile(
    rf"(?P<name>{_NAME}(?<!,))(?: APP|,)?(?:[ ]+[—–-][ ]+|[ ]{{1,4}})"
    rf"\[?(?P<stamp>(?:Today|Yesterday) at {STAMP}|{STAMP})\]?:?[ ]*$"
)
_BEHIND = re.compile(rf"\[(?P<stamp>{STAMP})\][ ]+(?P<name>{_NAME})[ ]*$")
_NAMED = re.compile(rf"(?:\*\*)?(?P<name>{_NO_CLAUSE}{_NAME}):(?:\*\*)?(?: |$)")
_LOG_DAY = re.compile(r"--- (?:Log opened|Day changed) (?:\w{3} )?(?P<m>\w{3}) (?P<d>\d{1,2})(?: [\d:]+)? (?P<y>\d{4})")
ROLES = frozenset(["user", "assistant", "human", "ai", "system", "me", "you", "q", "a", "bot", "agent", "customer"])
OWNER = frozenset(["user", "human", "me"])
"""Who speaks to an assistant: the memory's owner, whose "I" needs no name."""
_RECORD_LABELS = frozenset(
    [
        "name",
        "title",
        "subject",
        "project",
        "company",
        "id",
        "city",
        "email",
        "phone",
        "address",
        "note",
        "date",
        "from",
        "to",
    ]
)
_MOST_NAME_WORDS = 4
_NAME_LINES = 3


class _Message(NamedTuple):
    start: int
    body: int
    """Where its words begin."""
    speaker: str | None
    time: datetime | None
    days_earlier: int = 0
    is_said: bool = True
    """Whether somebody said it; else the chat itself notes it: who joined."""


def chat_pieces(text: str) -> list[Piece] | None:
    """Read a chat; None if no line of it begins a message."""
    lines = list(lines_of(text))
    pattern = _pattern(lines, needed=1)
    if pattern is None:
        return None
    messages = _messages(lines, pattern)
    first = messages[0].start
    turns: list[Turn] = []
    for message, end in zip(messages, [*(one.start for one in messages[1:]), len(text)], strict=True):
        said = text[message.body : end].strip()
        if not _day(said):  # the day is said of every message
            turns.append(Turn(_piece(message, end), said, message.is_said))
    before = [Piece(0, first, cut="statements")] if text[:first].strip() else []
    return [*before, *(piece for piece, turn in zip(answering(turns), turns, strict=True) if turn.words)]


def _piece(message: _Message, end: int) -> Piece:
    return Piece(
        message.start,
        end,
        speaker=message.speaker,
        time=message.time,
        days_earlier=message.days_earlier,
        cut="forms",
        body=message.body,
        is_stamped=message.body > message.start,
    )


def is_chat(text: str) -> bool:
    """Whether a text is clearly a chat: its first line begins a message, and so do others in the same way."""
    return _pattern(list(lines_of(text)), needed=2) is not None


def _pattern(lines: Sequence[tuple[int, str]], *, needed: int) -> "re.Pattern[str] | None":
    """How the messages of a chat begin; None where fewer than needed do."""
    said = [line for _, line in lines if line.strip()]
    for pattern in (_STAMPED, _BEHIND, _ABOVE):
        found = {at: match for at, line in enumerate(said) if (match := pattern.match(line))}
        if len(found) < needed:
            continue
        begins = all(_UNSAID.match(line) or _day(line) for line in said[: min(found)])
        if begins and (needed < 2 or _is_spoken(pattern, found, len(said))):
            return pattern
    days = next((at for at, line in enumerate(said) if not _day(line)), len(said))
    return _NAMED if _takes_turns(said[days:], needed) else None


def _is_spoken(pattern: "re.Pattern[str]", found: Mapping[int, "re.Match[str]"], lines: int) -> bool:
    """Whether what stands behind the stamps is what people say: "9:00 Breakfast: eggs" is none of it."""
    if pattern is _STAMPED:
        loose = [one.group("name") for one in found.values() if one.group("name") and not _is_clear(one)]
        return len(loose) < len(found) or len(set(loose)) < len(loose)
    names = [one.group("name").split() for one in found.values()]
    people = all(len(name) == 1 or (len(name) <= _MOST_NAME_WORDS and name[-1][0].isupper()) for name in names)
    return people and not any(at + 1 in found or at + 1 == lines for at in found)


def _is_clear(found: "re.Match[str]") -> bool:
    return found.group()[0] in "[(" or has_day(found.group("stamp"))


def _takes_turns(said: Sequence[str], needed: int) -> bool:
    """Whether lines "Anna: text" are what people say by turns, and not the labels of a record.

    Somebody speaks twice, or all are roles, or they are "me" and one other; and most of what is said is a sentence.
    """
    turns = [(found.group("name").strip(" *"), line[found.end() :]) for line in said if (found := _NAMED.match(line))]
    names = Counter(name.lower() for name, _ in turns)
    if not turns or not _NAMED.match(said[0]) or not _RECORD_LABELS.isdisjoint(names):
        return False
    roles = names.keys() <= ROLES
    if needed < 2:
        return True
    owned = roles or ("me" in names and len(names) == 2)
    people = all(
        name.lower() in ROLES or (name[0].isupper() and len(name.split()) <= _MOST_NAME_WORDS) for name, _ in turns
    )
    again = len(names) > 1 and (owned or max(names.values()) > 1)
    sentences = sum(_is_sentence(words) for _, words in turns)
    enough = len(turns) >= (2 if owned else _NAME_LINES) and len(turns) * 2 > len(said)
    return people and again and enough and sentences * 2 > len(turns)


def _is_sentence(words: str) -> bool:
    return len(words.split()) > 3 or words.rstrip().endswith((".", "!", "?")) or is_small_talk(words)


def _messages(lines: Sequence[tuple[int, str]], pattern: "re.Pattern[str]") -> list[_Message]:
    stamps = [found.group("stamp") for _, line in lines if pattern is not _NAMED and (found := pattern.match(line))]
    order, dated = DayOrder(stamps), bool(stamps) and has_day(stamps[0])

    def begun(by: "re.Pattern[str]", line: str) -> "re.Match[str] | None":
        found = by.match(line)  # of dated messages one goes on with "10:30 is fine"
        return None if found and dated and not has_day(found.group("stamp")) else found

    messages: list[_Message] = []
    day: datetime | None = None
    for start, line in lines:
        found = begun(pattern, line)
        if found is None:
            unsaid = begun(_UNSAID, line) if pattern is _STAMPED else None
            new_day = _day(line)
            day = new_day or day
            if unsaid or new_day:
                time = order.read(unsaid.group("stamp")) if unsaid else day
                body = start + (unsaid.end() if unsaid else 0)
                messages.append(_Message(start, body, None, time or day, is_said=False))
            continue
        groups = found.groupdict()
        speaker = (groups.get("name") or groups.get("nick") or groups.get("actor") or "").strip("*~ \u200e")
        who = None if speaker.lower() in OWNER else speaker
        time = order.read(groups["stamp"]) if "stamp" in groups else None
        body = start + (found.start("actor") if groups.get("actor") else found.end())
        days_earlier = int("stamp" in groups and groups["stamp"].startswith("Yesterday"))
        messages.append(_Message(start, body, who, time or day, days_earlier))
    return messages


def _day(line: str) -> datetime | None:
    """The day that a line between messages names."""
    found = _LOG_DAY.match(line)
    return day_alone(f"{found.group('d')} {found.group('m')} {found.group('y')}") if found else day_alone(line)
