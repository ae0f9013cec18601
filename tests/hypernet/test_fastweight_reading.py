"""What the network is shown of a text, against the model's own outputs."""

import pytest
import torch

from plume_memory.hypernet.fastweight.reading import read_head, read_texts
from plume_memory.model.base import BaseModel
from plume_memory.testing import tiny_base

TEXTS = ([40, 41, 42, 43, 44], [50, 51], list(range(60, 75)))
LAYERS, SHARED = (1, 2), 0


def test_states_equal_what_transformers_hands_out(tiny: BaseModel) -> None:
    head = tiny.chat.prefix_ids()[:3]
    reading = read_texts(tiny.passes, TEXTS, head, LAYERS, SHARED)

    for row, text in enumerate(TEXTS):
        with torch.no_grad():
            states = tiny.model.model(
                input_ids=torch.tensor([[*head, *text]]), output_hidden_states=True, use_cache=False
            ).hidden_states
            embedded = tiny.model.get_input_embeddings()(torch.tensor(text))
        n = len(text)
        expected = torch.stack([states[layer][0, len(head) :] for layer in LAYERS])
        torch.testing.assert_close(reading.hidden[:, row, :n], expected, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(reading.shared[row, :n], states[SHARED][0, len(head) :], atol=1e-5, rtol=1e-5)
        assert torch.equal(reading.following[row, : n - 1], embedded[1:])
        assert reading.following[row, n - 1 :].abs().max() == 0
        assert reading.mask[row].tolist() == [True] * n + [False] * (reading.mask.shape[1] - n)


def test_the_place_before_a_text_is_kept_when_its_first_token_is_wanted(tiny: BaseModel) -> None:
    head = tiny.chat.prefix_ids()[:3]
    with_it = read_texts(tiny.passes, TEXTS, head, LAYERS, SHARED, first_token=True)
    without = read_texts(tiny.passes, TEXTS, head, LAYERS, SHARED)

    for name in ("hidden", "activations", "shared"):
        assert torch.equal(getattr(with_it, name)[..., 1:, :], getattr(without, name))
        assert torch.equal(getattr(with_it, name)[..., 0, 0, :], getattr(with_it, name)[..., 2, 0, :]), "the head's own"
    assert torch.equal(with_it.mask[:, 1:], without.mask)
    assert with_it.mask[:, 0].all()
    with torch.no_grad():
        first = tiny.model.get_input_embeddings()(torch.tensor([text[0] for text in TEXTS]))
    assert torch.equal(with_it.following[:, 0], first)
    bare = read_texts(tiny.passes, TEXTS, [], LAYERS, SHARED, first_token=True)
    assert (bare.mask[0].sum(), bare.is_led) == (len(TEXTS[0]), False), "without a head there is no such place"


@pytest.mark.parametrize("first_token", [False, True])
def test_a_head_that_was_read_before_shows_the_same(tiny: BaseModel, first_token: bool) -> None:
    head, states = tiny.chat.prefix_ids(), read_head(tiny, first_token=first_token)
    assert states is not None
    assert states.tokens == len(head) - first_token
    whole = read_texts(tiny.passes, TEXTS, head, LAYERS, SHARED, first_token=first_token)
    behind = read_texts(tiny.passes, TEXTS, head, LAYERS, SHARED, first_token=first_token, head_states=states)
    for row, length in enumerate(whole.mask.sum(1).tolist()):
        assert int(behind.mask[row].sum()) == length
        for name in ("hidden", "activations", "shared", "following"):
            own, other = (getattr(reading, name)[..., row, :length, :] for reading in (behind, whole))
            torch.testing.assert_close(own, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("family", ["llama", "qwen3", "mistral"])
def test_activations_equal_the_mlps_input_computed_without_hooks(family: str) -> None:
    base = tiny_base(family)
    head, text = base.chat.prefix_ids()[:3], TEXTS[2]
    reading = read_texts(base.passes, [text], head, LAYERS, SHARED)
    decoder = base.model.model
    with torch.no_grad():
        ids = torch.tensor([[*head, *text]])
        states = decoder(input_ids=ids, output_hidden_states=True, use_cache=False).hidden_states
        frame = decoder.rotary_emb(states[0], torch.arange(ids.shape[1])[None])
        for i, layer in enumerate(LAYERS):
            block, entering = decoder.layers[layer], states[layer]
            seen, _ = block.self_attn(
                hidden_states=block.input_layernorm(entering), position_embeddings=frame, attention_mask=None
            )
            normed = block.post_attention_layernorm(entering + seen)
            inner = block.mlp.act_fn(block.mlp.gate_proj(normed)) * block.mlp.up_proj(normed)
            found = reading.activations[i, 0, : len(text)]
            torch.testing.assert_close(found, inner[0, len(head) :], atol=1e-5, rtol=1e-4)


def test_a_text_reads_the_same_alone_and_among_others(tiny: BaseModel) -> None:
    head = tiny.chat.prefix_ids()[:3]
    together = read_texts(tiny.passes, TEXTS, head, LAYERS, SHARED)
    for row, text in enumerate(TEXTS):
        alone = read_texts(tiny.passes, [text], head, LAYERS, SHARED)
        for name in ("hidden", "activations", "shared", "following"):
            one, all_of_them = getattr(alone, name), getattr(together, name)
            # one place further: what follows a text is part of what its last token stores
            n = len(text) + 1
            found = all_of_them[..., row, :n, :]
            torch.testing.assert_close(found, one[..., 0, :n, :], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("room", range(16))
def test_every_text_is_followed_by_a_place_of_padding(tiny_llama: BaseModel, room: int) -> None:
    reading = read_texts(tiny_llama.passes, [[40] * (5 + room)], [1, 2, 3], LAYERS, SHARED)

    assert reading.mask.sum() == 5 + room
    assert not reading.mask[0, -1]


def test_an_exception_leaves_nothing_for_the_next_pass(tiny_llama: BaseModel) -> None:
    expected = read_texts(tiny_llama.passes, TEXTS, [1], LAYERS, SHARED)
    with pytest.raises(IndexError):
        read_texts(tiny_llama.passes, [[10**6]], [1], LAYERS, SHARED)
    with torch.no_grad():  # runs to its end: nobody else's reading ends it
        tiny_llama.model(input_ids=torch.tensor([[1, 2, 3]]))
    assert torch.equal(read_texts(tiny_llama.passes, TEXTS, [1], LAYERS, SHARED).hidden, expected.hidden)
