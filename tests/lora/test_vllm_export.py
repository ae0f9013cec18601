"""What is written for vLLM: a name per content, a rank it has, and the same delta. `make vllm` runs vLLM itself."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from plume_memory.errors import InvalidInput
from plume_memory.lora.vllm import RANKS, export_vllm, flags_of, served_rank
from plume_memory.testing import random_factors, tiny_base

BASE = tiny_base("llama")


def written(folder: Path, seed: int = 0, scale: float = 1.0) -> Path:
    factors = replace(random_factors(BASE, rank=5, seed=seed), scale=scale)
    return export_vllm(factors, folder, base_model="a/model", base_fingerprint=BASE.fingerprint)


def test_a_name_means_one_content(tmp_path: Path) -> None:
    assert written(tmp_path) == written(tmp_path)
    assert len({written(tmp_path), written(tmp_path, seed=1), written(tmp_path, scale=2.0)}) == 3


def test_the_rank_is_one_that_vllm_serves_and_the_delta_is_the_same(tmp_path: Path) -> None:
    folder = written(tmp_path, scale=3.0)
    config = json.loads((folder / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"]) == (8, 8)
    tensors = load_file(folder / "adapter_model.safetensors")
    factors = random_factors(BASE, rank=5, seed=0)
    A, B = factors.modules["mlp.down_proj"]
    for row, layer in enumerate(factors.layers):
        stem = f"base_model.model.model.layers.{layer}.mlp.down_proj"
        delta = tensors[f"{stem}.lora_B.weight"] @ tensors[f"{stem}.lora_A.weight"]
        assert torch.allclose(delta, 3.0 * B[row].T @ A[row], atol=1e-6)


@pytest.mark.parametrize(("rank", "served"), [(1, 1), (2, 8), (128, 128), (129, 256), (512, 512)])
def test_a_rank_is_rounded_up(rank: int, served: int) -> None:
    assert served_rank(rank) == served


def test_a_rank_beyond_all_is_refused() -> None:
    with pytest.raises(InvalidInput, match="513"):
        served_rank(RANKS[-1] + 1)


def test_the_flags_name_the_folder(tmp_path: Path) -> None:
    folder = written(tmp_path)
    flags = ["vllm", "serve", "a/model", "--enable-lora", "--max-lora-rank", "8", "--lora-target-modules", "down_proj"]
    assert flags_of(folder)[:8] == flags
    assert flags_of(folder)[-1] == f"{folder.name}={folder}"
