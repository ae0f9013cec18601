"""`smoke`: a few minutes of the benchmark on SmolLM2, against stored figures: has anything become worse?

float32, so that processors of different make agree; a few questions may still tip over, hence the tolerance. A
figure below its stored value by more than that fails; one above is said, so that it is stored anew (`--write`).
"""

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from eval.experiments.experiment import MINI, TUNED, Selection, each, spec
from eval.results import Results, recall, stale
from eval.specs import Item, MethodSpec, RunSettings
from plume_memory.errors import InvalidInput

STORED = Path(__file__).parent / "baselines" / "smollm2-135m.json"
SETTINGS = RunSettings(device="cpu", dtype="float32", max_new_tokens=32)
RECORDS: tuple[tuple[MethodSpec, int], ...] = (
    (spec("base"), 1),
    (spec("base with context"), 1),
    (spec("d2l"), 2),
    (spec("plume"), 2),
    (TUNED, 3),
)
"""How many of each of the five mini datasets: most for what a user runs, least for what is hardly our code."""


class Baseline(BaseModel):
    """Stored figures; shares between 0 and 1."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    tolerance: float
    """Of recall; a stale share may rise by as much."""
    recall: dict[str, float]
    stale: dict[str, float]

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


def measure(results: Results, tolerance: float) -> Baseline:
    """Figures of a run."""
    recalls = {m: results.estimate(m, None, recall) for m in results.methods}
    stales = {m: results.estimate(m, None, stale) for m in results.methods}
    return Baseline(
        tolerance=tolerance,
        recall={m: round(one.mean, 4) for m, one in recalls.items() if one},
        stale={m: round(one.mean, 4) for m, one in stales.items() if one},
    )


def compare(stored: Baseline, found: Baseline) -> Outcome:
    """Hold a run against the stored figures; a method that was not run counts as worse."""
    worse, better = [], []
    for method, wanted in stored.recall.items():
        got = found.recall.get(method)
        line = f"{method}: recall {got} (stored {wanted} ± {stored.tolerance})"
        if got is None or got < wanted - stored.tolerance:
            worse.append(line)
        elif got > wanted + stored.tolerance:
            better.append(line)
    for method, wanted in stored.stale.items():
        got = found.stale.get(method)
        if got is None or got > wanted + stored.tolerance:
            worse.append(f"{method}: stale {got} (stored {wanted} ± {stored.tolerance})")
    return Outcome(tuple(worse), tuple(better))
