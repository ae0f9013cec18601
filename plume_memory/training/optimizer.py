"""AdamW, or Muon for matrices with AdamW for the rest; the rate's schedule; a moving average of the weights.

Knows the network's parameters by name only. State is handed out and taken back as named tensors, so that a
checkpoint needs no pickle.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from plume_memory.errors import TrainingError
from plume_memory.training.run_settings import RunSettings

_UNDECAYED = ("norm", "bias", "scaler", "latents")


def learning_rate(step: int, settings: RunSettings) -> float:
    """Return the rate of one step, counted from 0: linear warm-up to the peak, then the schedule to its floor."""
    if step < settings.warm_up:
        return settings.learning_rate * (step + 1) / settings.warm_up
    if settings.schedule == "constant":
        return settings.learning_rate
    # The last step, steps - 1, is the one at the floor.
    passed = min(1.0, (step - settings.warm_up) / max(1, settings.steps - 1 - settings.warm_up))
    fall = 1 - passed if settings.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * passed))
    return settings.learning_rate * (settings.floor + (1 - settings.floor) * fall)


def is_decayed(name: str, parameter: Tensor) -> bool:
    """Whether weight decay applies: matrices and stacks of them, by name no norm, bias, scaler or latents."""
    return parameter.ndim >= 2 and not any(word in part for part in name.split(".") for word in _UNDECAYED)


@dataclass(frozen=True, slots=True)
class _Slot:
    """One tensor that an optimiser steps: a parameter, or one matrix of a parameter that is a stack."""

    key: str
    leaf: nn.Parameter
    source: nn.Parameter
    row: int | None

    def take_gradient(self) -> None:
        grad = self.source.grad
        if self.row is None or grad is None:
            return
        self.leaf.grad = grad.reshape(-1, *grad.shape[-2:])[self.row]


class NetworkOptimizer:
    """The optimiser of a network's parameters that require a gradient.

    Muon is defined for matrices; a stack [..., rows, columns] is stepped matrix by matrix, through views that
    share the stack's memory. Its rate is scaled so that its updates have AdamW's size (`match_rms_adamw`): one
    learning rate serves both.

    Raises:
        TrainingError: the network has nothing to train; or no matrix, and the optimiser is Muon.
    """

    def __init__(self, network: nn.Module, settings: RunSettings) -> None:
        named = [(n, p) for n, p in network.named_parameters() if p.requires_grad]
        if not named:
            raise TrainingError("The network has no parameter that requires a gradient.")
        matrices: list[_Slot] = []
        decayed: list[_Slot] = []
        plain: list[_Slot] = []
        for name, parameter in named:
            if settings.optimiser == "muon" and is_decayed(name, parameter) and min(parameter.shape[-2:]) > 1:
                matrices += _rows(name, parameter)
            else:
                (decayed if is_decayed(name, parameter) else plain).append(_Slot(name, parameter, parameter, None))
        if settings.optimiser == "muon" and not matrices:
            raise TrainingError("The optimiser is muon, but the network has no matrix; set run.optimiser to adamw.")
        self._slots = matrices + decayed + plain
        self._parameters = [p for _, p in named]
        self._optimizers: list[torch.optim.Optimizer] = []
        if matrices:
            self._optimizers.append(
                torch.optim.Muon(
                    [s.leaf for s in matrices],
                    lr=settings.learning_rate,
                    weight_decay=settings.weight_decay,
                    adjust_lr_fn="match_rms_adamw",
                )
            )
        groups = [
            {"params": [s.leaf for s in slots], "weight_decay": decay}
            for slots, decay in ((decayed, settings.weight_decay), (plain, 0.0))
            if slots
        ]
        if groups:
            self._optimizers.append(
                torch.optim.AdamW(groups, lr=settings.learning_rate, betas=settings.betas, fused=True)
            )

    @property
    def parameters(self) -> list[nn.Parameter]:
        """The trained parameters, in the network's order."""
        return self._parameters

    def step(self, rate: float) -> None:
        """Update the parameters from their gradients, which stay as they are."""
        for slot in self._slots:
            slot.take_gradient()
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()

    def clear_gradients(self) -> None:
        """Set every gradient to zero: parameters that a batch leaves out are still decayed and reduced alike."""
        for parameter in self._parameters:
            parameter.grad = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad.zero_()

    def state(self) -> dict[str, Tensor]:
        """Return the optimiser's tensors by name: `{parameter}[row]?/{what}`; live, not copies."""
        found: dict[str, Tensor] = {}
        for slot in self._slots:
            for what, value in self._of(slot).state.get(slot.leaf, {}).items():
                found[f"{slot.key}/{what}"] = value
        return found

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave.

        Raises:
            TrainingError: a tensor belongs to no parameter of this network.
        """
        by_key = {slot.key: slot for slot in self._slots}
        for name, value in state.items():
            key, _, what = name.rpartition("/")
            if key not in by_key:
                raise TrainingError(f"The checkpoint has optimiser state for {key!r}, which this network lacks.")
            slot = by_key[key]
            kept = value.to(slot.leaf.device, copy=True)
            if kept.shape == slot.leaf.shape:
                # in the parameter's own strides, which the file has not: the fused kernels pair elements by memory
                kept = torch.empty_like(slot.leaf, dtype=kept.dtype).copy_(kept)
            self._of(slot).state.setdefault(slot.leaf, {})[what] = kept

    def _of(self, slot: _Slot) -> torch.optim.Optimizer:
        return self._optimizers[0 if slot.row is not None else -1]


class MovingAverage:
    """θ̄ ← d·θ̄ + (1 − d)·θ after every step, with d = min(decay, (1 + steps) / (10 + steps)): an early start."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float) -> None:
        self._parameters = dict(parameters)
        self._decay = decay
        self._shadow = {name: p.detach().clone() for name, p in parameters.items()}

    @torch.no_grad()
    def restart(self) -> None:
        """Take the weights as they are now."""
        for name, parameter in self._parameters.items():
            self._shadow[name].copy_(parameter)

    @torch.no_grad()
    def update(self, steps: int) -> None:
        """Take in the weights after so many steps."""
        decay = min(self._decay, (1 + steps) / (10 + steps))
        torch._foreach_lerp_(list(self._shadow.values()), list(self._parameters.values()), 1 - decay)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Let the network carry the average; its own weights are back on leaving, also on an exception."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    def state(self) -> dict[str, Tensor]:
        """Return the averaged weights by parameter name; live, not copies."""
        return dict(self._shadow)

    @torch.no_grad()
    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Take back what `state` gave.

        Raises:
            TrainingError: it has other names than the network's parameters.
        """
        if state.keys() != self._shadow.keys():
            odd = sorted(state.keys() ^ self._shadow.keys())
            raise TrainingError(f"The checkpoint's averaged weights do not fit this network: {odd[:3]} differ.")
        for name, value in state.items():
            self._shadow[name].copy_(value)

    @torch.no_grad()
    def _swap(self) -> None:
        for name, parameter in self._parameters.items():
            kept = parameter.detach().clone()
            parameter.copy_(self._shadow[name])
            self._shadow[name].copy_(kept)


def _rows(name: str, parameter: nn.Parameter) -> list[_Slot]:
    """One slot per matrix of a parameter; their leaves are views of its memory."""
    matrices = parameter.detach().view(-1, *parameter.shape[-2:])
    return [_Slot(f"{name}[{row}]", nn.Parameter(matrix), parameter, row) for row, matrix in enumerate(matrices)]
