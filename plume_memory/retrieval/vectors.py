"""Vectors of texts and questions: a text lies close to what is asked about it, whatever the words of both.

A bi-encoder (as in Karpukhin et al. 2020, "Dense Passage Retrieval") on the reader's own final hidden states: what the
reader keeps of a text to score questions behind it is mapped to a unit vector, so the vector of a text costs nothing
beyond reading it. Knows no unit, no log, no policy.

Legend: N texts, D width of a vector.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from plume_memory.errors import ParameterizerError
from plume_memory.hypernet.embedding import EmbeddingWeights
from plume_memory.lru import Owned
from plume_memory.retrieval.reader import Reader

Vectors = NDArray[np.float32]
"""[N, D], each of length 1."""

_AT_ONCE = 16
"""Texts that are read together: what the reader keeps of them is there at once."""


class Embedder:
    """Maps texts and questions to vectors. Safe to share between threads.

    Args:
        reader: reads them.
        weights: of hypernet/embedding.py, for this reader.

    Raises:
        ParameterizerError: the weights are of another model's width.
    """

    def __init__(self, reader: Reader, weights: EmbeddingWeights) -> None:
        E = reader.width
        if weights.text.shape != weights.question.shape or weights.text.shape[1:] != (E,):
            raise ParameterizerError(
                f"The embedding maps states of {tuple(weights.text.shape[1:])} and {tuple(weights.question.shape[1:])} "
                f"numbers, the model's have {E}. Load the model it was trained for."
            )
        self._reader = reader
        self._weights = weights
        self.width = len(weights.text_bias)
        """D."""

    def texts(self, texts: Sequence[str], owner: Owned) -> Vectors:
        """Return the vectors of an owner's texts."""
        found = np.zeros((len(texts), self.width), dtype=np.float32)
        for start in range(0, len(texts), _AT_ONCE):
            some = texts[start : start + _AT_ONCE]
            states = self._reader.text_states(some, owner)
            found[start : start + len(some)] = _mapped(states, self._weights.text, self._weights.text_bias)
        return found

    def question(self, question: str) -> Vectors:
        """Return the vector [1, D] of a question.

        Raises:
            InvalidInput: the question has no token, or half a character.
        """
        state = self._reader.question_states([question])
        return _mapped(state, self._weights.question, self._weights.question_bias)


def nearest(vectors: Vectors, question: Vectors) -> Iterator[int]:
    """Yield the places of vectors, those most like a question's first.

    Exact: every one is compared, to five digits, and of equals the later comes first.
    """
    likeness = np.round(vectors @ question[0], 5)
    yield from (int(place) for place in np.lexsort((-np.arange(len(likeness)), -likeness)))


def _mapped(states: Tensor, weight: Tensor, bias: Tensor) -> Vectors:
    own = F.normalize(states.float().cpu(), dim=-1)  # as they were when the maps were fitted: a bias has its size
    mapped: Vectors = F.normalize(F.linear(own, weight, bias), dim=-1).numpy()
    return mapped
