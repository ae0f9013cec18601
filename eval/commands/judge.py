"""`python -m eval judge`: ask an LLM judge about the answers of a run."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eval.chat_models import open_judge, without_secrets
from eval.manifest import Manifest
from eval.metrics.judge import judge_run
from eval.rows import RowFolder
from plume_memory.errors import InvalidInput


def judge(
    judge_model: Annotated[str, typer.Option("--judge-model", help="provider:model, as LangChain names chat models.")],
    out: Annotated[Path, typer.Option("--out", help="The run's folder.")] = Path("eval-run"),
    judge_url: Annotated[str | None, typer.Option("--judge-url", help="Of an OpenAI-compatible server.")] = None,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Calls at a time.")] = 4,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Questions per dataset.")] = None,
) -> None:
    """Judge the answers of a run (D2 and D3, a call each); what is judged is not judged again.

    Raises:
        PlumeError: see `judge_run` and `open_judge`.
    """
    Manifest.read(out)  # says so where this is no run folder
    rows = RowFolder(out).read()
    if not rows:
        raise InvalidInput(f"{out} holds no rows yet; run an experiment with --out {out} first.")
    model = open_judge(judge_model, judge_url)
    # servers may have different models under one name
    name = judge_model if judge_url is None else f"{judge_model} at {without_secrets(judge_url)}"
    done = judge_run(rows, model, out, name, console=Console(stderr=True), workers=workers, limit=limit)
    Console().print(
        f"{done.outputs} outputs judged by {name}, {done.calls} calls now. "
        "An experiment's command with --show-only shows the column.",
        highlight=False,
    )
