"""What is to be run, as plain data: methods, items, and the machine-independent settings of a run.

Everything here can be written to JSON and sent to another process; `workbench.py` turns it into live objects.
"""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from eval.records import MuseTransition
from plume_memory.hypernet.shipped import shipped_hypernetwork
from plume_memory.model.hub import content_fingerprint
from plume_memory.policy import AnswerPolicy

Kind = Literal[
    "base",
    "base with context",
    "last update",
    "evidence in prompt",
    "bm25",
    "d2l",
    "d2l oracle",
    "plume",
    "memory only",
    "global only",
    "scaled full",
    "scaled full global only",
    "whole texts",
    "whole texts global only",
    "gold evidence",
    "gold evidence memory only",
    "cd",
    "cd oracle",
    "anyedit",
]
Probe = Literal["answers", "ranks"]


class MethodSpec(BaseModel):
    """A method and how it differs from its defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, description="What tables call it; unique in a run.")
    kind: Kind
    settings: dict[str, float | int | str] = Field(
        default_factory=dict,
        description="Overrides: of AnswerPolicy for PLUME and its ablations, of the baseline's own.",
    )
    shipped: bool = Field(
        default=False,
        description="For PLUME and its ablations: start from the settings that come with the network, as a user's "
        "engine does, instead of `REPRODUCTION`.",
    )


REPRODUCTION = AnswerPolicy(delta=0.4, unit_tokens=192)
"""PLUME's settings where nothing else is said: the paper's, but δ 0.4 for its 0.5.

Why: docs/decisions (δ). The paper leaves the unit size open.
"""


EPOCH = 2
"""Raised when code, not settings, changes what a method says: rows of before are then run again. 2: no loop is cut."""

SHIPPED_EPOCH = 10
"""The same for what only a network's own policy uses: reading, supersession, relevance, retry. 8: what replaced a unit
counts where it answers the question, by the judge."""


class RunSettings(BaseModel):
    """What all items of a run share."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = "smollm2-135m"
    hypernetwork: str = Field(default="shipped", description="As in Engine.load: shipped, distill, none, a folder.")
    device: str | None = None
    dtype: str | None = None
    max_new_tokens: int = Field(default=256, ge=1, description="The paper's 256.")
    batch: int = Field(default=8, ge=1, description="Questions per decode.")
    seed: int = 0
    distill_epochs: int = Field(default=300, ge=1, description="Epochs of CD and of the CD oracle; the paper's 300.")
    distill_rate: float = Field(default=1e-4, gt=0, description="Learning rate of both; the paper's 1e-4.")
    exam_rounds: int = Field(
        default=4, ge=1, description="Rounds of 5 questions that CD writes for itself; the paper's 4."
    )


@dataclass(frozen=True, slots=True)
class Item:
    """The smallest thing that is run, written and never repeated: one method on one transition."""

    method: MethodSpec
    transition: MuseTransition
    probe: Probe = "answers"
    """`answers`: free decoding. `ranks`: teacher-forced candidate ranks of the reference (top-k experiment)."""
    batch: int | None = None
    """Questions per decode; the run's when None. 1 in the paper's latency protocol."""
    fresh: bool = False
    """Start from an empty cache, so that the update latency is that of the whole construction."""

    def key(self, settings: RunSettings) -> str:
        """What this item's row is found by: all that its answers depend on, and so not what tables call the method."""
        t = self.transition
        asked = [(q.id, q.question, q.answers, q.old_answers, q.affected, q.gold_evidence) for q in t.questions]
        own: list[Any] = [self.method.kind, self.method.settings]
        own += [SHIPPED_EPOCH] if self.method.shipped else []
        parts: list[Any] = [
            own,
            [t.id, t.dataset, t.step, t.texts, asked],
            [self.probe, self.batch, self.fresh],
            _relevant(self.method, settings),
            EPOCH,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:24]


_WITHOUT_NETWORK = (
    *("base", "base with context", "last update", "evidence in prompt", "bm25", "cd", "cd oracle", "anyedit"),
)
_DISTILLED = ("cd", "cd oracle")
_JUDGEMENT = ("policy", "reranker_sha256", "judge_sha256", "embedding_sha256")


def network_digest(settings: RunSettings, *, shipped: bool) -> str:
    """sha256 of a network's config, which holds its weights' hash: another network, other rows.

    How answers are composed with it, and what judges texts and answers, count only where a method takes these from it
    (by the paper's router nothing is read); how sure an answer counts as, nowhere.
    """
    named = Path(settings.hypernetwork).expanduser()
    folder = shipped_hypernetwork(settings.model) if settings.hypernetwork == "shipped" else named
    config = folder / "config.json" if folder else None
    if config is None or not config.is_file():
        return ""
    described = json.loads(config.read_bytes())
    for name in ("format", "calibration", *(() if shipped else _JUDGEMENT)):
        described.pop(name, None)
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def model_read(settings: RunSettings) -> str:
    """A model's name; of a folder what is in it."""
    folder = Path(settings.model).expanduser()
    return content_fingerprint(folder) if folder.is_dir() else settings.model


def _beyond_the_papers(policy: AnswerPolicy) -> dict[str, Any]:
    """Where a policy is not the paper's: a setting that comes later, and is not used, parts no row from its answers."""
    return {name: value for name, value in policy if value != getattr(AnswerPolicy.paper(), name)}


def _relevant(method: MethodSpec, settings: RunSettings) -> dict[str, Any]:
    """The run's settings as far as a method depends on them: another network does not repeat the prompts' rows."""
    chosen: dict[str, Any] = settings.model_dump() | {"model": model_read(settings)}
    if method.kind in _WITHOUT_NETWORK:
        del chosen["hypernetwork"]
    else:
        chosen["network"] = network_digest(settings, shipped=method.shipped)
        chosen["start"] = None if method.shipped else _beyond_the_papers(REPRODUCTION)
    if method.kind not in _DISTILLED:
        del chosen["distill_epochs"], chosen["distill_rate"], chosen["exam_rounds"]
    return chosen
