"""What there is: the memories of a database, and whether all that this machine needs is at hand."""

import importlib.util
import os
import platform
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from plume_memory import __version__
from plume_memory.cli.memory_commands import AsJson, Model, Url
from plume_memory.cli.output import OUT, PROGRESS, add_row, emit, say, table
from plume_memory.defaults import DEFAULT_MODEL, DEFAULT_URL
from plume_memory.errors import PlumeError, counted

_NEEDED_BYTES = 2 << 30
"""Free disk for a model and what is derived with it."""
_SERVER_S = 3.0
_PACKAGES = ("transformers", "tokenizers", "safetensors", "peft", "SQLAlchemy")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at."""

    what: str
    found: str
    do: str = ""
    """What to do about it; empty where all is well."""


def register(app: typer.Typer) -> None:
    """Add these commands to the tree."""
    app.command("list")(list_memories)
    app.command()(doctor)


def list_memories(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """List the memories of a database."""
    from plume_memory.pool import MemoryPool  # noqa: PLC0415 — after `--help`
    from plume_memory.store.failures import shown_text  # noqa: PLC0415 — as above
    from plume_memory.store.paths import is_missing_file  # noqa: PLC0415 — as above

    newest = []
    if not is_missing_file(url):
        with MemoryPool(url) as pool:
            newest = [(name, pool.memory(name, create=False).history(limit=1)) for name in pool.names()]
    found = [
        {"memory": name, "version": own[-1].number if own else 0, "written": own[-1].created_at if own else None}
        for name, own in newest
    ]

    def people() -> None:
        if not found:
            say(f'There is no memory in {shown_text(url)} yet. Write the first: plume update "Alice lives in Bern."')
            return
        rows = table("memory", "version", "last written")
        for name, own in newest:
            written = f"{own[-1].created_at:%Y-%m-%d %H:%M:%S}Z" if own else ""
            add_row(rows, name, str(own[-1].number if own else 0), written)
        OUT.print(rows)

    emit(found, as_json, people)


def doctor(
    url: Url = DEFAULT_URL,
    model: Model = DEFAULT_MODEL,
    server: Annotated[str, typer.Option("--server", help="Also ask a server.", envvar="PLUME_SERVER")] = "",
    as_json: AsJson = False,
) -> None:
    """Look whether what a memory needs is there; exit code 1 if something is to be done. Asks no network."""
    PROGRESS("looking")
    found = [*_machine(), _model(model), _database(url), _disk()]
    found += [_server(server)] if server else []

    def people() -> None:
        for one in found:
            say(f"{'!' if one.do else ' '} {one.what}: {one.found}" + (f"\n    -> {one.do}" if one.do else ""))

    emit(found, as_json, people)
    if any(one.do for one in found):
        raise typer.Exit(1)


def _machine() -> Iterator[Finding]:
    yield Finding("plume_memory", __version__)
    yield Finding("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}")
    import torch  # noqa: PLC0415 — a second

    has_bf16 = torch.cpu.get_capabilities().get("avx512_bf16", False)
    speed = "bfloat16" if has_bf16 else "no bfloat16: float32, two to three times slower"
    yield Finding("PyTorch", f"{torch.__version__}, {counted(torch.get_num_threads(), 'thread')}")
    yield Finding("packages", ", ".join(f"{name} {version(name)}" for name in _PACKAGES))
    yield Finding("processor", speed)
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "none that PyTorch sees"
    yield Finding("GPU", gpu)
    extras = {"server": "fastapi", "langchain": "langchain", "postgres": "psycopg", "s3": "s3fs", "ray": "ray"}
    there = [name for name, module in extras.items() if importlib.util.find_spec(module)]
    yield Finding("extras", ", ".join(there) or "none")


def _model(model: str) -> Finding:
    from plume_memory.model.hub import check_model, default_cache, is_cached, named_source  # noqa: PLC0415

    try:
        check_model(model)
    except PlumeError as err:
        return Finding("model", str(err), "name another with --model: plume models list")
    if named_source(model) is None or is_cached(model):
        return Finding("model", f"{model}, in {default_cache()}" if named_source(model) else model)
    return Finding("model", f"{model} is not in {default_cache()}", f"plume models fetch {model}")


def _database(url: str) -> Finding:
    from plume_memory.pool import MemoryPool  # noqa: PLC0415 — alembic, after `--help`
    from plume_memory.store.failures import shown_text  # noqa: PLC0415 — as above
    from plume_memory.store.paths import is_missing_file  # noqa: PLC0415 — as above

    refused = _refused(url)
    if refused:
        return Finding(
            "database", f"{shown_text(url)} cannot be written: {refused}", "make its folder, or name another"
        )
    if is_missing_file(url):
        return Finding("database", f"{shown_text(url)} is not there yet: the first update makes it")
    try:
        with MemoryPool(url) as pool:
            return Finding("database", f"{shown_text(url)}, {counted(len(pool.names()), 'memory', 'memories')}")
    except PlumeError as err:
        return Finding("database", f"{type(err).__name__}: {err}", "see what it says; --db names another")


def _refused(url: str) -> str:
    """Why a SQLite file could not be written; tried, as permissions alone do not tell. Leaves nothing behind."""
    from plume_memory.store.paths import database_file  # noqa: PLC0415 — as above

    file = database_file(url)
    if file is None:
        return ""
    try:
        with tempfile.TemporaryFile(dir=file.parent):
            pass
        if file.exists():
            file.open("r+b").close()
    except OSError as err:
        return str(err)
    return ""


def _disk() -> Finding:
    from plume_memory.model.hub import default_cache  # noqa: PLC0415 — as above

    place = next(folder for folder in (default_cache(), *default_cache().parents) if folder.is_dir())
    free = shutil.disk_usage(place).free
    is_short = free < _NEEDED_BYTES and not os.access(default_cache() / "models", os.R_OK)
    return Finding("free disk", f"{free / 2**30:.1f} GiB at {Path(place)}", "make room: 2 GiB" if is_short else "")


def _server(server: str) -> Finding:
    try:
        with urllib.request.urlopen(f"{server.rstrip('/')}/readyz", timeout=_SERVER_S) as answer:
            return Finding("server", f"{server} is ready ({answer.status})")
    except (urllib.error.URLError, ValueError, OSError) as err:
        return Finding("server", f"{server}: {err}", "is `plume serve` running there?")
