"""Optimisers against PyTorch's own, the schedule's corners, the moving average."""

import pytest
import torch
from torch import nn

from plume_memory.errors import TrainingError
from plume_memory.training.optimizer import MovingAverage, NetworkOptimizer, is_decayed, learning_rate
from plume_memory.training.run_settings import RunSettings


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 5)
        self.norm = nn.LayerNorm(5)
        self.stack = nn.Parameter(torch.randn(2, 3, 5, 4))
        self.bias_A = nn.Parameter(torch.randn(2, 3, 4))
        self.gate = nn.Parameter(torch.randn(2, 5, 1))
        self.frozen = nn.Parameter(torch.randn(3, 3), requires_grad=False)


def grads(network: nn.Module, seed: int) -> None:
    chance = torch.Generator().manual_seed(seed)
    for parameter in network.parameters():
        if parameter.requires_grad:
            parameter.grad = torch.randn(parameter.shape, generator=chance)


@pytest.mark.parametrize("schedule", ["constant", "cosine", "linear"])
def test_the_rate_warms_up_to_its_peak_and_ends_at_the_floor(schedule: str) -> None:
    settings = RunSettings(steps=100, warm_up=10, learning_rate=1.0, floor=0.1, schedule=schedule)  # type: ignore[arg-type]
    rates = [learning_rate(step, settings) for step in range(100)]

    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == pytest.approx(1.0)
    assert rates[-1] == pytest.approx(1.0 if schedule == "constant" else 0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert learning_rate(500, settings) == pytest.approx(rates[-1]), "beyond the end it stays"


def test_a_run_of_one_step_has_a_rate() -> None:
    assert learning_rate(0, RunSettings(steps=1, warm_up=0)) == RunSettings().learning_rate


def test_norms_biases_and_vectors_are_not_decayed() -> None:
    found = {name for name, p in Network().named_parameters() if is_decayed(name, p)}

    assert found == {"layer.weight", "stack", "gate", "frozen"}
    assert not is_decayed("heads.scaler_B.down_proj", torch.zeros(1, 2, 3, 1))
    assert not is_decayed("encoder.latents_q", torch.zeros(8, 16))


def test_adamw_is_pytorchs_with_decay_on_matrices_only() -> None:
    settings = RunSettings(learning_rate=0.1, weight_decay=0.3)
    own, reference = Network(), Network()
    optimizer = NetworkOptimizer(own, settings)
    named = [(n, p) for n, p in reference.named_parameters() if p.requires_grad]
    expected = torch.optim.AdamW(
        [
            {"params": [p for n, p in named if is_decayed(n, p)], "weight_decay": 0.3},
            {"params": [p for n, p in named if not is_decayed(n, p)], "weight_decay": 0.0},
        ],
        lr=0.1,
        betas=settings.betas,
        fused=True,
    )
    for seed in range(3):
        grads(own, seed)
        grads(reference, seed)
        optimizer.step(0.1)
        expected.step()

    for (name, one), other in zip(own.named_parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0, msg=name)


def test_muon_steps_every_matrix_of_a_stack_as_pytorchs_steps_it_alone() -> None:
    own, reference = Network(), Network()
    optimizer = NetworkOptimizer(own, RunSettings(optimiser="muon", learning_rate=0.1, weight_decay=0.3))
    alone = [nn.Parameter(m.clone()) for m in reference.stack.detach().reshape(6, 5, 4)]
    expected = torch.optim.Muon(alone, lr=0.1, weight_decay=0.3, adjust_lr_fn="match_rms_adamw")
    for seed in range(3):
        grads(own, seed)
        grads(reference, seed)
        assert reference.stack.grad is not None
        for leaf, grad in zip(alone, reference.stack.grad.reshape(6, 5, 4), strict=True):
            leaf.grad = grad.clone()
        optimizer.step(0.1)
        expected.step()

    torch.testing.assert_close(own.stack.reshape(6, 5, 4), torch.stack([*alone]), rtol=0, atol=0)
    assert {key.rpartition("/")[2] for key in optimizer.state() if key.startswith("gate")} >= {"exp_avg"}, "a vector"


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_restored_state_continues_bit_for_bit(optimiser: str) -> None:
    settings = RunSettings(optimiser=optimiser)  # type: ignore[arg-type]
    whole, stopped = Network(), Network()
    one, other = NetworkOptimizer(whole, settings), NetworkOptimizer(stopped, settings)
    for seed in range(4):
        if seed == 2:
            state = {name: tensor.clone() for name, tensor in other.state().items()}
            resumed = Network()
            resumed.load_state_dict(stopped.state_dict())
            stopped, other = resumed, NetworkOptimizer(resumed, settings)
            other.restore(state)
        for network, optimizer in ((whole, one), (stopped, other)):
            grads(network, seed)
            optimizer.step(0.01)

    for left, right in zip(whole.parameters(), stopped.parameters(), strict=True):
        assert torch.equal(left, right)


@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_restored_state_fits_a_parameter_that_lies_in_memory_by_columns(optimiser: str) -> None:
    """A file holds rows; PyTorch's fused step pairs what lies at the same place in memory."""

    class Columns(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.matrix = nn.Parameter(torch.randn(4, 6).T)

    settings = RunSettings(optimiser=optimiser)  # type: ignore[arg-type]
    whole, stopped = Columns(), Columns()
    one, other = NetworkOptimizer(whole, settings), NetworkOptimizer(stopped, settings)
    for optimizer, network in ((one, whole), (other, stopped)):
        grads(network, 1)
        optimizer.step(0.1)
    resumed = NetworkOptimizer(stopped, settings)
    resumed.restore({name: value.contiguous().clone() for name, value in other.state().items()})
    for optimizer, network in ((one, whole), (resumed, stopped)):
        grads(network, 2)
        optimizer.step(0.1)

    assert not whole.matrix.is_contiguous()
    assert torch.equal(whole.matrix, stopped.matrix)


def test_state_of_another_network_is_refused() -> None:
    optimizer = NetworkOptimizer(Network(), RunSettings())

    with pytest.raises(TrainingError, match=r"optimiser state for 'other\.weight'"):
        optimizer.restore({"other.weight/exp_avg": torch.zeros(2)})
    with pytest.raises(TrainingError, match=r"averaged weights do not fit.*'other'"):
        MovingAverage({"own": nn.Parameter(torch.zeros(2))}, 0.9).restore({"other": torch.zeros(2)})


def test_there_must_be_something_to_train() -> None:
    class Gates(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bias = nn.Parameter(torch.zeros(3))

    with pytest.raises(TrainingError, match=r"set run\.optimiser to adamw"):
        NetworkOptimizer(Gates(), RunSettings(optimiser="muon"))
    with pytest.raises(TrainingError, match="no parameter that requires a gradient"):
        NetworkOptimizer(nn.Linear(2, 2).requires_grad_(False), RunSettings())


def test_gradients_are_zero_not_missing() -> None:
    network = Network()
    optimizer = NetworkOptimizer(network, RunSettings())
    optimizer.clear_gradients()

    assert all(p.grad is not None and not p.grad.any() for p in optimizer.parameters)
    assert network.frozen.grad is None


def test_the_average_is_applied_and_taken_back_on_an_error() -> None:
    parameter = nn.Parameter(torch.zeros(2))
    average = MovingAverage({"p": parameter}, 0.5)
    with torch.no_grad():
        parameter.fill_(4.0)
    average.update(100)

    def fail() -> None:
        with average.applied():
            assert parameter.tolist() == [2.0, 2.0]
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert parameter.tolist() == [4.0, 4.0]
    assert average.state()["p"].tolist() == [2.0, 2.0]
