"""`plume chat`: questions and updates by turns."""

import sys
from typing import TYPE_CHECKING

import typer

from plume_memory.cli.memory_commands import (
    AsJson,
    Hypernetwork,
    MemoryName,
    Model,
    Url,
    described,
    show_status,
    show_versions,
    stdin_text,
    written_to,
)
from plume_memory.cli.output import ERR, PROGRESS, emit, safe, say
from plume_memory.defaults import DEFAULT_MODEL, DEFAULT_URL
from plume_memory.errors import InvalidInput, PlumeError

if TYPE_CHECKING:  # a database
    from plume_memory.memory import ParametricMemory

_HELP = "Write a question, or /update TEXT, /history, /forget VERSION, /help, /quit."


def register(app: typer.Typer) -> None:
    """Add this command to the tree."""
    app.command()(chat)


def chat(
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Ask and update by turns; `/help` lists what else there is."""
    with written_to(name, url, model, hypernetwork) as memory:
        while True:
            PROGRESS.clear()
            ERR.print("[bold]>[/bold] ", end="")
            line = stdin_text(sys.stdin.readline)
            said = line.strip()
            if not line or said == "/quit":
                return
            try:
                _chat_turn(memory, said, as_json)
            except PlumeError as err:  # one refused line does not end the conversation
                PROGRESS.clear()
                ERR.print(safe(f"{type(err).__name__}: {err}"), markup=False)


def _chat_turn(memory: "ParametricMemory", said: str, as_json: bool) -> None:
    if not said:
        return
    if said.startswith("/"):
        _chat_command(memory, *said.partition(" ")[::2], as_json=as_json)
        return
    for chunk in memory.stream(said):
        if not as_json:
            say(chunk.text, end="")
        if chunk.answer is not None:
            answer = chunk.answer
            emit(described(answer), as_json, lambda: say(""))
            if not as_json:
                show_status(answer)


def _chat_command(memory: "ParametricMemory", command: str, rest: str, *, as_json: bool) -> None:
    if command == "/update":
        version = memory.update(rest.strip())
        emit(version, as_json, lambda: say(f"version {version.number}"))
    elif command == "/forget":
        forgotten = memory.forget(_version(rest))
        emit(forgotten, as_json, lambda: say(f"version {forgotten.number} forgets {forgotten.forgets}"))
    elif command == "/history":
        versions = memory.history()
        emit(versions, as_json, lambda: show_versions(versions))
    elif command == "/help":
        say(_HELP)
    else:
        raise InvalidInput(f"There is no command {command!r}. {_HELP}")


def _version(given: str) -> int:
    if not given.strip().isdecimal():
        raise InvalidInput(f"/forget takes the number of a version, got {given.strip()!r}; /history lists them.")
    return int(given)
