"""The student: what it reports of each exchange, and where gradients go."""

import pytest
import torch

from plume_memory.model.adapters import AdapterRows, stack_rows
from plume_memory.testing import random_factors, tiny_base
from plume_memory.training.items import Item
from plume_memory.training.packing import pack
from plume_memory.training.student import exact_items, item_means, target_logits, token_losses

CPU = torch.device("cpu")
ROWS = ((Item((40, 41), (90, 91, 2), "answer"), Item((50,), (60, 2), "answer")), (Item((70, 71, 72), (72,), "kept"),))


@pytest.mark.parametrize("family", ["llama", "gemma2"])
def test_each_row_answers_through_its_own_adapter(family: str) -> None:
    """Against weights merged by hand."""
    base = tiny_base(family)
    head = base.chat.prefix_ids()
    packed = pack(ROWS, head, device=CPU, dtype=torch.float32)
    factors = [random_factors(base, seed=1), random_factors(base, seed=2)]
    with torch.no_grad():
        found = target_logits(base, packed, stack_rows(factors, device=CPU, dtype=torch.float32))
    for row, adapter in enumerate(factors):
        merged = tiny_base(family)
        with torch.no_grad():
            for layer in adapter.layers:
                merged.model.model.layers[layer].mlp.down_proj.weight += adapter.delta("mlp.down_proj", layer)
            for item in ROWS[row]:
                n = packed.items.index(item)
                ids = torch.tensor([[*head, *item.prompt_ids, *item.target_ids[:-1]]])
                expected = merged.model(input_ids=ids).logits[0, -len(item.target_ids) :]
                torch.testing.assert_close(found[packed.item == n], expected, atol=5e-4, rtol=1e-3)


def test_gradients_flow_into_the_adapter_alone() -> None:
    base = tiny_base("llama")
    packed = pack(ROWS, base.chat.prefix_ids(), device=CPU, dtype=torch.float32)
    A, B = torch.randn(64, 4, requires_grad=True), torch.zeros(2, 4, 32, requires_grad=True)
    logits = target_logits(base, packed, AdapterRows({(1, "mlp.down_proj"): (A, B)}, 2, 4))
    token_losses(logits, packed).sum().backward()  # type: ignore[no-untyped-call]

    assert B.grad is not None
    assert B.grad.abs().amax((1, 2)).gt(0).all()
    assert all(p.grad is None for p in base.model.parameters())
    assert not any(m._forward_hooks for m in base.model.modules() if type(m).__name__ == "Linear")


def test_means_and_exactness_are_by_exchange() -> None:
    packed = pack(ROWS, [1], device=CPU, dtype=torch.float32)
    logits = torch.full((6, 100), -5.0)
    logits[torch.arange(6), packed.targets] = 5.0
    logits[1, 3] = 9.0  # the second token of the first exchange is another's

    assert exact_items(logits, packed).tolist() == [False, True, True]
    means = item_means(torch.tensor([1.0, 2, 6, 4, 8, 5]), packed)
    assert means.tolist() == [3.0, 6.0, 5.0]


def test_words_around_an_answer_count_for_less_and_not_for_exactness() -> None:
    rows = ((Item((40,), (90, 91, 92, 2), "answer", answer=(1, 3)), Item((50,), (60, 2), "answer")),)
    packed = pack(rows, [1], device=CPU, dtype=torch.float32)
    assert packed.in_answer.tolist() == [False, True, True, False, True, True]
    logits = torch.full((6, 100), -5.0)
    logits[torch.arange(6), packed.targets] = 5.0
    logits[0, 3] = logits[3, 3] = 9.0  # the words before and behind the answer are another's

    assert exact_items(logits, packed).tolist() == [True, True]
    means = item_means(torch.tensor([10.0, 1, 3, 10, 4, 8]), packed, lead=0.5)
    torch.testing.assert_close(means, torch.tensor([14 / 3, 6.0]))
    torch.testing.assert_close(item_means(torch.ones(6), packed, lead=0.0), torch.ones(2))


def test_of_equal_logits_the_first_is_the_answer_as_in_greedy_decoding() -> None:
    packed = pack(
        ((Item((40,), (7, 2), "answer"),), (Item((40,), (5, 2), "answer"),)), [1], device=CPU, dtype=torch.float32
    )
    logits = torch.full((4, 100), -5.0, dtype=torch.bfloat16)
    logits[[0, 1, 2, 3], [7, 2, 5, 2]] = 5.0
    logits[[0, 2], [6, 6]] = 5.0  # as likely as the targets: before the 7, behind the 5

    assert exact_items(logits, packed).tolist() == [False, True]
    assert (logits.argmax(-1) == packed.targets).tolist() == [False, True, True, True]
