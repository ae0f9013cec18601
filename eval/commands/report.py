"""`python -m eval report`: one HTML page from a run folder."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from plume_memory.lora.atomic import write_file


def report(
    out: Annotated[Path, typer.Option("--out", help="The run's folder.")] = Path("eval-run"),
    judge: Annotated[str | None, typer.Option("--judge", help="Whose verdicts, where several judged.")] = None,
) -> None:
    """Write report.html into the run's folder: every experiment shown so far, figures, and all raw outputs.

    Raises:
        PlumeError: see `to_html`.
    """
    from eval.report.html import to_html  # noqa: PLC0415 - matplotlib takes a second

    content = to_html(out, judge=judge)
    page = out / "report.html"
    write_file(page, lambda path: _write(path, content))
    Console().print(f"{page} · {len(content.encode()) / 2**20:.1f} MiB", highlight=False, soft_wrap=True)


def _write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")
