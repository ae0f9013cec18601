"""Everything a training run is made of, as one JSON file. Knows no torch.

{"model": "smollm2-135m", "network": {...}, "data": [...], "objectives": {...}, "update": {...}, "run": {...}}
"""

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from plume_memory.training.run_settings import RunSettings

_FROZEN = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class FastWeightSettings(BaseModel):
    """Our own network (hypernet/fastweight); what a base model's sizes leave to choose."""

    model_config = _FROZEN

    kind: Literal["fast-weight"] = "fast-weight"
    lowest_layer: float = Field(default=1 / 3, ge=0, lt=1, description="Layers from this share of the depth on adapt.")
    rank: int = Field(default=128, ge=1)
    value_width: int = Field(default=160, ge=1)
    taps: int = Field(default=4, ge=1)
    mixer_blocks: int = Field(default=1, ge=0)
    mixer_width: int = Field(default=192, ge=8, multiple_of=8, description="Of four heads of even width.")
    mixer_layer: float = Field(default=0.4, ge=0, lt=1, description="Depth at which the mixer reads the text.")
    first_token: bool = Field(default=True, description="File a text's first token too, under the place before it.")


class D2LSettings(BaseModel):
    """The reference architecture (hypernet/d2l), sized as its authors did unless said otherwise."""

    model_config = _FROZEN

    kind: Literal["d2l"] = "d2l"
    rank: int = Field(default=8, ge=1)
    latent_size: int = Field(default=512, ge=8)
    blocks: int = Field(default=9, ge=1, description="Cross-attention layers of the encoder.")
    heads: int = Field(default=16, ge=1)
    kv_heads: int = Field(default=4, ge=1)
    head_size: int = Field(default=128, ge=8)

    @model_validator(mode="after")
    def _heads_share(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key/value heads")
        return self


class RerankerSettings(BaseModel):
    """An adapter with which the base model ranks sentences for a question (training/reranking), beside `start`."""

    model_config = _FROZEN

    kind: Literal["reranker"] = "reranker"
    lowest_layer: float = Field(default=1 / 3, ge=0, lt=1, description="Layers from this share of the depth on adapt.")
    rank: int = Field(default=16, ge=1)
    sharpness: float = Field(
        default=6.0, gt=0, description="What a nat per token of the question counts in the softmax."
    )
    sentences: int = Field(default=8, ge=2, description="Most sentences, or turns, that a question is asked of.")
    written: float = Field(
        default=0.0, ge=0, lt=1, description="Share of texts that are conversations written one by one."
    )
    written_conversations: tuple[str, ...] = Field(default=(), description="Their files (training/conversations.py).")

    @model_validator(mode="after")
    def _written_is_there(self) -> Self:
        if self.written > 0 and not self.written_conversations:
            raise ValueError("`written` is above 0, and there are no written_conversations")
        return self


class JudgeSettings(BaseModel):
    """An adapter and heads with which the base model judges texts and answers (training/judging), beside `start`."""

    model_config = _FROZEN

    kind: Literal["judge"] = "judge"
    lowest_layer: float = Field(default=1 / 3, ge=0, lt=1, description="Layers from this share of the depth on adapt.")
    rank: int = Field(default=16, ge=1)
    most: int = Field(default=5, ge=2, description="Most cases of a text.")
    claims: float = Field(default=1.0, gt=0, description="Texts with claims, for each of the `texts` with pairs.")
    facts: float = Field(default=0.7, ge=0, le=1, description="Share of texts that are invented facts, one at a time.")
    written: float = Field(
        default=0.0, ge=0, lt=1, description="Share of texts with cases that were written one by one."
    )
    written_pairs: tuple[str, ...] = Field(default=(), description="Their files (training/written.py).")
    written_claims: tuple[str, ...] = Field(default=(), description="The same for claims.")

    @model_validator(mode="after")
    def _written_is_there(self) -> Self:
        if self.written > 0 and not (self.written_pairs and self.written_claims):
            raise ValueError("`written` is above 0, and there are no written_pairs or no written_claims")
        return self


class FactsData(BaseModel):
    """Invented facts (training/facts)."""

    model_config = _FROZEN

    kind: Literal["facts"] = "facts"
    weight: float = Field(default=1.0, gt=0)
    exclude_families: tuple[str, ...] = Field(default=(), description="Held out, to test on.")


class JsonlData(BaseModel):
    """Files of {"context", "qas": [{"question", "answers"}]}, one object a line, .jsonl or .jsonl.gz."""

    model_config = _FROZEN

    kind: Literal["jsonl"] = "jsonl"
    name: str
    paths: tuple[str, ...] = Field(min_length=1)
    weight: float = Field(default=1.0, gt=0)
    largest_words: int = Field(default=150, ge=10, description="Longer contexts are cut to a window of sentences.")
    extractive: bool = Field(default=True, description="Keep only questions whose answer stands in the text.")
    licence: str = Field(default="not stated", description="For the model card.")


class TextData(BaseModel):
    """A folder of .txt and .md files: reconstruction and completion only."""

    model_config = _FROZEN

    kind: Literal["text"] = "text"
    name: str
    folder: str
    weight: float = Field(default=1.0, gt=0)
    largest_words: int = Field(default=150, ge=10)
    licence: str = Field(default="not stated", description="For the model card.")


class Objectives(BaseModel):
    """Weights of the losses, and how often their exchanges are drawn. A weight of 0 switches one off."""

    model_config = _FROZEN

    answer: float = Field(default=1.0, ge=0, description="Cross-entropy of the reference answer.")
    statements: bool = Field(default=True, description="Answer in a statement that ends with the answer.")
    lead: float = Field(default=0.3, ge=0, le=1, description="Weight of a statement's other tokens.")
    distillation: float = Field(default=0.0, ge=0, description="−Σ p log q over the in-context teacher's top k.")
    top_k: int = Field(default=16, ge=1)
    reconstruction: float = Field(default=0.3, ge=0, description="Repeat the text.")
    completion: float = Field(default=0.3, ge=0, description="Continue a cut sentence of it.")
    retell_share: float = Field(
        default=0.3,
        ge=0,
        le=1,
        description="Share of texts with either of the two, beside continuations that fill a row.",
    )
    span_tokens: int = Field(default=24, ge=4, description="Longest target of the two.")
    kept: float = Field(default=0.5, ge=0, description="KL to the bare model on unrelated questions and prose.")
    kept_share: float = Field(default=0.25, ge=0, le=1, description="Share of texts with such an exchange.")
    fused: float = Field(default=0.5, ge=0, description="Cross-entropy under the fused distribution; update stage.")
    stale: float = Field(default=0.1, ge=0, description="Unlikelihood of the outdated answer; update stage.")
    unchanged: float = Field(
        default=0.0, ge=0, description="KL on unaffected questions to the adapter of the old text; update stage."
    )
    factors_l1: float = Field(default=0.0, ge=0, description="Mean |B|.")
    factors_l2: float = Field(default=0.0, ge=0, description="Mean B².")


class Curriculum(BaseModel):
    """How hard the samples are."""

    model_config = _FROZEN

    largest: tuple[tuple[int, int], ...] = Field(
        default=((0, 1), (400, 6), (1200, 12)),
        min_length=1,
        description="(step, most facts of a generated text); linear in between, constant after the last.",
    )
    asks: int = Field(default=4, ge=1, description="Most questions of one text in a batch.")
    chunks: int = Field(default=1, ge=1, le=8, description="Texts are cut into 1 to this many chunks, written apart.")
    chunk_share: float = Field(
        default=0.5, ge=0, le=1, description="Share of texts for which a number of chunks is drawn."
    )
    companions: int = Field(
        default=0, ge=0, description="Up to this many other texts are written into the same memory, as in a history."
    )
    companion_share: float = Field(default=0.5, ge=0, le=1, description="Share of texts with companions.")
    states_share: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Share of the rows with questions that read exactly one whole text, whose text stands in front too "
        "as compiled states, as in the evidence row of an answer; what is asked there are questions alone.",
    )

    @model_validator(mode="after")
    def _points_ascend(self) -> Self:
        steps = [step for step, _ in self.largest]
        if any(b <= a for a, b in pairwise(steps)) or any(most < 1 for _, most in self.largest):
            raise ValueError(f"largest must have ascending steps and at least one fact each, got {self.largest}")
        return self


class UpdateStage(BaseModel):
    """Samples with a correction, through the composition that answers use. A share of 0 switches it off."""

    model_config = _FROZEN

    share: float = Field(default=0.0, ge=0, le=1, description="Share of samples that carry an update.")
    alpha: float = Field(default=1.0, ge=0, description="α of the composition, as in AnswerPolicy.")
    beta: float = Field(default=0.75, ge=0, description="β of the composition.")
    lambda_max: float = Field(default=1.0, ge=0, description="Of the fusion.")
    tau: float = Field(default=0.3, gt=0, description="Of the fusion.")


class Evaluation(BaseModel):
    """What is measured on texts the network never saw."""

    model_config = _FROZEN

    facts: tuple[int, ...] = Field(default=(1, 2, 4, 8), description="Facts per text.")
    texts: int = Field(default=24, ge=2, description="Texts for each of them; half as many from 8 facts on.")
    prose: tuple[JsonlData, ...] = Field(default=(), description="Never trained on, or a held-out file.")
    updates: int = Field(default=16, ge=0, description="Corrected texts of up to 4 facts; none are measured if 0.")
    families: tuple[str, ...] = Field(default=(), description="Families of facts that training excludes.")
    seed: int = 20_000


class TrainSettings(BaseModel):
    """A whole run."""

    model_config = _FROZEN

    model: str = "smollm2-135m"
    network: Annotated[
        FastWeightSettings | D2LSettings | RerankerSettings | JudgeSettings, Field(discriminator="kind")
    ] = FastWeightSettings()
    start: str | None = Field(default=None, description="Folder of a trained hypernetwork to go on from.")
    data_root: str = Field(default=".", description="Folder that the paths of `data` and `evaluation` start from.")
    data: tuple[Annotated[FactsData | JsonlData | TextData, Field(discriminator="kind")], ...] = (FactsData(),)
    texts: int = Field(default=16, ge=1, description="Texts of a micro-batch.")
    pool: int = Field(default=8, ge=1, description="Micro-batches drawn together and sorted by length: less padding.")
    largest_tokens: int = Field(default=256, ge=16, description="Longest chunk that is written at once.")
    compile: bool = Field(
        default=False,
        description="Compile the base model's layers: a step on a CPU takes four fifths of the time, after a minute.",
    )
    objectives: Objectives = Objectives()
    curriculum: Curriculum = Curriculum()
    update: UpdateStage = UpdateStage()
    evaluation: Evaluation = Evaluation()
    licence: str = Field(default="not stated", description="Of the trained network; for the model card.")
    language: str = Field(default="not stated", description="Of the data; for the model card.")
    run: RunSettings = RunSettings()
