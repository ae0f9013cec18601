"""`python -m eval smoke`: exit code 1 when something became worse."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eval.results import Results
from eval.rows import RowFolder
from eval.runner import Shard, missing, run_here
from eval.smoke import SETTINGS, STORED, Baseline, compare, measure, plan
from eval.workbench import Workbench
from plume_memory.errors import InvalidInput


def smoke(
    out: Annotated[Path, typer.Option("--out", help="A new folder, or one of an interrupted smoke run.")],
    write: Annotated[bool, typer.Option("--write", help="Store the figures instead of comparing.")] = False,
    within: Annotated[
        float | None, typer.Option(help="Fail when it takes more seconds (of a resumed run: the rest).")
    ] = None,
) -> None:
    """A few records of muse-mini on SmolLM2 against stored figures; five minutes on two cores."""
    console = Console()
    items = plan()
    if not missing(items, SETTINGS, out):
        raise InvalidInput(f"{out} holds a finished smoke run, perhaps of other code; name a new folder.")
    begun = time.perf_counter()
    run_here(items, Workbench(SETTINGS), out, shard=Shard(1, 1), console=Console(stderr=True))
    seconds = time.perf_counter() - begun
    results = Results(RowFolder(out).named({item.key(SETTINGS): item.method.name for item in items}))
    if write:
        STORED.write_text(measure(results).model_dump_json(indent=2) + "\n", encoding="utf-8")
        console.print(f"stored {STORED}", highlight=False)
    worse = not write and _is_worse(results, console)
    late = within is not None and seconds > within
    console.print(f"{seconds:.0f} s{f', LATE: {within:.0f} were given' if late else ''}", highlight=False)
    if worse or late:
        raise typer.Exit(1)


def _is_worse(results: Results, console: Console) -> bool:
    """Print the figures, and how they stand to the stored ones."""
    stored = Baseline.read()
    found = measure(results)
    outcome = compare(stored, found)
    for method in found.recall:
        console.print(f"{method}: recall {found.recall[method]}, stale {found.stale.get(method)}", highlight=False)
    for line in outcome.better:
        console.print(f"better, store it with --write: {line}", highlight=False)
    for line in outcome.worse:
        console.print(f"WORSE: {line}", highlight=False)
    return bool(outcome.worse)
