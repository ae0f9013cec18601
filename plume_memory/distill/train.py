"""Write examples into a fresh LoRA by gradient descent; the base model stays frozen.

Legend: L adapted layers, r rank, b examples of a step, T padded tokens, D hidden width.

Only the upper layers are adapted, so the hidden states that enter the lowest of them are constant:
they are computed once per example, and a step runs and differentiates the upper layers alone.
The lock is held for one step at a time; queries are answered in between.
"""

import math
import random
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from plume_memory.distill.examples import Example
from plume_memory.distill.settings import DistillSettings
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.adapters import AdapterRows, attached
from plume_memory.model.base import BaseModel

MODULE = "mlp.down_proj"

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""


@torch.inference_mode(False)  # callers may sit in inference mode or no_grad; training needs gradients
@torch.enable_grad()
def train_factors(
    base: BaseModel,
    examples: Sequence[Example],
    settings: DistillSettings,
    *,
    progress: Progress | None = None,
) -> LoraFactors:
    """Return float32 factors that make the base model answer the examples.

    Deterministic for the same model, examples and settings on the same device.
    """
    config = base.model.config
    lowest = int(settings.lowest_layer * config.num_hidden_layers)
    layers = tuple(range(lowest, config.num_hidden_layers))
    generator = torch.Generator().manual_seed(settings.seed)
    # A like nn.Linear's rows of unit length, B zero: training starts exactly at the base model.
    start = torch.randn(len(layers), settings.rank, config.intermediate_size, generator=generator)
    # One leaf per layer: slicing a stacked tensor would write a full-size gradient for every layer.
    A = [a.to(base.device).requires_grad_() for a in start / config.intermediate_size**0.5]
    zeros = torch.zeros(settings.rank, config.hidden_size, device=base.device)
    B = [zeros.clone().requires_grad_() for _ in layers]
    optimizer = torch.optim.AdamW(
        [*A, *B], lr=settings.learning_rate, weight_decay=settings.weight_decay, betas=(0.9, settings.beta2)
    )
    entering = _entering_states(base, examples, lowest)
    draw = random.Random(settings.seed)
    steps = settings.epochs * -(-len(examples) // settings.batch)
    done = 0
    for _epoch in range(settings.epochs):
        losses = []
        for batch in _batches(examples, settings.batch, draw):
            optimizer.param_groups[0]["lr"] = settings.learning_rate * _rate(done, steps, settings)
            with base.lock:
                rows = _rows(A, B, layers, len(batch), settings.scale, base.dtype)
                loss = _loss(base, [examples[i] for i in batch], [entering[i] for i in batch], rows, lowest)
                loss.backward()  # type: ignore[no-untyped-call,unused-ignore]
            if settings.clip_norm is not None:
                torch.nn.utils.clip_grad_norm_([*A, *B], settings.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
            done += 1
            if progress:
                progress("distilling", done, steps)
        if sum(losses) / len(losses) < settings.stop_loss:
            break
    if progress:
        progress("distilling", steps, steps)
    return LoraFactors(
        {MODULE: Pair(*(torch.stack([t.detach().cpu() for t in side]) for side in (A, B)))},
        layers,
        settings.scale,
    )


def _rate(done: int, steps: int, settings: DistillSettings) -> float:
    """Share of the learning rate at one step: linear warm-up, then down to zero."""
    passed = done / steps
    fall = max(0.02, 1 - passed) if settings.schedule == "linear" else 0.5 * (1 + math.cos(math.pi * passed))
    return min(1.0, (done + 1) / (settings.warm_up + 1)) * fall


def _batches(examples: Sequence[Example], size: int, draw: random.Random) -> list[list[int]]:
    """Shuffled batches of examples of similar length: little padding, still random."""
    order = sorted(range(len(examples)), key=lambda i: examples[i].tokens // 12 + 2 * draw.random())
    batches = [order[at : at + size] for at in range(0, len(order), size)]
    draw.shuffle(batches)
    return batches


def _rows(
    A: list[Tensor], B: list[Tensor], layers: tuple[int, ...], rows: int, scale: float, dtype: torch.dtype
) -> AdapterRows:
    """The trained factors as an adapter batch that carries gradients; computed in the model's dtype."""
    modules = {(layer, MODULE): (A[at].T.to(dtype), (scale * B[at]).to(dtype)) for at, layer in enumerate(layers)}
    return AdapterRows(modules, rows, A[0].shape[0])


def _entering_states(base: BaseModel, examples: Sequence[Example], lowest: int) -> list[Tensor]:
    """Hidden states [T, D] that enter layer `lowest`, one tensor per example."""
    states: list[Tensor] = []

    def keep(hidden: Tensor) -> None:
        states.append(hidden[0].clone())

    above = range(lowest + 1, base.model.config.num_hidden_layers)
    for example in examples:
        ids = torch.tensor([example.prompt_ids + example.answer_ids[:-1]], device=base.device)
        with base.lock, torch.no_grad(), attached(base.model, watch={(lowest, ""): keep}, skipped=above):
            base.model.model(input_ids=ids, use_cache=False)
    return states


def _loss(base: BaseModel, examples: list[Example], entering: list[Tensor], rows: AdapterRows, lowest: int) -> Tensor:
    """Mean loss per answer token of one right-padded batch."""
    width = max(state.shape[0] for state in entering)
    hidden = torch.zeros(len(examples), width, entering[0].shape[1], device=base.device, dtype=base.dtype)
    mask = torch.zeros(len(examples), width, dtype=torch.long, device=base.device)
    for at, state in enumerate(entering):
        hidden[at, : len(state)] = state
        mask[at, : len(state)] = 1
    # The fused CPU kernel's backward pass is slow on short sequences: a quarter of the step, measured.
    backend = SDPBackend.MATH if base.device.type == "cpu" else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]
    with attached(base.model, rows, skipped=range(lowest)), sdpa_kernel(backend):
        output = base.model.model(inputs_embeds=hidden, attention_mask=mask, use_cache=False).last_hidden_state
    answers = [
        output[at, len(e.prompt_ids) - 1 : len(e.prompt_ids) - 1 + len(e.answer_ids)] for at, e in enumerate(examples)
    ]
    log_probs = torch.log_softmax(base.logits(torch.cat(answers)).float(), dim=-1)
    return _cross_entropy(log_probs, examples) / log_probs.shape[0]


def _cross_entropy(log_probs: Tensor, examples: list[Example]) -> Tensor:
    """Summed −Σ p log q over all answer tokens: p is the label, or the teacher's top k."""
    total = log_probs.new_zeros(())
    at = 0
    for example in examples:
        own = log_probs[at : at + len(example.answer_ids)]
        at += len(example.answer_ids)
        if example.top_ids is None or example.top_probs is None:
            labels = torch.tensor(example.answer_ids, device=own.device)
            total = total - own.gather(1, labels[:, None]).sum()
        else:
            teacher = example.top_probs.to(own.device)
            total = total - (teacher * own.gather(1, example.top_ids.to(own.device))).sum()
    return total
