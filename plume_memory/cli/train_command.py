"""`plume train`: read a config, build the task, run it, say how it ended."""

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plume_memory.cli.memory_commands import AsJson
from plume_memory.cli.output import ERR, PROGRESS, emit, plain, say
from plume_memory.errors import counted

if TYPE_CHECKING:
    from plume_memory.training.processes import Processes
    from plume_memory.training.run import RunResult


def register(app: typer.Typer) -> None:
    """Add the command to the tree."""
    app.command()(train)


def train(
    config: Annotated[Path, typer.Argument(help="Settings, as JSON.")],
    overrides: Annotated[
        list[str] | None, typer.Option("--set", help="key.path=value; JSON, else a string. Repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The run's folder; runs/CONFIG by default.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the newest checkpoint there.")] = False,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda or cuda:N.")] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="The same as --set run.seed=N.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a hypernetwork; resumable to the same result after a kill. Several GPUs: under `accelerate launch`."""
    from plume_memory.training.overrides import read_settings  # noqa: PLC0415 — after `--help`
    from plume_memory.training.settings import TrainSettings  # noqa: PLC0415

    changes = [*(overrides or ()), *(() if seed is None else (f"run.seed={seed}",))]
    settings = read_settings(TrainSettings, config, changes)
    folder = out or Path("runs") / config.stem
    if os.environ.get("RANK", "0") == "0":
        PROGRESS("starting")

    from plume_memory.heap import keep_freed_memory  # noqa: PLC0415
    from plume_memory.training.processes import Processes  # noqa: PLC0415 — torch, after bad settings were refused
    from plume_memory.training.run import run  # noqa: PLC0415
    from plume_memory.training.run_folder import INPUTS, require_run, run_record  # noqa: PLC0415
    from plume_memory.training.task import build_task  # noqa: PLC0415

    processes = Processes.join(device)
    if processes.device.type == "cpu":
        keep_freed_memory()
    try:
        described = settings.model_dump(mode="json", exclude={"run"})
        # before the model and the data are read, which takes a minute
        require_run(folder, run_record(settings.run, described, processes.count), resume=resume)
        PROGRESS.clear()
        if processes.is_first:
            what = f"training a network for {settings.model}, {counted(settings.run.steps, 'step')}, into {folder}"
            ERR.print(f"{what}; reading the model and the data ...", markup=False, soft_wrap=True)
        task = build_task(settings, str(processes.device), processes.count)
        for line in task.sources() if processes.is_first else ():
            ERR.print(line, markup=False, highlight=False)
        result = run(
            task,
            settings.run,
            folder,
            resume=resume,
            processes=processes,
            described=described | {INPUTS: task.inputs()},
            command=_command(config, folder, changes, device, processes),
        )
    finally:
        processes.leave()
    if processes.is_first:
        emit(_shown(result), as_json, lambda: say(_sentence(result)))


def _command(config: Path, folder: Path, changes: list[str], device: str | None, processes: "Processes") -> str:
    """What resumes this run, for the model card and for people."""
    launch = ["plume", "train"]
    threads = ""
    if processes.count > 1:
        # `accelerate launch` starts several processes on GPUs only.
        on_cpu = ["torchrun", "--nproc_per_node", str(processes.count)]
        on_gpus = ["accelerate", "launch", "--num_processes", str(processes.count)]
        is_cpu = processes.device.type == "cpu"
        launch = [*(on_cpu if is_cpu else on_gpus), "-m", "plume_memory.cli", "train"]
        # without it each process takes every core
        threads = f"OMP_NUM_THREADS={os.environ.get('OMP_NUM_THREADS', '1')} " if is_cpu else ""
    given = [word for change in changes for word in ("--set", change)]
    where = [] if device is None else ["--device", device]
    return threads + shlex.join([*launch, str(config), *given, "--out", str(folder), *where, "--resume"])


def _shown(result: "RunResult") -> dict[str, Any]:
    found: dict[str, Any] = plain(result)
    return found | {"folder": str(result.folder), "hypernetwork": str(result.hypernetwork)}


def _sentence(result: "RunResult") -> str:
    end = "done" if result.stopped == "steps" else "stopped at the time limit"
    loss = "" if result.loss is None else f", loss {result.loss:.4f}"
    return f"{end} after {counted(result.steps, 'step')}{loss}; the hypernetwork is in {result.hypernetwork}"
