"""`plume keys`: keys to a server, made, listed, revoked."""

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from plume_memory.cli.memory_commands import AsJson, Url
from plume_memory.cli.output import ERR, OUT, add_row, emit, plain, say, table
from plume_memory.defaults import DEFAULT_TENANT, DEFAULT_URL, SCOPES

if TYPE_CHECKING:  # a database
    from plume_memory.store.keys import Key

_USUAL = ["memory:read", "memory:write", "memory:list"]

keys = typer.Typer(name="keys", help="Keys to a server: made, listed, revoked.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add these commands to the tree."""
    app.add_typer(keys)


@keys.command()
def create(
    tenant: Annotated[str, typer.Option("--tenant", help="Whose memories it opens; made if new.")] = DEFAULT_TENANT,
    scope: Annotated[
        list[str] | None,
        typer.Option("--scope", help=f"Of {', '.join(SCOPES)}. Repeatable; by default {', '.join(_USUAL)}."),
    ] = None,
    memory: Annotated[str | None, typer.Option("--memory", "-m", help="The one memory it opens: name or id.")] = None,
    writes: Annotated[
        bool, typer.Option("--writes", help="What users say in a chat is written where the call does not say.")
    ] = False,
    label: Annotated[str, typer.Option("--label", help="For who lists keys.")] = "",
    days: Annotated[
        float | None, typer.Option("--days", min=0, help="Days until it expires; never by default.")
    ] = None,
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown once and kept nowhere."""
    from plume_memory.store.database import Database  # noqa: PLC0415 — a database, after `--help`
    from plume_memory.store.keys import Keys  # noqa: PLC0415 — as above

    with Database(url) as database:
        made = Keys(database).create(
            tenant=tenant,
            scopes=scope or _USUAL,
            memory=memory,
            writes=writes,
            label=label,
            expires_in=None if days is None else timedelta(days=days),
        )
    found = {**_shown(made.key), "key": made.secret}

    def people() -> None:
        ERR.print(f"key {made.key.id} of tenant {made.key.tenant}; it is not shown again:", style="dim", markup=False)
        say(made.secret)

    emit(found, as_json, people)


@keys.command("list")
def list_keys(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List all keys, without their secrets."""
    from plume_memory.store.database import Database  # noqa: PLC0415 — a database, after `--help`
    from plume_memory.store.keys import Keys  # noqa: PLC0415 — as above

    with Database(url) as database:
        found = Keys(database).all()

    def people() -> None:
        rows = table("id", "tenant", "scopes", "memory", "writes", "label", "expires", "revoked", "used")
        for key in found:
            moments = (
                f"{at:%Y-%m-%d %H:%M}Z" if at else "" for at in (key.expires_at, key.revoked_at, key.last_used_at)
            )
            flags = (key.memory or "", "yes" if key.writes else "", key.label)
            add_row(rows, key.id, key.tenant, " ".join(sorted(key.scopes)), *flags, *moments)
        OUT.print(rows)

    emit([_shown(key) for key in found], as_json, people)


@keys.command()
def revoke(
    number: Annotated[str, typer.Argument(help="The key's id; `plume keys list` shows it.")],
    url: Url = DEFAULT_URL,
    as_json: AsJson = False,
) -> None:
    """Make a key open nothing any more: at once, also where it is streaming."""
    from plume_memory.store.database import Database  # noqa: PLC0415 — a database, after `--help`
    from plume_memory.store.keys import Keys  # noqa: PLC0415 — as above

    with Database(url) as database:
        found = Keys(database).revoke(number)
    emit(_shown(found), as_json, lambda: say(f"key {found.id} opens nothing any more"))


def _shown(key: "Key") -> dict[str, object]:
    return {**plain(key), "scopes": sorted(key.scopes)}
