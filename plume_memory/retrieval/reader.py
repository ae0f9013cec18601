"""What a text does for a question: log p(question | text) under the base model, and what the question gains by it.

Unsupervised passage re-ranking (UPR, Sachan et al. 2022, "Improving Passage Retrieval with Zero-Shot
Question Generation"): a text that holds the answer makes its question likely, whether or not they share
words. A trained reranker (hypernet/reranker.py) is attached where the network has one. It knows nothing of units.

A text is read before the question, so what the model keeps of it (key/value states) serves every question.

Legend: R texts of a batch, S tokens of the longest, D hidden width, n tokens of the question, V vocabulary; L layers, H
key/value heads, d width of a head.
"""

import hashlib
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch import Tensor

from plume_memory.errors import InvalidInput
from plume_memory.lora.factors import LoraFactors
from plume_memory.lru import LRUCache, Owned
from plume_memory.model.adapters import AdapterRows, require_fit, shared_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.reading import ReadIds, batches, read_ids
from plume_memory.scheduling.together import Together

logger = logging.getLogger(__name__)

QUESTION_TOKENS = 4096
"""Tokens of a question that are scored behind all texts together: of a longer one (a pasted document) only the end is
read, where the asking stands. It bounds what a question costs: 63 tokens behind 64 texts and none, 124 behind 32."""

_PROJECTED = 128
"""Positions whose logits [.., V] are held at once: a large vocabulary costs more than the hidden states."""


KEPT_BYTES, KEPT_BYTES_ON_A_GPU = 2**30, 2**28
"""What is kept of the texts read for questions, on the model's device: of a CPU's in float32 some 23,000 tokens of
SmolLM2-135M. A conversation of 600 turns has 35,000, and reading is most of what a question costs that finds none
kept. A GPU reads them again in no time, and its memory is dearer."""

Asked = tuple[ReadIds, Sequence[int]]
"""A text that was read, and the ids of a question that is scored behind it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What one text does for a question."""

    log_p: float
    """Mean log p of the question's tokens behind the text, in nats a token."""
    gain: float
    """Nats by which the question's tokens gain over no text, summed over those that gain.

    A question is asked in words that no note foretells ("could you please remind me of …"): their loss says nothing
    about the memory, and a mean over all tokens lets them hide the few that tell."""


class Reader:
    """Reads texts for questions, and keeps what it read lately. Threads may share it, and then read together.

    Args:
        base: the frozen model; its lock is taken for one batch at a time.
        reranker: attached while it reads; None: the bare model reads.
        room: bytes kept of texts; None: `KEPT_BYTES` of its device.
    """

    def __init__(self, base: BaseModel, reranker: LoraFactors | None = None, *, room: int | None = None) -> None:
        self._base = base
        self._adapter = None if reranker is None else shared_rows(reranker, device=base.device, dtype=base.dtype)
        if self._adapter is not None:
            require_fit(self._adapter, base.passes.widths)
        self._read: Together[Sequence[int], ReadIds] = Together(lambda rows: read_ids(base, rows, self._adapter))
        self._score: Together[Asked, list[float]] = Together(lambda asked: _score(base, asked, self._adapter))
        if room is None:
            room = KEPT_BYTES if base.device.type == "cpu" else KEPT_BYTES_ON_A_GPU
        self._kept: LRUCache = LRUCache(room, size=attrgetter("nbytes"))

    @property
    def kept(self) -> LRUCache:
        """What was read lately."""
        return self._kept

    def work(self) -> tuple[int, float]:
        """Passes in which texts or questions were read so far, and their seconds."""
        both = (self._read, self._score)
        return sum(one.calls for one in both), sum(one.seconds for one in both)

    def of(self, owner: Owned) -> "OwnedReader":
        """Return a reader of one owner's texts, which keeps what it reads of them."""
        return OwnedReader(self, owner)

    def read(self, texts: Sequence[str], question: str, owner: Owned | None = None) -> list[Reading]:
        """Return what each text does for a question, from one pass over all of them and no text.

        Args:
            texts: any number.
            question: not blank.
            owner: whose texts they are: what was read for one question is not read again for the next, as long as it
                is among the last `room` bytes. None: nothing is kept.

        Raises:
            InvalidInput: the question has no token, or half a character.
        """
        nothing, *behind = self.log_probs(["", *texts], question, owner)
        return [
            Reading(sum(own) / len(own), sum(max(0.0, b - n) for n, b in zip(nothing, own, strict=True)))
            for own in behind
        ]

    def log_probs(self, texts: Sequence[str], question: str, owner: Owned | None = None) -> list[list[float]]:
        r"""Return log p(question token | text, tokens before) of each of the question's n tokens, in nats, by text.

        The model reads "{text}\n\nQuestion:" behind `text_head`, and then " {question}", both without white space
        at their ends and encoded apart, so that the question has the same ids behind every text. A text that does
        not fit the context window beside the question keeps its end; of a question longer than `QUESTION_TOKENS` by
        the texts, or than half the window, the end is scored, with a warning. Arguments and errors: `read`.
        """
        base = self._base
        whole = question_ids(base, question)
        asked = whole[-min(QUESTION_TOKENS // max(1, len(texts)), base.context_window // 2) :]
        if len(asked) < len(whole):
            logger.warning("Of a question of %d tokens the last %d are read.", len(whole), len(asked))
        head = text_head(base, reranked=self._adapter is not None)
        room = base.context_window - len(head) - len(asked)
        rows = [head + text_ids(base, text)[-room:] for text in texts]
        return self._score([(read, asked) for read in self._texts(rows, owner)])

    @property
    def width(self) -> int:
        """E, of the states."""
        width: int = self._base.config.hidden_size
        return width

    def text_states(self, texts: Sequence[str], owner: Owned) -> Tensor:
        """Return the final hidden states [texts, E] behind which a question would begin; what is read is kept."""
        head = text_head(self._base, reranked=self._adapter is not None)
        room = self._base.context_window - len(head)
        read = self._texts([head + text_ids(self._base, text)[-room:] for text in texts], owner)
        return torch.stack([one.last for one in read])

    def question_states(self, questions: Sequence[str]) -> Tensor:
        """Return the final hidden states [questions, E] behind questions that no text stands before.

        Raises:
            InvalidInput: a question has no token, or half a character.
        """
        head = [*text_head(self._base, reranked=self._adapter is not None), *self._base.chat.encode("Question:")]
        most = min(QUESTION_TOKENS, self._base.context_window // 2)
        read = self._read([head + question_ids(self._base, question)[-most:] for question in questions])
        return torch.stack([one.last for one in read])

    def release(self, place: str) -> None:
        """Let go of everything that is kept of a place's texts."""
        self._kept.release(place)

    def discard(self, owner: Owned) -> None:
        """Forget what was read of an owner's texts; what is being read meanwhile may be kept."""
        self._kept.discard_all(owner, "")

    def _texts(self, rows: Sequence[Sequence[int]], owner: Owned | None) -> list[ReadIds]:
        """Each row as it was read, now or before."""
        if owner is None:
            return self._read(rows)
        keys = [hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest() for ids in rows]
        epoch = self._kept.epoch(owner)
        found: dict[str, ReadIds] = {key: kept for key in keys if (kept := self._kept.get(owner, key)) is not None}
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in found}
        for key, text in zip(missing, self._read(list(missing.values())), strict=True):
            self._kept.put(owner, key, text, epoch=epoch)
            found[key] = text
        return [found[key] for key in keys]


@dataclass(frozen=True, slots=True)
class OwnedReader:
    """Reads one owner's texts; see `Reader.read`."""

    reader: Reader
    owner: Owned

    def read(self, texts: Sequence[str], question: str) -> list[Reading]:
        """Return what each text does for the question."""
        return self.reader.read(texts, question, self.owner)


def text_ids(base: BaseModel, text: str) -> list[int]:
    """What is read of a text before a question, without the head of any text."""
    return base.chat.encode(f"{text.strip()}\n\nQuestion:")


def question_ids(base: BaseModel, question: str) -> list[int]:
    """What is scored of a question.

    Raises:
        InvalidInput: it has no token, or half a character.
    """
    try:
        question.encode()
    except UnicodeEncodeError as err:
        raise InvalidInput(f"The question holds half a character (a lone surrogate): {err}") from err
    ids = base.chat.encode(" " + question.strip()) if question.strip() else []
    if not ids:
        raise InvalidInput(f"The question {question!r} has no token to score; pass at least one word.")
    return ids


def text_head(base: BaseModel, *, reranked: bool) -> list[int]:
    """Return what is read before a text: the tokenizer's beginning-of-text token, or for a reranker a line break.

    The first token of all is where attention goes that has nowhere to go (an attention sink, Xiao et al. 2024), and of
    it nothing else is left: were it the text's own, "Bob is a pilot." would say of nobody that he is a pilot. What it
    is worth: docs/decisions (text head).
    """
    own = [i for i in base.tokenizer("")["input_ids"] if i == base.tokenizer.bos_token_id]
    return own or (base.chat.encode("\n") if reranked else [])


def _score(base: BaseModel, asked: Sequence[Asked], adapter: AdapterRows | None) -> list[list[float]]:
    """Log p of each token of a question behind a text, for any number of such pairs."""
    found: list[list[float]] = [[] for _ in asked]
    for batch in batches([read.states.tokens + len(ids) for read, ids in asked]):
        some = [asked[i] for i in batch]
        hidden = torch.stack([read.last for read, _ in some])[:, None]  # [R, 1, D] predicts the question's first token
        if max(len(ids) for _, ids in some) > 1:
            hidden = torch.cat([hidden, _hidden_behind(base, some, adapter)], dim=1)  # [R, n, D]
        targets = torch.tensor([i for _, ids in some for i in ids], device=base.device)
        own = torch.cat([hidden[at, : len(ids)] for at, (_, ids) in enumerate(some)])
        with base.lock, torch.inference_mode():
            log_p = _log_p(base, own, targets).tolist()
        for i, (_, ids) in zip(batch, some, strict=True):
            found[i], log_p = log_p[: len(ids)], log_p[len(ids) :]
    return found


def _hidden_behind(base: BaseModel, asked: Sequence[Asked], adapter: AdapterRows | None) -> Tensor:
    """Final hidden states [R, n − 1, D] of all but the last token of each question behind its text."""
    longest = max(len(ids) for _, ids in asked) - 1
    ids = torch.zeros(len(asked), longest, dtype=torch.long)
    for at, (_, own) in enumerate(asked):
        ids[at, : len(own) - 1] = torch.tensor(own[:-1], dtype=torch.long)
    lengths = torch.tensor([read.states.tokens for read, _ in asked])
    positions = (lengths[:, None] + torch.arange(longest)).to(base.device)
    with base.lock, torch.inference_mode():
        cache = base.passes.room(len(asked), int(lengths.max()) + longest)
        for at, (read, _) in enumerate(asked):
            cache.write(at, read.states.keys, read.states.values)
        return base.passes.run(ids.to(base.device), positions, cache, adapters=adapter)


def _log_p(base: BaseModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """Log p of the target [R·n] at each hidden state [R·n, D], float32."""
    parts = zip(torch.split(hidden, _PROJECTED), torch.split(targets, _PROJECTED), strict=True)
    loss = [torch.nn.functional.cross_entropy(base.passes.logits(h).float(), t, reduction="none") for h, t in parts]
    return -torch.cat(loss)
