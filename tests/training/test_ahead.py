"""Micro-batches that other processes draw are those that the trainer would draw."""

import os

import pytest
import torch

from plume_memory.errors import TrainingError
from plume_memory.training.ahead import DrawnAhead


def drawn(number: int) -> tuple[int, int]:
    """A number's own batch, and who drew it."""
    return number * number, os.getpid()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_batches_come_in_order_whoever_draws_them(device: str) -> None:
    ahead = DrawnAhead(drawn, device=torch.device(device), stride=3, end=30)
    batches = [ahead(number) for number in range(1, 30, 3)]
    assert [square for square, _ in batches] == [number * number for number in range(1, 30, 3)]
    assert ({pid for _, pid in batches} == {os.getpid()}) == (device == "cpu")
    assert ahead(13)[0] == 169, "a run that goes on begins anywhere"
    assert ahead(16)[0] == 256


def test_drawing_ahead_draws_nothing_from_the_run() -> None:
    ahead = DrawnAhead(drawn, device=torch.device("cuda"), stride=1, end=4)
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    ahead(0)
    assert torch.equal(before, torch.random.get_rng_state())


def refused(number: int) -> int:
    """Nothing but an error."""
    raise TrainingError(f"{number} cannot be drawn.")


def test_an_error_is_said_as_whoever_draws_says_it() -> None:
    ahead = DrawnAhead(refused, device=torch.device("cuda"), stride=1, end=4)
    with pytest.raises(TrainingError, match=r"^2 cannot be drawn\.$"):
        ahead(2)
