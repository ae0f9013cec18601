"""Settings of the method, with the paper's values as defaults. Knows nothing of torch or SQL."""

from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field


class AnswerPolicy(BaseModel):
    """What turns a history and a question into an answer (Table of the PLUME paper).

    State at a version is a pure function of the log prefix, the model, the parameterizer and this
    object, so `fingerprint`s of derived artifacts include it.

    Passed to `Engine.load`, what is set here overrides what the network brings, and what is left out stays the
    network's; `paper()` sets everything.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    alpha: float = Field(default=1.0, ge=0, description="Weight of ΔW_full in the global adapter.")
    beta: float = Field(default=0.75, ge=0, description="Weight of ΔW_full − ΔW_old in the global adapter.")
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
    router: Literal["lexical", "likelihood", "sentences"] = Field(
        default="lexical",
        description="What ranks the units: `lexical` is the paper's score and margin δ; `likelihood` ranks the best of "
        "them by how likely each makes the question under the base model (UPR, Sachan et al. 2022; retrieval/lexical.py). "
        "`sentences` does so with units of one sentence, of which a later one takes the place of what it retells. "
        "Beyond the paper, never used in reproduction rows.",
    )
    global_windows: Literal["sum", "mean"] = Field(
        default="sum",
        description="What a history's windows become in ΔW_full and ΔW_old: `sum` is the paper's concatenation; `mean` "
        "divides ΔW_g by the number of windows of the full history, so that it does not grow with the history. Equal "
        "for one window. Beyond the paper, never used in reproduction rows.",
    )
    evidence_units: int = Field(
        default=1,
        ge=1,
        description="Units activated together as one evidence, in temporal order; 1 is the paper's. Measured on "
        "SmolLM2-135M with units of one sentence: evidence adapters of the first three answer at 0.45 recall, of one "
        "unit of 192 tokens at 0.30 (72 questions after one update).",
    )
    alone_scale: float = Field(
        default=1.0,
        ge=0,
        description="Weight of H(m*) where the evidence is one unit; several written together weigh 1. Beyond the "
        "paper, never used in reproduction rows.",
    )
    insist_scale: float | None = Field(
        default=None,
        gt=0,
        description="Weight of H(m*) when a question is decoded again because its answer holds no word of the evidence "
        "(but those of the question); the second answer is given if it holds one (model/rivals.py). None: never. "
        "Factors only. Never used in reproduction rows.",
    )
    insist_gain: float = Field(
        default=0.0,
        description="With `insist_scale`: least gain of the evidence (`ScoredUnit.gain`, nats) for which a question is "
        "decoded again, where units are read: what bears on the question only faintly would be said louder too. "
        "Never used in reproduction rows.",
    )
    relevance: float | None = Field(
        default=None,
        description="Least gain of the evidence's best unit (`ScoredUnit.gain`, nats, to the reranker where there is "
        "one); half of it where question and evidence name the same thing (answering/relevance.py). "
        "Below it memory does not bear on the question, which is answered without either adapter. None: memory is "
        "always used, as in the paper. Never used in reproduction rows.",
    )
    alone_margin: float | None = Field(
        default=None,
        ge=0,
        description="Each of several activated units also answers alone; of its answers and that of all together the "
        "surest is given, one alone only if it is better than the joint one by this many nats a token "
        "(model/rivals.py). None: only the joint evidence answers. Never used in reproduction rows.",
    )
    alone_lead: float | None = Field(
        default=None,
        ge=0,
        description="With `alone_margin`: a unit that the router finds likelier than every other activated one by this "
        "many nats a token, and than one told later by twice as much, answers alone, and no other is asked. None: all "
        "are asked. Never used in reproduction rows.",
    )
    score_weight: float = Field(
        default=0.0,
        ge=0,
        description="With `alone_margin`: how much the router's score of an answer's evidence counts beside its "
        "sureness: nats a token, per nat of the score. Never used in reproduction rows.",
    )
    told_weight: float = Field(
        default=0.0,
        ge=0,
        description="With `alone_margin`: what an answer that its evidence says word for word counts more, in nats a "
        "token. Never used in reproduction rows.",
    )
    recency_margin: float | None = Field(
        default=None,
        ge=0,
        description="With `alone_margin`: of the answers at most this many nats a token less sure than the surest, the "
        "one that its evidence says latest, word for word, is given. None: the surest alone. Never used in "
        "reproduction rows.",
    )
    confidence: tuple[float, float] = Field(
        default=(1.0, 0.0),
        description="Slope and offset on the log-odds of `Answer.confidence` (Platt 1999), fitted for a network by "
        "bench/confidence.py; (1, 0): the plain geometric mean of the tokens' probabilities. Changes no answer.",
    )
    confidence_gain: float = Field(
        default=0.0,
        description="What a nat of the evidence's gain (`ScoredUnit.gain`) adds to the log-odds of "
        "`Answer.confidence`, fitted with `confidence`. Changes no answer.",
    )

    @classmethod
    def paper(cls) -> Self:
        """Return the paper's settings, each of them set."""
        return cls(**cls().model_dump())

    def over(self, brought: Self) -> Self:
        """Return what is set here, and for the rest what a network brings."""
        return brought.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})

    def canonical(self) -> dict[str, Any]:
        """Return the settings as a fingerprint sees them.

        An option that came after the first fingerprints counts only where it is used: it must not part
        answers that are the same from what was kept of them.
        """
        return {name: value for name, value in self.model_dump().items() if _ADDED.get(name) != value}


_ADDED = {
    "router": "lexical",
    "evidence_units": 1,
    "alone_scale": 1.0,
    "insist_scale": None,
    "insist_gain": 0.0,
    "global_windows": "sum",
    "relevance": None,
    "alone_margin": None,
    "alone_lead": None,
    "score_weight": 0.0,
    "told_weight": 0.0,
    "recency_margin": None,
    "confidence": (1.0, 0.0),
    "confidence_gain": 0.0,
}
"""Options that came later, with the value that changes nothing. It stays when a default changes."""
