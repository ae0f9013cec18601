"""Packed rows against each exchange alone."""

import pytest
import torch

from plume_memory.model.base import BaseModel
from plume_memory.testing import tiny_base
from plume_memory.training.items import Item
from plume_memory.training.packing import pack
from plume_memory.training.student import target_logits

CPU = torch.device("cpu")
ROWS = (
    (
        Item(tuple(range(40, 49)), (90, 91, 2), "answer"),
        Item((50,), (60, 61, 62, 2), "completion"),
        Item(tuple(range(100, 130)), (92, 2), "answer"),
    ),
    (Item((70, 71), (72,), "kept"),),
)


def alone(base: BaseModel, head: list[int], item: Item) -> torch.Tensor:
    """Logits of an exchange's targets, from transformers' own forward over head and exchange."""
    ids = torch.tensor([[*head, *item.prompt_ids, *item.target_ids[:-1]]])
    with torch.no_grad():
        return base.model(input_ids=ids, use_cache=False).logits[0, -len(item.target_ids) :]


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma2", "mistral"])
def test_every_exchange_of_a_row_is_as_if_it_were_alone(family: str) -> None:
    """Also where head and exchange are longer than the sliding window (24) of gemma2 and mistral."""
    base = tiny_base(family)
    head = base.chat.prefix_ids()
    packed = pack(ROWS, head, device=CPU, dtype=torch.float32)
    with torch.no_grad():
        found = target_logits(base, packed, None)

    items = [item for row in ROWS for item in row]
    assert packed.items == tuple(items)
    assert len(head) + 30 > 24
    for n, item in enumerate(items):
        torch.testing.assert_close(found[packed.item == n], alone(base, head, item), atol=1e-4, rtol=1e-4)


def test_no_exchange_sees_another() -> None:
    base = tiny_base("llama")
    head = base.chat.prefix_ids()
    other = (ROWS[0][0], Item((55,), (66, 67, 68, 2), "completion"), ROWS[0][2])
    with torch.no_grad():
        found = [
            target_logits(base, pack([row], head, device=CPU, dtype=torch.float32), None) for row in (ROWS[0], other)
        ]

    kept = torch.tensor([0, 1, 2, 7, 8])
    torch.testing.assert_close(found[0][kept], found[1][kept], atol=1e-6, rtol=1e-5)
    assert (found[0][3:7] - found[1][3:7]).abs().max() > 1e-3


def test_places_and_targets_of_a_packed_batch() -> None:
    packed = pack(
        [
            [Item((4, 5), (6, 7), "answer"), Item((8,), (9,), "kept")],
            [Item((4,), (10, 11, 12), "completion")],
        ],
        [1, 2, 3],
        device=CPU,
        dtype=torch.float32,
    )

    assert packed.ids.tolist() == [[1, 2, 3, 4, 5, 6, 8] + [0] * 9, [1, 2, 3, 4, 10, 11] + [0] * 10]
    assert packed.positions[0, :7].tolist() == [0, 1, 2, 3, 4, 5, 3]
    assert packed.positions[1, :6].tolist() == [0, 1, 2, 3, 4, 5]
    assert packed.at.tolist() == [4, 5, 6, 16 + 3, 16 + 4, 16 + 5]
    assert packed.targets.tolist() == [6, 7, 9, 10, 11, 12]
    assert packed.item.tolist() == [0, 0, 1, 2, 2, 2]
    assert packed.tokens == 7 + 6
    before = packed.ids.flatten()[packed.at]
    assert before.tolist() == [5, 6, 8, 4, 10, 11], "each target is predicted from the token before it"


def test_the_mask_shows_the_head_and_the_exchange_itself() -> None:
    packed = pack([[Item((4,), (5, 6), "answer"), Item((7,), (8,), "kept")]], [1, 2], device=CPU, dtype=torch.float32)
    seen = (packed.mask[0, 0] == 0)[:6, :6]

    assert [[j for j in range(6) if seen[i, j]] for i in range(6)] == [
        [0],
        [0, 1],
        [0, 1, 2],
        [0, 1, 2, 3],
        [0, 1, 4],
        [0, 1, 5],
    ]


def test_states_stand_behind_the_head_and_close_the_gate_of_both() -> None:
    item = Item((4,), (5, 6), "answer")
    packed = pack([[item, item], [item]], [1, 2], states=[(8, 9), ()], device=CPU, dtype=torch.bfloat16)

    assert packed.ids[:, :9].tolist() == [[1, 2, 8, 9, 4, 5, 4, 5, 0], [1, 2, 4, 5, 0, 0, 0, 0, 0]]
    assert packed.positions[0, :8].tolist() == [0, 1, 2, 3, 4, 5, 4, 5]
    assert packed.tokens == 8 + 4
    seen = packed.mask[0, 0] == 0
    assert [j for j in range(8) if seen[7, j]] == [0, 1, 2, 3, 6, 7], "every exchange sees the states"
    assert packed.gate is not None
    assert (packed.gate.dtype, packed.gate.shape) == (torch.bfloat16, (2, 16, 1))
    assert packed.gate[..., 0].tolist() == [[0.0] * 4 + [1.0] * 12, [1.0] * 16]


@pytest.mark.parametrize("states", [None, [(), ()]])
def test_without_states_there_is_no_gate(states: list[tuple[int, ...]] | None) -> None:
    packed = pack(ROWS, [1, 2], states=states, device=CPU, dtype=torch.float32)
    assert packed.gate is None
    assert torch.equal(packed.ids, pack(ROWS, [1, 2], device=CPU, dtype=torch.float32).ids)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_row_of_padding_is_never_empty(dtype: torch.dtype) -> None:
    """A softmax over nothing would be nan, and nan spreads."""
    base = tiny_base("llama")
    base.model.to(dtype)
    packed = pack(ROWS, base.chat.prefix_ids(), device=CPU, dtype=dtype)
    with torch.no_grad():
        hidden = base.model.model(
            input_ids=packed.ids, attention_mask=packed.mask, position_ids=packed.positions
        ).last_hidden_state

    assert packed.tokens < packed.ids.numel()
    assert hidden.isfinite().all()
