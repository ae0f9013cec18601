"""Commands that take memories out of a database and into one."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plume_memory.cli.memory_commands import AsJson, Url, open_memory
from plume_memory.cli.output import PROGRESS, emit, say
from plume_memory.defaults import DEFAULT_URL
from plume_memory.errors import InvalidInput, counted

if TYPE_CHECKING:  # a database
    from plume_memory.importers.letta import LettaImport
    from plume_memory.importers.mem0 import Mem0Import
    from plume_memory.importers.messages import MessageImport

Artifacts = Annotated[bool, typer.Option("--artifacts", help="With what was derived.")]


class Kind(StrEnum):
    """What a file is."""

    archive = "archive"
    mem0 = "mem0"
    letta = "letta"
    chatgpt = "chatgpt"
    claude = "claude"
    slack = "slack"
    discord = "discord"
    whatsapp = "whatsapp"
    mbox = "mbox"


_ROOMS = (Kind.slack, Kind.discord, Kind.whatsapp)


def register(app: typer.Typer) -> None:
    """Add these commands to the tree."""
    app.command()(backup)
    app.command()(export)
    app.command("import")(import_file)


def backup(
    file: Annotated[Path, typer.Argument(help="File to write; an older one is replaced.")],
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Copy the whole SQLite database to one file, while it is in use."""
    from plume_memory.store.backup import write_backup  # noqa: PLC0415 — a database, after `--help`
    from plume_memory.store.database import Database  # noqa: PLC0415 — as above
    from plume_memory.store.failures import shown_text  # noqa: PLC0415 — as above
    from plume_memory.store.paths import is_missing_file  # noqa: PLC0415 — as above

    if is_missing_file(url):
        raise InvalidInput(f"There is no database at {shown_text(url)}. Check the URL.")
    PROGRESS("copying")
    with Database(url) as database:
        size = write_backup(database, file)
        found = {"database": database.url, "file": str(file), "bytes": size}
        emit(found, as_json, lambda: say(f"{counted(size, 'byte')} of {database.url} in {file}"))


def export(
    context: typer.Context,
    words: Annotated[
        list[str], typer.Argument(metavar="[NAME] FILE", help="Archive to write; before it, or with -m, the memory.")
    ],
    memory: Annotated[
        str | None, typer.Option("--memory", "-m", help="Name of the memory.", envvar="PLUME_MEMORY")
    ] = None,
    artifacts: Artifacts = False,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Write a whole memory to one archive."""
    *names, file = words
    if len(names) > 1 or not (names or memory):
        raise InvalidInput("Give one memory and one file: plume export NAME FILE, or plume export FILE --memory NAME.")
    name = names[0] if names else memory or ""
    source = context.get_parameter_source("memory")
    if memory != name and source is not None and source.name == "COMMANDLINE":  # the environment's gives way
        raise InvalidInput(f"Which memory: {name!r}, or {memory!r} as --memory says?")
    PROGRESS("writing")
    with open_memory(name, url, create=False) as opened:
        found = opened.export_archive(file, artifacts=artifacts)
        emit(found, as_json, lambda: say(f"{counted(found.versions, 'version')}, head {found.head_hash}, in {file}"))


def import_file(
    file: Annotated[Path, typer.Argument(help="An archive, or an export of another memory system.")],
    kind: Annotated[Kind, typer.Option("--from", help="What the file is.")] = Kind.archive,
    name: Annotated[
        str | None, typer.Option("--memory", "--name", "-m", help="Name of the memory; by default the file's.")
    ] = None,
    artifacts: Annotated[
        bool, typer.Option("--artifacts", help="Take what was derived along; only from an archive you trust.")
    ] = False,
    messages: Annotated[bool, typer.Option("--messages", help="Of a Letta file: the messages too.")] = False,
    owner: Annotated[
        str | None, typer.Option("--owner", help="Of Slack, Discord, WhatsApp: whose the memory is, as written there.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Read an archive into a new memory, or another program's export into memories; run again, it goes on."""
    if artifacts and kind is not Kind.archive:
        raise InvalidInput(f"--artifacts goes with an archive, not with --from {kind.value}.")
    if messages and kind is not Kind.letta:
        raise InvalidInput("--messages goes with --from letta.")
    if owner is not None and kind not in _ROOMS:
        raise InvalidInput(f"--owner goes with --from {', '.join(_ROOMS)}.")
    PROGRESS("reading")
    if kind is Kind.archive:
        from plume_memory.importers.archive import import_archive  # noqa: PLC0415 — a database, after `--help`

        read = import_archive(file, url=url, memory=name, with_artifacts=artifacts)
        said = f"memory {read.memory!r}: {counted(read.versions, 'version')}, head {read.head_hash}"
        emit(read, as_json, lambda: say(said))
    elif kind in (Kind.mem0, Kind.letta):
        done = _from_store(file, kind, url, name, messages=messages)
        emit(done, as_json, lambda: _show(done))
    else:
        brought = _from_chats(file, kind, url, name or "default", owner)
        emit(brought, as_json, lambda: _show_messages(brought))


def _from_store(file: Path, kind: Kind, url: str, name: str | None, *, messages: bool) -> "Mem0Import | LettaImport":
    from plume_memory.importers.letta import import_letta  # noqa: PLC0415 — a database, after `--help`
    from plume_memory.importers.mem0 import import_mem0  # noqa: PLC0415 — as above

    if kind is Kind.mem0:
        return import_mem0(file, url=url, memory=name)
    return import_letta(file, url=url, memory=name, messages=messages)


def _from_chats(file: Path, kind: Kind, url: str, name: str, owner: str | None) -> "MessageImport":
    from plume_memory.importers import assistants, mails, rooms  # noqa: PLC0415 — a database, after `--help`
    from plume_memory.importers.messages import import_messages  # noqa: PLC0415 — as above

    readers = {
        Kind.chatgpt: assistants.chatgpt_messages,
        Kind.claude: assistants.claude_messages,
        Kind.mbox: mails.mbox_messages,
    }
    of_rooms = {
        Kind.slack: rooms.slack_messages,
        Kind.discord: rooms.discord_messages,
        Kind.whatsapp: rooms.whatsapp_messages,
    }
    return import_messages(
        of_rooms[kind](file, owner=owner) if kind in of_rooms else readers[kind](file),
        source=kind.value,
        memory=name,
        url=url,
        progress=lambda seen: PROGRESS(f"reading, {counted(seen, 'message')} so far"),
    )


def _show_messages(done: "MessageImport") -> None:
    say(f"{done.written} written, {done.unchanged} unchanged: {done.memory}")
    for left in done.left_out:
        say(f"left out: {left.count}: {left.reason}")


def _show(done: "Mem0Import | LettaImport") -> None:
    say(f"{done.written} written, {done.unchanged} unchanged, {done.replaced} replaced: {', '.join(done.memories)}")
    for left in done.left_out:
        say(f"left out: {left.where}: {left.reason}")
