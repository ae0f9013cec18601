"""The fast-weight network behind the parameterizer's interface."""

from pathlib import Path

import pytest
import torch

from plume_memory.errors import ParameterizerError
from plume_memory.hypernet.fastweight import checkpoint, parameterizer
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.fastweight.parameterizer import FastWeightParameterizer, load_fast_weight_parameterizer
from plume_memory.hypernet.fastweight.reading import read_texts
from plume_memory.model.base import BaseModel
from plume_memory.testing import tiny_base

MODULE = "mlp.down_proj"


def save(folder: Path, *, seed: int = 0, max_tokens: int = 40, mixer_layer: int = 1) -> Path:
    torch.manual_seed(seed)
    config = FastWeightConfig(
        hidden_size=32,
        intermediate_size=64,
        layers=(1, 2),
        rank=8,
        value_width=6,
        mixer_width=16,
        mixer_layer=mixer_layer,
    )
    folder.mkdir(exist_ok=True)
    checkpoint.save(FastWeightNetwork(config), folder, base_model="tiny", max_tokens=max_tokens)
    return folder


@pytest.fixture
def made(tmp_path: Path, tiny_llama: BaseModel) -> FastWeightParameterizer:
    return load_fast_weight_parameterizer(tiny_llama, save(tmp_path / "network"))


def test_factors_are_the_networks_over_the_models_states(
    made: FastWeightParameterizer, tmp_path: Path, tiny_llama: BaseModel
) -> None:
    text = "Alice lives in Bern."
    (factors,) = made.parameterize([f"  {text}\n"])
    network = checkpoint.load(tmp_path / "network")
    ids, head = tiny_llama.chat.encode(text), tiny_llama.chat.prefix_ids()
    expected = network(read_texts(tiny_llama.passes, [ids], head, (1, 2), 1))[:, 0]

    assert (factors.layers, factors.rank, factors.scale) == ((1, 2), 8, 1.0)
    assert torch.equal(factors.modules[MODULE].B, expected)
    assert torch.equal(factors.modules[MODULE].A, network.read_keys)


def test_all_texts_share_the_very_same_a(made: FastWeightParameterizer) -> None:
    for factors in made.parameterize(["One.", "Two."]):
        assert factors.modules[MODULE].A is made.shared_a[MODULE]


def test_a_long_text_is_written_in_pieces_that_add_up(made: FastWeightParameterizer) -> None:
    """Byte tokens: 100 characters are 100 tokens, cut after each 40."""
    text = "".join(chr(97 + i % 26) for i in range(100))
    (whole,) = made.parameterize([text])
    pieces = made.parameterize([text[:40], text[40:80], text[80:]])

    assert made.max_tokens == 40
    assert whole.rank == 8
    for layer in (1, 2):
        expected = sum(p.delta(MODULE, layer) for p in pieces)
        torch.testing.assert_close(whole.delta(MODULE, layer), expected, atol=1e-6, rtol=1e-4)


def test_a_text_gets_the_same_factors_whatever_it_is_asked_with(made: FastWeightParameterizer) -> None:
    texts = ["x" * n for n in (3, 77, 1, 40, 200, 16)]
    for text, together in zip(texts, made.parameterize(texts), strict=True):
        (alone,) = made.parameterize([text])
        torch.testing.assert_close(together.modules[MODULE].B, alone.modules[MODULE].B, atol=1e-6, rtol=1e-4)


def test_a_batch_never_holds_more_padded_tokens_than_its_limit() -> None:
    """Short pieces first: a batch sized by them must not take the long ones that follow."""
    pieces = [[1] * 4] * 20 + [[1] * 256] * 40 + [[1] * 2000] + [[1] * 4] * 3
    batches = list(parameterizer._batches(pieces))

    assert [piece for batch in batches for piece in batch] == pieces
    assert all(len(b) == 1 or len(b) * max(map(len, b)) <= 1024 for b in batches)
    assert len(batches) < 20


@pytest.mark.parametrize("text", ["", " \n\t"])
def test_an_empty_text_is_refused(made: FastWeightParameterizer, text: str) -> None:
    with pytest.raises(ParameterizerError, match="empty text"):
        made.parameterize(["full", text])


def test_a_text_the_tokenizer_drops_is_refused(made: FastWeightParameterizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(made._base.chat), "encode", lambda *_: [])
    with pytest.raises(ParameterizerError, match="makes nothing of"):
        made.parameterize(["\u200b"])


@pytest.mark.parametrize(
    ("base", "found"), [(tiny_base("llama", layers=2), "32, 64 and 2"), (tiny_base("qwen3", layers=1), "32, 64 and 1")]
)
def test_a_model_of_other_sizes_is_refused(tmp_path: Path, base: BaseModel, found: str) -> None:
    with pytest.raises(ParameterizerError, match=f"at least 3 layers; .* has {found}"):
        load_fast_weight_parameterizer(base, save(tmp_path / "network"))


def test_a_mixer_deeper_than_the_model_is_refused(tmp_path: Path, tiny_llama: BaseModel) -> None:
    with pytest.raises(ParameterizerError, match="at least 4 layers"):
        load_fast_weight_parameterizer(tiny_llama, save(tmp_path / "network", mixer_layer=3))


def test_the_fingerprint_follows_the_weights(tmp_path: Path, tiny_llama: BaseModel) -> None:
    prints = [
        load_fast_weight_parameterizer(tiny_llama, save(tmp_path / str(i), seed=seed)).fingerprint
        for i, seed in enumerate((0, 0, 1))
    ]

    assert prints[0] == prints[1] != prints[2]
