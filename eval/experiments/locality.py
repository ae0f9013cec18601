"""`locality`: what an update must leave alone (D4), and `ablation`: what each stream is worth.

Both normalise by the same model reading the whole history in its prompt.
"""

from collections.abc import Sequence
from typing import Final

from eval import published
from eval.experiments.cells import NOTHING, interval, percent, unfinished
from eval.experiments.experiment import ABLATIONS, EVERYTHING, TUNED, TUNED_ABLATIONS, Experiment, Selection, each, spec
from eval.metrics.confidence import Estimate
from eval.report.view import BarFigure, Bars, Table, View
from eval.results import Results, Which, recall
from eval.specs import Item, MethodSpec

READING: Final = "base with context"


def plan(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """Records of SQuAD's form."""
    return each(methods, selection.transitions(("mini-squad",)))


def view_locality(results: Results) -> View:
    """Mean recall over the questions whose answers the update leaves unchanged."""
    rows = []
    for method in results.methods:
        kept = results.estimate(method, None, recall, which="kept")
        paper = published.LOCALITY.get(results.kind(method))
        share = _share(kept, results.estimate(READING, None, recall, which="kept") if _has(results) else None)
        rows.append((method, interval(kept), share, str(kept.count if kept else 0), _number(paper)))
    header = ("method", "locality", "% of reading", "kept questions", f"the paper's, {published.MODEL}")
    notes = (
        *unfinished(results),
        "Locality: mean ROUGE-L recall over kept questions, × 100. The paper: 50 SQuAD contexts, 704 kept.",
    )
    return View([Table("Locality", header, tuple(rows), notes)], (_figure(results, "kept", "locality"),))


def view_ablation(results: Results) -> View:
    """Recall and locality of each stream alone, over those of reading."""
    rows = []
    for method in results.methods:
        cells: list[str] = []
        for which in ("all", "affected", "kept"):
            own = results.estimate(method, None, recall, which=which)
            cells += [interval(own), _share(own, results.estimate(READING, None, recall, which=which))]
        rows.append((method, *cells, _number(published.NORMALISED_RECALL.get(results.kind(method)))))
    header = (
        *("method", "recall", "% of reading", "affected", "% of reading", "kept", "% of reading"),
        f"the paper's % of reading, {published.MODEL}",
    )
    notes = (
        *unfinished(results),
        "Normalised: score over that of the same model with the whole history in its prompt, × 100.",
    )
    return View([Table("Ablation", header, tuple(rows), notes)], (_figure(results, "all", "ablation"),))


def _has(results: Results) -> bool:
    return READING in results.methods


def _share(own: Estimate | None, reading: Estimate | None) -> str:
    return percent(own.mean / reading.mean) if own and reading and reading.mean > 0 else NOTHING


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _figure(results: Results, which: Which, name: str) -> BarFigure:
    found = [results.estimate(method, None, recall, which=which) for method in results.methods]
    bars = Bars(
        "recall",
        tuple(100 * f.mean if f else None for f in found),
        tuple(100 * f.low if f else None for f in found),
        tuple(100 * f.high if f else None for f in found),
    )
    return BarFigure(name, name.capitalize(), "ROUGE-L recall, %", tuple(results.methods), (bars,))


LOCALITY = Experiment("locality", "Recall on what an update leaves unchanged (D4).", EVERYTHING, plan, view_locality)
ABLATION = Experiment(
    "ablation",
    "PLUME without one of its streams, normalised by reading.",
    (spec(READING), *ABLATIONS, spec("plume"), *TUNED_ABLATIONS, TUNED),
    plan,
    view_ablation,
)
