"""How likely a question is behind a text: log p(question | text) under the bare base model.

Unsupervised passage re-ranking (UPR, Sachan et al. 2022, "Improving Passage Retrieval with Zero-Shot
Question Generation"): a text that holds the answer makes its question likely, whether or not they share
words. It knows nothing of units or routers.

Legend: R texts of a batch, S tokens of the longest, D hidden width, n tokens of the question, V vocabulary.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from plume_memory.errors import InvalidInput
from plume_memory.model.adapters import AdapterRows, attached
from plume_memory.model.base import BaseModel

BATCH_TOKENS = 4096
"""Most tokens of one forward pass, padding included; a single text may have more."""

QUESTION_TOKENS = 256
"""Longest question that is scored; of a longer one (a pasted document) the end is, where the asking stands."""

_PROJECTED = 128
"""Positions whose logits [.., V] are held at once: a large vocabulary costs more than the hidden states."""


def question_likelihoods(base: BaseModel, texts: Sequence[str], question: str) -> list[float]:
    """Score how well each text explains a question: the mean of `question_log_probs`, in nats a token."""
    return [sum(log_probs) / len(log_probs) for log_probs in question_log_probs(base, texts, question)]


def question_log_probs(
    base: BaseModel, texts: Sequence[str], question: str, *, adapter: AdapterRows | None = None
) -> list[list[float]]:
    r"""Return log p(question token | text, tokens before) of each of the question's n tokens, in nats, by text.

    The model reads "{text}\n\nQuestion:" behind `text_head`, and then " {question}", both without white space
    at their ends and encoded apart, so that the question has the same ids behind every text. A text that does
    not fit the context window beside the question keeps its end; of a question longer than `QUESTION_TOKENS`,
    or than half the window, the end is scored.

    Args:
        base: its lock is taken for one batch at a time.
        texts: any number, also none.
        question: not blank.
        adapter: attached while the model reads, the same for every text (`shared_rows`): a trained reranker; the
            bare model reads without.

    Raises:
        InvalidInput: the question has no token, or half a character.
    """
    asked = question_ids(base, question)[-min(QUESTION_TOKENS, base.context_window // 2) :]
    head = text_head(base, reranked=adapter is not None)
    room = base.context_window - len(head) - len(asked)
    rows = [head + text_ids(base, text)[-room:] for text in texts]
    found: list[list[float]] = [[] for _ in rows]
    for batch in _batches([len(row) + len(asked) for row in rows]):
        for at, values in zip(batch, _score(base, [rows[i] for i in batch], asked, adapter), strict=True):
            found[at] = values
    return found


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
    it nothing else is left: were it the text's own, "Bob is a pilot." would say of nobody that he is a pilot. Of 48
    questions about six people told of in a row (bench/people.py) the shipped reranker put the right sentence first in
    73 % without, in 98 % with a line break. The bare model's ranking has a lexical score beside it, which knows the
    name, and gained nothing by one.
    """
    own = [i for i in base.tokenizer("")["input_ids"] if i == base.tokenizer.bos_token_id]
    return own or (base.chat.encode("\n") if reranked else [])


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Group rows of like length, the longest first: the first row of a batch is its width."""
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lambda row: -lengths[row]):
        if batch and lengths[batch[0]] * (len(batch) + 1) > BATCH_TOKENS:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _score(
    base: BaseModel, rows: Sequence[list[int]], asked: list[int], adapter: AdapterRows | None
) -> list[list[float]]:
    """Log p of each of `asked` behind each row of ids.

    Padded on the right and without a mask: causal attention looks back only, through a sliding window too, so
    no token of a row ever sees its padding.
    """
    starts = torch.tensor([len(row) - 1 for row in rows])  # the hidden state here predicts the question's first token
    ids = torch.zeros(len(rows), max(map(len, rows)) + len(asked), dtype=torch.long)  # [R, S]
    for at, row in enumerate(rows):
        ids[at, : len(row) + len(asked)] = torch.tensor(row + asked)
    positions = starts[:, None] + torch.arange(len(asked))  # [R, n]
    with base.lock, torch.inference_mode(), attached(base.model, adapter):
        hidden = base.model.model(input_ids=ids.to(base.device), use_cache=False).last_hidden_state  # [R, S, D]
        hidden = hidden[torch.arange(len(rows), device=base.device)[:, None], positions.to(base.device)]  # [R, n, D]
        targets = torch.tensor(asked, device=base.device).repeat(len(rows))
        log_p = _log_p(base, hidden.flatten(0, 1), targets)
    by_row: list[list[float]] = log_p.view(len(rows), len(asked)).tolist()
    return by_row


def _log_p(base: BaseModel, hidden: Tensor, targets: Tensor) -> Tensor:
    """Log p of the target [R·n] at each hidden state [R·n, D], float32."""
    parts = zip(torch.split(hidden, _PROJECTED), torch.split(targets, _PROJECTED), strict=True)
    loss = [torch.nn.functional.cross_entropy(base.logits(h).float(), t, reduction="none") for h, t in parts]
    return -torch.cat(loss)
