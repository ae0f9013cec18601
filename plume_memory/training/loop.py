"""The training loop: steps, logs, evaluations, checkpoints. See run.py for what it promises.

Everything it continues from is in `_Counters` or in tensors that have names.
"""

import contextlib
import dataclasses
import hashlib
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from plume_memory.errors import TrainingError
from plume_memory.heap import give_back_freed_memory
from plume_memory.training.card import CardFacts, TaskCard, machine_class, write_card
from plume_memory.training.checkpoints import Checkpoint, load_checkpoint, replace_folder, save_checkpoint
from plume_memory.training.metrics import FILE, Metrics, Window
from plume_memory.training.optimizer import MovingAverage, NetworkOptimizer, learning_rate
from plume_memory.training.processes import Processes
from plume_memory.training.progress import RunProgress
from plume_memory.training.run_folder import CHECKPOINTS
from plume_memory.training.run_settings import RunSettings
from plume_memory.training.speed import peak_flops
from plume_memory.training.task_protocol import Carded, Task


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended."""

    stopped: Literal["steps", "minutes"]
    """What it ended at: its last step, or the time limit (resume to go on)."""
    steps: int
    """Done in all."""
    resumed_from: int | None
    """Steps of the checkpoint it began from; None: it began anew."""
    samples: int
    text_tokens: int
    student_tokens: int
    seconds: float
    """Wall-clock time of all parts of the run that count."""
    loss: float | None
    """The newest `train` row's."""
    figures: Mapping[str, float]
    """The newest evaluation's."""
    folder: Path
    hypernetwork: Path


@dataclass(slots=True)
class _Counters:
    """What a run continues from, beside tensors; JSON in the checkpoint."""

    step: int = 0
    samples: int = 0
    text_tokens: int = 0
    student_tokens: int = 0
    seconds: float = 0.0
    skipped_in_row: int = 0
    loss: float | None = None
    best: float | None = None
    best_of: str | None = None
    figures: dict[str, float] = field(default_factory=dict)
    window: Window = field(default_factory=Window)

    @classmethod
    def of(cls, counters: Mapping[str, Any]) -> "_Counters":
        return cls(**{**counters, "window": Window(**counters["window"])})


class Loop:
    """One run under way in one of its processes."""

    def __init__(
        self,
        task: Task,
        settings: RunSettings,
        folder: Path,
        processes: Processes,
        progress: RunProgress,
        record: Mapping[str, Any],
        command: str,
    ) -> None:
        self._task = task
        self._settings = settings
        self._folder = folder
        self._own = processes
        self._progress = progress
        self._record = record
        self._command = command
        self._optimizer = NetworkOptimizer(task.network, settings)
        trained = {name: p for name, p in task.network.named_parameters() if p.requires_grad}
        self._average = None if settings.average is None else MovingAverage(trained, settings.average)
        self._counters = _Counters()
        self._metrics = Metrics(None)
        self._resumed_from: int | None = None
        self._begun = self._saved = time.monotonic()
        self._before_s = 0.0
        self._step_s = 0.0
        self._peak = 0.0

    # --- the course of a run ---

    def restore(self, start: Path | None) -> int | None:
        """Take the state from a checkpoint and return its step; None: begin, all with the first one's weights."""
        if start is None:
            self._own.same_weights(self._task.network)
            if self._average is not None:
                self._average.restart()
            return None
        checkpoint = load_checkpoint(start)
        parts: dict[str, dict[str, Tensor]] = {"network": {}, "optimizer": {}, "average": {}}
        for name, tensor in checkpoint.tensors.items():
            kind, _, rest = name.partition("/")
            parts[kind][rest] = tensor
        try:
            self._task.network.load_state_dict(parts["network"])
        except RuntimeError as err:
            raise TrainingError(f"The checkpoint {start} does not fit the network: {err}") from err
        self._optimizer.restore(parts["optimizer"])
        if self._average is not None:
            self._average.restore(parts["average"])
        self._counters = _Counters.of(checkpoint.counters)
        if not self._own.is_first:  # the first one's sums have the others' in them
            self._counters.window.drop_parts()
        self._before_s = self._counters.seconds
        self._resumed_from = checkpoint.step
        return checkpoint.step

    def train(self, metrics: Metrics) -> RunResult:
        """Run to the last step or the time limit."""
        self._metrics = metrics
        settings, counters = self._settings, self._counters
        self._announce()
        self._peak = peak_flops(self._own.device)
        self._begun = self._saved = time.monotonic()
        if self._resumed_from is None and settings.eval_first:
            self._evaluate()
            self._progress.pace()
        stopped: Literal["steps", "minutes"] = "steps"
        while counters.step < settings.steps:
            due = self._step()
            at = counters.step
            is_last = at == settings.steps
            if is_last or at % settings.log_every == 0:
                self._log()
                give_back_freed_memory()
            if is_last or (settings.eval_every and at % settings.eval_every == 0):
                self._judge()
            if is_last or due.save or (settings.checkpoint_every and at % settings.checkpoint_every == 0):
                self._save()
            if due.stop and not is_last:
                stopped = "minutes"
                self._progress.say(f"time limit reached after step {at}; go on with: {self._command}")
                break
        if counters.skipped_in_row >= counters.step > 0:
            raise TrainingError(
                f"None of the {counters.step} steps had a finite loss and gradient, so nothing was learnt. Look at the "
                "`skip` rows of the metrics, lower run.learning_rate, or look at the data."
            )
        if self._resumed_from is not None and self._resumed_from >= settings.steps:
            self._own.on_first(self._save_networks)  # a kill may have come between the checkpoint and these
        return self._result(stopped)

    def _announce(self) -> None:
        done = self._counters.step
        self._progress.begin(done, self._settings.steps, self._settings.minutes)
        if self._resumed_from is not None:
            self._progress.say(f"resuming {self._folder} after step {done}")

    def _result(self, stopped: Literal["steps", "minutes"]) -> RunResult:
        counters = self._counters
        return RunResult(
            stopped=stopped,
            steps=counters.step,
            resumed_from=self._resumed_from,
            samples=counters.samples,
            text_tokens=counters.text_tokens,
            student_tokens=counters.student_tokens,
            seconds=self._seconds(),
            loss=counters.loss,
            figures=counters.figures,
            folder=self._folder,
            hypernetwork=self._folder / "hypernetwork",
        )

    # --- one step ---

    def _step(self) -> "_Due":
        """Run the micro-batches, sum over the processes, update; or leave the update out and say so."""
        settings, counters, own = self._settings, self._counters, self._own
        begun = time.monotonic()
        # 1. what the clock asks for: the first process's clock, agreed on with the sums
        due = self._due() if own.is_first else _Due(stop=False, save=False)
        # 2. forward and backward; the gradient is the mean over all micro-batches of all processes
        micro_batches = settings.accumulation * own.count
        sums = torch.tensor([0.0, 0, 0, 0, due.stop, due.save], dtype=torch.float64, device=own.device)
        parts = []
        self._optimizer.clear_gradients()
        for turn in range(settings.accumulation):
            micro = turn * own.count + own.index
            torch.manual_seed(_seed(settings.seed, counters.step, micro))
            report = self._task.step(counters.step, micro, own.index)
            (report.loss / micro_batches).backward()  # type: ignore[no-untyped-call,unused-ignore]
            sums[0] += report.loss.detach().double() / micro_batches
            sums[1:4] += sums.new_tensor([report.text_tokens, report.student_tokens, report.samples])
            parts.append(report.parts)
        # 3. sum over the processes
        own.total_gradients(self._optimizer.parameters)
        loss, *counts, stop, save = own.total(sums).tolist()
        text_tokens, student_tokens, samples = (int(count) for count in counts)
        # 4. clip and update
        most = math.inf if settings.clip_norm is None else settings.clip_norm
        norm = float(torch.nn.utils.clip_grad_norm_(self._optimizer.parameters, most))
        rate = learning_rate(counters.step, settings)
        counters.step += 1
        counters.samples += samples
        counters.text_tokens += text_tokens
        counters.student_tokens += student_tokens
        if math.isfinite(loss) and math.isfinite(norm):
            self._optimizer.step(rate)
            if self._average is not None:
                self._average.update(counters.step)
            counters.skipped_in_row = 0
            counters.window.add_step(loss, norm, text_tokens, student_tokens)
            for named in parts:
                counters.window.add_parts(named)
        else:
            self._skip(loss, norm)
        self._progress.update(counters.step)
        self._step_s = time.monotonic() - begun
        counters.window.seconds += self._step_s
        return _Due(stop=stop > 0, save=save > 0)

    def _due(self) -> "_Due":
        now = time.monotonic()
        minutes, between = self._settings.minutes, self._settings.checkpoint_minutes
        # The step before tells how long the next one takes: the limit is kept, not just noticed.
        stop = minutes is not None and now - self._begun + 2 * self._step_s > minutes * 60
        return _Due(stop, stop or (between is not None and now - self._saved > between * 60))

    def _skip(self, loss: float, norm: float) -> None:
        counters, most = self._counters, self._settings.max_skips
        counters.skipped_in_row += 1
        reason = f"loss {loss}, gradient norm {norm}"
        self._metrics.write("skip", counters.step, {"reason": reason})
        self._progress.say(f"step {counters.step}: update left out, {reason}")
        if counters.skipped_in_row > most:
            self._metrics.sync()
            raise TrainingError(
                f"{counters.skipped_in_row} steps in a row up to step {counters.step} were not finite ({reason}); "
                f"at most {most} are left out. Lower run.learning_rate, or look at the batch of that step."
            )

    # --- what is written down ---

    def _log(self) -> None:
        self._gather_parts()
        counters, window = self._counters, self._counters.window
        if window.steps == 0:  # all were left out, and each has its row
            return
        row = window.row()
        row["learning_rate"] = learning_rate(counters.step - 1, self._settings)
        work = (
            window.text_tokens * self._task.flops_per_text_token
            + window.student_tokens * self._task.flops_per_student_token
        )
        row["mfu"] = work / window.seconds / (self._peak * self._own.count)
        row |= {"seconds": self._seconds(), "samples": counters.samples}
        counters.loss = row["loss"]
        counters.window = Window()
        self._metrics.write("train", counters.step, row)
        self._progress.show(counters.step, _shown(row))

    def _gather_parts(self) -> None:
        """Bring the processes' named figures to the first one."""
        others = self._own.gather(self._counters.window)[1:]
        if not self._own.is_first:
            self._counters.window.drop_parts()
            return
        for other in others:
            self._counters.window.take_parts(other)

    def _judge(self) -> None:
        """Evaluate; what was learnt is kept even if that cannot be done."""
        try:
            self._evaluate()
        except TrainingError:
            self._save()
            raise

    def _evaluate(self) -> None:
        self._counters.figures = self._own.on_first(self._figures)

    def _figures(self) -> dict[str, float]:
        """Judge the network, and its average; keep the best."""
        step = self._counters.step
        torch.manual_seed(_seed(self._settings.seed, step, -1))
        figures = dict(self._task.evaluate(step))
        if self._average is not None:
            torch.manual_seed(_seed(self._settings.seed, step, -1))
            with self._average.applied():
                figures |= {f"average/{name}": value for name, value in self._task.evaluate(step).items()}
        self._metrics.write("evaluation", step, {"figures": figures, "seconds": self._seconds()})
        self._progress.say(f"step {step}: " + " · ".join(f"{name} {value:.4g}" for name, value in figures.items()))
        self._keep_best(figures)
        return figures

    def _keep_best(self, figures: Mapping[str, float]) -> None:
        name, counters = self._settings.keep_best, self._counters
        if name is None:
            return
        if name not in figures:
            raise TrainingError(f"run.keep_best is {name!r}; the evaluation has {', '.join(sorted(figures))}.")
        if counters.best_of != name:
            counters.best, counters.best_of = None, name
        sign = 1 if self._settings.keep_best_of == "highest" else -1
        value = figures[name]
        if math.isfinite(value) and (counters.best is None or sign * value > sign * counters.best):
            counters.best = value
            averaged = self._average is not None and name.startswith("average/")
            with self._average.applied() if averaged and self._average else contextlib.nullcontext():
                self._save_network("best")

    def _save(self) -> None:
        self._gather_parts()
        self._counters.seconds = self._seconds()
        self._own.on_first(self._write_checkpoint)
        self._saved = time.monotonic()

    def _write_checkpoint(self) -> None:
        """Metrics first: the checkpoint counts on their rows. The networks last: they are made from it."""
        self._metrics.sync()
        tensors = {f"network/{name}": tensor for name, tensor in self._task.network.state_dict().items()}
        tensors |= {f"optimizer/{name}": tensor for name, tensor in self._optimizer.state().items()}
        if self._average is not None:
            tensors |= {f"average/{name}": tensor for name, tensor in self._average.state().items()}
        checkpoint = Checkpoint(self._counters.step, tensors, dataclasses.asdict(self._counters))
        settings = self._settings
        save_checkpoint(
            checkpoint, self._folder / CHECKPOINTS, shard_mb=settings.shard_mb, keep=settings.keep_checkpoints
        )
        self._save_networks()

    def _save_networks(self) -> None:
        self._save_network("hypernetwork")
        if self._average is not None:
            with self._average.applied():
                self._save_network("average")

    def _save_network(self, name: str) -> None:
        def fill(folder: Path) -> None:
            self._task.save(folder)
            if isinstance(self._task, Carded):
                write_card(folder, self._card(self._task.card()), metrics=self._folder / FILE)

        replace_folder(self._folder / name, fill)

    def _card(self, task: TaskCard) -> CardFacts:
        counters = self._counters
        return CardFacts(
            task=task,
            settings={**self._record["described"], "run": self._record["run"]},
            parameters=sum(p.numel() for p in self._optimizer.parameters),
            steps=counters.step,
            planned_steps=self._settings.steps,
            samples=counters.samples,
            text_tokens=counters.text_tokens,
            student_tokens=counters.student_tokens,
            seconds=self._seconds(),
            machine=machine_class(str(self._own.device), task.dtype, self._own.count),
            resume_command=self._command,
        )

    def _seconds(self) -> float:
        """Wall-clock time of the parts of the run that count."""
        return self._before_s + time.monotonic() - self._begun


class _Due(NamedTuple):
    stop: bool
    save: bool


def _seed(seed: int, step: int, micro: int) -> int:
    """A seed for torch's generators; the hash keeps neighbouring numbers apart."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{step}/{micro}".encode()).digest()[:8], "little") >> 1


def _shown(row: Mapping[str, Any]) -> str:
    """A `train` row for people."""
    return (
        f"loss {row['loss']:.4f} · lr {row['learning_rate']:.2e} · |g| {row['grad_norm']:.3g} · "
        f"{row['text_tokens_per_s']:,.0f} + {row['student_tokens_per_s']:,.0f} tokens/s · MFU {row['mfu']:.0%}"
    )
