"""The three write rules, each against an independent slow form."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from plume_memory.hypernet.fastweight.config import WriteRule
from plume_memory.hypernet.fastweight.write import write

RULES: tuple[WriteRule, ...] = ("linear", "delta", "ridge")
N, T, R, V = 3, 9, 5, 4


def material(seed: int = 0, tokens: int = T) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Keys of unit length, values, strengths in (0, 1), λ."""
    chance = torch.Generator().manual_seed(seed)
    keys = F.normalize(torch.randn(N, tokens, R, generator=chance), dim=-1)
    values = torch.randn(N, tokens, V, generator=chance)
    return keys, values, torch.rand(N, tokens, generator=chance), torch.rand(N, generator=chance) + 0.1


def test_delta_in_closed_form_equals_the_recurrence() -> None:
    """M_t = M_{t−1} + g_t k_t (v_t − M_{t−1}ᵀ k_t)ᵀ, token by token in float64."""
    keys, values, strength, ridge = material()
    memory = torch.zeros(N, R, V, dtype=torch.float64)
    for t in range(T):
        k, v, g = keys[:, t].double(), values[:, t].double(), strength[:, t].double()
        held = torch.einsum("nrv,nr->nv", memory, k)
        memory = memory + g[:, None, None] * torch.einsum("nr,nv->nrv", k, v - held)

    torch.testing.assert_close(write("delta", keys, values, strength, ridge).double(), memory, atol=1e-5, rtol=1e-5)


def test_delta_at_full_strength_replaces_what_a_key_held() -> None:
    key = F.normalize(torch.randn(1, 1, R, generator=torch.Generator().manual_seed(1)), dim=-1)
    keys, values = key.expand(1, 2, R), torch.tensor([[[1.0, 2, 3, 4], [5, 6, 7, 8]]])

    memory = write("delta", keys, values, torch.ones(1, 2), torch.ones(1))

    torch.testing.assert_close(memory[0].T @ key[0, 0], values[0, 1], atol=1e-5, rtol=1e-5)


def test_ridge_equals_the_normal_equations_in_float64() -> None:
    keys, values, strength, ridge = material()
    found = write("ridge", keys, values, strength, ridge)
    for n in range(N):
        K, G = keys[n].double(), torch.diag(strength[n].double())
        expected = torch.linalg.inv(K.T @ G @ K + ridge[n].double() * torch.eye(R)) @ (K.T @ G @ values[n].double())
        torch.testing.assert_close(found[n].double(), expected, atol=1e-5, rtol=1e-5)


def test_ridge_returns_every_value_at_its_key_when_lambda_vanishes() -> None:
    chance = torch.Generator().manual_seed(2)
    keys = torch.linalg.qr(torch.randn(1, R, R, generator=chance)).Q + 0.05 * torch.randn(1, R, R, generator=chance)
    keys, values = F.normalize(keys, dim=-1), torch.randn(1, R, V, generator=chance)
    strength = torch.full((1, R), 0.5)
    errors = [
        float((keys @ write("ridge", keys, values, strength, torch.tensor([size])) - values).abs().max())
        for size in (1e-1, 1e-3, 1e-5)
    ]

    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


def test_linear_adds_up_but_for_its_shrink() -> None:
    keys, values, strength, ridge = material()

    def unshrunk(at: slice) -> Tensor:
        total = strength[:, at].sum(-1)[:, None, None]
        return write("linear", keys[:, at], values[:, at], strength[:, at], ridge) * (30 + total) / 30

    whole = unshrunk(slice(None))
    torch.testing.assert_close(unshrunk(slice(0, 4)) + unshrunk(slice(4, None)), whole, atol=1e-5, rtol=1e-5)
    expected = torch.einsum("nt,ntr,ntv->nrv", strength, keys, values)
    torch.testing.assert_close(whole, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_padding_leaves_no_trace_and_rows_do_not_see_each_other(rule: WriteRule) -> None:
    """Padding is whatever the model said there, at strength 0; float32, so not bit for bit."""
    keys, values, strength, ridge = material()
    other_keys, other_values, _, _ = material(seed=5, tokens=7)
    padded = write(
        rule,
        torch.cat([keys, other_keys], 1),
        torch.cat([values, 100 * other_values], 1),
        F.pad(strength, (0, 7)),
        ridge,
    )
    together = write(rule, keys, values, strength, ridge)

    torch.testing.assert_close(padded, together, atol=1e-5, rtol=1e-5)
    for n in range(N):
        one = slice(n, n + 1)
        alone = write(rule, keys[one], values[one], strength[one], ridge[one])
        torch.testing.assert_close(alone[0], together[n], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_nothing_written_is_an_empty_memory(rule: WriteRule) -> None:
    keys, values, strength, ridge = material()
    assert write(rule, keys, values, torch.zeros_like(strength), ridge).abs().max() == 0
