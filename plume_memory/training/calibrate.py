"""Give a fresh fast-weight network a start that fits its base model.

The MLP activations of a language model have a few directions thousands of times stronger than the
rest. Read keys drawn in them would all say the same; drawn in the whitened space every direction
counts alike, and a state met again is told from another before anything is learned.

Legend: L adapted layers, F MLP width, r rank, N tokens.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from plume_memory.errors import TrainingError
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.reading import read_texts
from plume_memory.model.base import BaseModel

KEPT = 512
"""Principal directions that the read keys are drawn from; the weaker ones are rounding noise in bfloat16."""

OUT_SHARE = 0.05
"""Size of what a perfectly matched key adds to the residual stream at first, as a share of the stream's."""

_BYTES = 1_000_000_000
"""Of second moments held at once."""


def calibrate(network: FastWeightNetwork, base: BaseModel, texts: Sequence[Sequence[int]], *, seed: int) -> None:
    """Set read keys, key weights and output scale from what the base model does on some texts.

    Args:
        network: fresh; changed in place.
        base: the model it is made for.
        texts: token ids of a few hundred texts and questions, none longer than the window.
        seed: of the random directions.

    Raises:
        TrainingError: the rank is larger than the number of directions that read keys are drawn from.
    """
    config = network.config
    kept = min(KEPT, config.intermediate_size)
    if config.rank > kept:
        raise TrainingError(
            f"A network of rank {config.rank} was asked for; {base.name!r} has {kept} directions to draw read keys "
            f"from. Set network.rank to at most {kept}."
        )
    generator = torch.Generator().manual_seed(seed)
    at_once = max(1, _BYTES // (4 * config.intermediate_size**2))  # second moments of a wide model do not all fit
    for first in range(0, len(config.layers), at_once):
        layers = config.layers[first : first + at_once]
        moments = _moments(base, texts, layers)
        with torch.no_grad():
            for i, second in enumerate(moments.second, start=first):
                values, vectors = torch.linalg.eigh(second)
                whiten = vectors[:, -kept:] / values[-kept:].clamp_min(values[-1] * 1e-7).sqrt()  # [F, kept]
                mixed = torch.linalg.qr(torch.randn(kept, kept, generator=generator)).Q[:, : config.rank]
                keys = (whiten @ mixed) / config.rank**0.5  # a token's read key has length about 1
                network.read_keys[i] = keys.T
                network.key_activations[i] = keys
            scale = OUT_SHARE * moments.norm / config.value_width**0.5
            network.out[first : first + at_once] = scale[:, None, None] * network.value_embedding.T


class _Moments(NamedTuple):
    second: Tensor
    """[L, F, F] mean of a aᵀ over the tokens' MLP activations."""
    norm: Tensor
    """[L] typical length of the residual stream's state."""


def _moments(base: BaseModel, texts: Sequence[Sequence[int]], layers: Sequence[int]) -> _Moments:
    width = base.model.config.intermediate_size
    second = torch.zeros(len(layers), width, width)
    norms: list[Tensor] = []
    count = 0
    for at in range(0, len(texts), 16):
        with base.lock:
            reading = read_texts(base.passes, texts[at : at + 16], base.chat.prefix_ids(), layers, layers[-1])
        seen = reading.activations[:, reading.mask].float().cpu()  # [L, N, F]
        second += seen.mT @ seen
        count += seen.shape[1]
        norms.append(reading.hidden[:, reading.mask].float().norm(dim=-1).median(dim=1).values.cpu())
    return _Moments(second / count, torch.stack(norms).mean(0))
