"""`python -m eval conversations`: public benchmarks of long conversations."""

import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eval.conversations.benchmarks import BENCHMARKS, Benchmark, benchmark_of, load_conversations
from eval.conversations.embedder import MINILM
from eval.conversations.methods import Bm25, CountTokens, Embeddings, Everything, Method
from eval.conversations.ours import Ours
from eval.conversations.readers import open_reader
from eval.conversations.records import drawn, with_idle
from eval.conversations.running import Plan, run
from eval.conversations.scores import Scores, scores_of
from eval.conversations.table import view
from eval.datasets.statistics import CountTokens as CountMany
from eval.datasets.statistics import tokenizer_of
from eval.manifest import Manifest
from eval.metrics.verdicts import Verdicts
from eval.report.markdown import to_markdown
from eval.rows import ItemRow, RowFolder
from eval.specs import RunSettings
from plume_memory.engine import Engine
from plume_memory.errors import InvalidInput
from plume_memory.hypernet.shipped import chosen_network
from plume_memory.recalling.notes import NOTES

METHODS = ("notes", "ranking", "answers", "bm25", "embeddings", "everything")
DEFAULT_METHODS = ("notes", "bm25")
_DEFAULTS = RunSettings(max_new_tokens=64)


class _Model:
    """The run's model: its tokenizer and the engine, each loaded when it is first needed."""

    def __init__(self, settings: RunSettings) -> None:
        self._settings = settings

    def __call__(self) -> Engine:
        return self._engine

    def count_tokens(self, text: str) -> int:
        """Of a text, as the model reads it."""
        return self._count([text])[0]

    @cached_property
    def _count(self) -> "CountMany":
        return tokenizer_of(self._settings.model)

    @cached_property
    def _engine(self) -> Engine:
        asked = self._settings
        return Engine.load(asked.model, hypernetwork=asked.hypernetwork, device=asked.device, dtype=asked.dtype)


def conversations(
    benchmark: Annotated[str, typer.Argument(help=f"One of: {', '.join(one.name for one in BENCHMARKS)}.")],
    file: Annotated[Path | None, typer.Option("--file", help="The benchmark's file; else the hub.")] = None,
    part: Annotated[str | None, typer.Option("--part", help="Of the hub: s, m, oracle; or a split.")] = None,
    method: Annotated[
        list[str] | None, typer.Option("--method", help=f"Of {', '.join(METHODS)}. Repeatable; notes and bm25 if none.")
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option("--reader", help="Who answers from what is found: base, provider:model; or nobody."),
    ] = None,
    reader_url: Annotated[str | None, typer.Option("--reader-url", help="Of an OpenAI-compatible server.")] = None,
    embedder: Annotated[
        str, typer.Option("--embedder", help="Of --method embeddings: a sentence-transformers model or folder.")
    ] = MINILM,
    count: Annotated[
        int | None, typer.Option("--conversations", help="So many, drawn with --seed; all if not given.")
    ] = None,
    questions: Annotated[
        int | None, typer.Option("--questions", help="Answerable ones of each, and half as many unanswerable; drawn.")
    ] = None,
    idle: Annotated[bool, typer.Option("--idle", help="Also say ten things that ask nothing of a memory.")] = False,
    k: Annotated[int, typer.Option("--k", min=1, help="Notes or turns that are shown.")] = NOTES,
    out: Annotated[Path, typer.Option("--out", help="The run's folder; rows found there are not run again.")] = Path(
        "eval-run"
    ),
    model: Annotated[str, typer.Option(help="As in Engine.load.")] = _DEFAULTS.model,
    hypernetwork: Annotated[str, typer.Option(help="As in Engine.load.")] = _DEFAULTS.hypernetwork,
    device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, …")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Of an answer.")] = _DEFAULTS.max_new_tokens,
    seed: Annotated[int, typer.Option(help="Of what is drawn, and of the intervals.")] = _DEFAULTS.seed,
    judge: Annotated[str | None, typer.Option(help="Whose verdicts to show, where several judged.")] = None,
    show_only: Annotated[bool, typer.Option("--show-only", help="Run nothing; show the rows there are.")] = False,
) -> None:
    """Recall of gold turns, answers, abstention and cost on LoCoMo, LongMemEval or MemoryAgentBench.

    Raises:
        PlumeError: no such benchmark, method, file or model, a folder of other settings, or an item that failed.
    """
    named = benchmark_of(benchmark)
    settings = RunSettings(
        model=model,
        hypernetwork=hypernetwork,
        device=device,
        dtype=dtype,
        max_new_tokens=max_new_tokens,
        batch=1,
        seed=seed,
    )
    chosen = drawn(load_conversations(named, file, part), count=count, questions=questions, seed=seed)
    loaded = _Model(settings)
    asked = Plan(
        benchmark=named,
        conversations=tuple(with_idle(one) if idle else one for one in chosen),
        methods=tuple(_methods(method or DEFAULT_METHODS, loaded, settings, k=k, embedder=embedder, out=out)),
        reader=open_reader(reader, reader_url, engine=loaded, max_new_tokens=max_new_tokens),
        settings=settings,
    )
    if show_only:
        Manifest.read(out)  # there must be one to show
    else:
        chosen_network(model, hypernetwork)  # a misspelt name must not claim the folder
    manifest = Manifest.of(settings).claim(out)
    if not show_only:
        run(asked, RowFolder(out), Console(stderr=True))
    _show(asked, out, manifest, judge)


def _methods(
    names: Sequence[str], model: _Model, settings: RunSettings, *, k: int, embedder: str, out: Path
) -> list[Method]:
    found: list[Method] = []
    count: CountTokens = model.count_tokens
    for name in dict.fromkeys(names):
        match name:
            case "notes" | "ranking" | "answers":
                found.append(Ours(name, model, count, k, settings.max_new_tokens, out / "memories"))
            case "bm25":
                found.append(Bm25(count, k))
            case "embeddings":
                found.append(Embeddings(embedder, count, k))
            case "everything":
                found.append(Everything(count))
            case _:
                raise InvalidInput(f"Unknown method {name!r}; known are {', '.join(METHODS)}.")
    return found


def _show(plan: Plan, out: Path, manifest: Manifest, judge: str | None) -> None:
    """Write the page and the scores without text into the run folder, and print where they are."""
    keys = plan.wanted()
    by_key = {row.key: row for row in RowFolder(out).read()}
    rows = [by_key[key] for key in keys if key in by_key]
    if not rows:
        raise InvalidInput(f"{out} holds no row of {plan.benchmark.name} with these choices yet.")
    scores = [scores_of(row) for row in rows]
    left = len(keys) - len(rows)
    partly = [f"**unfinished: {left} of {len(keys)} rows of this command are not there yet**"] if left else []
    benchmark: Benchmark = plan.benchmark
    page = to_markdown(
        benchmark.name,
        f"{benchmark.title}: {benchmark.licence} ({benchmark.origin}).",
        view(scores, _judged(rows, out, judge), seed=plan.settings.seed, has_gold=benchmark.has_gold),
        command=shlex.join(["python", "-m", "eval", *sys.argv[1:]]),
        facts=[*manifest.facts, *partly],
    )
    folder = out / f"conversations-{benchmark.name}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(page, encoding="utf-8")
    (folder / "figures.jsonl").write_text("".join(_line(one) for one in scores), encoding="utf-8")
    Console().print(f"{len(rows)} of {len(keys)} rows · {folder / 'README.md'}", highlight=False, soft_wrap=True)


def _judged(rows: Sequence[ItemRow], out: Path, judge: str | None) -> dict[tuple[str, str, str], bool]:
    """Verdicts on the answers that have one."""
    verdicts = Verdicts.read(out, judge)
    if verdicts is None:
        return {}
    said = {(row.method, row.transition, row.answers[0].question_id): verdicts.of(row.answers[0]) for row in rows}
    return {place: verdict for place, verdict in said.items() if verdict is not None}


def _line(scores: Scores) -> str:
    return json.dumps(asdict(scores), ensure_ascii=False) + "\n"
