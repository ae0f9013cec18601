"""Settings of the training loop. Knows no torch, and nothing of data, networks or objectives."""

import json
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

CHANGEABLE = frozenset(
    {
        "steps",
        "minutes",
        "log_every",
        "eval_every",
        "eval_first",
        "checkpoint_every",
        "checkpoint_minutes",
        "keep_checkpoints",
        "keep_best",
        "keep_best_of",
        "max_skips",
        "shard_mb",
        "tensorboard",
    }
)
"""What a resumed run may set anew: how long it goes on (the schedule stretches with it) and what it writes down."""


class RunSettings(BaseModel):
    """How a network is optimised, and what is written down meanwhile."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    steps: int = Field(default=1000, ge=1, description="Optimiser steps in all; the schedule ends with them.")
    minutes: float | None = Field(
        default=None,
        gt=0,
        description="Stop with a checkpoint after so many minutes of this start, without another evaluation; no limit "
        "if null. The schedule follows `steps`.",
    )
    accumulation: int = Field(default=1, ge=1, description="Micro-batches of a step, per process.")
    seed: int = Field(default=0, ge=0)

    optimiser: Literal["adamw", "muon"] = Field(
        default="adamw", description="`muon` orthogonalises the updates of matrices; AdamW serves the rest."
    )
    learning_rate: float = Field(default=2e-3, gt=0, description="Its peak; Muon's is brought to AdamW's size.")
    warm_up: int = Field(default=50, ge=0, description="Steps of linear warm-up.")
    schedule: Literal["constant", "cosine", "linear"] = Field(default="cosine", description="What follows it.")
    floor: float = Field(default=0.05, ge=0, le=1, description="Share of the peak that the schedule ends at.")
    weight_decay: float = Field(default=0.01, ge=0, description="None on norms, biases, scalers, latents, vectors.")
    betas: tuple[float, float] = Field(default=(0.9, 0.95), description="AdamW's two moments.")
    clip_norm: float | None = Field(default=1.0, gt=0, description="Largest gradient norm of a step.")
    average: float | None = Field(
        default=None, gt=0, lt=1, description="Decay of a moving average of the weights, evaluated and saved beside."
    )
    max_skips: int = Field(
        default=10, ge=0, description="Steps in a row whose loss or gradient is not finite before the run fails."
    )

    log_every: int = Field(default=10, ge=1, description="Steps that a row of metrics is the mean of.")
    eval_every: int | None = Field(default=200, ge=1, description="Steps; only after the last one if null.")
    eval_first: bool = Field(default=True, description="Evaluate before the first step: the floor of the curve.")
    checkpoint_every: int | None = Field(default=None, ge=1, description="Steps between checkpoints.")
    checkpoint_minutes: float | None = Field(default=10.0, gt=0, description="Minutes between checkpoints.")
    keep_checkpoints: int = Field(default=2, ge=1, description="Newest checkpoints kept.")
    keep_best: str | None = Field(default=None, description="Evaluation figure whose best network is kept in `best`.")
    keep_best_of: Literal["highest", "lowest"] = Field(default="highest", description="Which value of it is the best.")
    shard_mb: int = Field(default=1024, ge=1, description="Largest checkpoint file, in megabytes.")
    tensorboard: bool | None = Field(default=None, description="Write TensorBoard events; if installed when null.")

    @model_validator(mode="after")
    def _moments_fit(self) -> Self:
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"betas must lie in [0, 1), not {self.betas}")
        return self

    def canonical(self) -> str:
        """One line of JSON with sorted keys."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True)
