"""Micro-batches are drawn by other processes, ahead of the step that needs them: a GPU would wait for one process."""

import os
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from plume_memory.errors import PlumeError

T = TypeVar("T")
_MOST = 12
_AHEAD = 4


class _Drawn(Dataset["T | PlumeError"], Generic[T]):
    def __init__(self, draw: Callable[[int], T]) -> None:
        self._draw = draw

    def __getitem__(self, number: int) -> T | PlumeError:
        try:
            return self._draw(number)
        except PlumeError as err:  # raised where it is asked for: a loader would put a traceback around it
            return err


class DrawnAhead(Generic[T]):
    """Calls a function of the micro-batch's number; what it gives does not depend on who calls it.

    Args:
        draw: pure; it is called in forked processes on CUDA, so it must touch no device.
        device: that the batches are for. On a CPU the processes would take the time of the steps, so none is made.
        stride: how far apart the numbers of successive calls are: the processes that train together, and share cores.
        end: no call has a number from here on.
    """

    def __init__(self, draw: Callable[[int], T], *, device: torch.device, stride: int, end: int) -> None:
        self._draw, self._stride, self._end = draw, stride, end
        self._workers = 0
        if device.type == "cuda" and hasattr(os, "sched_getaffinity"):  # there is no fork where there is none
            self._workers = min(_MOST, max(1, len(os.sched_getaffinity(0)) // stride - 1))
        self._drawn: Iterator[T | PlumeError] = iter(())
        self._next: int | None = None

    def __call__(self, number: int) -> T:
        """What `draw` gives for a number, or raises."""
        if self._workers == 0:
            return self._draw(number)
        if number != self._next:
            self._drawn = iter(
                DataLoader(
                    _Drawn(self._draw),
                    batch_size=None,
                    sampler=range(number, self._end, self._stride),
                    num_workers=self._workers,
                    prefetch_factor=_AHEAD,
                    multiprocessing_context="fork",
                    generator=torch.Generator(),  # its draws are not the run's
                )
            )
        self._next = number + self._stride
        drawn = next(self._drawn)
        if isinstance(drawn, PlumeError):
            raise drawn
        return drawn
