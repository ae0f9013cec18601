"""Settings of the method, with the paper's values as defaults. Knows nothing of torch or SQL."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class MethodSettings(BaseModel):
    """What turns a history and a question into an answer (Table of the PLUME paper).

    State at a version is a pure function of the log prefix, the model, the parameterizer and this
    object, so `fingerprint`s of derived artifacts include it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    alpha: float = Field(default=1.0, description="Weight of ΔW_full in the global adapter.")
    beta: float = Field(default=0.75, description="Weight of ΔW_full − ΔW_old in the global adapter.")
    chunk_tokens: int = Field(
        default=8192, ge=16, description="Longest piece of history the parameterizer sees at once, in tokens."
    )
    chunking: Literal["near_equal", "append_only"] = Field(
        default="append_only",
        description="How a longer history is cut: `near_equal` is the paper's; `append_only` closes windows at "
        "transition boundaries, so that an update costs only the last window. Equal up to one chunk.",
    )
    unit_tokens: int = Field(
        default=256, ge=8, description="Token budget of one routable unit; chosen by bench/routing_sweep.py."
    )
    delta: float = Field(default=0.5, ge=0, description="Recency margin of the router.")
    lambda_max: float = Field(default=1.0, ge=0, description="Largest weight of the evidence stream.")
    tau: float = Field(default=0.3, gt=0, description="JS divergence (nats) at which λ is half of lambda_max.")
    evidence: Literal["lora", "kv"] = Field(
        default="lora",
        description="Form of the evidence stream: `lora` is the paper's H(m*); `kv` attaches the unit's compiled "
        "key/value states as a prefix (beyond the paper, never used in reproduction rows).",
    )
    max_new_tokens: int = Field(default=256, ge=1, description="Longest answer, in tokens.")
