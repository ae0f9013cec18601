"""Commands on models, hypernetworks, the database's schema, and the demo."""

from pathlib import Path
from typing import Annotated

import typer

from plume_memory.cli.memory_commands import AsJson, Hypernetwork, Model, Url
from plume_memory.cli.output import OUT, PROGRESS, add_row, emit, say, table
from plume_memory.defaults import DEFAULT_MODEL, DEFAULT_URL

models_app = typer.Typer(help="Base models and hypernetworks.", no_args_is_help=True)
db_app = typer.Typer(help="The database's schema.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add these commands to the tree."""
    app.add_typer(models_app, name="models")
    app.add_typer(db_app, name="db")
    app.command()(demo)


@models_app.command("list")
def list_models(as_json: AsJson = False) -> None:
    """List the named models; any Hugging Face id or local folder works too."""
    from plume_memory.hypernet.shipped import shipped_hypernetwork  # noqa: PLC0415 — after `--help`
    from plume_memory.model.hub import NAMED_MODELS, ModelSource, is_cached  # noqa: PLC0415

    def network_of(source: ModelSource) -> str:
        if shipped_hypernetwork(source.name):
            return "shipped"
        return source.checkpoint.repo if source.checkpoint else "distillation"

    found = [
        {
            "name": source.name,
            "origin": source.origin if isinstance(source.origin, str) else source.origin.requirement,
            "hypernetwork": network_of(source),
            "cached": is_cached(source.name),
        }
        for source in NAMED_MODELS
    ]

    def people() -> None:
        rows = table("name", "origin", "hypernetwork", "cached")
        for row in found:
            add_row(rows, *(("yes" if row[k] else "") if k == "cached" else str(row[k]) for k in row))
        OUT.print(rows)

    emit(found, as_json, people)


@models_app.command()
def fetch(name: Annotated[str, typer.Argument(help="Name, folder or id.")], as_json: AsJson = False) -> None:
    """Download a model so that it works offline."""
    from plume_memory.model import hub  # noqa: PLC0415 — after `--help`

    folder = hub.fetch(name)
    emit({"name": name, "folder": str(folder)}, as_json, lambda: say(str(folder)))


@models_app.command()
def convert(
    checkpoint: Annotated[Path, typer.Argument(help="A Doc-to-LoRA pytorch_model.bin.")],
    out: Annotated[Path, typer.Argument(help="Folder to write.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn the reference's pickle into safetensors and JSON, without executing it."""
    PROGRESS("converting")
    from plume_memory.hypernet.d2l.checkpoint import convert as convert_checkpoint  # noqa: PLC0415 — torch

    folder = convert_checkpoint(checkpoint, out, overwrite=overwrite)
    emit({"directory": str(folder)}, as_json, lambda: say(str(folder)))


@db_app.command()
def upgrade(url: Url = DEFAULT_URL, as_json: AsJson = False) -> None:
    """Bring the database's schema to this release."""
    from plume_memory.store.database import Database  # noqa: PLC0415 — alembic, after `--help`

    database = Database(url)
    revision = database.upgrade()
    database.close()
    found = {"url": database.url, "revision": revision}
    emit(found, as_json, lambda: say(f"{database.url} is at revision {revision}"))


def demo(
    model: Model = DEFAULT_MODEL,
    hypernetwork: Hypernetwork = "auto",
    as_json: AsJson = False,
) -> None:
    """Write a history into weights, update it, and ask before and after."""
    from plume_memory.cli.demo import run_demo  # noqa: PLC0415 — torch

    run_demo(model, hypernetwork, as_json)
