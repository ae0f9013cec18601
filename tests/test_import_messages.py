"""Exports of chats and mails: each message once, whoever wrote it, when it was written, and what was left out."""

import io
import json
import zipfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from plume_memory import ParametricMemory
from plume_memory.cli.main import main
from plume_memory.errors import InvalidInput
from plume_memory.importers.assistants import chatgpt_messages, claude_messages
from plume_memory.importers.files import json_entries
from plume_memory.importers.mails import mbox_messages
from plume_memory.importers.messages import Message, MessageImport, Passed, import_messages
from plume_memory.importers.rooms import discord_messages, slack_messages, whatsapp_messages

NINE = datetime(2026, 3, 4, 9, 0, tzinfo=UTC)


def url(folder: Path) -> str:
    return f"sqlite:///{folder / 'log.db'}"


def brought(found: Iterable[Message | Passed], folder: Path) -> MessageImport:
    return import_messages(found, source="test", memory="ann", url=url(folder))


def said(found: Iterable[Message | Passed]) -> list[tuple[str | None, str]]:
    return [(one.speaker, one.text) for one in found if isinstance(one, Message)]


def reasons(found: Iterable[Message | Passed]) -> list[str]:
    return [one.reason for one in found if isinstance(one, Passed)]


# --- what every import does ---------------------------------------------------------------------------


def test_each_message_is_an_update_once_with_its_speaker_and_time(tmp_path: Path) -> None:
    messages = [Message("a/1", "I live in Bern.", None, NINE), Message("a/2", "I have a boat.", "Ben", NINE)]
    first = brought([*messages, Passed("nobody wrote it"), Passed("nobody wrote it")], tmp_path)
    assert (first.memory, first.written, first.unchanged) == ("ann", 2, 0)
    assert [(one.reason, one.count) for one in first.left_out] == [("nobody wrote it", 2)]

    more = Message("a/3", "I sold it.", "Ben", NINE)
    again = brought([*messages, messages[0], more], tmp_path)
    assert (again.written, again.unchanged) == (1, 3)
    with ParametricMemory.open("ann", url=url(tmp_path)) as memory:
        told = memory.text_at().transitions
        assert [(one.text, one.context.speaker, one.context.observed_at) for one in told] == [
            ("I live in Bern.", None, NINE),
            ("I have a boat.", "Ben", NINE),
            ("I sold it.", "Ben", NINE),
        ]
        assert memory.entry(1).metadata["imported"] == {"from": "test", "id": "a/1"}


def test_an_import_that_breaks_off_goes_on(tmp_path: Path) -> None:
    def broken() -> Iterable[Message | Passed]:
        yield Message("1", "I live in Bern.")
        raise InvalidInput("the file ends here")

    with pytest.raises(InvalidInput, match="ends here"):
        brought(broken(), tmp_path)
    done = brought([Message("1", "I live in Bern."), Message("2", "I have a boat.")], tmp_path)
    assert (done.written, done.unchanged) == (1, 1)


def test_what_was_changed_or_erased_since_and_what_cannot_be_kept_is_left_out(tmp_path: Path) -> None:
    brought([Message("1", "I live in Bern."), Message("2", "I have a boat.")], tmp_path)
    with ParametricMemory.open("ann", url=url(tmp_path)) as memory:
        memory.erase(2, derive=False)
    found = [Message("1", "I live in Thun."), Message("2", "I have a boat."), Message("3", "\0 "), Message("4", "a\0b")]
    done = brought(found, tmp_path)
    assert {one.reason: one.count for one in done.left_out} == {
        "its text was changed or erased since it was imported": 2,
        "it has no text": 1,
    }
    with ParametricMemory.open("ann", url=url(tmp_path)) as memory:
        assert "boat" not in memory.text_at().text, "what was erased does not come back"
        assert memory.history()[-1].text == "a b"


def test_progress_is_told(tmp_path: Path) -> None:
    seen: list[int] = []
    found = (Passed("no") for _ in range(250))
    import_messages(found, source="t", memory="ann", url=url(tmp_path), progress=seen.append)
    assert seen == [100, 200, 250]


# --- files --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [[], [1, 23, 456], [{"a": ["]", ","]}, "x" * 50, None, [[]]], {"a": 1}, 12, "é"])
def test_entries_of_a_list_are_read_one_by_one(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = value if isinstance(value, list) else [value]
    for piece in (1, 3, 1 << 20):
        monkeypatch.setattr("plume_memory.importers.files._PIECE", piece)
        for written in (json.dumps(value), json.dumps(value, indent=2, ensure_ascii=False) + "\n"):
            assert list(json_entries(io.BytesIO(written.encode()), "f.json")) == wanted


@pytest.mark.parametrize("broken", [b"", b"[1, 2", b"[1, {]", b'["\xff"]', b"nothing"])
def test_what_is_no_json_is_refused_by_name(broken: bytes) -> None:
    with pytest.raises(InvalidInput, match=r"f\.json"):
        list(json_entries(io.BytesIO(broken), "f.json"))


# --- formats ------------------------------------------------------------------------------------------


def chatgpt_conversation() -> dict[str, Any]:
    def node(number: int, role: str, text: str, parent: int | None) -> dict[str, Any]:
        content = {"content_type": "text", "parts": [text]}
        message = {"id": f"m{number}", "author": {"role": role}, "create_time": 1772614800.0, "content": content}
        return {"id": f"n{number}", "message": message, "parent": None if parent is None else f"n{parent}"}

    nodes = [
        {"id": "n0", "message": None, "parent": None},
        node(1, "user", "I moved to Oslo.", 0),  # edited since: not on the branch that was shown last
        node(2, "user", "I moved to Thun.", 0),
        node(3, "assistant", "How nice! Is Thun far from Bern?", 2),
        node(4, "user", "Write me a haiku about rain", 3),
        node(5, "user", "My dog is called Rex.", 4),
    ]
    return {"id": "c1", "title": "t", "mapping": {one["id"]: one for one in nodes}, "current_node": "n5"}


def test_of_a_chatgpt_export_comes_what_the_user_told(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "export.zip", "w") as archive:
        archive.writestr("user.json", "{}")
        archive.writestr("conversations.json", json.dumps([chatgpt_conversation()]))
    found = list(chatgpt_messages(tmp_path / "export.zip"))
    assert said(found) == [(None, "I moved to Thun."), (None, "My dog is called Rex.")]
    assert reasons(found) == ["it is not the user's", "it only asks, greets or requests"]
    first = next(one for one in found if isinstance(one, Message))
    assert (first.id, first.said_at) == ("c1/m2", NINE)


def test_of_a_claude_export_comes_what_the_user_told(tmp_path: Path) -> None:
    file = tmp_path / "conversations.json"
    talk = [
        {"uuid": "m1", "sender": "human", "text": "I play the cello.", "created_at": "2026-03-04T09:00:00Z"},
        {"uuid": "m2", "sender": "assistant", "text": "Lovely.", "created_at": "2026-03-04T09:01:00Z"},
        {"uuid": "m3", "sender": "human", "content": [{"type": "text", "text": "I practise on Mondays."}]},
        {"uuid": "m4", "sender": "human", "text": "", "content": []},
    ]
    file.write_text(json.dumps([{"uuid": "c1", "name": "n", "chat_messages": talk}]), encoding="utf-8")
    found = list(claude_messages(file))
    assert said(found) == [(None, "I play the cello."), (None, "I practise on Mondays.")]
    first = next(one for one in found if isinstance(one, Message))
    assert (first.id, first.said_at) == ("c1/m1", NINE)
    with pytest.raises(InvalidInput, match="'mapping'"):
        list(chatgpt_messages(file))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInput, match="no file"):
        list(claude_messages(tmp_path / "empty"))


def test_of_a_slack_export_people_have_their_names(tmp_path: Path) -> None:
    (tmp_path / "general").mkdir()
    users = [{"id": "U1", "profile": {"display_name": "Anna"}}, {"id": "U2", "real_name": "Ben Ott", "profile": {}}]
    (tmp_path / "users.json").write_text(json.dumps(users), encoding="utf-8")
    day = [
        {
            "type": "message",
            "user": "U1",
            "ts": "1772614800.000100",
            "text": "<@U2> see <https://a.ch|the page> &amp; go",
        },
        {"type": "message", "user": "U2", "ts": "1772614860.000200", "text": "done in <#C1|general>"},
        {"type": "message", "subtype": "channel_join", "user": "U2", "ts": "1772614861.0", "text": "joined"},
    ]
    (tmp_path / "general" / "2026-03-04.json").write_text(json.dumps(day), encoding="utf-8")
    found = list(slack_messages(tmp_path, owner="Anna"))
    assert said(found) == [(None, "@Ben Ott see the page & go"), ("Ben Ott", "done in #general")]
    assert reasons(found) == ["nobody wrote it"]
    first = next(one for one in found if isinstance(one, Message))
    assert (first.id, first.said_at) == (
        "general/1772614800.000100",
        datetime.fromtimestamp(1772614800.0001, UTC),
    )


def test_of_discord_both_kinds_of_export_are_read(tmp_path: Path) -> None:
    exported = {
        "guild": {"name": "g"},
        "channel": {"id": "7", "name": "boats"},
        "messages": [
            {"id": "1", "type": "Default", "timestamp": "2026-03-04T09:00:00+00:00", "content": "I have a boat.",
             "author": {"name": "ben1", "nickname": "Ben"}},
            {"id": "2", "type": "GuildMemberJoin", "content": "joined", "author": {"name": "x"}},
        ],
    }  # fmt: skip
    (tmp_path / "boats.json").write_text(json.dumps(exported), encoding="utf-8")
    (tmp_path / "c9").mkdir()
    own = [{"ID": 5, "Timestamp": "2026-03-04 09:00:00", "Contents": "I sold it.", "Attachments": ""}]
    (tmp_path / "c9" / "messages.json").write_text(json.dumps(own), encoding="utf-8")
    found = list(discord_messages(tmp_path))
    assert said(found) == [("Ben", "I have a boat."), (None, "I sold it.")]
    assert [one.id for one in found if isinstance(one, Message)] == ["7/1", "c9/5"]


def test_of_a_whatsapp_chat_the_owner_has_no_speaker(tmp_path: Path) -> None:
    chat = (
        "[04.03.26, 09:00:00] Anna: I live in Bern.\n[04.03.26, 09:01:00] Ben: and I\nin Thun\n"
        "[04.03.26, 09:02:00] Ben: <Media omitted>\n[04.03.26, 09:03:00] Anna: ok\n[04.03.26, 09:03:00] Anna: ok\n"
    )
    (tmp_path / "_chat.txt").write_text(chat, encoding="utf-8")
    found = list(whatsapp_messages(tmp_path / "_chat.txt", owner="Anna"))
    assert said(found) == [(None, "I live in Bern."), ("Ben", "and I\nin Thun"), (None, "ok"), (None, "ok")]
    assert len({one.id for one in found if isinstance(one, Message)}) == 4
    assert reasons(found) == ["it is a picture, a sound or a file"]
    assert found == list(whatsapp_messages(tmp_path, owner="Anna")), "the same keys from the folder"
    (tmp_path / "_chat.txt").write_text("no chat at all", encoding="utf-8")
    with pytest.raises(InvalidInput, match="no chat"):
        list(whatsapp_messages(tmp_path / "_chat.txt"))


MBOX = b"""From anna@a.ch Wed Mar  4 09:00:00 2026
From: Anna Keller <anna@a.ch>
To: ben@b.ch
Date: Wed, 04 Mar 2026 09:00:00 +0000
Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=
Message-ID: <1@a.ch>
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: base64

SSBsaXZlIGluIEJlcm4u

From ben@b.ch Wed Mar  4 10:00:00 2026
From: ben@b.ch
Message-ID: <2@b.ch>
Content-Type: text/plain; charset=none-such

x
"""


def test_of_a_mailbox_each_mail_is_read_decoded_under_its_head(tmp_path: Path) -> None:
    (tmp_path / "in.mbox").write_bytes(MBOX)
    found = list(mbox_messages(tmp_path / "in.mbox"))
    (mail,) = [one for one in found if isinstance(one, Message)]
    assert (mail.id, mail.speaker, mail.said_at, mail.form) == ("<1@a.ch>", "Anna Keller", NINE, "email")
    assert mail.text.splitlines()[3] == "Subject: Grüße"
    assert mail.text.rstrip().endswith("\n\nI live in Bern.")
    assert len(found) == 2
    with pytest.raises(InvalidInput, match="no such file"):
        list(mbox_messages(tmp_path / "none.mbox"))


def test_a_mail_whose_head_cannot_be_parsed_ends_no_import(tmp_path: Path) -> None:
    begun = "From x Wed Mar  4 09:00:00 2026\n"
    heads = (
        'From: "',
        "To: =?utf-8?q?x?=@",
        "Message-ID: <[",
        f"From: {'(' * 5000}",
        "Date: Wed, 04 Mar 2026 09:00:00 +99999999999999999999",
        "Content-Type: text/plain; charset=no-such",
    )
    mails = "".join(f"{begun}{head}\nSubject: s\n\nI live in Bern.\n\n" for head in (*heads, "From: ann@a.ch"))
    (tmp_path / "in.mbox").write_text(mails, encoding="utf-8")
    found = list(mbox_messages(tmp_path / "in.mbox"))
    assert len(found) == len(heads) + 1
    assert [one.speaker for one in found if isinstance(one, Message)][-1] == "ann@a.ch"
    assert "its head or text cannot be parsed" in reasons(found)


def test_of_a_mail_in_html_the_words_are_kept_without_the_marks(tmp_path: Path) -> None:
    mail = (
        "From x Wed Mar  4 09:00:00 2026\nFrom: ann@a.ch\nContent-Type: text/html\n\n"
        "<html><head><style>p {color: red}</style></head><body><p>I live in <b>Bern</b>.</p>"
        "<blockquote>Where do you live?</blockquote></body></html>\n"
    )
    (tmp_path / "in.mbox").write_text(mail, encoding="utf-8")
    (found,) = mbox_messages(tmp_path / "in.mbox")
    assert isinstance(found, Message)
    assert found.text == "From: ann@a.ch\n\nI live in Bern.\n> Where do you live?"


def test_messages_come_in_the_order_in_which_they_were_said(tmp_path: Path) -> None:
    def day(number: int) -> str:
        return f"2026-03-{number:02}"

    # assistants: the newest conversation stands first
    talks: list[Any] = [
        {"uuid": n, "chat_messages": [{"uuid": n, "sender": "human", "text": f"Day {n}.", "created_at": day(n)}]}
        for n in (3, 1, 2)
    ]
    talks[1]["chat_messages"].append({"uuid": "x", "sender": "human", "text": "Undated.", "created_at": None})
    (tmp_path / "conversations.json").write_text(json.dumps(talks), encoding="utf-8")
    assert said(claude_messages(tmp_path / "conversations.json")) == [
        (None, "Day 1."), (None, "Day 2."), (None, "Day 3."), (None, "Undated."),
    ]  # fmt: skip

    # rooms: channels beside each other
    for channel, hours in (("a", (33, 9)), ("b", (10, 34))):
        (tmp_path / "slack" / channel).mkdir(parents=True)
        for hour in hours:
            stamp = datetime(2026, 3, 4, tzinfo=UTC).timestamp() + hour * 3600
            file = tmp_path / "slack" / channel / f"{day(4 + hour // 24)}.json"
            file.write_text(json.dumps([{"user": "U", "ts": str(stamp), "text": f"{hour}"}]), encoding="utf-8")
    assert [text for _, text in said(slack_messages(tmp_path / "slack"))] == ["9", "10", "33", "34"]
    (tmp_path / "discord").mkdir()
    for channel, number in (("a", 2), ("b", 1)):
        written = [{"id": "1", "timestamp": f"{day(number)}T09:00:00+00:00", "content": f"{number}"}]
        file = tmp_path / "discord" / f"{channel}.json"
        file.write_text(json.dumps({"channel": {"id": channel}, "messages": written}), encoding="utf-8")
    assert [text for _, text in said(discord_messages(tmp_path / "discord"))] == ["1", "2"]

    # mails
    mails = "".join(
        f"From x Wed Mar  4 09:00:00 2026\nFrom: ann@a.ch\nDate: 0{n} Mar 2026 09:00:00 +0000\n\nDay {n}.\n\n"
        for n in (3, 1, 2)
    )
    (tmp_path / "in.mbox").write_text(mails, encoding="utf-8")
    assert [text.split()[-1] for _, text in said(mbox_messages(tmp_path / "in.mbox"))] == ["1.", "2.", "3."]


def test_a_field_of_another_type_than_expected_ends_no_import(tmp_path: Path) -> None:
    messages = [{"id": "1", "content": "I have a boat.", "author": "x"}]
    (tmp_path / "d.json").write_text(json.dumps({"channel": [1], "messages": messages}), encoding="utf-8")
    assert said(discord_messages(tmp_path / "d.json")) == [("Somebody", "I have a boat.")]
    talk = {**chatgpt_conversation(), "current_node": ["n5"]}
    talk["mapping"]["n2"]["parent"] = ["n0"]
    (tmp_path / "c.json").write_text(json.dumps([talk]), encoding="utf-8")
    assert len(said(chatgpt_messages(tmp_path / "c.json"))) == 2


def _archive(file: Path, at: int, value: int) -> Path:
    """An archive with one byte of its headers, or of its data, changed."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([chatgpt_conversation()]))
    raw = bytearray(file.read_bytes())
    for begun in {0, raw.rfind(b"PK\1\2") + 2} if at < 28 else {0}:
        raw[begun + at] = value
    file.write_bytes(raw)
    return file


@pytest.mark.parametrize(
    ("at", "value"), [(6, 1), (8, 99), (4, 99), (50, 0xFF)], ids=["encrypted", "method", "version", "damaged"]
)
def test_an_archive_that_cannot_be_unpacked_is_refused_by_name(tmp_path: Path, at: int, value: int) -> None:
    with pytest.raises(InvalidInput, match=r"export\.zip"):
        list(chatgpt_messages(_archive(tmp_path / "export.zip", at, value)))


def test_a_text_beside_a_whatsapp_chat_is_left_out(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "chat.zip", "w") as archive:
        archive.writestr("A note.txt", "no chat at all")
        archive.writestr("B note.txt", b"\xff\xfe")
        archive.writestr("_chat.txt", "[04.03.26, 09:00:00] Anna: I live in Bern.\n")
    found = list(whatsapp_messages(tmp_path / "chat.zip"))
    assert said(found) == [("Anna", "I live in Bern.")]
    assert reasons(found) == ["it is an attached file and no chat"] * 2


def test_a_longer_export_of_a_whatsapp_chat_gives_the_same_ids(tmp_path: Path) -> None:
    begun = "03/04/2026, 09:00 - Anna: I live in Bern.\n03/05/2026, 09:00 - Ben: ok\n"
    found = []
    for text in (begun, f"{begun}03/25/2026, 09:00 - Ben: bye\n"):  # only now it is known that the month comes first
        (tmp_path / "_chat.txt").write_text(text, encoding="utf-8")
        found.append([one for one in whatsapp_messages(tmp_path / "_chat.txt") if isinstance(one, Message)])
    assert found[0][0].said_at != found[1][0].said_at
    assert [one.id for one in found[0]] == [one.id for one in found[1]][:2]


def test_the_command_line_reads_them_and_says_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "conversations.json").write_text(json.dumps([chatgpt_conversation()]), encoding="utf-8")
    command = ["import", str(tmp_path / "conversations.json"), "--from", "chatgpt", "-m", "ann", "--db", url(tmp_path)]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2 written, 0 unchanged: ann",
        "left out: 1: it is not the user's",
        "left out: 1: it only asks, greets or requests",
    ]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["unchanged"] == 2
    assert main([*command, "--owner", "x"]) == 2
