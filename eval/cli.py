"""`python -m eval`: one command per experiment, and those that build, judge and report.

An experiment's command runs what has no row yet and then shows everything the run folder has; called again, or
after a kill, it goes on where it was.
"""

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from eval.commands import build as building
from eval.commands.case import case
from eval.commands.conversations import conversations
from eval.commands.judge import judge
from eval.commands.pages import pages
from eval.commands.report import report
from eval.commands.smoke import smoke
from eval.commands.stats import stats
from eval.datasets.muse import MINI
from eval.experiments.catalogue import EXPERIMENTS
from eval.experiments.experiment import Experiment, Selection, choose
from eval.manifest import Manifest
from eval.report.show import show
from eval.report.view import View
from eval.runner import Shard, run_here, run_in_processes
from eval.specs import Item, RunSettings
from eval.workbench import Workbench
from plume_memory.errors import InvalidInput, PlumeError
from plume_memory.hypernet.shipped import chosen_network

app = typer.Typer(
    name="python -m eval",
    help="Evaluate memory: MUSE-Bench, every baseline, the continual experiment, public benchmarks of conversations.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
CONSOLE = Console()
ERRORS = Console(stderr=True)

Out = Annotated[Path, typer.Option("--out", help="The run's folder; rows found there are not run again.")]
Datasets = Annotated[
    list[str] | None,
    typer.Option("--dataset", help=f"muse-mini, muse-chains, {', '.join(MINI)}, or a JSONL file. Repeatable."),
]
Methods = Annotated[list[str] | None, typer.Option("--method", help="Only these of the experiment's. Repeatable.")]
Limit = Annotated[int | None, typer.Option("--limit", help="Records per dataset.")]
Workers = Annotated[int, typer.Option("--workers", min=1, help="Processes on this machine.")]
Defaults = RunSettings()


@dataclass(frozen=True, slots=True)
class Execution:
    """How an experiment's items are run."""

    shard: Shard
    workers: int
    ray: int | None
    """Actors on a Ray cluster; None without Ray."""
    show_only: bool
    judge: str | None
    arguments: tuple[str, ...]
    """The command line a worker is called with."""

    def require_possible(self) -> None:
        """Refuse options that would silently replace each other.

        Raises:
            InvalidInput: more than one way of dividing the work.
        """
        ways = [self.shard.count > 1, self.workers > 1, self.ray is not None]
        if sum(ways) > 1:
            raise InvalidInput("--shard, --workers and --ray each divide the work; use one of them.")


def _command(experiment: Experiment) -> Callable[..., None]:
    """The command of one experiment; all of them take the same options."""

    def command(
        out: Out = Path("eval-run"),
        dataset: Datasets = None,
        method: Methods = None,
        limit: Limit = None,
        model: Annotated[str, typer.Option(help="As in Engine.load.")] = Defaults.model,
        hypernetwork: Annotated[str, typer.Option(help="shipped, distill, or a folder.")] = Defaults.hypernetwork,
        device: Annotated[str | None, typer.Option(help="cpu, cuda, cuda:1, …")] = None,
        dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16.")] = None,
        max_new_tokens: Annotated[int, typer.Option(min=1)] = Defaults.max_new_tokens,
        batch: Annotated[int, typer.Option(min=1, help="Questions per decode.")] = Defaults.batch,
        seed: Annotated[int, typer.Option()] = Defaults.seed,
        distill_epochs: Annotated[int, typer.Option(min=1, help="Of CD.")] = Defaults.distill_epochs,
        distill_rate: Annotated[float, typer.Option(help="Of CD.")] = Defaults.distill_rate,
        exam_rounds: Annotated[int, typer.Option(min=1, help="Of CD, five questions each.")] = Defaults.exam_rounds,
        shard: Annotated[str, typer.Option(help="Only part i of n, as i/n.")] = "1/1",
        workers: Workers = 1,
        ray: Annotated[int | None, typer.Option(min=1, help="Run on a Ray cluster with so many actors.")] = None,
        judge: Annotated[str | None, typer.Option(help="Whose verdicts to show, where several judged.")] = None,
        show_only: Annotated[bool, typer.Option("--show-only", help="Run nothing; show the rows there are.")] = False,
    ) -> None:
        settings = RunSettings(
            model=model,
            hypernetwork=hypernetwork,
            device=device,
            dtype=dtype,
            max_new_tokens=max_new_tokens,
            batch=batch,
            seed=seed,
            distill_epochs=distill_epochs,
            distill_rate=distill_rate,
            exam_rounds=exam_rounds,
        )
        selection = Selection(tuple(dataset or ()), tuple(method or ()), limit)
        how = Execution(Shard.parse(shard), workers, ray, show_only, judge, _without_workers(sys.argv[1:]))
        run_experiment(experiment, selection, settings, out, how)

    command.__doc__ = experiment.about
    return command


for _experiment in EXPERIMENTS:
    app.command(_experiment.name)(_command(_experiment))
for _other in (case, conversations, judge, pages, report, stats, building.build, smoke):
    app.command(_other.__name__)(_other)
app.add_typer(building.review, name="review")


def run_experiment(
    experiment: Experiment, selection: Selection, settings: RunSettings, out: Path, how: Execution
) -> View | None:
    """Run what is missing and show what there is; a single shard shows nothing.

    Raises:
        PlumeError: a choice that does not exist, a folder of other settings, or an item that failed.
    """
    how.require_possible()
    chosen = choose(experiment.methods, selection.methods)
    items = experiment.plan(chosen, selection)
    if max(how.workers, how.ray or 1) > 1 and any(item.fresh for item in items):
        raise InvalidInput("Latencies are measured by one process alone; leave --workers and --ray out.")
    if how.show_only:
        Manifest.read(out)  # there must be one to show
    else:
        chosen_network(settings.model, settings.hypernetwork)  # a misspelt name must not claim the folder
    Manifest.of(settings).claim(out)
    if not how.show_only:
        _execute(items, settings, out, how)
    if how.shard.count > 1:
        return None
    command = shlex.join(["python", "-m", "eval", *sys.argv[1:]])
    return show(experiment, items, out, command=command, console=CONSOLE, judge=how.judge)


def _execute(items: Sequence[Item], settings: RunSettings, out: Path, how: Execution) -> None:
    if how.ray is not None:
        from eval.ray_runner import run_on_ray  # noqa: PLC0415 - an extra

        run_on_ray(items, settings, out, workers=how.ray, console=ERRORS)
    elif how.workers > 1:
        run_in_processes(how.arguments, items, settings, out, workers=how.workers, console=ERRORS)
    else:
        run_here(items, Workbench(settings, out), out, shard=how.shard, console=ERRORS)


def _without_workers(arguments: Sequence[str]) -> tuple[str, ...]:
    """A worker's command line: the same without `--workers N`, which would start workers of its own."""
    kept: list[str] = []
    skip = False
    for argument in arguments:
        if skip:
            skip = False
        elif argument == "--workers":
            skip = True
        elif not argument.startswith("--workers="):
            kept.append(argument)
    return tuple(kept)


_UsageError: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code: 0 done, 1 failed, 2 wrong usage or input, 130 interrupted."""
    try:
        code = app(None if arguments is None else list(arguments), prog_name="python -m eval", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except PlumeError as err:
        ERRORS.print(f"[red]{type(err).__name__}[/red]: ", end="")
        ERRORS.print(str(err), markup=False, highlight=False)
        return 2 if isinstance(err, InvalidInput) else 1
    except typer.Exit as stop:
        return int(stop.exit_code)
    except _UsageError as err:
        err.show()
        return int(err.exit_code)
    except (typer.Abort, KeyboardInterrupt):
        ERRORS.print("interrupted; the rows so far are kept")
        return 130


def run() -> None:
    """Entry of `python -m eval`."""
    sys.exit(main())
