"""Written texts and the rows that read weighted sums of them, against dense sums."""

import random

import pytest
import torch

from plume_memory.hypernet.d2l.checkpoint import save_trained
from plume_memory.hypernet.d2l.loading import load_d2l_parameterizer
from plume_memory.lora.algebra import compose_global, concat
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.adapters import AdapterRows
from plume_memory.model.base import BaseModel
from plume_memory.policy import AnswerPolicy
from plume_memory.training.build import _writer
from plume_memory.training.facts import FactSource
from plume_memory.training.settings import TrainSettings
from plume_memory.training.writing import MODULE, D2LWriter, FastWeightWriter, Written, rows_of

L, C, R, F, D = 2, 4, 3, 7, 5
LAYERS = (1, 2)
READS = (((0, 1.0), (1, 1.75)), ((3, -0.5),), (), ((2, 1.0), (2, 0.5), (0, 0.25)))


def written(*, shared: bool) -> Written:
    chance = torch.Generator().manual_seed(0)
    A = torch.randn(*((L, R, F) if shared else (L, C, R, F)), generator=chance)
    return Written(A, torch.randn(L, C, R, D, generator=chance))


def delta(made: Written, layer: int, text: int) -> torch.Tensor:
    A = made.A[layer] if made.A.ndim == 3 else made.A[layer, text]
    return made.B[layer, text].T @ A  # [D, F]


def dense(rows: AdapterRows, layer: int, row: int) -> torch.Tensor:
    A, B = rows.modules[LAYERS[layer], MODULE]
    return ((A if A.ndim == 2 else A[row]) @ B[row]).T


@pytest.mark.parametrize("shared", [True, False])
def test_a_row_is_the_weighted_sum_of_what_it_reads(shared: bool) -> None:
    made = written(shared=shared)
    rows = rows_of(made, READS, LAYERS, torch.float32)

    assert rows.rows == 4
    assert rows.rank == (R if shared else 3 * R)
    for i in range(L):
        for row, pairs in enumerate(READS):
            expected = sum((w * delta(made, i, t) for t, w in pairs), torch.zeros(D, F))
            torch.testing.assert_close(dense(rows, i, row), expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_training_composes_what_answers_compose(shared: bool) -> None:
    """α for what both histories hold and α + β for what is new is compose_global's α ΔW_full + β (ΔW_full − ΔW_old)."""
    alpha, beta = 0.9, 0.6
    made = written(shared=shared)
    factors = [LoraFactors({MODULE: Pair(made.A if shared else made.A[:, t], made.B[:, t])}, LAYERS) for t in range(C)]
    old, full = factors[:2], factors
    composed = compose_global(concat(full), concat(old), alpha=alpha, beta=beta)
    reads = [(0, alpha), (1, alpha), (2, alpha + beta), (3, alpha + beta)]
    rows = rows_of(made, [reads], LAYERS, torch.float32)
    for i, layer in enumerate(LAYERS):
        torch.testing.assert_close(dense(rows, i, 0), composed.delta(MODULE, layer), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("shared", [True, False])
def test_gradients_reach_the_texts_that_are_read_and_no_others(shared: bool) -> None:
    made = written(shared=shared)
    made.B.requires_grad_(True)
    rows = rows_of(made, [((0, 1.0),), ((2, 2.0),)], LAYERS, torch.bfloat16)
    sum(B.float().sum() for _, B in rows.modules.values()).backward()  # type: ignore[union-attr]

    assert made.B.grad is not None
    assert made.B.grad.abs().amax((0, 2, 3)).tolist() == [1, 0, 2, 0]


def test_a_text_written_in_training_is_the_text_written_by_the_parameterizer(
    tmp_path_factory: pytest.TempPathFactory, tiny_llama: BaseModel
) -> None:
    """Doc-to-LoRA, float32: heads start at zero, so they are moved first. Fast-weight: see test_task.py."""
    own = {"kind": "d2l", "rank": 2, "latent_size": 16, "blocks": 1, "heads": 2, "kv_heads": 1, "head_size": 8}
    settings = TrainSettings.model_validate({"network": own})
    writer = _writer(tiny_llama, settings, FactSource("facts"))
    assert isinstance(writer, D2LWriter)
    with torch.no_grad():
        for p in writer.network.parameters():
            p += 0.1 * torch.randn_like(p)
    folder = tmp_path_factory.mktemp("d2l")
    save_trained(writer.network, folder, base_model="tiny")
    parameterizer = load_d2l_parameterizer(tiny_llama, folder, AnswerPolicy())
    texts = ["Alice lives in Bern.", "The code of the door is 4711, and she knows it."]

    made = writer.write([tiny_llama.chat.encode(text) for text in texts])

    for t, factors in enumerate(parameterizer.parameterize(texts)):
        for i, layer in enumerate(writer.layers):
            torch.testing.assert_close(delta(made, i, t), factors.delta(MODULE, layer), atol=1e-5, rtol=1e-4)
    made.B.sum().backward()
    assert all(p.grad is None for p in tiny_llama.model.parameters())


def test_a_fast_weight_writer_hands_out_its_read_keys_with_gradients(tiny_llama: BaseModel) -> None:
    own = {"kind": "fast-weight", "rank": 4, "value_width": 4, "mixer_width": 8}
    settings = TrainSettings.model_validate({"network": own, "largest_tokens": 32})
    writer = _writer(tiny_llama, settings, FactSource("facts"))
    assert isinstance(writer, FastWeightWriter)
    made = writer.write([[random.Random(0).randrange(30, 200) for _ in range(9)]])

    assert made.A is writer.network.read_keys
    assert made.B.requires_grad
    assert made.B.shape == (2, 1, 4, 32)
