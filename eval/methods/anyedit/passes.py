"""Running a part of the model: the layers up to ℓ*, or those above it with their past kept.

Legend: N positions of question and answer, D hidden width, f MLP width, H key/value heads, E head width.

A target value δ is added to the output of layer ℓ*. It changes neither the layers below nor the positions
before it, so the lower layers run once, and every optimisation step runs the upper layers over one window,
behind the keys and values of all earlier positions. The result is that of a full forward pass.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from plume_memory.model.adapters import AdapterRows, attached, decoder_layers
from plume_memory.model.base import BaseModel, forward

MODULE = "mlp.down_proj"


@dataclass(frozen=True, slots=True, eq=False)
class LowerPass:
    """What the layers up to ℓ* made of a text."""

    stream: Tensor
    """Output of layer ℓ* [N, D], in the model's dtype."""
    keys: dict[int, Tensor]
    """Layer → inputs of its `down_proj` [N, f]."""


def run_lower(
    base: BaseModel,
    ids: Sequence[int],
    *,
    last: int,
    keys_of: Sequence[int] = (),
    adapters: AdapterRows | None = None,
) -> LowerPass:
    """Read a text with the layers 0 … `last`.

    Args:
        base: its lock is taken for the pass.
        ids: the text, one row.
        last: ℓ*.
        keys_of: layers whose `down_proj` inputs are kept.
        adapters: attached for the pass (one row).
    """
    layers = decoder_layers(base.model)
    keys: dict[int, Tensor] = {}
    stream: list[Tensor] = []

    def keeping(layer: int) -> Callable[[nn.Module, tuple[Tensor, ...]], None]:
        return lambda _module, inputs: keys.update({layer: inputs[0][0]})

    def take(_module: nn.Module, _inputs: Any, output: Tensor | tuple[Tensor, ...]) -> None:
        stream.append((output if isinstance(output, Tensor) else output[0])[0])

    with base.lock, torch.no_grad(), ExitStack() as stack:
        for layer in keys_of:
            handle = layers[layer].get_submodule(MODULE).register_forward_pre_hook(keeping(layer))
            stack.callback(handle.remove)
        stack.callback(layers[last].register_forward_hook(take).remove)
        stack.enter_context(attached(base.model, adapters))
        stack.enter_context(bypassed(layers[last + 1 :]))
        base.model.model(input_ids=torch.tensor([list(ids)], device=base.device), use_cache=False)
    return LowerPass(stream[0], keys)


class Upper:
    """The layers above ℓ* at one position of the text, with the keys and values of all positions before."""

    def __init__(self, base: BaseModel, stream: Tensor, last: int) -> None:
        """Start at position 0.

        Args:
            base: its lock is taken for every pass.
            stream: unmodified output of layer ℓ* [N, D].
            last: ℓ*.
        """
        self.at = 0
        self._base = base
        self._stream = stream
        self._first = last + 1
        self._past: list[tuple[Tensor, Tensor]] = []  # per upper layer: [1, H, at, E]

    def hidden(self, end: int, shift: Tensor | None = None) -> Tensor:
        """Final hidden states [end − at, D] of the positions from here to `end`.

        Args:
            end: one past the last position.
            shift: δ [D], added to layer ℓ*'s output at the first of them; may require a gradient.
        """
        return self._run(end, shift)[0]

    def advance(self, to: int, shift: Tensor | None = None) -> None:
        """Move on to position `to`; what is passed keeps its shift for good."""
        with torch.no_grad():
            _, cache = self._run(to, shift)
        self._past = [(layer.keys, layer.values) for layer in cache.layers[self._first :]]
        self.at = to

    def _run(self, end: int, shift: Tensor | None) -> tuple[Tensor, Any]:
        from transformers import DynamicCache  # noqa: PLC0415 — loaded with the model anyway

        base = self._base
        entering = self._stream[self.at : end]
        if shift is not None:
            entering = torch.cat([entering[:1] + shift.to(entering.dtype), entering[1:]])
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(self._past, start=self._first):
            cache.update(keys, values, layer)
        # The fused CPU kernel's backward pass is slow on short sequences (as in distill/train.py).
        kernels = [SDPBackend.MATH] if base.device.type == "cpu" else [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
        with base.lock, bypassed(decoder_layers(base.model)[: self._first]), sdpa_kernel(kernels):
            output = forward(
                base.model.model,
                cache,
                mask=self._masks(end),
                positions=torch.arange(self.at, end, device=base.device)[None],
                embeddings=entering[None],
            )
        return output.last_hidden_state[0], cache

    def _masks(self, end: int) -> Tensor | dict[str, Tensor]:
        """Additive masks [1, 1, end − at, end]; written out, as the model would measure the bypassed layers' past."""
        config = self._base.model.config
        kinds = getattr(config, "layer_types", None)
        window = getattr(config, "sliding_window", None)
        if not kinds:
            return self._mask(end, window)
        return {kind: self._mask(end, window if kind == "sliding_attention" else None) for kind in dict.fromkeys(kinds)}

    def _mask(self, end: int, window: int | None) -> Tensor:
        device, dtype = self._base.device, self._base.dtype
        back = torch.arange(self.at, end, device=device)[:, None] - torch.arange(end, device=device)
        seen = back >= 0 if window is None else (back >= 0) & (back < window)
        mask = torch.zeros(seen.shape, device=device, dtype=dtype)
        return mask.masked_fill_(~seen, torch.finfo(dtype).min)[None, None]


@contextmanager
def bypassed(layers: nn.ModuleList) -> Iterator[None]:
    """Let decoder layers hand their input on unchanged; restored on leaving, also on an exception."""
    try:
        for layer in layers:
            layer.forward = lambda hidden_states, *_args, **_kwargs: hidden_states
        yield
    finally:
        for layer in layers:
            layer.__dict__.pop("forward", None)
