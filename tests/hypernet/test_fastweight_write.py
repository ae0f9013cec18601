"""The ridge solution against an independent slow form."""

import torch
from torch import Tensor
from torch.nn import functional as F

from plume_memory.hypernet.fastweight.write import write as factored


def write(*given):
    places, stored = factored(*given)
    return stored if places is None else places @ stored


N, T, R, V = 3, 9, 5, 4


def material(seed: int = 0, tokens: int = T) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Keys of unit length, values, strengths in (0, 1), λ."""
    chance = torch.Generator().manual_seed(seed)
    keys = F.normalize(torch.randn(N, tokens, R, generator=chance), dim=-1)
    values = torch.randn(N, tokens, V, generator=chance)
    return keys, values, torch.rand(N, tokens, generator=chance), torch.rand(N, generator=chance) + 0.1


def test_it_equals_the_normal_equations_in_float64() -> None:
    keys, values, strength, ridge = material()
    found = write(keys, values, strength, ridge)
    for n in range(N):
        K, G = keys[n].double(), torch.diag(strength[n].double())
        expected = torch.linalg.inv(K.T @ G @ K + ridge[n].double() * torch.eye(R)) @ (K.T @ G @ values[n].double())
        torch.testing.assert_close(found[n].double(), expected, atol=1e-5, rtol=1e-5)


def test_it_returns_every_value_at_its_key_when_lambda_vanishes() -> None:
    chance = torch.Generator().manual_seed(2)
    keys = torch.linalg.qr(torch.randn(1, R, R, generator=chance)).Q + 0.05 * torch.randn(1, R, R, generator=chance)
    keys, values = F.normalize(keys, dim=-1), torch.randn(1, R, V, generator=chance)
    strength = torch.full((1, R), 0.5)
    errors = [
        float((keys @ write(keys, values, strength, torch.tensor([size])) - values).abs().max())
        for size in (1e-1, 1e-3, 1e-5)
    ]

    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 1e-3


def test_padding_leaves_no_trace_and_rows_do_not_see_each_other() -> None:
    """Padding is whatever the model said there, at strength 0; float32, so not bit for bit."""
    keys, values, strength, ridge = material()
    other_keys, other_values, _, _ = material(seed=5, tokens=7)
    padded = write(
        torch.cat([keys, other_keys], 1),
        torch.cat([values, 100 * other_values], 1),
        F.pad(strength, (0, 7)),
        ridge,
    )
    together = write(keys, values, strength, ridge)

    torch.testing.assert_close(padded, together, atol=1e-5, rtol=1e-5)
    for n in range(N):
        one = slice(n, n + 1)
        alone = write(keys[one], values[one], strength[one], ridge[one])
        torch.testing.assert_close(alone[0], together[n], atol=1e-5, rtol=1e-5)


def test_nothing_written_is_an_empty_memory() -> None:
    keys, values, strength, ridge = material()
    assert write(keys, values, torch.zeros_like(strength), ridge).abs().max() == 0


def test_both_forms_of_the_solution_are_the_same_memory():
    """Of 9 tokens at rank 12 the system of 9 is solved; with padding to 12 places that of 12."""
    chance = torch.Generator().manual_seed(3)
    keys = torch.nn.functional.normalize(torch.randn(2, 9, 12, generator=chance), dim=-1)
    values, strength = torch.randn(2, 9, 5, generator=chance), torch.rand(2, 9, generator=chance)
    ridge = torch.tensor([0.01, 1.0])
    longer = [torch.nn.functional.pad(one, (0, 0, 0, 3)) for one in (keys, values)]
    assert factored(keys, values, strength, ridge)[0] is not None
    assert factored(*longer, torch.nn.functional.pad(strength, (0, 3)), ridge)[0] is None
    torch.testing.assert_close(
        write(keys, values, strength, ridge),
        write(*longer, torch.nn.functional.pad(strength, (0, 3)), ridge),
        atol=1e-4,
        rtol=1e-4,
    )
