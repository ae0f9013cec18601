"""Where the reference's tokens stand among PLUME's candidates, teacher-forced (METHOD: candidate-rank analysis).

The reference is fed to both streams as if it had been generated; at each of its tokens the fused scores
S_t = log p_g + λ_t log p_e are sorted and the token's place is noted. With k candidates a token counts as
recalled when its place is at most k.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from eval.methods.parametric import PreparedPlume
from eval.records import MuseQuestion
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.adapters import stack_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.fusion import fuse
from plume_memory.model.streams import Row, read_prompts


@dataclass(frozen=True, slots=True)
class Ranks:
    """One reference, token by token."""

    token_ids: list[int]
    ranks: list[int]
    """1 for the best candidate."""
    forced: str
    """The first candidates as text: what greedy decoding would say if it were put right after each token."""


def candidate_ranks(prepared: PreparedPlume, question: MuseQuestion) -> Ranks:
    """Rank the tokens of a question's canonical reference."""
    return ranks_of(prepared, question, prepared.method.engine.base.chat.encode(question.answers[0]))


def ranks_of(prepared: PreparedPlume, question: MuseQuestion, answer: list[int]) -> Ranks:
    """Rank given tokens as the answer of a question; see `candidate_ranks`."""
    engine = prepared.method.engine
    query = prepared.prepared(question).query
    rows = [query.global_row] if query.evidence_row is None else [query.global_row, query.evidence_row]
    logits = [forced_logits(engine.base, row, answer) for row in rows]
    settings = prepared.method.answerer.settings
    fused = fuse(logits[0], logits[-1], lambda_max=settings.lambda_max, tau=settings.tau)
    wanted = fused.scores.gather(1, torch.tensor(answer, device=fused.scores.device)[:, None])
    ranks = (fused.scores > wanted).sum(dim=1) + 1
    text = engine.base.tokenizer.decode(fused.scores.argmax(dim=-1).tolist())
    return Ranks(answer, ranks.tolist(), text)


def forced_logits(base: BaseModel, row: Row, answer: Sequence[int]) -> torch.Tensor:
    """Logits [T, V] that predict each of the T answer tokens behind a row's prompt, and behind its states."""
    forced = replace(row, prompt_ids=(*row.prompt_ids, *answer[:-1]))
    factors: list[LoraFactors | None] = [row.factors]
    adapters = stack_rows(factors, device=base.device, dtype=base.dtype)
    with base.lock, torch.inference_mode():
        hidden = read_prompts(base, [forced], base.passes.room(1, forced.tokens), adapters)
        return base.passes.logits(hidden[0, len(row.prompt_ids) - 1 :])
