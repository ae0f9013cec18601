"""Objectives, each against its formula by hand."""

import math

import pytest
import torch
from torch.nn import functional as F

from plume_memory.model.fusion import fuse
from plume_memory.training import losses
from plume_memory.training.items import Item
from plume_memory.training.packing import Packed, pack
from plume_memory.training.teacher import TopK

V = 11
ITEMS = (
    Item((1, 2), (3, 4, 5), "answer", stale_ids=(3, 9, 5)),
    Item((1,), (6,), "kept"),
    Item((1, 2), (3, 4, 5), "answer"),
    Item((2,), (7, 8), "completion"),
)


def material() -> tuple[Packed, torch.Tensor]:
    packed = pack([ITEMS[:2], ITEMS[2:]], [0], device=torch.device("cpu"), dtype=torch.float32)
    logits = torch.randn(9, V, generator=torch.Generator().manual_seed(0)) * 3
    return packed, logits.requires_grad_(True)


def test_distillation_is_minus_p_log_q_meaned_by_item() -> None:
    packed, logits = material()
    chance = torch.Generator().manual_seed(1)
    tops = []
    for n in (0, 3):
        probabilities = torch.rand(len(ITEMS[n].target_ids), 2, generator=chance) / 2
        ids = torch.stack([torch.randperm(V, generator=chance)[:2] for _ in ITEMS[n].target_ids])
        tops.append(TopK(ids, probabilities))
    found = losses.distillation(logits, packed, [0, 3], tops)

    log_q = torch.log_softmax(logits.detach(), -1)
    first, last = log_q[:3], log_q[7:]
    expected = [
        sum(-float(top.probabilities[t, k]) * float(own[t, top.ids[t, k]]) for t in range(len(own)) for k in range(2))
        / len(own)
        for own, top in ((first, tops[0]), (last, tops[1]))
    ]
    assert found.item() == pytest.approx(sum(expected) / 2, rel=1e-5)
    found.backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum(-1).gt(0).tolist() == [True] * 3 + [False] * 4 + [True] * 2


def test_a_teacher_that_says_all_is_matched_by_itself_alone() -> None:
    packed, logits = material()
    own = torch.softmax(logits.detach()[:3], -1).topk(V)
    same = losses.distillation(logits, packed, [0], [TopK(own.indices, own.values)])
    same.backward()

    assert logits.grad is not None
    assert logits.grad.abs().max() < 1e-6, "least at q = p"


def test_fused_is_the_cross_entropy_of_the_decoders_fusion() -> None:
    packed, logits = material()
    found = losses.fused(logits, packed, [(0, 2)], lambda_max=2.0, tau=0.3)

    scores = fuse(logits.detach()[:3], logits.detach()[4:7], lambda_max=2.0, tau=0.3).scores
    assert found.item() == pytest.approx(float(F.cross_entropy(scores, torch.tensor([3, 4, 5]))), rel=1e-5)
    found.backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum(-1).gt(0).tolist() == [True] * 3 + [False] + [True] * 3 + [False] * 2


def test_fused_is_the_mean_over_pairs_of_their_own_means() -> None:
    packed = pack([[ITEMS[0], ITEMS[3]], [ITEMS[2], ITEMS[3]]], [0], device=torch.device("cpu"), dtype=torch.float32)
    logits = torch.randn(10, V, generator=torch.Generator().manual_seed(2))
    both = losses.fused(logits, packed, [(0, 2), (1, 3)], lambda_max=1.0, tau=0.3)
    apart = [losses.fused(logits, packed, [pair], lambda_max=1.0, tau=0.3) for pair in ((0, 2), (1, 3))]

    assert float(both) == pytest.approx(float(sum(apart)) / 2, rel=1e-5)


@pytest.mark.parametrize(
    ("stale", "place"),
    [((9, 4, 5), 0), ((3, 9, 5), 1), ((3, 5), 1), ((3, 4, 9, 5), 2)],
)
def test_unlikelihood_takes_the_first_token_that_differs(stale: tuple[int, ...], place: int) -> None:
    item = Item((1, 2), (3, 4, 5), "answer", stale_ids=stale)
    packed = pack([[ITEMS[1], item]], [0], device=torch.device("cpu"), dtype=torch.float32)
    logits = torch.randn(4, V, generator=torch.Generator().manual_seed(0), requires_grad=True)
    found = losses.unlikelihood(logits, packed)

    assert found is not None
    p = float(torch.softmax(logits.detach()[1 + place], -1)[stale[place]])
    assert found.item() == pytest.approx(-math.log(1 - p), rel=1e-4)
    found.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert logits.grad.abs().sum(-1).nonzero().flatten().tolist() == [1 + place]


def test_unlikelihood_of_nothing_stale_is_nothing() -> None:
    packed = pack([[ITEMS[1], ITEMS[2]]], [0], device=torch.device("cpu"), dtype=torch.float32)
    assert losses.unlikelihood(torch.randn(4, V), packed) is None


def test_item_divergence_is_kl_to_the_reference_meaned_by_item() -> None:
    packed, logits = material()
    chosen = torch.tensor([True, False, False, True])
    reference = torch.randn(5, V, generator=torch.Generator().manual_seed(3))
    found = losses.item_divergence(logits, reference, packed, chosen)

    p = torch.softmax(reference, -1)
    direct = (p * (p.log() - torch.log_softmax(logits.detach()[[0, 1, 2, 7, 8]], -1))).sum(-1)
    assert found.item() == pytest.approx(float((direct[:3].mean() + direct[3:].mean()) / 2), rel=1e-5)
    found.backward()
    assert logits.grad is not None
    assert logits.grad.abs().sum(-1).gt(0).tolist() == [True] * 3 + [False] * 4 + [True] * 2


def test_item_divergence_of_a_model_to_itself_is_zero() -> None:
    packed, logits = material()
    chosen = torch.tensor([True, True, False, False])
    assert losses.item_divergence(logits, logits.detach()[:4], packed, chosen).item() == pytest.approx(0, abs=1e-6)


def test_kinds_and_means() -> None:
    packed, _ = material()
    values = torch.tensor([1.0, 2, 3, 4])

    assert losses.of_kind(packed, "answer", "kept").tolist() == [True, True, True, False]
    assert losses.mean_of(values, losses.of_kind(packed, "answer")) == 2.0
    assert losses.mean_of(values, losses.of_kind(packed, "reconstruction")) is None
