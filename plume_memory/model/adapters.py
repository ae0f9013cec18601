"""Adapters per row: one forward pass serves a batch whose rows carry different factors.

Legend: R rows of the batch, T tokens, L layers, r widest rank of the batch, d_in / d_out widths.

The delta is added to the adapted layer's *output* by a forward hook, so quantised and PEFT-wrapped
layers keep their own forward. Hooks live inside `attached(...)` only; between calls the model holds
no trace of any memory. Law: row i's output does not depend on row j's factors.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from plume_memory.errors import FactorsError
from plume_memory.lora.factors import LoraFactors


@dataclass(frozen=True, slots=True)
class AdapterRows:
    """Factors of a batch, zero-padded to the widest rank; the scale is folded into B."""

    modules: dict[tuple[int, str], tuple[Tensor, Tensor]]
    """(layer, module path) → A [R, d_in, r], B [R, r, d_out]; either without R where all rows share it."""
    rows: int
    rank: int
    gate: Tensor | None = None
    """[R, T, 1] in the factors' dtype: what the delta of each token is multiplied by; None: 1 everywhere."""

    def select(self, rows: Tensor) -> "AdapterRows":
        """Keep only some rows (int64 indices)."""
        kept = {
            key: (A[rows] if A.ndim == 3 else A, B[rows] if B.ndim == 3 else B) for key, (A, B) in self.modules.items()
        }
        return AdapterRows(kept, len(rows), self.rank, None if self.gate is None else self.gate[rows])


def stack_rows(
    factors: Sequence[LoraFactors | None],
    *,
    device: torch.device,
    dtype: torch.dtype,
    rank: int | None = None,
) -> AdapterRows | None:
    """Stack one adapter (or none) per row; None when no row has one.

    Args:
        factors: the adapter of each row, in row order.
        device: where the model runs.
        dtype: in which the delta is computed.
        rank: pad to this rank instead of the widest one (for buffers of fixed shape).

    Raises:
        FactorsError: an adapter is wider than `rank`, or two adapters disagree on a module's widths.
    """
    present = [f for f in factors if f is not None]
    if not present:
        return None
    widest = max(f.rank for f in present)
    if rank is not None and widest > rank:
        raise FactorsError(f"An adapter of rank {widest} does not fit rows of rank {rank}.")
    modules: dict[tuple[int, str], tuple[Tensor, Tensor]] = {}
    for name in dict.fromkeys(name for f in present for name in f.modules):
        layers = sorted({layer for f in present if name in f.modules for layer in f.layers})
        stacked = _stack_module(factors, name, layers, rank or widest, device, dtype)
        modules.update({(layer, name): stacked[i] for i, layer in enumerate(layers)})
    return AdapterRows(modules, len(factors), rank or widest)


def shared_rows(factors: LoraFactors, *, device: torch.device, dtype: torch.dtype) -> AdapterRows:
    """One adapter for every row of any batch: nothing is stacked.

    Args:
        factors: the adapter.
        device: where the model runs.
        dtype: in which the delta is computed.
    """
    modules = {
        (layer, name): (
            A[at].to(device=device, dtype=dtype).T.contiguous(),
            (factors.scale * B[at]).to(device=device, dtype=dtype),
        )
        for name, (A, B) in factors.modules.items()
        for at, layer in enumerate(factors.layers)
    }
    return AdapterRows(modules, 1, factors.rank)


def _stack_module(
    factors: Sequence[LoraFactors | None],
    name: str,
    layers: list[int],
    rank: int,
    device: torch.device,
    dtype: torch.dtype,
) -> list[tuple[Tensor, Tensor]]:
    example = next(f.modules[name] for f in factors if f is not None and name in f.modules)
    d_in, d_out = example.A.shape[2], example.B.shape[2]
    A = torch.zeros(len(layers), len(factors), d_in, rank, device=device, dtype=dtype)
    B = torch.zeros(len(layers), len(factors), rank, d_out, device=device, dtype=dtype)
    for row, f in enumerate(factors):
        if f is None or name not in f.modules:
            continue
        pair = f.modules[name]
        if (pair.A.shape[2], pair.B.shape[2]) != (d_in, d_out):
            raise FactorsError(
                f"Two adapters of one batch disagree on {name!r}: widths {d_in}→{d_out} and "
                f"{pair.A.shape[2]}→{pair.B.shape[2]}. They were built for different models."
            )
        at = torch.tensor([layers.index(layer) for layer in f.layers], device=device)
        A[at, row, :, : f.rank] = pair.A.to(device=device, dtype=dtype).transpose(1, 2)
        # Scale in the factors' own dtype: 45 · B rounded once, not twice.
        B[at, row, : f.rank] = (f.scale * pair.B).to(device=device, dtype=dtype)
    return [(A[i], B[i]) for i in range(len(layers))]


def decoder_layers(model: nn.Module) -> nn.ModuleList:
    """Return the decoder layers of a Hugging Face causal LM, through PEFT wrappers if there are any.

    Raises:
        FactorsError: the model has no `layers` where the supported families keep them.
    """
    wrapped: Any = model
    inner = wrapped.get_base_model() if hasattr(model, "get_base_model") else model
    layers = getattr(getattr(inner, "model", None), "layers", None)
    if not isinstance(layers, nn.ModuleList):
        raise FactorsError(f"{type(inner).__name__} keeps no decoder layers at .model.layers.")
    return layers


@contextmanager
def attached(model: nn.Module, rows: AdapterRows | None) -> Iterator[None]:
    """Attach a batch's adapters for the length of the block; always detached, also on an exception.

    Raises:
        FactorsError: an adapted module is not in the model, or its widths differ.
    """
    handles = []
    try:
        if rows is not None:
            layers = decoder_layers(model)
            for (layer, name), (A, B) in rows.modules.items():
                module = _target(layers, layer, name, A, B)
                handles.append(module.register_forward_hook(_add_delta(A, B, rows.gate)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def _target(layers: nn.ModuleList, layer: int, name: str, A: Tensor, B: Tensor) -> nn.Module:
    if layer >= len(layers):
        raise FactorsError(f"The factors adapt layer {layer}; the loaded model has {len(layers)} layers.")
    try:
        module = layers[layer].get_submodule(name)
    except AttributeError as err:
        raise FactorsError(
            f"The loaded model has no {name!r} in its layers; the factors were built for another."
        ) from err
    d_in, d_out = A.shape[-2], B.shape[-1]
    widths = (getattr(module, "in_features", d_in), getattr(module, "out_features", d_out))
    if widths != (d_in, d_out):
        raise FactorsError(
            f"The factors of {name!r} are {d_in}→{d_out} wide, the loaded model's layer is "
            f"{widths[0]}→{widths[1]}; rebuild them for this model."
        )
    return module


def _add_delta(A: Tensor, B: Tensor, gate: Tensor | None) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    def hook(_module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        x = inputs[0].to(A.dtype)  # [R, T, d_in]
        inner = torch.matmul(x, A)  # [R, T, r]: the gate costs least here
        return output + torch.matmul(inner if gate is None else inner * gate, B).to(output.dtype)

    return hook
