"""`python -m eval build` and `review`: make MUSE records with chat models, and let people judge them."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from eval.build.journal import Role
from eval.build.pipeline import BuildSettings
from eval.build.pipeline import build as build_records
from eval.build.progress import console_progress
from eval.build.report import Price
from eval.build.review import agreements, export_sheet, import_sheets
from eval.chat_models import open_chat_model
from eval.datasets.sources import SOURCES, load_source
from eval.records import read_records
from plume_memory.errors import InvalidInput

REPLY_TOKENS = 4096
"""Longest reply of annotator and verifier: an account of some 2,500 words rewritten, with its questions, as JSON."""

review = typer.Typer(help="Sheets for reviewers, and how far they agree.", no_args_is_help=True)


def build(
    source: Annotated[str, typer.Argument(help=f"One of {', '.join(SOURCES)}.")],
    annotator: Annotated[str, typer.Option("--annotator", help="provider:model, as LangChain names chat models.")],
    out: Annotated[Path, typer.Option("--out", help="A folder of its own; a build found there is continued.")],
    verifier: Annotated[str | None, typer.Option("--verifier", help="Another model; the annotator by default.")] = None,
    url: Annotated[str | None, typer.Option("--url", help="The annotator's OpenAI-compatible server.")] = None,
    verifier_url: Annotated[str | None, typer.Option("--verifier-url", help="The verifier's.")] = None,
    max_tokens: Annotated[
        int, typer.Option("--max-tokens", min=256, help="Longest reply; 16384 for whole papers (QASPER).")
    ] = REPLY_TOKENS,
    data: Annotated[Path | None, typer.Option("--data", help="Local file or folder instead of the hub.")] = None,
    sample: Annotated[int | None, typer.Option("--sample", min=1, help="Contexts with one question each.")] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="The first so many contexts.")] = None,
    seed: Annotated[int, typer.Option("--seed")] = 0,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Verification calls per draft.")] = 3,
    revisions: Annotated[int, typer.Option("--revisions", min=0, help="Of a draft that does not pass.")] = 2,
    workers: Annotated[int, typer.Option("--workers", min=1, help="Contexts at a time.")] = 1,
    price: Annotated[
        str | None, typer.Option("--price", help="INPUT/OUTPUT per million tokens, for the report's costs.")
    ] = None,
    verifier_price: Annotated[str | None, typer.Option("--verifier-price", help="Of another verifier.")] = None,
) -> None:
    """Make MUSE records of source texts: annotate, check, verify, revise or reject; resumable at every paid call."""
    contexts = load_source(source, data=data, sample=sample, seed=seed)[:limit]
    if verifier is None and (verifier_url or verifier_price):
        raise InvalidInput("--verifier-url and --verifier-price are of a --verifier; name it, or leave them out.")
    writer = open_chat_model(annotator, url, option="--annotator", max_tokens=max_tokens)
    checker = (
        open_chat_model(verifier, verifier_url, option="--verifier", max_tokens=max_tokens) if verifier else writer
    )
    given: tuple[tuple[Role, str | None], ...] = (
        ("annotator", price),
        ("verifier", verifier_price if verifier else price),
    )
    prices: dict[Role, Price] = {role: _price(text) for role, text in given if text is not None}
    with console_progress(Console(stderr=True)) as tell:
        found = build_records(
            contexts,
            out,
            annotator=writer,
            verifier=checker,
            settings=BuildSettings(seed=seed, rounds=rounds, revisions=revisions, workers=workers),
            prices=prices,
            progress=tell,
        )
    Console().print(
        f"{found.accepted} of {found.contexts} accepted · {out / 'report.md'}", highlight=False, soft_wrap=True
    )


@review.command("export")
def export(
    records: Annotated[Path, typer.Argument(help="Records, as JSONL.")],
    sheet: Annotated[Path, typer.Argument(help="A .csv or .jsonl file to fill in.")],
) -> None:
    """Write an empty sheet, a row per question."""
    rows = export_sheet(read_records(records), sheet)
    Console().print(f"{rows} rows · {sheet}", highlight=False, soft_wrap=True)


@review.command("agreement")
def agreement(
    records: Annotated[Path, typer.Argument(help="The records the sheets are about.")],
    sheets: Annotated[list[Path], typer.Argument(help="Filled sheets.")],
) -> None:
    """Print how far the reviewers agree, per judged column."""
    shown = Table("column", "reviewers", "items", "agreement", "Cohen's κ", "Fleiss' κ", "Krippendorff's α")
    for column, found in agreements(import_sheets(sheets, read_records(records))).items():
        kappas = (found.cohen_kappa, found.fleiss_kappa, found.krippendorff_alpha)
        agreed = "–" if found.percent is None else f"{found.percent:.1f} %"
        shown.add_row(
            column,
            ", ".join(found.reviewers),
            str(found.items),
            agreed,
            *("–" if value is None else f"{value:.3f}" for value in kappas),
        )
    Console().print(shown)


def _price(text: str) -> Price:
    left, slash, right = text.partition("/")
    try:
        return Price(input_per_million=float(left), output_per_million=float(right if slash else left))
    except ValueError as err:
        raise InvalidInput(f"--price is INPUT/OUTPUT per million tokens, as in 0.15/0.60; got {text!r}.") from err
