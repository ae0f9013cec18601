"""`continual`: a history that goes on changing, asked after 3, 5, 10, 15 and 20 updates."""

from collections.abc import Sequence

from eval import published
from eval.datasets.muse import CHAINS
from eval.experiments.cells import FEWEST_CLUSTERS, interval, unfinished
from eval.experiments.experiment import EVERYTHING_FAST, Experiment, Selection, each
from eval.report.view import Line, LineFigure, Table, View
from eval.results import Metric, Results, Scored, recall, stale
from eval.specs import Item, MethodSpec


def plan(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """All steps of all chains, chain by chain, so that a step finds what the one before derived."""
    return each(methods, selection.transitions((CHAINS,)))


def view(results: Results) -> View:
    """Recall by number of updates, in all and by how long ago the answer changed; staleness."""
    groups: tuple[tuple[str, Metric], ...] = (
        ("Recall, all questions, %", recall),
        ("Recall, answer changed at some update, %", _changed_once),
        ("Recall, answer never changed, %", _never_changed),
        ("Stale answers, % of questions whose answer has changed", stale),
    )
    tables = [_table(results, title, metric) for title, metric in groups]
    cells = tuple(f"{published.CONTINUAL[step]:.2f}" for step in published.CONTINUAL)
    header = ("method", *(f"{step} updates" for step in published.CONTINUAL))
    tables.append(Table(f"The paper's recall ({published.MODEL}), %", header, (("plume", *cells),)))
    return View(tables, (_figure(results),))


def _changed_once(scored: Scored) -> float | None:
    changed = scored.answer.references != scored.answer.old_references
    return recall(scored) if changed else None


def _never_changed(scored: Scored) -> float | None:
    changed = scored.answer.references != scored.answer.old_references
    return None if changed else recall(scored)


def _steps(results: Results) -> list[int]:
    return sorted({row.step for row in results.rows})


def _table(results: Results, title: str, metric: Metric) -> Table:
    steps = _steps(results)
    rows = tuple(
        (method, *(interval(results.estimate(method, None, metric, step=step)) for step in steps))
        for method in results.methods
    )
    chains = len({row.transition.split("@")[0] for row in results.rows})
    few = "too few for intervals" if chains < FEWEST_CLUSTERS else "95 % bootstrap intervals, rough with so few"
    note = f"{chains} chains: {few}."
    return Table(title, ("method", *(f"{step} updates" for step in steps)), rows, (note, *unfinished(results)))


def _figure(results: Results) -> LineFigure:
    steps = _steps(results)
    lines = []
    for method in results.methods:
        found = [(step, results.estimate(method, None, recall, step=step)) for step in steps]
        known = [(step, one) for step, one in found if one is not None]
        lines.append(
            Line(
                method,
                tuple(float(step) for step, _ in known),
                tuple(100 * one.mean for _, one in known),
                tuple(100 * one.low for _, one in known),
                tuple(100 * one.high for _, one in known),
            )
        )
    paper = Line(
        f"plume, the paper ({published.MODEL})",
        tuple(float(step) for step in published.CONTINUAL),
        tuple(published.CONTINUAL.values()),
        published=True,
    )
    ticks = tuple(float(step) for step in steps)
    return LineFigure(
        "continual", "Recall along a chain of updates", "updates", "ROUGE-L recall, %", (*lines, paper), ticks
    )


CONTINUAL = Experiment(
    "continual",
    "Recall after 3, 5, 10, 15 and 20 updates of one history.",
    EVERYTHING_FAST,
    plan,
    view,
)
