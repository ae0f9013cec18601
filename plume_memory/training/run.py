"""Train a network in a folder: the same curve however often the run is killed.

Knows neither data nor losses: those are the task's. What a step does depends on (settings, step, micro-batch)
and the state in the checkpoint, on nothing else: not on the clock, not on how many processes share the work.
A run's folder:

    run.json              settings; a resumed run must have the same
    metrics.jsonl         see metrics.py; tensorboard/ beside it
    checkpoints/          see checkpoints.py
    hypernetwork/         the newest network, loadable at any time, with its model card
    average/, best/       the same, if asked for
"""

import contextlib
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from plume_memory.training.checkpoints import damaged_checkpoints
from plume_memory.training.loop import Loop, RunResult
from plume_memory.training.metrics import Metrics
from plume_memory.training.processes import Processes
from plume_memory.training.progress import RunProgress
from plume_memory.training.run_folder import CHECKPOINTS, held, open_run, run_record
from plume_memory.training.run_settings import RunSettings
from plume_memory.training.task_protocol import StepReport, Task

__all__ = ["RunResult", "RunSettings", "StepReport", "Task", "run"]


def run(
    task: Task,
    settings: RunSettings,
    folder: Path,
    *,
    resume: bool,
    device: str | torch.device | None = None,
    processes: Processes | None = None,
    progress: RunProgress | None = None,
    described: Mapping[str, Any] | None = None,
    command: str = "plume train … --resume",
) -> RunResult:
    """Train a task's network in a folder until its last step or its time limit.

    Args:
        task: the network, its batches and how it is judged.
        settings: how it is optimised.
        folder: the run's; must be new or empty, unless it is resumed.
        resume: go on from the newest checkpoint; from the start if the run was killed before its first.
        device: where the network is; see `Processes.join`.
        processes: joined already; by default from the launcher's environment.
        progress: told how it goes; by default on stderr.
        described: the rest of the configuration, as JSON; recorded, and, but for `evaluation`, compared
            when the run is resumed.
        command: what resumes this run; for the model card and the message at the time limit.

    Raises:
        TrainingError: the folder does not fit (it is not empty, is another run's, is in use), the checkpoint is
            damaged, more than `max_skips` steps in a row were not finite, or the disk refused.
        MissingExtra: an asked-for package is not installed.
    """
    own = processes or Processes.join(device)
    shown = progress or RunProgress(quiet=not own.is_first)
    record = run_record(settings, described or {}, own.count)
    with contextlib.ExitStack() as stack:
        if processes is None:
            stack.callback(own.leave)
        stack.callback(shown.end)
        own.on_first(lambda: stack.enter_context(held(folder)))
        start = own.on_first(lambda: open_run(folder, record, resume=resume))
        if resume and start is None:
            shown.say(f"{folder} holds no checkpoint to go on from: beginning at the first step")
        for path in damaged_checkpoints(folder / CHECKPOINTS):
            shown.say(f"{path} is damaged and passed over")
        stack.enter_context(_generators_kept(own.device))
        loop = Loop(task, settings, folder, own, shown, record, command)
        step = loop.restore(start)
        metrics = Metrics.resume(folder if own.is_first else None, step=step, tensorboard=settings.tensorboard)
        stack.callback(metrics.close)
        result = loop.train(metrics)
        own.meet()  # one that left while another still works could end that one with a crash
        return result


def _generators_kept(device: torch.device) -> AbstractContextManager[None]:
    """Give torch's generators back as they were: the loop seeds them at every micro-batch."""
    return torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
