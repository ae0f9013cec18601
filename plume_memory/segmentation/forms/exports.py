"""Chats written as JSON: lists of messages as assistants keep them, and exports of Telegram, Slack, Discord and Teams.

They name the same few things in different words. A reply is told under what it answers.
"""

import re
from collections.abc import Iterator

from plume_memory.segmentation.forms.chat import OWNER, ROLES
from plume_memory.segmentation.forms.nodes import Node, json_node
from plume_memory.segmentation.forms.piece import Piece
from plume_memory.segmentation.forms.turns import Turn, answering, quoted
from plume_memory.segmentation.stamps import iso_time

_LISTS = ("messages", "value", "conversation", "chat", "items", "turns")
_TEXTS = ("content", "text", "body", "message")
_PEOPLE = ("name", "from", "author", "user_profile", "username", "sender", "user", "speaker", "role")
_NAMES = ("real_name", "global_name", "nickname", "display_name", "displayName", "name", "username", "user")
_TIMES = ("timestamp", "date", "createdDateTime", "created_at", "time", "ts", "date_unixtime")
_ANSWERED = ("reply_to_message_id", "replyToId", "reply_to", "reference", "thread_ts", "in_reply_to")
_IDS = ("id", "ts", "message_id", "messageId")
_TAG = re.compile(r"<[^<>]{1,200}>")


def export_pieces(text: str) -> list[Piece] | None:
    """Read an export; None if the text is none."""
    root = json_node(text)
    messages = None if root is None else _messages(root)
    if messages is None:
        return None
    said_by: dict[str, tuple[str | None, str]] = {}
    turns: list[Turn] = []
    for message in messages:
        said, speaker = _said(message), _speaker(message)
        own = message.get(*_IDS)
        answered = _answered(message)
        told = said_by.get(answered) if answered and answered != (own.scalar if own else None) else None
        headings = (quoted(*told),) if told else ()
        time = next((found for key in _TIMES if (node := message.get(key)) and (found := iso_time(node.scalar))), None)
        shown = None if speaker is not None and speaker.lower() in OWNER else speaker
        piece = Piece(message.start, message.end, headings, said, shown, time)
        turns.append(Turn(piece, said.strip(), may_answer=answered is None))
        if own and own.scalar:
            said_by.setdefault(own.scalar, (shown, said))
    return [piece for piece, turn in zip(answering(turns), turns, strict=True) if turn.words]


def is_export(text: str) -> bool:
    """Whether a text is clearly such an export."""
    root = json_node(text)
    return root is not None and _messages(root) is not None


def _messages(root: Node) -> list[Node] | None:
    """The messages of a document, in order; None where most entries of its list are none."""
    listed = root if _is_list(root) else root.get(*_LISTS)
    if listed is None or not _is_list(listed):
        return None
    entries = [node for _, node in listed.entries]
    messages = [node for node in entries if _speaker(node) is not None and node.get(*_TEXTS) is not None]
    roles = all((role := node.get("role")) and (role.scalar or "").lower() in {*ROLES, "tool"} for node in messages)
    dated = all(node.get(*_TIMES) for node in messages)
    return messages if messages and len(messages) * 5 >= len(entries) * 2 and (roles or dated) else None


def _is_list(node: Node) -> bool:
    return node.scalar is None and bool(node.entries) and node.entries[0][0] is None


def _speaker(message: Node) -> str | None:
    for key in _PEOPLE:
        found = message.get(key)
        if found is not None and found.scalar:
            name = found.scalar.strip()
            return name.capitalize() if key == "role" else name
        inner = found and (found.get("user") or found)  # Teams: {"user": {"displayName": …}}
        name_node = inner.get(*_NAMES) if inner else None
        if name_node is not None and name_node.scalar:
            return name_node.scalar.strip()
    return None


def _said(message: Node) -> str:
    found = message.get(*_TEXTS)
    if found is None:
        return ""
    if found.scalar is None and (content := found.get("content")):
        return _TAG.sub(" ", content.scalar or "").replace("&nbsp;", " ").strip()
    return "null" if found.scalar == "null" and found.is_text else "".join(_parts(found)).strip()


def _parts(found: Node) -> Iterator[str]:
    """Texts of a message that is a list of them, marked up piece by piece."""
    if found.scalar is not None:
        yield found.scalar if found.is_text else ""
    for key, node in found.entries:
        if key is None and node.scalar is not None:
            yield from _parts(node)
        elif key is None and (text := node.get("text")):
            yield from _parts(text)


def _answered(message: Node) -> str | None:
    found = message.get(*_ANSWERED)
    if found is not None and found.scalar is None:
        found = found.get("messageId", "message_id", "id")
    return found.scalar if found else None
