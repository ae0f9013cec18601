"""Adapters per row: one forward pass serves a batch whose rows carry different factors.

Legend: R rows of the batch, T tokens, L layers, r widest rank of the batch, d_in / d_out widths.

The delta is added to the adapted layer's *output* by a forward hook, so quantised and PEFT-wrapped
layers keep their own forward. Law: row i's output does not depend on row j's factors.

Hooks stay on the model and hold nothing: what they add is what was handed over for the pass that runs. It is handed
over by one assignment, taken by the decoder when the pass begins, and a pass for which nothing was handed over is bare.
So an interrupt, wherever it strikes, leaves no adapter for anybody else's pass.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from plume_memory.errors import FactorsError
from plume_memory.lora.factors import LoraFactors

Place = tuple[int, str]
"""A layer, and the path of a module within it."""


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

    @property
    def shape(self) -> tuple[object, ...]:
        """What rows of one buffer have in common: rank, places, and which tensors all rows share."""
        return self.rank, frozenset((place, A.ndim, B.ndim) for place, (A, B) in self.modules.items())

    def room(self, rows: int) -> "AdapterRows":
        """Zeros of this shape for so many rows."""
        empty = {place: (_empty(A, rows), _empty(B, rows)) for place, (A, B) in self.modules.items()}
        return AdapterRows(empty, rows, self.rank)

    def load(self, other: "AdapterRows") -> None:
        """Take over rows of the same shape, in place; rows beyond theirs keep what they had."""
        for place, pair in other.modules.items():
            for held, given in zip(self.modules[place], pair, strict=True):
                (held[: len(given)] if given.ndim == 3 else held).copy_(given)


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


def no_such_module(place: Place, layers: int) -> FactorsError:
    """The error of factors for a module that a model of so many layers does not have."""
    if place[0] >= layers:
        return FactorsError(f"The factors adapt layer {place[0]}; the loaded model has {layers} layers.")
    return FactorsError(f"The loaded model has no {place[1]!r} in its layers; the factors were built for another.")


def require_fit(rows: AdapterRows, widths: Callable[[Place], tuple[int, int]]) -> None:
    """See that every adapted module is in the model.

    Args:
        rows: the adapters.
        widths: inputs and outputs of a module of the model.

    Raises:
        FactorsError: one is not, or its widths differ.
    """
    for place, (A, B) in rows.modules.items():
        _require_widths(place, (A.shape[-2], B.shape[-1]), widths(place))


def _require_widths(place: Place, own: tuple[int, int], found: tuple[int, int]) -> None:
    if own != found:
        raise FactorsError(
            f"The factors of {place[1]!r} are {own[0]}→{own[1]} wide, the loaded model's layer is "
            f"{found[0]}→{found[1]}; rebuild them for this model."
        )


def _empty(like: Tensor, rows: int) -> Tensor:
    return torch.zeros((rows, *like.shape[1:]) if like.ndim == 3 else like.shape, dtype=like.dtype, device=like.device)


def _stack_module(
    factors: Sequence[LoraFactors | None],
    name: str,
    layers: list[int],
    rank: int,
    device: torch.device,
    dtype: torch.dtype,
) -> list[tuple[Tensor, Tensor]]:
    present = [f for f in factors if f is not None and name in f.modules]
    example = present[0].modules[name]
    d_in, d_out = example.A.shape[2], example.B.shape[2]
    is_shared = example.A.shape[:2] == (len(layers), rank) and all(f.modules[name].A is example.A for f in present)
    A = None if is_shared else torch.zeros(len(layers), len(factors), d_in, rank, device=device, dtype=dtype)
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
        if A is not None:
            A[at, row, :, : f.rank] = pair.A.to(device=device, dtype=dtype).transpose(1, 2)
        # Scale in the factors' own dtype: 45 · B rounded once, not twice.
        B[at, row, : f.rank] = (f.scale * pair.B).to(device=device, dtype=dtype)
    if A is None:  # the very same tensor in all rows, as a network with one A for every text gives: multiplied once
        shared = example.A.to(device=device, dtype=dtype).transpose(1, 2)
        return [(shared[i], B[i]) for i in range(len(layers))]
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


@dataclass(frozen=True, slots=True, eq=False)
class _Beside:
    """What one pass does beside the model's own."""

    modules: Mapping[Place, tuple[Tensor, Tensor]]
    gate: Tensor | None
    watch: Mapping[Place, Callable[[Tensor], None]]
    skipped: frozenset[int]


_NOTHING = _Beside({}, None, {}, frozenset())


class _Handover:
    """What the passes of one model do beside its own; one per model, kept on it."""

    __slots__ = ("hooked", "next", "now")

    def __init__(self) -> None:
        self.next = _NOTHING
        """For the pass that begins next."""
        self.now = _NOTHING
        """For the pass that runs, or ran last: the next one begins by taking its own."""
        self.hooked: set[Place] = set()
        """The modules that ask; checked again where one is missing."""

    def take(self, *_: Any) -> None:
        """Begin a pass."""
        self.now, self.next = self.next, _NOTHING


@contextmanager
def attached(
    model: nn.Module,
    rows: AdapterRows | None = None,
    *,
    watch: Mapping[Place, Callable[[Tensor], None]] | None = None,
    skipped: Collection[int] = (),
) -> Iterator[None]:
    """Attach a batch's adapters, and what else is asked, to the one pass of the decoder that runs within the block.

    Not for two threads at once on one model: whoever runs a pass holds the base model's lock.

    Args:
        model: a Hugging Face causal LM, through PEFT wrappers if there are any.
        rows: the adapters; none without.
        watch: called with the first input of the modules named, [R, T, d_in]; ("", of a layer: the layer itself). What
            one raises ends the pass.
        skipped: layers that hand on their input.

    Raises:
        FactorsError: an adapted module is not in the model, or its widths differ.
    """
    handover = _handover(model)
    layers = decoder_layers(model)
    watching = dict(watch or {})
    for place, (A, B) in rows.modules.items() if rows is not None else ():
        _hook(handover, place, _target(layers, place, A, B))
    for layer, name in watching:
        _hook(handover, (layer, name), layers[layer].get_submodule(name))
    for layer in skipped:
        _make_skippable(handover, layers, layer)
    try:
        handover.next = _Beside(
            {} if rows is None else rows.modules, None if rows is None else rows.gate, watching, frozenset(skipped)
        )
        yield
    finally:
        handover.next = handover.now = _NOTHING


def _handover(model: nn.Module) -> _Handover:
    """The model's own; made, and its decoder hooked, when it is first asked for."""
    layers = decoder_layers(model)
    found: _Handover | None = layers.__dict__.get(_KEPT_AS)
    if found is None:
        found = _Handover()
        wrapped: Any = model
        inner: Any = wrapped.get_base_model() if hasattr(model, "get_base_model") else wrapped
        inner.model.register_forward_pre_hook(found.take)
        layers.__dict__[_KEPT_AS] = found  # last: interrupted before, it is made and hooked anew
    return found


_KEPT_AS = "_plume_handover"


def _hook(handover: _Handover, place: Place, module: nn.Module) -> None:
    """See that a module asks; once, and for good."""
    if place in handover.hooked:
        return
    if not any(isinstance(hook, _Adding) for hook in module._forward_hooks.values()):
        module.register_forward_hook(_Adding(handover, place))
    if not any(isinstance(hook, _Watching) for hook in module._forward_pre_hooks.values()):
        module.register_forward_pre_hook(_Watching(handover, place), with_kwargs=True)
    handover.hooked.add(place)  # last: interrupted before, the module is looked at anew


def _make_skippable(handover: _Handover, layers: nn.ModuleList, layer: int) -> None:
    module: Any = layers[layer]
    if not isinstance(module.__dict__.get("forward"), _Skippable):
        module.forward = _Skippable(handover, layer, module.forward)


def _target(layers: nn.ModuleList, place: Place, A: Tensor, B: Tensor) -> nn.Module:
    module = module_at(layers, place)
    own = A.shape[-2], B.shape[-1]
    found = getattr(module, "in_features", own[0]), getattr(module, "out_features", own[1])
    _require_widths(place, own, found)
    return module


def module_at(layers: nn.ModuleList, place: Place) -> nn.Module:
    """A module of a Hugging Face model's layers.

    Raises:
        FactorsError: there is none.
    """
    if place[0] >= len(layers):
        raise no_such_module(place, len(layers))
    try:
        return layers[place[0]].get_submodule(place[1])
    except AttributeError as err:
        raise no_such_module(place, len(layers)) from err


class _Adding:
    """The hook of an adapted module."""

    __slots__ = ("_handover", "_place")

    def __init__(self, handover: _Handover, place: Place) -> None:
        self._handover, self._place = handover, place

    def __call__(self, _module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        beside = self._handover.now
        pair = beside.modules.get(self._place)
        if pair is None:
            return None
        A, B = pair
        x = inputs[0].to(A.dtype)  # [R, T, d_in]
        inner = torch.matmul(x, A)  # [R, T, r]: the gate costs least here
        return output + torch.matmul(inner if beside.gate is None else inner * beside.gate, B).to(output.dtype)


class _Watching:
    """The hook of a watched module, before it runs."""

    __slots__ = ("_handover", "_place")

    def __init__(self, handover: _Handover, place: Place) -> None:
        self._handover, self._place = handover, place

    def __call__(self, _module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        watch = self._handover.now.watch.get(self._place)
        if watch is not None:
            watch(args[0] if args else kwargs["hidden_states"])


class _Skippable:
    """The forward of a layer that some passes skip."""

    __slots__ = ("_forward", "_handover", "_layer")

    def __init__(self, handover: _Handover, layer: int, forward: Callable[..., Any]) -> None:
        self._handover, self._layer, self._forward = handover, layer, forward

    def __call__(self, hidden_states: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self._layer in self._handover.now.skipped:
            return hidden_states
        return self._forward(hidden_states, *args, **kwargs)
