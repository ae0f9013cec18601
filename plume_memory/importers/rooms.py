"""Reads what people said in rooms and chats: export folders of Slack and Discord, and WhatsApp's text files.

Slack: a folder a channel, in it a file a day, and `users.json` with the names. Discord: the JSON that
DiscordChatExporter writes, or `messages.json` of a data package, which has the owner's messages alone. WhatsApp:
`_chat.txt`. Zip archives need not be unpacked.
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, Any

from plume_memory.errors import InvalidInput
from plume_memory.importers.files import export_files, json_entries
from plume_memory.importers.messages import Message, Passed, Talk, in_order
from plume_memory.segmentation.forms.chat import chat_pieces
from plume_memory.segmentation.forms.piece import Piece
from plume_memory.segmentation.stamps import has_day
from plume_memory.store.chain import sha256_of

_SLACK_LINK = re.compile(r"<([@#!]?)([^<>|]+)(?:\|([^<>]*))?>")
_SPOKEN = (None, "thread_broadcast", "me_message", "file_share", "bot_message")
"""Subtypes of Slack's messages that somebody wrote."""
_DISCORD_SPOKEN = ("Default", "Reply", "ThreadStarterMessage")
_MEDIA = re.compile(r"^[\u200e\u200f]*(?:<.{3,40}>|.{3,20} omitted|<attached: .*>)$", re.IGNORECASE)
"""What WhatsApp writes where a picture was."""


def slack_messages(path: str | Path, *, owner: str | None = None) -> Iterator[Message | Passed]:
    """Yield the messages of a Slack export day by day, those of a day in the order in which they were said.

    Args:
        path: the folder or archive.
        owner: who is called so has no speaker: the memory is his.

    Raises:
        InvalidInput: it cannot be read, or is none.
    """
    people = _slack_people(path)
    with export_files(path, "*/[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9].json") as files:
        for _, same_day in groupby(files, key=lambda one: PurePosixPath(one[0]).name):
            yield from in_order(
                one for name, file in same_day for one in _slack(file, PurePosixPath(name), people, owner)
            )


def _slack(
    file: IO[bytes], name: PurePosixPath, people: Mapping[str, str], owner: str | None
) -> Iterator[Message | Passed]:
    talks: dict[str, Talk] = {}  # the room's, and one a thread
    for message in _objects(file, str(name)):
        text = _slack_text(str(message.get("text") or ""), people)
        if message.get("subtype") not in _SPOKEN:
            yield Passed("nobody wrote it")
        elif not text.strip():
            yield Passed("it has no text")
        else:
            speaker, said_at = people.get(str(message.get("user")), message.get("username")), _unix(message.get("ts"))
            who, thread = str(message.get("user") or speaker), str(message.get("thread_ts") or "")
            asked = talks.setdefault(thread, Talk()).answered(who, text, said_at)
            if thread == str(message.get("ts")):  # what begins a thread is said in the room
                asked = talks.setdefault("", Talk()).answered(who, text, said_at)
            yield _said(f"{name.parent.name}/{message.get('ts')}", text, speaker, said_at, owner, asked)


def discord_messages(path: str | Path, *, owner: str | None = None) -> Iterator[Message | Passed]:
    """Yield the messages of a Discord export in the order in which they were said; all are held."""
    return in_order(_discord_export(path, owner))


def _discord_export(path: str | Path, owner: str | None) -> Iterator[Message | Passed]:
    with export_files(path, "*.json") as files:
        for name, file in files:
            for document in json_entries(file, name):
                if isinstance(document, dict) and isinstance(document.get("messages"), list):
                    channel = str(_dict(document, "channel").get("id"))
                    yield from _discord(document["messages"], channel, owner)
                elif isinstance(document, dict) and "Contents" in document:
                    text = str(document["Contents"] or "")
                    own = f"{PurePosixPath(name).parent.name}/{document.get('ID')}"
                    said_at = _iso(str(document.get("Timestamp") or ""))
                    yield Message(own, text, said_at=said_at) if text.strip() else Passed("it has no text")


def whatsapp_messages(path: str | Path, *, owner: str | None = None) -> Iterator[Message | Passed]:
    """Yield the messages of a WhatsApp chat in the order in which they were said; all are held."""
    return in_order(_whatsapp(path, owner))


def _whatsapp(path: str | Path, owner: str | None) -> Iterator[Message | Passed]:
    refused: list[str] = []
    chats = 0
    with export_files(path, "*.txt") as files:
        for name, file in files:
            try:
                text = file.read().decode("utf-8-sig")
            except UnicodeDecodeError as err:
                refused.append(f"{name} is not UTF-8: {err}")
                continue
            pieces = chat_pieces(text)
            if pieces is None:
                refused.append(f"{name} is no chat: no line of it begins with a time and a name.")
                continue
            chats += 1
            yield from _chat(text, pieces, owner)
    if not chats:
        raise InvalidInput(" ".join(refused))
    yield from (Passed("it is an attached file and no chat") for _ in refused)


def _chat(text: str, pieces: Sequence[Piece], owner: str | None) -> Iterator[Message | Passed]:
    same: dict[str, int] = {}
    talk = Talk()
    for piece in pieces:
        body = max(piece.body, piece.start)
        said = text[body : piece.end].strip()
        if piece.speaker is None:
            yield Passed("nobody wrote it")
        elif _MEDIA.match(said):
            yield Passed("it is a picture, a sound or a file")
        else:
            # the stamp as it is written: which of its numbers is the day depends on all the others of the file
            stamp = text[piece.start : body].strip()
            day = "" if has_day(stamp) else f"{piece.time}"  # of a line above, in words
            own = sha256_of(f"{stamp}\n{day}\n{said}")
            same[own] = same.get(own, 0) + 1  # whoever says the same twice in a minute said it twice
            asked = talk.answered(piece.speaker, said, piece.time)
            yield _said(f"{own}/{same[own]}", said, piece.speaker, piece.time, owner, asked)


def _said(
    where: str, text: str, speaker: object, said_at: datetime | None, owner: str | None, asked: str | None
) -> Message | Passed:
    name = speaker if isinstance(speaker, str) and speaker.strip() else "Somebody"
    return Message(where, text, None if name == owner else name, said_at, in_answer_to=asked)


def _discord(messages: Sequence[Any], channel: str, owner: str | None) -> Iterator[Message | Passed]:
    talk = Talk()
    texts: dict[str, str] = {}
    for message in messages:
        if not isinstance(message, dict) or message.get("type", "Default") not in _DISCORD_SPOKEN:
            yield Passed("nobody wrote it")
            continue
        text, author = str(message.get("content") or ""), _dict(message, "author")
        if not text.strip():
            yield Passed("it has no text")
            continue
        name, said_at = author.get("nickname") or author.get("name"), _iso(str(message.get("timestamp") or ""))
        asked = talk.answered(name, text, said_at)
        asked = texts.get(str(_dict(message, "reference").get("messageId")), asked)  # it names what it answers
        texts[str(message.get("id"))] = text
        yield _said(f"{channel}/{message.get('id')}", text, name, said_at, owner, asked)


def _slack_people(path: str | Path) -> dict[str, str]:
    """What people are called, by their ids."""
    found: dict[str, str] = {}
    with suppress(InvalidInput), export_files(path, "users.json") as files:  # without it ids stay
        for name, file in files:
            for user in _objects(file, name):
                own, profile = str(user.get("id")), user.get("profile")
                shown = profile.get("display_name") if isinstance(profile, dict) else None
                found[own] = shown or user.get("real_name") or user.get("name") or own
    return found


def _slack_text(text: str, people: Mapping[str, str]) -> str:
    def plain(match: "re.Match[str]") -> str:
        sign, target, label = match.groups()
        if sign == "@":
            return f"@{people.get(target, label or target)}"
        return f"{sign}{label or target}".removeprefix("!")

    return html.unescape(_SLACK_LINK.sub(plain, text))


def _dict(found: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _objects(file: Any, name: str) -> Iterator[dict[str, Any]]:
    return (one for one in json_entries(file, name) if isinstance(one, dict))


def _unix(written: object) -> datetime | None:
    with suppress(TypeError, ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(float(str(written)), UTC)
    return None


def _iso(written: str) -> datetime | None:
    with suppress(ValueError):
        return datetime.fromisoformat(written)
    return None
