"""Cells and tables that several experiments share."""

from collections.abc import Sequence

from eval.metrics.confidence import Estimate, macro_estimate
from eval.report.view import BarFigure, Bars, Table
from eval.results import Metric, Results, Which, judged, place, recall

NOTHING = "–"
FEWEST_CLUSTERS = 5
"""Of an interval."""
QUESTIONS: tuple[Which, ...] = ("all", "affected", "kept")


def percent(value: float | None) -> str:
    """A share as a percentage with one decimal."""
    return NOTHING if value is None else f"{100 * value:.1f}"


def interval(found: Estimate | None) -> str:
    """Mean [low, high], in percent; the mean alone over so few histories that resampling them says nothing."""
    if found is None:
        return NOTHING
    if found.clusters < FEWEST_CLUSTERS:
        return percent(found.mean)
    return f"{percent(found.mean)} [{percent(found.low)}, {percent(found.high)}]"


def bars(name: str, found: Sequence[Estimate | None]) -> Bars:
    """A figure's series in percent; intervals as in `interval`."""
    known = [one if one and one.clusters >= FEWEST_CLUSTERS else None for one in found]
    return Bars(
        name,
        tuple(100 * one.mean if one else None for one in found),
        tuple(100 * one.low if one else None for one in known),
        tuple(100 * one.high if one else None for one in known),
    )


def labelled(results: Results, method: str) -> str:
    """A method's name in a figure; with its number of records where others were run on more."""
    if results.complete(method):
        return method
    done, total = _records(results, method)
    return f"{method} ({done} of {total})"


def by_questions(results: Results, name: str, title: str) -> BarFigure:
    """Recall of every method over all, changed and kept questions."""
    series = [
        bars(labelled(results, method), [results.estimate(method, None, recall, which=which) for which in QUESTIONS])
        for method in results.methods
    ]
    return BarFigure(name, title, "ROUGE-L recall, %", QUESTIONS, tuple(series))


def by_dataset(
    results: Results, metric: Metric, title: str, *, which: Which = "all", notes: Sequence[str] = ()
) -> Table:
    """Methods by datasets, with the macro average where a method has all of them."""
    rows = []
    for method in results.methods:
        cells = [interval(results.estimate(method, name, metric, which=which)) for name in results.datasets]
        rows.append((method, *cells, interval(macro(results, method, metric, which=which))))
    counted = _counts(results)
    said = ("95 % bootstrap intervals over records in brackets; the average is the macro average over datasets.",)
    header = ("method", *(f"{name} ({counted[name]})" for name in results.datasets), "average")
    return Table(title, header, tuple(rows), (*said, *notes, *unfinished(results)))


def verdicts_given(results: Results) -> tuple[str, ...]:
    """Says how many answers were judged, where not all were."""
    asked = [len(row.answers) for row in results.rows]
    given = [results.estimate(method, None, judged) for method in results.methods]
    count = sum(one.count for one in given if one)
    return () if count == sum(asked) else (f"{count} of {sum(asked)} answers were judged.",)


def macro(results: Results, method: str, metric: Metric, *, which: Which = "all") -> Estimate | None:
    """Macro average over the datasets in which any method has such a score; None where this one lacks some of them."""
    parts = []
    for name in results.datasets:
        counts = {
            other: sum(map(len, results.clusters(other, name, metric, which=which).values()))
            for other in results.methods
        }
        if counts[method] < max(counts.values()):
            return None
        if counts[method]:
            parts.append(results.clusters(method, name, metric, which=which))
    return macro_estimate(parts)


def unfinished(results: Results) -> tuple[str, ...]:
    """Says which methods lack rows, so that nobody compares averages over different records."""
    lacking = [method for method in results.methods if not results.complete(method)]
    if not lacking:
        return refused(results)
    counts = {method: _records(results, method) for method in lacking}
    parts = [f"{method} {done} of {total}" for method, (done, total) in counts.items()]
    return (
        f"Run on fewer records than the others, so not to be compared with them yet: {', '.join(parts)}.",
        *refused(results),
    )


def _records(results: Results, method: str) -> tuple[int, int]:
    """How many records a method has answered, and how many any has."""
    done = {place(row) for row in results.rows if row.method == method and not row.error}
    return len(done), len({place(row) for row in results.rows})


def refused(results: Results) -> tuple[str, ...]:
    """Says which methods could not do some items at all."""
    parts = []
    for method in results.methods:
        own = [row for row in results.rows if row.method == method and row.error]
        if own:
            parts.append(f"{method} {len(own)} (the first: {own[0].transition}: {own[0].error})")
    return (f"Refused by the method itself, and in none of its means: {'; '.join(parts)}.",) if parts else ()


def _counts(results: Results) -> dict[str, int]:
    """Questions of each dataset, over distinct transitions."""
    sizes = {(row.dataset, row.transition): len(row.answers) for row in results.rows if not row.error}
    return {name: sum(n for (dataset, _), n in sizes.items() if dataset == name) for name in results.datasets}
