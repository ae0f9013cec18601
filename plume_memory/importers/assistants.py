"""Reads what assistants give their users as an export of data: what the user said, not what the assistant did.

ChatGPT: `conversations.json` (or `conversations-000.json` and so on), a list of conversations, each a tree of messages
(`mapping`) with the branch that was shown last (`current_node`). Claude: `conversations.json`, a list of conversations
with `chat_messages`. Both come as a zip archive, which needs not be unpacked.

A guess of an assistant must not become a memory, and what only asks, greets or requests is none: they are left out.
"""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plume_memory.errors import InvalidInput
from plume_memory.importers.files import export_files, json_entries
from plume_memory.importers.messages import Message, Passed, Talk, in_order
from plume_memory.segmentation.said import everything_said

_FILES = ("conversations.json", "conversations-*.json")


def chatgpt_messages(path: str | Path) -> Iterator[Message | Passed]:
    """Yield the messages of a ChatGPT export in the order in which they were said; what the user said is held.

    Raises:
        InvalidInput: it cannot be read, or is none.
    """
    return in_order(_chatgpt(path))


def _chatgpt(path: str | Path) -> Iterator[Message | Passed]:
    for where, found in _conversations(path, "mapping", "ChatGPT"):
        talk = Talk()
        for message in _branch(found):
            text = "\n".join(part for part in _list(_dict(message, "content"), "parts") if isinstance(part, str))
            own = str(message.get("id") or f"{where}/{len(text)}/{message.get('create_time')}")
            is_users = _dict(message, "author").get("role") == "user"
            yield _said(talk, f"{where}/{own}", is_users, text, _unix(message))


def claude_messages(path: str | Path) -> Iterator[Message | Passed]:
    """Yield the messages of a Claude export in the order in which they were said; what the user said is held.

    Raises:
        InvalidInput: it cannot be read, or is none.
    """
    return in_order(_claude(path))


def _claude(path: str | Path) -> Iterator[Message | Passed]:
    for where, found in _conversations(path, "chat_messages", "Claude"):
        talk = Talk()
        for message in _list(found, "chat_messages"):
            if isinstance(message, dict):
                blocks = [block for block in _list(message, "content") if isinstance(block, dict)]
                texts = [block["text"] for block in blocks if isinstance(block.get("text"), str)]
                text = message["text"] if isinstance(message.get("text"), str) else "\n".join(texts)
                yield _said(
                    talk,
                    f"{where}/{message.get('uuid')}",
                    message.get("sender") == "human",
                    text,
                    _iso(message, "created_at"),
                )


def _conversations(path: str | Path, needed: str, whose: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each conversation with its id."""
    with export_files(path, *_FILES) as files:
        for name, file in files:
            for number, found in enumerate(json_entries(file, name), start=1):
                if not isinstance(found, dict) or needed not in found:
                    raise InvalidInput(
                        f"{name}, entry {number}: a conversation of {whose} has {needed!r}; this has not."
                    )
                yield str(found.get("id") or found.get("conversation_id") or found.get("uuid") or number), found


def _branch(conversation: dict[str, Any]) -> list[dict[str, Any]]:
    """The messages that were shown last, oldest first: not those that were edited or regenerated."""
    nodes = _dict(conversation, "mapping")
    at, found = conversation.get("current_node"), []
    if not isinstance(at, str) or at not in nodes:
        at = next(reversed(nodes), None)
    seen: set[str] = set()
    while isinstance(at, str) and at in nodes and at not in seen:
        seen.add(at)
        node = _dict(nodes, at)
        found.append(_dict(node, "message"))
        at = node.get("parent")
    return [message for message in reversed(found) if message]


def _said(talk: Talk, where: str, is_users: bool, text: str, said_at: datetime | None) -> Message | Passed:
    asked = talk.answered(None if is_users else "assistant", text, said_at) if text.strip() else None
    if not is_users:
        return Passed("it is not the user's")
    if not text.strip():
        return Passed("it has no text")
    if everything_said(text) is None:
        return Passed("it only asks, greets or requests")
    return Message(where, text, said_at=said_at, in_answer_to=asked)


def _unix(message: dict[str, Any]) -> datetime | None:
    with suppress(KeyError, TypeError, ValueError, OverflowError, OSError):  # none, or no time
        return datetime.fromtimestamp(float(message["create_time"]), UTC)
    return None


def _iso(message: dict[str, Any], name: str) -> datetime | None:
    with suppress(KeyError, TypeError, ValueError):
        return datetime.fromisoformat(message[name])
    return None


def _dict(found: dict[str, Any], name: Any) -> dict[str, Any]:
    value = found.get(name)
    return value if isinstance(value, dict) else {}


def _list(found: dict[str, Any], name: str) -> list[Any]:
    value = found.get(name)
    return value if isinstance(value, list) else []
