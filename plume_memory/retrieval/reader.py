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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch import Tensor

from plume_memory.errors import InvalidInput
from plume_memory.lora.factors import LoraFactors
from plume_memory.lru import LRUCache, Owned
from plume_memory.model.adapters import AdapterRows, require_fit, shared_rows
from plume_memory.model.base import BaseModel

logger = logging.getLogger(__name__)

BATCH_TOKENS = 4096
"""Most tokens of one forward pass, padding included; a single text may have more."""

QUESTION_TOKENS = 4096
"""Tokens of a question that are scored behind all texts together: of a longer one (a pasted document) only the end is
read, where the asking stands. It bounds what a question costs: 63 tokens behind 64 texts and none, 124 behind 32."""

_WIDTHS = 16
"""A text is read at the next multiple of so many tokens: kernels round differently at every width, and what is kept of
it must not depend on what was read beside it."""

_PROJECTED = 128
"""Positions whose logits [.., V] are held at once: a large vocabulary costs more than the hidden states."""


KEPT_BYTES = 256 * 2**20
"""What is kept of the texts read for questions: some 300 sentences of SmolLM2-135M, 50 of Qwen3-4B."""

Rows = Sequence[Sequence[int]]
"""Ids of some texts, each with the head of a text."""


@dataclass(frozen=True, slots=True, eq=False)
class ReadText:
    """What a model keeps of a text it has read: enough to go on behind it."""

    keys: Tensor
    """[L, H, tokens, d] in the model's dtype, with rotary positions 0, 1, …"""
    values: Tensor
    """[L, H, tokens, d] in the model's dtype."""
    last: Tensor
    """[D], the final hidden state of the last token, which predicts what comes next."""

    @property
    def nbytes(self) -> int:
        """Bytes it takes."""
        return self.keys.nbytes + self.values.nbytes + self.last.nbytes


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
    """Reads texts for questions, and keeps what it read lately. Safe to share between threads.

    Args:
        base: the frozen model; its lock is taken for one batch at a time.
        reranker: attached while it reads; None: the bare model reads.
        room: bytes kept of texts.
    """

    def __init__(self, base: BaseModel, reranker: LoraFactors | None = None, *, room: int = KEPT_BYTES) -> None:
        self._base = base
        self._adapter = None if reranker is None else shared_rows(reranker, device=base.device, dtype=base.dtype)
        if self._adapter is not None:
            require_fit(self._adapter, base.passes.widths)
        self._kept: LRUCache = LRUCache(room, size=attrgetter("nbytes"))

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
        read = self._texts(rows, owner)
        found: list[list[float]] = [[] for _ in rows]
        for batch in _batches([len(row) + len(asked) for row in rows]):
            for at, values in zip(batch, _score(base, [read[i] for i in batch], asked, self._adapter), strict=True):
                found[at] = values
        return found

    def release(self, place: str) -> None:
        """Let go of everything that is kept of a place's texts."""
        self._kept.release(place)

    def discard(self, owner: Owned) -> None:
        """Forget what was read of an owner's texts; what is being read meanwhile may be kept."""
        self._kept.discard_all(owner, "")

    def _texts(self, rows: Rows, owner: Owned | None) -> list[ReadText]:
        """Each row as it was read, now or before."""
        if owner is None:
            return _read(self._base, rows, self._adapter)
        keys = [hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest() for ids in rows]
        epoch = self._kept.epoch(owner)
        found: dict[str, ReadText] = {key: kept for key in keys if (kept := self._kept.get(owner, key)) is not None}
        missing = {key: row for key, row in zip(keys, rows, strict=True) if key not in found}
        for key, text in zip(missing, _read(self._base, list(missing.values()), self._adapter), strict=True):
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


def _batches(lengths: Sequence[int], *, alike: bool = False) -> Iterator[list[int]]:
    """Group rows of like length, or of the very same, the longest first: the first row of a batch is its width."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        width = lengths[batch[0]] if batch else 0
        if batch and (width * (len(batch) + 1) > BATCH_TOKENS or (alike and lengths[row] != width)):
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _read(base: BaseModel, rows: Rows, adapter: AdapterRows | None) -> list[ReadText]:
    """Read rows of ids, in batches of one width each.

    Padded on the right: a token looks back only, so none ever sees its row's padding.
    """
    widths = [min(-(-len(row) // _WIDTHS) * _WIDTHS, base.context_window) for row in rows]
    found: dict[int, ReadText] = {}
    for batch in _batches(widths, alike=True):
        lengths = [len(rows[i]) for i in batch]
        width = widths[batch[0]]
        ids = torch.zeros(len(batch), width, dtype=torch.long)  # [R, S]
        for at, i in enumerate(batch):
            ids[at, : lengths[at]] = torch.tensor(rows[i])
        positions = torch.arange(width, device=base.device).expand(len(batch), -1)
        with base.lock, torch.inference_mode():
            cache = base.passes.room(len(batch), width)
            hidden = base.passes.run(ids.to(base.device), positions, cache, adapters=adapter)
            for at, i in enumerate(batch):
                keys, values = (
                    torch.stack([layer[at, side, :, : lengths[at]] for layer in cache.layers]) for side in (0, 1)
                )
                found[i] = ReadText(keys, values, hidden[at, lengths[at] - 1].clone())
    return [found[i] for i in range(len(rows))]


def _score(
    base: BaseModel, read: Sequence[ReadText], asked: list[int], adapter: AdapterRows | None
) -> list[list[float]]:
    """Log p of each of `asked` behind each text."""
    hidden = torch.stack([text.last for text in read])[:, None]  # [R, 1, D] predicts the question's first token
    if len(asked) > 1:
        hidden = torch.cat([hidden, _hidden_behind(base, read, asked[:-1], adapter)], dim=1)  # [R, n, D]
    with base.lock, torch.inference_mode():
        targets = torch.tensor(asked, device=base.device).repeat(len(read))
        log_p = _log_p(base, hidden.flatten(0, 1), targets)
    by_text: list[list[float]] = log_p.view(len(read), len(asked)).tolist()
    return by_text


def _hidden_behind(base: BaseModel, read: Sequence[ReadText], ids: list[int], adapter: AdapterRows | None) -> Tensor:
    """Final hidden states [R, len(ids), D] of the same ids behind each text."""
    lengths = torch.tensor([text.keys.shape[2] for text in read])
    positions = (lengths[:, None] + torch.arange(len(ids))).to(base.device)
    with base.lock, torch.inference_mode():
        cache = base.passes.room(len(read), int(lengths.max()) + len(ids))
        for at, text in enumerate(read):
            cache.write(at, text.keys, text.values)
        asked = torch.tensor([ids], device=base.device).expand(len(read), -1)
        return base.passes.run(asked, positions, cache, adapters=adapter)


def _log_p(base: BaseModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """Log p of the target [R·n] at each hidden state [R·n, D], float32."""
    parts = zip(torch.split(hidden, _PROJECTED), torch.split(targets, _PROJECTED), strict=True)
    loss = [torch.nn.functional.cross_entropy(base.passes.logits(h).float(), t, reduction="none") for h, t in parts]
    return -torch.cat(loss)
