"""A team's chat as a memory: a Discord export with the reader that is here, a log of your own with ten lines."""

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from plume_memory import ParametricMemory
from plume_memory.importers.messages import Message, Passed, import_messages
from plume_memory.importers.rooms import discord_messages

URL = "sqlite:///chat.db"


def log_messages(path: Path) -> Iterator[Message | Passed]:
    """Yield the messages of a log with a JSON object a line."""
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            entry = json.loads(line)
            if entry["type"] == "message":
                said_at = datetime.fromisoformat(entry["at"])
                yield Message(entry["id"], entry["text"], speaker=entry["from"], said_at=said_at)
            else:
                yield Passed("nobody said it")  # counted, not imported


# what DiscordChatExporter writes: one channel, as JSON
Path("discord.json").write_text(
    json.dumps(
        {
            "channel": {"id": "7"},
            "messages": [
                {
                    "id": "1",
                    "type": "Default",
                    "timestamp": "2026-03-04T09:15:00+00:00",
                    "content": "The staging server is called Otter.",
                    "author": {"name": "mara"},
                },
            ],
        }
    ),
    encoding="utf-8",
)
# what a bot of yours may write
log = [
    {"id": "a", "type": "join", "from": "jonas", "at": "2026-03-05T08:00Z", "text": ""},
    {"id": "b", "type": "message", "from": "jonas", "at": "2026-03-05T08:01Z", "text": "The launch is on 12 May."},
    {"id": "c", "type": "message", "from": "mara", "at": "2026-03-06T17:20Z", "text": "The launch is on 19 May."},
]
Path("bot.jsonl").write_text("\n".join(map(json.dumps, log)), encoding="utf-8")

for _ in range(2):  # the second time writes nothing: a message is known by its id
    for source, found in (("discord", discord_messages("discord.json")), ("bot", log_messages(Path("bot.jsonl")))):
        done = import_messages(found, source=source, memory="team", url=URL)
        left_out = {one.reason: one.count for one in done.left_out}
        print(f"{source}: written {done.written}, unchanged {done.unchanged}, left out {left_out}")

with ParametricMemory.open("team", url=URL) as memory:
    for question in ("What is the staging server called?", "When is the launch?"):
        print(question)
        for note in memory.recall(question, k=1).notes:
            print(f"    {note.day} {note.speaker}: {note.text}")
