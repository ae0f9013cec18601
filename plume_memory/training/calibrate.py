"""Give a fresh fast-weight network a start that fits its base model.

The MLP activations of a language model have a few directions thousands of times stronger than the
rest. Read keys drawn in them would all say the same; drawn in the whitened space every direction
counts alike, and a state met again is told from another before anything is learned.

Legend: L adapted layers, F MLP width, r rank, N tokens.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from plume_memory.errors import TrainingError
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.reading import Reading, read_texts
from plume_memory.model.base import BaseModel

KEPT = 512
"""Principal directions that the read keys are drawn from; the weaker ones are rounding noise in bfloat16."""

OUT_SHARE = 0.05
"""Size of what a perfectly matched key adds to the residual stream at first, as a share of the stream's."""


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
    second = torch.zeros(len(config.layers), config.intermediate_size, config.intermediate_size)
    norms: list[Tensor] = []
    count = 0
    for at in range(0, len(texts), 16):
        reading = _read(base, network, texts[at : at + 16])
        seen = reading.activations[:, reading.mask].float().cpu()  # [L, N, F]
        second += seen.mT @ seen
        count += seen.shape[1]
        norms.append(reading.hidden[:, reading.mask].float().norm(dim=-1).median(dim=1).values.cpu())
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for i in range(len(config.layers)):
            values, vectors = torch.linalg.eigh(second[i] / count)
            whiten = vectors[:, -kept:] / values[-kept:].clamp_min(values[-1] * 1e-7).sqrt()  # [F, kept]
            mixed = torch.linalg.qr(torch.randn(kept, kept, generator=generator)).Q[:, : config.rank]
            keys = (whiten @ mixed) / config.rank**0.5  # a token's read key has length about 1
            network.read_keys[i] = keys.T
            network.key_activations[i] = keys
        scale = OUT_SHARE * torch.stack(norms).mean(0) / config.value_width**0.5
        network.out.copy_(scale[:, None, None] * network.value_embedding.T)


def _read(base: BaseModel, network: FastWeightNetwork, texts: Sequence[Sequence[int]]) -> Reading:
    config = network.config
    with base.lock:
        return read_texts(base.model, texts, base.chat.prefix_ids(), config.layers, config.mixer_layer)
