"""Two judgements that words cannot make: what a text does to an earlier one, and whether an answer is supported.

A cross-encoder (as in Nogueira & Cho 2019, "Passage Re-ranking with BERT"): the base model with the judge's adapter
reads all of a case at once, and a linear head on the last hidden state judges it. Knows no unit, no log, no policy.

Legend: R cases of a batch, S tokens of the longest, D hidden width.
"""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from plume_memory.hypernet.judge import JudgeWeights
from plume_memory.model.adapters import attached, shared_rows
from plume_memory.model.base import BaseModel
from plume_memory.records import Verdict

BATCH_TOKENS = 4096
"""Most tokens of one forward pass, padding included; a single case may have more."""

TEXT_TOKENS = 256
"""Of a longer text the beginning is read, of a longer question the end."""


class Judge:
    """Judges with one frozen model. Safe to share between threads.

    Args:
        base: the model; its lock is taken for one batch at a time.
        weights: of hypernet/judge.py, for this model.
    """

    def __init__(self, base: BaseModel, weights: JudgeWeights) -> None:
        self._base = base
        self.sha256 = weights.sha256
        self._rows = shared_rows(weights.adapter, device=base.device, dtype=base.dtype)
        self._weight = weights.weight.to(base.device, torch.float32)
        self._bias = weights.bias.to(base.device, torch.float32)

    def verdicts(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge pairs of (earlier, later) texts."""
        rows = [[*later_ids(self._base, later), *earlier_ids(self._base, earlier)] for earlier, later in pairs]
        scores = self._scores(rows)
        return [Verdict(*row) for row in torch.softmax(scores[:, :3], dim=1).tolist()]

    def support(self, claims: Sequence[tuple[str, str, str]]) -> list[float]:
        """Return the log-odds that a text says what (text, question, answer) has it answer."""
        rows = [[*text_ids(self._base, text), *said_ids(self._base, *said)] for text, *said in claims]
        scores = self._scores(rows)
        own: list[float] = scores[:, 3].tolist()
        return own

    def _scores(self, rows: Sequence[list[int]]) -> Tensor:
        """[R, OUTPUTS] float32, on the CPU."""
        found = torch.zeros(len(rows), len(self._bias))
        for batch in _batches(rows):
            ids, last = _padded([rows[i] for i in batch], self._base)
            with self._base.lock, torch.inference_mode(), attached(self._base.model, self._rows):
                hidden = self._base.model.model(input_ids=ids, use_cache=False).last_hidden_state
                own = hidden[torch.arange(len(batch), device=ids.device), last].float()  # [R, D]
                found[batch] = (own @ self._weight.T + self._bias).cpu()
        return found


def later_ids(base: BaseModel, later: str) -> list[int]:
    """What is read of a pair before the earlier text."""
    return [*_head(base), *base.chat.encode(f"New: {later.strip()}")[:TEXT_TOKENS]]


def earlier_ids(base: BaseModel, earlier: str) -> list[int]:
    """What is read of a pair behind the later text."""
    return [*base.chat.encode(f"\nOld: {earlier.strip()}")[:TEXT_TOKENS], *base.chat.encode("\nVerdict:")]


def text_ids(base: BaseModel, text: str) -> list[int]:
    """What is read of a claim before the question."""
    return [*_head(base), *base.chat.encode(f"Note: {text.strip()}")[: 2 * TEXT_TOKENS]]


def said_ids(base: BaseModel, question: str, answer: str) -> list[int]:
    """What is read of a claim behind the text."""
    return [
        *base.chat.encode("\nQuestion:"),
        *base.chat.encode(f" {question.strip()}")[-TEXT_TOKENS:],
        *base.chat.encode(f"\nAnswer: {answer.strip()}")[:TEXT_TOKENS],
        *base.chat.encode("\nSupported:"),
    ]


def _head(base: BaseModel) -> list[int]:
    """As in retrieval/reader.py: the first token of all is no text's own."""
    own = [i for i in base.tokenizer("")["input_ids"] if i == base.tokenizer.bos_token_id]
    return own or base.chat.encode("\n")


def _batches(rows: Sequence[list[int]]) -> Iterable[list[int]]:
    batch: list[int] = []
    for row in sorted(range(len(rows)), key=lambda row: -len(rows[row])):
        if batch and len(rows[batch[0]]) * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _padded(rows: Sequence[list[int]], base: BaseModel) -> tuple[Tensor, Tensor]:
    """Ids [R, S] padded on the right, and the place [R] of each row's last token.

    No mask: causal attention looks back only, so no token of a row ever sees its padding.
    """
    width = -(-max(map(len, rows)) // 16) * 16  # kernels are made for every width anew
    ids = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows], device=base.device)
    return ids, torch.tensor([len(row) - 1 for row in rows], device=base.device)
