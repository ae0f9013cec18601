"""`smoke`: a few minutes of the benchmark on SmolLM2, against stored figures: has anything become worse?

float32, so that processors of different make agree; an answer or two may still tip over. A figure that is worse than
its stored value by more than `ANSWERS` of the answers it is the mean of, and by more than `TOLERANCE`, fails; one above
is said, so that it is stored anew (`--write`).
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from eval.experiments.experiment import MINI, PAPER, PLUME, Selection, each, spec
from eval.results import Results, recall, stale
from eval.specs import Item, MethodSpec, RunSettings
from plume_memory.errors import InvalidInput

STORED = Path(__file__).parent / "baselines" / "smollm2-135m.json"
SETTINGS = RunSettings(device="cpu", dtype="float32", max_new_tokens=32)
RECORDS: tuple[tuple[MethodSpec, int], ...] = (
    (spec("base"), 1),
    (spec("base with context"), 1),
    (spec("d2l"), 1),
    (PAPER, 2),
    (PLUME, 2),
)
"""How many of each of the five mini datasets: most for what a user runs, least for what is hardly our code."""


ANSWERS = 2
"""So many may tip over."""

TOLERANCE = 0.03
"""Of a share; that of many answers is held to it, not to two of them."""


class Figure(BaseModel):
    """A mean over some answers, between 0 and 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float
    answers: int = Field(ge=1)

    @property
    def tolerance(self) -> float:
        """By how much another machine may differ."""
        return max(TOLERANCE, ANSWERS / self.answers)

    def __str__(self) -> str:
        return f"{self.mean} of {self.answers}"


class Baseline(BaseModel):
    """Stored figures, by method."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    recall: dict[str, Figure]
    stale: dict[str, Figure]

    @classmethod
    def read(cls, path: Path = STORED) -> "Baseline":
        """Read the stored figures.

        Raises:
            InvalidInput: there are none, or they are damaged.
        """
        try:
            return cls.model_validate_json(path.read_text(encoding="utf-8"))
        except (OSError, ValidationError) as err:
            raise InvalidInput(f"No stored figures in {path} ({err}); make them with `smoke --write`.") from err


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a comparison found, a line each."""

    worse: tuple[str, ...]
    better: tuple[str, ...]


def plan() -> list[Item]:
    """A few records of each mini dataset."""
    return [item for method, count in RECORDS for item in each([method], Selection(limit=count).transitions(MINI))]


def measure(results: Results) -> Baseline:
    """Figures of a run."""
    found: dict[str, dict[str, Figure]] = {"recall": {}, "stale": {}}
    for name, metric in (("recall", recall), ("stale", stale)):
        for method in results.methods:
            one = results.estimate(method, None, metric)
            if one is not None:
                found[name][method] = Figure(mean=round(one.mean, 4), answers=one.count)
    return Baseline(recall=found["recall"], stale=found["stale"])


def compare(stored: Baseline, found: Baseline) -> Outcome:
    """Hold a run against the stored figures; a method that was not run counts as worse."""
    worse, better = [], []
    for method, wanted in stored.recall.items():
        got = found.recall.get(method)
        line = f"{method}: recall {got} (stored {wanted} ± {wanted.tolerance:.2f})"
        if got is None or got.mean < wanted.mean - wanted.tolerance:
            worse.append(line)
        elif got.mean > wanted.mean + wanted.tolerance:
            better.append(line)
    for method, wanted in stored.stale.items():
        got = found.stale.get(method)
        if got is None or got.mean > wanted.mean + wanted.tolerance:
            worse.append(f"{method}: stale {got} (stored {wanted} ± {wanted.tolerance:.2f})")
    return Outcome(tuple(worse), tuple(better))
