"""D2LParameterizer: chunks of a text become one adapter, whatever else is parameterized with it."""

import pytest
import torch
import transformers as hf

from plume_memory.errors import InvalidInput, ParameterizerError
from plume_memory.hypernet.d2l.checkpoint import convert, load
from plume_memory.hypernet.parameterizer import D2LParameterizer, ManyChunksWarning, Parameterizer
from plume_memory.model.modules import Modules

PRE, SUF = [60, 61], [62]
NAME = "mlp.down_proj"


def words(text):
    """Templated ids of a toy language: one token a word."""
    return [*PRE, *(int(word) for word in text.split()), *SUF]


@pytest.fixture(scope="module")
def parts(reference, tmp_path_factory):
    folder = tmp_path_factory.mktemp("d2l")
    network = load(convert(reference().save(folder / "m.bin"), folder / "out"))
    torch.manual_seed(0)
    config = hf.LlamaConfig(
        vocab_size=64,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
    )
    return network, Modules(hf.LlamaForCausalLM(config).float().eval())


@pytest.fixture
def build(parts):
    def make(chunking="append_only", chunk_tokens=8, tokenize=words) -> Parameterizer:
        return D2LParameterizer(
            *parts, tokenize, PRE, SUF, chunking=chunking, chunk_tokens=chunk_tokens, fingerprint="f"
        )

    return make


def close(one, other):
    for a, b in zip(one.modules[NAME], other.modules[NAME], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_chunks_are_concatenated_along_the_rank(build):
    (factors,) = build().parameterize(["1 2 3 4 5 6 7 8 9 10 11"])
    assert factors.rank == 3 * 3  # windows of 8 − 3 tokens
    assert factors.layers == (0, 1)
    assert factors.scale == pytest.approx(2 * 3**1.5)


def test_a_texts_factors_do_not_depend_on_its_batch(build):
    texts = ["1 2", "3 4 5 6 7 8 9", "5", "1 2 3 4 5 6 7 8 9 10 11 12 13"]
    together = build().parameterize(texts)
    for text, factors in zip(texts, together, strict=True):
        close(factors, build().parameterize([text])[0])


def test_append_only_keeps_the_factors_of_closed_windows(build):
    before = build().parameterize(["1 2 3 4 5 6 7"])[0]
    after = build().parameterize(["1 2 3 4 5 6 7 8 9 10 11"])[0]
    torch.testing.assert_close(after.modules[NAME].A[:, :3], before.modules[NAME].A[:, :3], rtol=1e-4, atol=1e-6)


def test_both_ways_agree_up_to_one_chunk(build):
    text = "1 2 3 4 5"  # 8 tokens with the template
    assert build("near_equal").chunks(text) == build("append_only").chunks(text) == [words(text)]


def test_beyond_one_chunk_each_cuts_its_own_way(build):
    text = "1 2 3 4 5 6"
    assert build("near_equal").chunks(text) == [[60, 61, 1, 2, 3, 62], [60, 61, 4, 5, 6, 62]]
    assert build("append_only").chunks(text) == [[60, 61, 1, 2, 3, 4, 5, 62], [60, 61, 6, 62]]


def test_a_template_merged_with_the_text_is_cut_as_text(build):
    merged = build(tokenize=lambda text: [60, 63, *words(text)[3:]])
    assert merged.chunks("1 2 3 4 5 6 7")[0] == [60, 61, 60, 63, 2, 3, 4, 62]


def test_max_tokens_is_the_longest_text_of_one_chunk(build):
    p = build()
    assert len(p.chunks(" ".join(["1"] * p.max_tokens))) == 1
    assert len(p.chunks(" ".join(["1"] * (p.max_tokens + 1)))) == 2


def test_more_chunks_than_trained_on_warn(build):
    with pytest.warns(ManyChunksWarning, match="10 chunks"):
        build().parameterize([" ".join(["1"] * 50)])


def test_the_fingerprint_names_the_chunking(build):
    assert len({build(c, n).fingerprint for c in ("near_equal", "append_only") for n in (8, 9)}) == 4


def test_the_bias_is_apart(build):
    p = build()
    assert p.bias is not None
    assert p.bias.rank == 3
    assert not p.additive


@pytest.mark.parametrize("text", ["", " \n"])
def test_empty_texts_are_refused(build, text):
    with pytest.raises(ParameterizerError, match="empty text"):
        build().parameterize(["1", text])


def test_no_texts_give_no_factors(build):
    assert build().parameterize([]) == []


def test_a_template_that_fills_the_chunk_is_refused(build):
    with pytest.raises(InvalidInput, match="no room"):
        build(chunk_tokens=3)


def test_a_network_of_another_model_is_refused(parts, reference, recipe, tmp_path):
    _, model = parts
    other = load(convert(reference(recipe(layers=3)).save(tmp_path / "m.bin"), tmp_path / "out"))
    with pytest.raises(ParameterizerError, match="3 layers"):
        D2LParameterizer(other, model, words, PRE, SUF, chunking="near_equal", chunk_tokens=8, fingerprint="f")


def test_factors_carry_no_gradient(build):
    (factors,) = build().parameterize(["1 2"])
    assert not factors.modules[NAME].A.requires_grad
