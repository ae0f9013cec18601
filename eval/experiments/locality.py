"""`locality`: what an update must leave alone (D4), and `ablation`: what each stream is worth.

Both normalise by the same model reading the whole history in its prompt.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from eval import published
from eval.experiments.cells import NOTHING, bars, interval, labelled, percent, unfinished
from eval.experiments.experiment import (
    ABLATIONS,
    EVERYTHING,
    PAPER,
    PLUME,
    PLUME_ABLATIONS,
    Experiment,
    Selection,
    each,
    spec,
)
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
    found = [results.estimate(method, None, recall, which="kept") for method in results.methods]
    names = tuple(labelled(results, method) for method in results.methods)
    figure = BarFigure("locality", "Locality", "ROUGE-L recall, %", names, (bars("recall", found),))
    return View([Table("Locality", header, tuple(rows), notes)], (figure,))


def view_ablation(results: Results) -> View:
    """Recall and locality of each stream alone, over those of reading."""
    rows = []
    for method in results.methods:
        cells: list[str] = []
        for which in ("all", "affected", "kept"):
            own = results.estimate(method, None, recall, which=which)
            cells += [interval(own), _share(own, results.estimate(READING, None, recall, which=which))]
        kind = results.kind(method)
        paper = (published.NORMALISED_RECALL.get(kind), published.NORMALISED_LOCALITY.get(kind))
        rows.append((method, *cells, *map(_number, paper)))
    header = (
        *("method", "recall", "% of reading", "affected", "% of reading", "kept", "% of reading"),
        f"the paper's % of reading, {published.MODEL}",
        "the paper's of kept",
    )
    notes = (
        *unfinished(results),
        "Normalised: score over that of the same model with the whole history in its prompt, × 100.",
    )
    return View([Table("Ablation", header, tuple(rows), notes)], _normalised(results))


def _has(results: Results) -> bool:
    return READING in results.methods


def _share(own: Estimate | None, reading: Estimate | None) -> str:
    return percent(own.mean / reading.mean) if own and reading and reading.mean > 0 else NOTHING


def _number(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def _normalised(results: Results) -> tuple[BarFigure, ...]:
    """Recall and locality over those of reading, and the paper's; nothing where nobody read."""
    parts: tuple[tuple[str, Which, dict[str, float]], ...] = (
        ("recall", "all", published.NORMALISED_RECALL),
        ("locality", "kept", published.NORMALISED_LOCALITY),
    )
    wholes = [whole for _, which, _ in parts if (whole := results.estimate(READING, None, recall, which=which))]
    if len(wholes) < len(parts) or min(whole.mean for whole in wholes) == 0:
        return ()
    series = []
    for method in results.methods:
        own = [results.estimate(method, None, recall, which=which) for _, which, _ in parts]
        series.append(bars(method, [_over(one, whole) for one, whole in zip(own, wholes, strict=True)]))
    for kind in published.NORMALISED_RECALL:
        name = f"{kind} (the paper)"
        series.append(Bars(name, tuple(paper[kind] for *_, paper in parts), (None, None), (None, None)))
    names = tuple(name for name, *_ in parts)
    return (BarFigure("ablation", "Each stream, over reading", "% of reading", names, tuple(series)),)


def _over(own: Estimate | None, reading: Estimate) -> Estimate | None:
    """A score and its interval over reading's mean, as `_share`."""
    if own is None:
        return None
    return replace(own, mean=own.mean / reading.mean, low=own.low / reading.mean, high=own.high / reading.mean)


LOCALITY = Experiment("locality", "Recall on what an update leaves unchanged (D4).", EVERYTHING, plan, view_locality)
ABLATION = Experiment(
    "ablation",
    "PLUME without one of its streams, normalised by reading.",
    (spec(READING), *ABLATIONS, PAPER, *PLUME_ABLATIONS, PLUME),
    plan,
    view_ablation,
)
