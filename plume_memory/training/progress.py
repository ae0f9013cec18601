"""How a run is going, on stderr: a bar on a terminal, plain lines elsewhere. Knows only what it is told."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn


class RunProgress:
    """Shows steps, figures and the time left; `quiet` shows nothing (other processes of a run)."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._console = Console(stderr=True, highlight=False, quiet=quiet)
        self._quiet = quiet
        self._bar: Progress | None = None
        self._task: object = None
        self._steps = 0
        self._first = 0
        self._begun = self._paced = 0.0
        self._deadline_s: float | None = None

    def begin(self, done: int, steps: int, minutes: float | None) -> None:
        """Start at a step of a run that ends after `steps`, or after so many minutes."""
        self._first, self._steps = done, steps
        self._begun = self._paced = time.monotonic()
        self._deadline_s = None if minutes is None else minutes * 60
        if self._console.is_terminal and not self._quiet:
            self._bar = Progress(
                BarColumn(bar_width=24),
                MofNCompleteColumn(),
                TextColumn("{task.description}", markup=False),
                console=self._console,
            )
            self._bar.start()
            self._task = self._bar.add_task("starting", total=steps, completed=done)

    def pace(self) -> None:
        """Measure the pace from here on: what came before was no step."""
        self._paced = time.monotonic()

    def update(self, done: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(self._task, completed=done)  # type: ignore[arg-type]

    def show(self, done: int, figures: str) -> None:
        """Show a row of figures and the time left."""
        text = f"{figures} · {self._left(done)}"
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=text)  # type: ignore[arg-type]
        else:
            self.say(f"step {done}/{self._steps} · {text}")

    def say(self, line: str) -> None:
        """Print one line, above the bar."""
        if self._quiet:
            return
        if self._bar is not None:
            self._console.print(line, markup=False)
        else:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()

    def end(self) -> None:
        """Take the bar away."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def _left(self, done: int) -> str:
        """The time to the last step at the pace so far, evaluations between included; to the deadline if sooner."""
        passed = time.monotonic() - self._begun
        if done <= self._first:
            return f"{duration(passed)} passed"
        left = (time.monotonic() - self._paced) / (done - self._first) * (self._steps - done)
        if self._deadline_s is not None and passed + left > self._deadline_s:
            return f"{duration(passed)} passed, {duration(max(0.0, self._deadline_s - passed))} to the time limit"
        return f"{duration(passed)} passed, {duration(left)} left"


def duration(seconds: float) -> str:
    """Write a time as people do: 48s, 12m05s, 3h20m."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
