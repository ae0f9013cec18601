"""`plume mcp`: a memory as tools of the Model Context Protocol, over stdin and stdout."""

import asyncio
import logging
from typing import Annotated

import typer

from plume_memory.cli.memory_commands import Hypernetwork, Model, Url
from plume_memory.defaults import DEFAULT_MODEL, DEFAULT_URL
from plume_memory.errors import InvalidInput, MissingExtra


def register(app: typer.Typer) -> None:
    """Add this command to the tree."""
    app.command()(mcp)


def mcp(
    memory: Annotated[
        str | None,
        typer.Option("--memory", "-m", help="The memory; `default`, of a server the key's own.", envvar="PLUME_MEMORY"),
    ] = None,
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    server: Annotated[
        str | None,
        typer.Option(
            "--server", help="Be a bridge to `plume serve` there: many windows, one model.", envvar="PLUME_SERVER"
        ),
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Key to that server.", envvar="PLUME_KEY")] = None,
) -> None:
    """Serve a memory to the program that starts this, as MCP tools. The model loads at the first question."""
    try:
        from plume_memory.server.mcp import stdio  # noqa: PLC0415 — an extra
    except ImportError as err:
        raise MissingExtra(f"`plume mcp` needs the extra: pip install 'plume-memory[server]' ({err}).") from err
    from plume_memory.pool import MemoryPool  # noqa: PLC0415 — a database, after `--help`
    from plume_memory.remote import RemotePool  # noqa: PLC0415 — as above

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")  # to stderr
    if server is not None:
        with RemotePool.open(server, key=key) as remote:
            asyncio.run(stdio.serve_stdio(stdio.bridge_backend(remote, memory)))
        return
    if key is not None:
        raise InvalidInput("--key is for --server URL; a database of this machine needs none.")
    serving = stdio.local_serving(MemoryPool(url, model=model, hypernetwork=hypernetwork))
    try:
        asyncio.run(stdio.serve_stdio(stdio.local_backend(serving, memory or "default")))
    finally:
        serving.close()
