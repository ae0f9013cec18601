"""Compile what the base model's layers do around their adapters.

A training step on a CPU spends more time in norms, rotations, softmax and gates than in matrix products; compiled,
these are fused. What holds a module that adapters hang on is left as it is: PyTorch does not guard hooks, so a graph
that was compiled for a layer without an adapter would be used for one with it, and the adapter left out.
"""

import os
import shutil
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from plume_memory.errors import TrainingError
from plume_memory.model.adapters import decoder_layers


def compile_layers(model: nn.Module, adapted: Sequence[str]) -> None:
    """Compile attention, norms and gated activations of every decoder layer, in place, at their first use.

    One graph serves all layers and all shapes. It takes about a minute; PyTorch keeps it on disk.

    Args:
        model: a Hugging Face causal model; parts that it does not have are left out.
        adapted: paths within a layer of all modules that will ever carry an adapter; what holds one is not compiled.

    Raises:
        TrainingError: on a CPU without a C++ compiler.
    """
    compiler = os.environ.get("CXX", "g++")
    if next(model.parameters()).device.type == "cpu" and shutil.which(compiler) is None:
        raise TrainingError(
            f"`compile` is set, and PyTorch compiles for a CPU with {compiler!r}, which is not installed. "
            "Install a C++ compiler, name yours in the environment variable CXX, or set compile=false."
        )
    attention = not any(name.startswith("self_attn.") for name in adapted)
    gates = not any(name.startswith("mlp.") and name != "mlp.down_proj" for name in adapted)
    for layer in decoder_layers(model):
        for name, part in layer.named_children():
            if name.endswith("norm") or (name == "self_attn" and attention):
                part.compile(dynamic=True)
        mlp: Any = getattr(layer, "mlp", None)
        if (
            gates
            and mlp is not None
            and all(hasattr(mlp, name) for name in ("gate_proj", "up_proj", "down_proj", "act_fn"))
        ):
            mlp.forward = _gated_forward(mlp)


def _gated_forward(mlp: Any) -> Callable[[Tensor], Tensor]:
    """The forward of a gated MLP, compiled up to `down_proj`."""

    def gated(x: Tensor) -> Tensor:
        activations: Tensor = mlp.act_fn(mlp.gate_proj(x)) * mlp.up_proj(x)
        return activations

    compiled = torch.compile(gated, dynamic=True)

    def forward(x: Tensor) -> Tensor:
        out: Tensor = mlp.down_proj(compiled(x))
        return out

    return forward
