"""Commands that show what a memory holds to whoever reads it: a person, or a model in a script."""

from datetime import date, datetime, time
from typing import Annotated

import typer

from plume_memory.cli.memory_commands import AsJson, At, Hypernetwork, MemoryName, Model, Url, open_memory, stdin_text
from plume_memory.cli.output import ERR, emit, say
from plume_memory.defaults import DEFAULT_MODEL, DEFAULT_URL
from plume_memory.recalling.notes import MAX_TOKENS, NOTES, PROFILE_TOKENS, Recall


def register(app: typer.Typer) -> None:
    """Add these commands to the tree."""
    app.command()(recall)
    app.command()(profile)


def recall(
    question: Annotated[str, typer.Argument(help="The question; `-` reads stdin.")],
    k: Annotated[int, typer.Option("--top", "-k", help="Most notes.")] = NOTES,
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Most tokens of the text.")] = MAX_TOKENS,
    replaced: Annotated[bool, typer.Option("--history", help="Also what does not hold any more.")] = False,
    since: Annotated[datetime | None, typer.Option("--since", help="Only what was said from then on, UTC.")] = None,
    until: Annotated[datetime | None, typer.Option("--until", help="Only what was said until then, UTC.")] = None,
    at: At = None,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Print notes that bear on a question, quoted for a model; nothing where nothing does."""
    asked = stdin_text() if question == "-" else question
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        found = memory.at(version=at).recall(
            asked, k=k, max_tokens=max_tokens, history=replaced, since=_day(since), until=_day(until)
        )
        emit(found, as_json, lambda: _show(found, "nothing in memory bears on the question"))


def profile(
    max_tokens: Annotated[int, typer.Option("--max-tokens", help="Most tokens of the text.")] = PROFILE_TOKENS,
    at: At = None,
    name: MemoryName = "default",
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Print the notes that say most about whom a memory is of, quoted for a model."""
    with open_memory(name, url, model, hypernetwork, create=False) as memory:
        found = memory.at(version=at).profile(max_tokens=max_tokens)
        emit(found, as_json, lambda: _show(found, "the memory is empty"))


def _day(moment: datetime | None) -> datetime | date | None:
    """A moment; of midnight the day, which is what was written."""
    return moment.date() if moment is not None and moment.time() == time.min else moment


def _show(found: Recall, nothing: str) -> None:
    if found:
        say(found.text)
    else:
        ERR.print(nothing, style="dim")
