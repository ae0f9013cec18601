"""A reply is imported with what it answers: the question just asked in its room or thread, or what it names."""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from plume_memory import ParametricMemory
from plume_memory.importers.assistants import chatgpt_messages, claude_messages
from plume_memory.importers.messages import Message, Passed, import_messages
from plume_memory.importers.rooms import discord_messages, slack_messages, whatsapp_messages

ASKED = "Who owns the billing service now?"


def replies(found: Iterable[Message | Passed]) -> dict[str, str]:
    return {one.text: one.in_answer_to for one in found if isinstance(one, Message) and one.in_answer_to}


def test_of_whatsapp_the_next_message_of_another(tmp_path: Path) -> None:
    lines = [("Vera", f"I am back. {ASKED}"), ("Vera", "Anyone?"), ("Tom", "Aisha"), ("Vera", "Thanks!")]
    chat = "".join(f"[04.03.26, 09:0{at}:00] {who}: {said}\n" for at, (who, said) in enumerate(lines))
    (tmp_path / "_chat.txt").write_text(chat.replace("Anyone?", ASKED), encoding="utf-8")
    assert replies(whatsapp_messages(tmp_path / "_chat.txt", owner="Tom")) == {"Aisha": ASKED}


def test_of_slack_by_room_and_by_thread(tmp_path: Path) -> None:
    def message(at: int, user: str, text: str, thread: int | None = None) -> dict[str, Any]:
        own = {"type": "message", "user": user, "ts": f"17726148{at:02}.0", "text": text}
        return own | ({} if thread is None else {"thread_ts": f"17726148{thread:02}.0"})

    (tmp_path / "general").mkdir()
    day = [
        message(0, "U1", ASKED, thread=0),
        message(1, "U3", "Lunch at noon."),
        message(2, "U2", "Aisha", thread=0),
        message(3, "U1", "And where will the offsite be?"),
        message(4, "U3", "She is on leave.", thread=0),
        message(5, "U2", "Ghent"),
    ]
    (tmp_path / "general" / "2026-03-04.json").write_text(json.dumps(day), encoding="utf-8")
    assert replies(slack_messages(tmp_path)) == {
        "Lunch at noon.": ASKED,
        "Aisha": ASKED,
        "Ghent": "And where will the offsite be?",
    }


def test_of_discord_what_it_names_before_what_was_just_asked(tmp_path: Path) -> None:
    def message(at: int, name: str, text: str, to: int | None = None) -> dict[str, Any]:
        time = f"2026-03-04T09:0{at}:00+00:00"
        own = {"id": str(at), "type": "Default", "timestamp": time, "content": text, "author": {"name": name}}
        return own | ({} if to is None else {"type": "Reply", "reference": {"messageId": str(to)}})

    messages = [
        message(1, "vera", ASKED),
        message(2, "mia", "The boat is blue."),
        message(3, "vera", "Where will the offsite be?"),
        message(4, "tom", "Aisha", to=1),
        message(5, "mia", "Since May", to=2),
    ]
    (tmp_path / "a.json").write_text(json.dumps({"channel": {"id": "7"}, "messages": messages}), encoding="utf-8")
    assert replies(discord_messages(tmp_path)) == {
        "The boat is blue.": ASKED,
        "Aisha": ASKED,
        "Since May": "The boat is blue.",
    }


def test_of_assistants_what_the_user_was_asked(tmp_path: Path) -> None:
    turns = [("user", "Hello!"), ("assistant", "Hi. Which city do you live in?"), ("user", "In Bern")]
    nodes = {
        str(at): {
            "id": str(at),
            "parent": str(at - 1),
            "message": {"id": f"m{at}", "author": {"role": role}, "content": {"parts": [text]}},
        }
        for at, (role, text) in enumerate(turns)
    }
    chatgpt, claude = tmp_path / "chatgpt.json", tmp_path / "claude.json"
    chatgpt.write_text(json.dumps([{"id": "c", "current_node": "2", "mapping": nodes}]), encoding="utf-8")
    talk = [
        {"uuid": str(at), "sender": "human" if role == "user" else role, "text": text}
        for at, (role, text) in enumerate(turns)
    ]
    claude.write_text(json.dumps([{"uuid": "c", "chat_messages": talk}]), encoding="utf-8")
    for found in (chatgpt_messages(chatgpt), claude_messages(claude)):
        assert replies(found) == {"In Bern": "Which city do you live in?"}


def test_it_is_kept_with_the_update_and_an_older_import_is_none_twice(tmp_path: Path) -> None:
    at, url = datetime(2026, 3, 4, 9, tzinfo=UTC), f"sqlite:///{tmp_path / 'log.db'}"
    import_messages([Message("a/1", "Aisha", "Tom", at)], source="test", memory="ann", url=url)
    found = [
        Message("a/1", "Aisha", "Tom", at, in_answer_to=ASKED),
        Message("a/2", "Ghent", "Tom", at, in_answer_to="x" * 5000 + "\x00where?"),
        Message("a/3", "Rex", "Tom", at, in_answer_to=" "),
    ]
    done = import_messages(found, source="test", memory="ann", url=url)
    assert (done.written, done.unchanged, done.left_out) == (2, 1, ())
    with ParametricMemory.open("ann", url=url) as memory:
        asked = [one.context.in_answer_to for one in memory.text_at().transitions]
    assert (asked[0], asked[2]) == (None, None)
    assert asked[1] == "x" * 993 + " where?"
