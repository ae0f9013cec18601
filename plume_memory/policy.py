"""What decides an answer: the paper's numbers, and the few that go beyond them. Knows nothing of torch or SQL.

State at a version is a pure function of the log prefix, the model, the parameterizer and this object. Why each number
is what it is stands in docs/decisions.
"""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from plume_memory.errors import InvalidInput


class AnswerPolicy(BaseModel):
    """What turns a history and a question into an answer; the defaults are the paper's (METHOD, its table of settings).

    Passed to `Engine.load`, what is set here overrides what the network brings, and what is left out stays the
    network's; `paper()` sets everything.

    Raises:
        ValidationError: a value out of its range. Whether one is dead beside the others, `checked` says.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    alpha: float = Field(default=1.0, ge=0, description="Weight of ΔW_full in the global adapter.")
    beta: float = Field(default=0.75, ge=0, description="Weight of ΔW_full − ΔW_old in the global adapter.")
    chunk_tokens: int = Field(
        default=8192, ge=16, description="Longest piece of history a Doc-to-LoRA network sees at once, in tokens."
    )
    chunking: Literal["near_equal", "append_only"] = Field(
        default="append_only",
        description="How a longer history is cut: `near_equal` is the paper's; `append_only` closes windows at "
        "transition boundaries, so that H runs over the last window only. Equal up to one chunk.",
    )
    unit_tokens: int = Field(default=256, ge=8, description="Longest unit, in tokens.")
    delta: float = Field(default=0.5, ge=0, description="Recency margin of the lexical router.")
    evidence_units: int = Field(default=1, ge=1, description="Most units of an evidence, written as one text.")
    lambda_max: float = Field(default=1.0, ge=0, description="Largest weight of the evidence stream.")
    tau: float = Field(default=0.3, gt=0, description="JS divergence (nats) at which λ is half of lambda_max.")
    max_new_tokens: int = Field(default=256, ge=1, description="Longest answer, in tokens.")

    # Beyond the paper; never used in reproduction rows.
    retrieval: Literal["lexical", "reader"] = Field(
        default="lexical",
        description="What ranks the units: `lexical` is the paper's score and margin δ over units of `unit_tokens`; "
        "`reader` has the model read the best of them, each a sentence or an item of a list.",
    )
    evidence: Literal["adapter", "states", "both"] = Field(
        default="adapter",
        description="What the evidence row carries: H of the units (the paper's), their compiled key/value states, or "
        "both.",
    )
    global_windows: Literal["sum", "mean"] = Field(
        default="sum",
        description="What a history's windows become in ΔW_full and ΔW_old: `sum` is the paper's concatenation, `mean` "
        "divides it by the number of windows of the full history.",
    )
    lead: float | None = Field(
        default=None,
        ge=0,
        description="Nats a token by which the first unit must stand before the second, by reader and words, to be "
        "the evidence alone. None: never.",
    )
    min_gain: float | None = Field(
        default=None,
        description="Least gain of the best unit (`ScoredUnit.gain`, nats); below it the memory is not relevant, and "
        "the bare model answers. Half of it is enough where question and unit name the same. None: always relevant.",
    )
    supersedes_at: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Least probability, by the judge, that a later unit replaces an earlier one for the earlier one to "
        "be no evidence any more, where what took its place answers the question. None: nothing is judged, and words "
        "and recency decide alone.",
    )
    known_at: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Least confidence at which an answer counts as known. None: evidence is enough.",
    )
    retry_scale: float | None = Field(
        default=None,
        gt=0,
        description="Weight of H when a question is decoded again because its answer has no word of its evidence. "
        "None: never.",
    )

    @classmethod
    def paper(cls) -> Self:
        """Return the paper's policy, each value set."""
        return cls(**cls().model_dump())

    def over(self, brought: Self) -> Self:
        """Return what is set here, and for the rest what a network brings where it is not dead beside it."""
        own = {name: getattr(self, name) for name in self.model_fields_set}
        merged = brought.model_dump() | own
        nothing = type(self)().model_dump()
        return type(self)(**merged | {name: nothing[name] for name in _dead(merged) if name not in own})

    def checked(self) -> Self:
        """Return the policy itself, whole: what an engine answers by.

        Raises:
            InvalidInput: a value that does nothing beside the others; says which other would make it count.
        """
        dead = _dead(self.model_dump())
        if dead:
            raise InvalidInput("; ".join(f"{name} {why}" for name, why in dead.items()) + ".")
        return self


def _dead(values: dict[str, Any]) -> dict[str, str]:
    """Names of set values that do nothing beside the others, and why."""
    dead: dict[str, str] = {}
    if values["retrieval"] == "lexical":
        unread = "needs the reader's scores: set retrieval='reader'"
        dead |= {name: unread for name in ("lead", "min_gain") if values[name] is not None}
    elif values["delta"] != AnswerPolicy.model_fields["delta"].default:
        dead["delta"] = "is of the lexical router: set retrieval='lexical'"
    if values["lead"] is not None and values["evidence_units"] == 1:
        dead["lead"] = "chooses between one unit and several: set evidence_units above 1"
    if values["evidence"] == "states" and values["retry_scale"] is not None:
        dead["retry_scale"] = "weighs an adapter: set evidence='adapter' or 'both'"
    return dead


class Calibration(BaseModel):
    """What makes `Answer.confidence` a probability, fitted for a network (Platt 1999); it changes no answer."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    slope: float = Field(default=1.0, description="On the log-odds of the geometric mean of the tokens' probabilities.")
    offset: float = Field(default=0.0, description="Added to them.")
    per_nat: float = Field(default=0.0, description="Added for each nat of the evidence's gain.")
    answerable: float = Field(
        default=0.0, description="On the judge's log-odds that the evidence answers the question."
    )
    support: float = Field(default=0.0, description="On the judge's log-odds that the evidence says the answer.")
