"""Where the reference's tokens stand among PLUME's candidates, teacher-forced (METHOD: candidate-rank analysis).

The reference is fed to both streams as if it had been generated; at each of its tokens the fused scores
S_t = log p_g + λ_t log p_e are sorted and the token's place is noted. With k candidates a token counts as
recalled when its place is at most k. Of several units it is the joint evidence that is scored, not each alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from eval.methods.parametric import PreparedPlume
from eval.records import MuseQuestion
from plume_memory.errors import InvalidInput
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.adapters import attached, stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.fusion import fuse
from plume_memory.model.streams import Row


@dataclass(frozen=True, slots=True)
class Ranks:
    """One reference, token by token."""

    token_ids: list[int]
    ranks: list[int]
    """1 for the best candidate."""
    forced: str
    """The first candidates as text: what greedy decoding would say if it were put right after each token."""


def candidate_ranks(prepared: PreparedPlume, question: MuseQuestion) -> Ranks:
    """Rank the tokens of a question's canonical reference.

    Raises:
        InvalidInput: the evidence stream is not an adapter on the same prompt (`evidence="states"` or "both").
    """
    return ranks_of(prepared, question, prepared.method.engine.base.chat.encode(question.answers[0]))


def ranks_of(prepared: PreparedPlume, question: MuseQuestion, answer: list[int]) -> Ranks:
    """Rank given tokens as the answer of a question; see `candidate_ranks`."""
    engine = prepared.method.engine
    query = prepared.prepared(question).query
    rows = [query.global_row] if query.evidence_row is None else [query.global_row, query.evidence_row]
    if any(row.states is not None for row in rows):
        raise InvalidInput("Candidate ranks need both streams on one prompt; compiled states give them two.")
    logits = [forced_logits(engine.base, row, answer) for row in rows]
    settings = prepared.method.answerer.settings
    fused = fuse(logits[0], logits[-1], lambda_max=settings.lambda_max, tau=settings.tau)
    wanted = fused.scores.gather(1, torch.tensor(answer, device=fused.scores.device)[:, None])
    ranks = (fused.scores > wanted).sum(dim=1) + 1
    text = engine.base.tokenizer.decode(fused.scores.argmax(dim=-1).tolist())
    return Ranks(answer, ranks.tolist(), text)


def forced_logits(base: BaseModel, row: Row, answer: Sequence[int]) -> torch.Tensor:
    """Logits [T, V] that predict each of the T answer tokens behind a row's prompt."""
    ids = torch.tensor([[*row.prompt_ids, *answer[:-1]]], device=base.device)
    factors: list[LoraFactors | None] = [row.factors]
    rows = stack_rows(factors, device=base.device, dtype=base.dtype)
    with base.lock, torch.inference_mode(), attached(base.model, rows):
        hidden = base.model.model(input_ids=ids, use_cache=False).last_hidden_state
    return base.logits(hidden[0, len(row.prompt_ids) - 1 :])
