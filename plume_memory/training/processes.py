"""The processes of one run, through `accelerate` when there are several. Knows tensors, no training.

There is no wrapper around the network: gradients are summed in one flat tensor, so that a step of several
processes is the step of one process over the same micro-batches.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from plume_memory.errors import InvalidInput, MissingExtra, PlumeError

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among those of the run."""

    device: torch.device
    index: int = 0
    count: int = 1
    accelerator: Any = None
    """An `accelerate.Accelerator`; None with one process."""

    @classmethod
    def join(cls, device: str | torch.device | None = None) -> "Processes":
        """Join the processes that the launcher announced in the environment (WORLD_SIZE); else be alone.

        Args:
            device: "cpu", "cuda" or "cuda:N"; CUDA where there is one when not given. With several processes
                each gets the GPU of its local rank.

        Raises:
            MissingExtra: there are several processes, and accelerate is not installed.
            InvalidInput: unknown device.
        """
        chosen = _device(device)
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls(chosen)
        try:
            from accelerate import Accelerator, InitProcessGroupKwargs  # noqa: PLC0415 — optional, slow
        except ImportError as err:
            raise MissingExtra("Several processes need accelerate: pip install 'plume-memory[train]'.") from err
        # The first process evaluates and saves while the others wait for it.
        patience = InitProcessGroupKwargs(timeout=timedelta(hours=4))
        accelerator = Accelerator(cpu=chosen.type == "cpu", kwargs_handlers=[patience])
        return cls(accelerator.device, accelerator.process_index, accelerator.num_processes, accelerator)

    @property
    def is_first(self) -> bool:
        """Whether this process logs, evaluates and saves."""
        return self.index == 0

    def total(self, values: Tensor) -> Tensor:
        """Sum a tensor over the processes."""
        if self.count == 1:
            return values
        summed: Tensor = self.accelerator.reduce(values, "sum")
        return summed

    def total_gradients(self, parameters: list[nn.Parameter]) -> None:
        """Sum the gradients over the processes, in place, as one flat tensor; each must have one."""
        if self.count == 1:
            return
        grads = [p.grad for p in parameters if p.grad is not None]
        flat = self.total(torch.cat([grad.reshape(-1) for grad in grads]))
        at = 0
        for grad in grads:
            grad.copy_(flat[at : at + grad.numel()].view_as(grad))
            at += grad.numel()

    def gather(self, value: _T) -> list[_T]:
        """Return every process's value, in their order, to all."""
        if self.count == 1:
            return [value]
        from accelerate.utils import gather_object  # noqa: PLC0415 — optional

        found: list[_T] = gather_object([value])
        return found

    def on_first(self, work: Callable[[], _T]) -> _T:
        """Let the first process do something; all get its result, or raise its PlumeError."""
        if self.count == 1:
            return work()
        from accelerate.utils import broadcast_object_list  # noqa: PLC0415 — optional

        outcome: list[Any] = [None, None]
        if self.is_first:
            try:
                outcome[0] = work()
            except PlumeError as err:
                outcome[1] = err
        broadcast_object_list(outcome)
        if outcome[1] is not None:
            raise outcome[1]
        result: _T = outcome[0]
        return result

    def same_weights(self, network: nn.Module) -> None:
        """Give every process the first one's weights."""
        if self.count == 1:
            return
        from accelerate.utils import broadcast  # noqa: PLC0415 — optional

        with torch.no_grad():
            for tensor in network.state_dict().values():
                tensor.copy_(broadcast(tensor))

    def meet(self) -> None:
        """Wait until every process has come here."""
        if self.count > 1:
            self.accelerator.wait_for_everyone()

    def leave(self) -> None:
        """Take leave of the others; at a good end `meet` before: the first takes with it what all speak through."""
        if self.count > 1:
            self.accelerator.end_training()


def _device(asked: str | torch.device | None) -> torch.device:
    has_cuda = torch.cuda.is_available()
    if asked is None:
        return torch.device("cuda" if has_cuda else "cpu")
    try:
        device = torch.device(asked)
    except RuntimeError as err:
        raise InvalidInput(f"Unknown device {asked!r}; write cpu, cuda or cuda:N.") from err
    if device.type == "cuda" and not has_cuda:
        raise InvalidInput(f"Device {asked!r} was asked for, but this PyTorch sees no CUDA device; use cpu.")
    return device
