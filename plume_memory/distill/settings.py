"""Settings of context distillation: ours, tuned for small models, and the paper's CD baseline."""

import json
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class DistillSettings(BaseModel):
    """How a text is written into a fresh LoRA by gradient descent.

    The paper leaves open what a model too small to write its own exam should learn from. Ours learns
    to answer every question about a sentence with that sentence; questions are written by the model
    and filtered, and drawn from keywords; a few unrelated answers are replayed. Chosen and measured
    on SmolLM2-135M with bench/experiments/distill.py; figures in docs/results.md.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Literal["sentence", "teacher"] = Field(
        default="sentence",
        description="What the student answers: the sentence the question was made from (hard labels), or the "
        "base model's own in-context answer (top-k soft labels; the paper's CD).",
    )
    written_questions: int = Field(default=6, ge=0, description="Questions the base model writes per sentence.")
    keyword_questions: int = Field(default=4, ge=0, description="Questions made of words drawn from a sentence.")
    replay: int = Field(default=16, ge=0, description="Unrelated prompts whose un-edited answers are kept.")
    rank: int = Field(default=8, ge=1, description="LoRA rank, on `mlp.down_proj`.")
    lowest_layer: float = Field(
        default=0.4, ge=0, lt=1, description="Only layers above this share of the depth are adapted."
    )
    learning_rate: float = Field(default=3e-2, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)
    epochs: int = Field(default=6, ge=1)
    batch: int = Field(default=8, ge=1, description="Examples per step.")
    warm_up: int = Field(default=5, ge=0, description="Steps of linear warm-up.")
    schedule: Literal["linear", "cosine"] = Field(default="linear", description="How the rate falls to zero after it.")
    beta2: float = Field(default=0.95, gt=0, lt=1, description="AdamW's second moment; few steps want a short memory.")
    clip_norm: float | None = Field(default=1.0, gt=0, description="Largest gradient norm of a step.")
    stop_loss: float = Field(default=0.02, ge=0, description="Stop after an epoch whose mean loss is below this.")
    top_k: int = Field(default=16, ge=1, description="Teacher probabilities kept per token (soft labels).")
    scale: float = Field(default=1.0, gt=0, description="The one scale of the factors (PEFT's alpha / rank).")
    teacher_tokens: int = Field(default=256, ge=1, description="Longest teacher answer, in tokens.")
    seed: int = 0

    @classmethod
    def paper(cls) -> "DistillSettings":
        """The CD baseline: rank 8, alpha 16, lr 1e-4 with cosine, 300 epochs, batch 16, teacher's top 16.

        In the paper a larger model writes the questions, 20 in 4 rounds of 5, and the CD oracle takes the
        test query alone: pass either as `questions` to the parameterizer; without, the base model writes them.
        """
        return cls(
            target="teacher",
            keyword_questions=0,
            replay=0,
            lowest_layer=0.0,
            learning_rate=1e-4,
            weight_decay=0.01,
            epochs=300,
            batch=16,
            warm_up=0,
            schedule="cosine",
            beta2=0.999,
            clip_norm=None,
            stop_loss=0.0,
            scale=2.0,
        )

    def canonical(self) -> str:
        """One line of JSON with sorted keys; part of the parameterizer's fingerprint."""
        return json.dumps(self.model_dump(), sort_keys=True)
