"""Vectors of texts and questions: exact search, and a map that costs nothing beyond reading."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from plume_memory.answering.embedded import Embedded
from plume_memory.embedding import Embedding
from plume_memory.errors import CheckpointError, InvalidInput, ParameterizerError
from plume_memory.hypernet.embedding import FILE, EmbeddingWeights, load_embedding, save_embedding
from plume_memory.model.base import BaseModel
from plume_memory.records import Transition, Unit
from plume_memory.retrieval.reader import Reader
from plume_memory.retrieval.vectors import Embedder, nearest
from plume_memory.segmentation.told import Told

TEXTS = ["Alice lives in Bern.", "The kettle is blue.", "Bob sold his boat in May."]


class Kept:
    """A cache that is a dict, and counts what it was asked for in vain."""

    place = owner = "here"

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.missed = 0

    def is_current(self) -> bool:
        return True

    def get(self, key: str) -> bytes | None:
        self.missed += key not in self.content
        return self.content.get(key)

    def put(self, key: str, kind: str, content: bytes) -> None:
        assert kind == "vectors"
        self.content[key] = content

    def discard(self, key: str) -> None:
        self.content.pop(key, None)

    def keys(self, kind: str) -> list[str]:
        return list(self.content)

    def retire(self, key: str) -> None:
        self.discard(key)


def weights(base: BaseModel, width: int = 6) -> EmbeddingWeights:
    chance = torch.Generator().manual_seed(3)
    E = base.config.hidden_size
    maps = [torch.randn(width, E, generator=chance) for _ in range(2)]
    return EmbeddingWeights(maps[0], torch.arange(width) / 3, maps[1], torch.ones(width), "of no file")


def told(texts: list[str], *, first: int = 0) -> list[Told]:
    """One unit an update."""
    units = [Unit(at, at + 1, 0, len(text), text) for at, text in enumerate(texts, start=first)]
    return [Told(Transition(one.version, one.text), (one,)) for one in units]


@given(st.lists(st.integers(-2, 2), min_size=1, max_size=60))
def test_the_nearest_are_those_of_every_comparison(signs):
    """Of rows that are equal the later comes first, though their products differ in the last bits."""
    chance = np.random.default_rng(0)
    rows = {sign: chance.standard_normal(128).astype(np.float32) / 12 for sign in range(-2, 3)}
    question = chance.standard_normal((1, 128)).astype(np.float32) / 12
    likeness = {sign: round(float(row @ question[0]), 4) for sign, row in rows.items()}
    vectors = np.stack([rows[sign] for sign in signs])
    assert list(nearest(vectors, question)) == sorted(range(len(signs)), key=lambda at: (-likeness[signs[at]], -at))


def test_a_vector_is_the_mapped_state_of_a_text_alone(tiny_llama: BaseModel) -> None:
    reader, own = Reader(tiny_llama), weights(tiny_llama)
    embedder, cache = Embedder(reader, own), Kept()
    found = embedder.texts(TEXTS, cache)
    state = F.normalize(reader.text_states(TEXTS[:1], cache).float())
    assert np.allclose(found[0], F.normalize(state @ own.text.T + own.text_bias).numpy()[0], atol=1e-6)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert np.allclose(embedder.texts(TEXTS[2:], cache)[0], found[2], atol=1e-6), "whatever is read beside it"
    asked = embedder.question("Where does Alice live?")
    assert asked.shape == (1, embedder.width)
    with pytest.raises(InvalidInput, match="no token"):
        embedder.question(" ")


def test_vectors_are_made_once_and_found_again_by_another_process(tiny_llama: BaseModel) -> None:
    cache = Kept()
    made = Embedding(tiny_llama, Reader(tiny_llama), weights(tiny_llama), "f").found(told(TEXTS), cache)
    assert cache.missed == len(TEXTS)
    another = Embedding(tiny_llama, Reader(tiny_llama), weights(tiny_llama), "f")
    again = another.found(told(TEXTS), cache)
    assert np.array_equal(made, again), "what was kept and what was made give the same answer"
    assert cache.missed == len(TEXTS)
    assert set(another.keys(told(TEXTS))) == set(cache.content)
    other_network = Embedding(tiny_llama, Reader(tiny_llama), weights(tiny_llama), "g")
    assert not set(other_network.keys(told(TEXTS))) & set(cache.content)


@pytest.mark.parametrize("wrong", [b"abc", b"\0" * 4, b"\0" * 24, b"\xff" * 12])
def test_bytes_that_are_no_vectors_are_made_anew(tiny_llama: BaseModel, wrong: bytes) -> None:
    cache = Kept()
    embedding = Embedding(tiny_llama, Reader(tiny_llama), weights(tiny_llama), "f")
    made = embedding.found(told(TEXTS), cache)
    cache.content[embedding.keys(told(TEXTS))[1]] = wrong
    assert np.array_equal(embedding.found(told(TEXTS), cache), made)


def test_who_is_interrupted_goes_on_from_there(tiny_llama: BaseModel, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, long = Kept(), told([f"Lamp number {at}." for at in range(40)])
    embedding = Embedding(tiny_llama, Reader(tiny_llama), weights(tiny_llama), "f")
    read = embedding.embedder.texts
    calls: list[int] = []

    def interrupted(texts: list[str], owner: Kept) -> np.ndarray:
        calls.append(len(texts))
        if len(calls) == 2:
            raise KeyboardInterrupt
        return read(texts, owner)

    monkeypatch.setattr(embedding.embedder, "texts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        embedding.found(long, cache)
    assert len(cache.content) == calls[0] > 0
    assert len(embedding.found(long, cache)) == 40
    assert sum(calls[2:]) == 40 - calls[0]


def test_an_embedding_of_another_width_is_refused(tiny_llama: BaseModel) -> None:
    own = weights(tiny_llama)
    narrow = EmbeddingWeights(own.text[:, :-1], own.text_bias, own.question[:, :-1], own.question_bias)
    with pytest.raises(ParameterizerError, match="Load the model"):
        Embedder(Reader(tiny_llama), narrow)


def test_a_history_that_grows_makes_what_is_new(tiny_llama: BaseModel) -> None:
    cache = Kept()
    embedding = Embedding(tiny_llama, Reader(tiny_llama), weights(tiny_llama), "f")
    first = Embedded(embedding, cache, told(TEXTS[:2]))
    unasked = first.extended(told(TEXTS[2:], first=2), cache)
    assert cache.content == {}, "nobody asked"
    assert set(unasked.nearest("Who sold a boat?")) == {0, 1, 2}
    grown = unasked.extended(told(["It rains."], first=3), cache)
    assert cache.missed == 3
    assert set(grown.nearest("Who sold a boat?")) == {0, 1, 2, 3}
    assert cache.missed == 4
    assert list(Embedded(None, cache, told(TEXTS)).nearest("Who?")) == []


def test_an_embedding_that_is_missing_damaged_or_another_ones_is_refused(tiny_llama: BaseModel, tmp_path: Path) -> None:
    own = weights(tiny_llama)
    sha256 = save_embedding(own, tmp_path)
    loaded = load_embedding(tmp_path, sha256)
    assert torch.equal(loaded.text, own.text)
    assert loaded.sha256 == sha256
    with pytest.raises(CheckpointError, match="another one's"):
        load_embedding(tmp_path, "0" * 64)
    (tmp_path / FILE).unlink()
    with pytest.raises(CheckpointError, match=r"embedding\.safetensors cannot be read"):
        load_embedding(tmp_path, sha256)
    broken = EmbeddingWeights(own.text * float("nan"), own.text_bias, own.question, own.question_bias)
    with pytest.raises(CheckpointError, match="not finite"):
        save_embedding(broken, tmp_path)
