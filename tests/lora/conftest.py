"""Random factors for the tests of plume_memory.lora."""

from collections.abc import Callable, Sequence

import pytest
import torch

from plume_memory.lora.factors import LoraFactors, Pair

MakeFactors = Callable[..., LoraFactors]


def random_factors(
    seed: int,
    *,
    rank: int = 3,
    layers: Sequence[int] = (0, 2),
    widths: tuple[int, int] = (7, 5),
    scale: float = 1.0,
    modules: Sequence[str] = ("mlp.down_proj",),
    dtype: torch.dtype = torch.float64,
) -> LoraFactors:
    gen = torch.Generator().manual_seed(seed)
    d_in, d_out = widths
    pairs = {
        name: Pair(
            torch.randn(len(layers), rank, d_in, generator=gen, dtype=torch.float64).to(dtype),
            torch.randn(len(layers), rank, d_out, generator=gen, dtype=torch.float64).to(dtype),
        )
        for name in modules
    }
    return LoraFactors(pairs, tuple(layers), scale)


@pytest.fixture(scope="session")
def make() -> MakeFactors:
    return random_factors
