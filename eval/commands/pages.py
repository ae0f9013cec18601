"""`python -m eval pages`: every page of committed results from their rows, and the figures that other pages take."""

import gzip
import json
import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from rich.console import Console

from eval.experiments.catalogue import EXPERIMENTS
from eval.experiments.experiment import Selection, choose
from eval.figures import Figures, cells_of
from eval.manifest import Manifest
from eval.report.show import show
from eval.report.view import View
from eval.specs import RunSettings
from plume_memory.errors import InvalidInput
from plume_memory.lora.atomic import write_file

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "eval" / "results" / "smollm2-135m"
ROWS = ROOT / "bench" / "results"
TAKE = (
    ROOT / "README.md",
    ROOT / "docs" / "api.md",
    ROOT / "docs" / "confidence.md",
    ROOT / "docs" / "durability.md",
    ROOT / "docs" / "evaluation.md",
    ROOT / "docs" / "limits.md",
    ROOT / "docs" / "performance.md",
    ROOT / "docs" / "results.md",
    ROOT / "docs" / "scaling.md",
    ROOT / "docs" / "training.md",
    ROOT / "docs" / "vllm.md",
    ROOT / "plume_memory" / "hypernet" / "weights" / "smollm2-135m" / "README.md",
)
"""Pages whose figures are taken from results."""
PAGES = "pages.json"
"""In a folder of results: by page, what it shows."""


class Page(BaseModel):
    """What a page of results shows: an experiment's choices."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    experiment: str
    datasets: tuple[str, ...] = ()
    methods: tuple[str, ...] = ()
    limit: int | None = None

    def command(self, settings: RunSettings) -> str:
        """The command line that shows it."""
        words = ["python", "-m", "eval", self.experiment, *([] if self.limit is None else ["--limit", str(self.limit)])]
        words += [word for name in self.datasets for word in ("--dataset", name)]
        words += [word for name in self.methods for word in ("--method", name)]
        for name, value in settings:
            if value != getattr(RunSettings(), name):
                words += [f"--{name.replace('_', '-')}", str(value)]
        return shlex.join([*words, "--out", "run", "--show-only"])


def pages(
    results: Annotated[Path, typer.Option(help="A folder of committed results.")] = RESULTS,
    data: Annotated[Path, typer.Option(help="Where records are that are not part of the project.")] = Path("."),
    only: Annotated[list[str] | None, typer.Option("--page", help="Only this page. Repeatable.")] = None,
) -> None:
    """Make every page of a folder of results from its rows.

    Of the project's own results the figures are put into the pages that take them, too.

    Raises:
        InvalidInput: a file of the folder is damaged, or a mark names no figure.
    """
    figures = results / "figures.json"
    made = json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        run = run_folder(results, Path(folder))
        for name, page in read_pages(results / PAGES).items():
            if not only or name in only:
                made[name] = cells_of(shown(page, run, results / name, data))
    content = json.dumps(made, ensure_ascii=False, indent=1) + "\n"
    write_file(figures, lambda path: _write(path, content))
    if results.resolve() == RESULTS.resolve():
        take(Figures.read(results, ROWS))


def run_folder(results: Path, folder: Path) -> Path:
    """Make a run folder of committed rows."""
    (folder / "rows").mkdir()
    (folder / "rows" / "rows.jsonl").write_bytes(gzip.decompress((results / "rows.jsonl.gz").read_bytes()))
    shutil.copy(results / "run.json", folder)
    return folder


def read_pages(path: Path) -> dict[str, Page]:
    """By name, what the pages of a folder of results show.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        return TypeAdapter(dict[str, Page]).validate_json(path.read_bytes())
    except (OSError, ValidationError) as err:
        raise InvalidInput(f"{path} cannot be read: {err}") from err


def shown(page: Page, run: Path, folder: Path, data: Path) -> View:
    """Make one page, with its charts, and put it where the results are.

    Raises:
        InvalidInput: no such experiment, method or records, or no row of them.
    """
    experiment = next((one for one in EXPERIMENTS if one.name == page.experiment), None)
    if experiment is None:
        raise InvalidInput(f"No experiment {page.experiment!r}; there are: {', '.join(e.name for e in EXPERIMENTS)}.")
    datasets = tuple(str(data / name) if name.endswith(".jsonl") else name for name in page.datasets)
    items = experiment.plan(choose(experiment.methods, page.methods), Selection(datasets, page.methods, page.limit))
    command = page.command(Manifest.read(run).settings)
    view = show(experiment, items, run, command=command, console=Console())
    folder.mkdir(exist_ok=True)
    for path in (run / experiment.name).iterdir():
        if path.suffix in (".md", ".svg"):
            shutil.copy(path, folder)
    shutil.rmtree(run / experiment.name)
    return view


def take(figures: Figures) -> None:
    """Put the figures into the pages that take them.

    Raises:
        InvalidInput: a mark names no figure.
    """
    new: dict[Path, str] = {}
    for path in TAKE:
        before = path.read_text(encoding="utf-8")
        try:
            after = figures.taken(before)
        except InvalidInput as err:
            raise InvalidInput(f"{path}: {err}") from err
        if after != before:
            new[path] = after
    for path, after in new.items():  # all or none
        path.write_text(after, encoding="utf-8")
        Console().print(f"{path} has new figures", highlight=False)


def _write(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8")
