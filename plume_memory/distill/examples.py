"""Training examples: a prompt, and what the student is to answer.

Legend: T answer tokens, k teacher candidates per token.

Teacher distributions are computed once and kept (BASELINES §2.1: the numerics of recomputing them
every step, at half the time): L = −Σ_{v∈top-k} p_T(v) · log q_S(v), p_T not renormalised.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from plume_memory.model.base import BaseModel
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler

UNRELATED_PROMPTS = (
    "What is the capital of Italy?",
    "Who painted the Mona Lisa?",
    "What is 5 plus 7?",
    "Write a sentence about the sea.",
    "What is the boiling point of water?",
    "Name three animals.",
    "Who was the first president of the United States?",
    "Explain photosynthesis in one sentence.",
    "What colour is the sky?",
    "When did World War II end?",
    "How do I boil an egg?",
    "What is the largest planet?",
    "Where is the Eiffel Tower?",
    "Which language is spoken in Brazil?",
    "How many days are in a week?",
    "Say hello.",
    "Who wrote Hamlet?",
    "Give me a synonym for happy.",
    "Translate 'good morning' to French.",
    "What do bees make?",
)
"""Prompts whose un-edited answers an update must leave alone; none of them is in any evaluation set."""


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One prompt with its answer, as hard labels or as a teacher's top-k."""

    prompt_ids: tuple[int, ...]
    answer_ids: tuple[int, ...]
    """Ends with the end-of-turn id where the answer ends."""
    top_ids: Tensor | None = None
    """int64 [T, k]; None for hard labels."""
    top_probs: Tensor | None = None
    """float32 [T, k], the teacher's probabilities, not renormalised."""

    @property
    def tokens(self) -> int:
        """Prompt and answer together."""
        return len(self.prompt_ids) + len(self.answer_ids)


def fixed_answer(base: BaseModel, prompt: str, answer: str) -> Example:
    """An example with a given answer (hard labels)."""
    end = base.tokenizer.eos_token_id
    return Example(tuple(base.chat.prompt_ids(prompt)), (*base.chat.encode(answer), end))


def teacher_answers(
    base: BaseModel,
    teacher_prompts: Sequence[str],
    student_prompts: Sequence[str],
    *,
    max_tokens: int,
    top_k: int,
) -> list[Example]:
    """Let the bare base model answer the teacher prompts; the student is to answer likewise to its own.

    Args:
        base: teacher and student share it.
        teacher_prompts: what the teacher reads (context and question, or the question alone).
        student_prompts: what the student will be asked; same order.
        max_tokens: longest teacher answer.
        top_k: candidates kept per answer token.
    """
    rows = [Row(tuple(base.chat.prompt_ids(prompt))) for prompt in teacher_prompts]
    settings = DecodeSettings(max_new_tokens=max_tokens)
    decoded = Scheduler(base, fixed_shapes=False).decode([Query(row) for row in rows], settings)
    examples = []
    for row, student, answer in zip(rows, student_prompts, decoded, strict=True):
        ids = tuple(trace.token_id for trace in answer.trace)
        top_ids, top_probs = _top_probabilities(base, row.prompt_ids, ids, top_k)
        examples.append(Example(tuple(base.chat.prompt_ids(student)), ids, top_ids, top_probs))
    return examples


def _top_probabilities(
    base: BaseModel, prompt: tuple[int, ...], answer: tuple[int, ...], top_k: int
) -> tuple[Tensor, Tensor]:
    """Teacher-forced top-k probabilities of every answer token: ids and float32 values, both [T, k]."""
    ids = torch.tensor([prompt + answer[:-1]], device=base.device)
    with base.lock, torch.inference_mode():
        logits = base.logits(base.model.model(input_ids=ids, use_cache=False).last_hidden_state[0, -len(answer) :])
    best = torch.softmax(logits.float(), dim=-1).topk(min(top_k, logits.shape[-1]))
    # clone() turns inference tensors into ones that autograd may save
    return best.indices.cpu().clone(), best.values.cpu().clone()
