"""Two judgements that words cannot make: what a text does to an earlier one, and whether an answer is supported.

A cross-encoder (as in Nogueira & Cho 2019, "Passage Re-ranking with BERT"): the base model with the judge's adapter
reads all of a case at once, and a linear head on the last hidden state judges it. Knows no unit, no log, no policy.

Legend: D hidden width.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from plume_memory.hypernet.judge import JudgeWeights
from plume_memory.model.adapters import require_fit, shared_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.packing import packed_rows
from plume_memory.records import Verdict
from plume_memory.scheduling.together import Together

BATCH_TOKENS = 4096
"""Most tokens of one forward pass, padding included; a single case may have more."""

ROW_CASES = 8
"""Most cases that share a row: attention over a row grows with the square of its width."""

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
        require_fit(self._rows, base.passes.widths)
        self._read: Together[tuple[list[int], list[int]], Tensor] = Together(self._scored)
        self._weight = weights.weight.to(base.device, torch.float32)
        self._bias = weights.bias.to(base.device, torch.float32)

    def verdicts(self, pairs: Sequence[tuple[str, str]]) -> list[Verdict]:
        """Judge pairs of (earlier, later) texts; a later text is read once for all its pairs that stand together."""
        base = self._base
        scores = self._scores([(later_ids(base, later), earlier_ids(base, earlier)) for earlier, later in pairs])
        return [Verdict(*row) for row in torch.softmax(scores[:, :3], dim=1).tolist()]

    def support(self, claims: Sequence[tuple[str, str, str]]) -> list[float]:
        """Return the log-odds that a text says what (text, question, answer) has it answer; see `verdicts`."""
        base = self._base
        scores = self._scores([(text_ids(base, text), said_ids(base, *said)) for text, *said in claims])
        own: list[float] = scores[:, 3].tolist()
        return own

    def _scores(self, cases: Sequence[tuple[list[int], list[int]]]) -> Tensor:
        """[cases, OUTPUTS] float32, on the CPU, of what is read as (head, tail); of several threads in one pass."""
        return torch.stack(self._read(cases)) if cases else torch.zeros(0, len(self._bias))

    def _scored(self, cases: Sequence[tuple[list[int], list[int]]]) -> list[Tensor]:
        base = self._base
        found = torch.zeros(len(cases), len(self._bias))
        for batch in _batches(cases):
            laid = packed_rows(
                [cases[row[0]][0] for row in batch],
                [[cases[i][1] for i in row] for row in batch],
                device=base.device,
                dtype=base.dtype,
            )
            ends = [
                (r, at + len(cases[i][1]) - 1)
                for r, row in enumerate(batch)
                for i, at in zip(row, laid.starts[r], strict=True)
            ]
            rows, columns = torch.tensor(ends, device=base.device).T
            with base.lock, torch.inference_mode():
                hidden = base.passes.run(laid.ids, laid.positions, mask=laid.mask == 0, adapters=self._rows)
                own = hidden[rows, columns].float()  # [cases of the batch, D]
                found[[i for row in batch for i in row]] = (own @ self._weight.T + self._bias).cpu()
        return list(found)


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


def _batches(cases: Sequence[tuple[list[int], list[int]]]) -> Iterator[list[list[int]]]:
    """Rows of cases that follow one another with the same head, in batches of like width, the widest first."""
    rows: list[list[int]] = []
    for i, (head, _) in enumerate(cases):
        if rows and cases[rows[-1][0]][0] == head and len(rows[-1]) < ROW_CASES:
            rows[-1].append(i)
        else:
            rows.append([i])

    def width(row: list[int]) -> int:
        return len(cases[row[0]][0]) + sum(len(cases[i][1]) for i in row)

    batch: list[list[int]] = []
    for row in sorted(rows, key=lambda row: -width(row)):
        if batch and width(batch[0]) * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
