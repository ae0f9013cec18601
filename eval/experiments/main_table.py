"""`main`: every method on every dataset (the paper's table 1), with staleness and paired tests."""

from collections.abc import Sequence
from statistics import fmean

from eval import published
from eval.experiments.cells import bars, by_dataset, interval, labelled, macro, unfinished, verdicts_given
from eval.experiments.experiment import EVERYTHING, MINI, PAPER, PLUME, Experiment, Selection, each
from eval.metrics.confidence import RESAMPLES
from eval.report.view import BarFigure, Table, View
from eval.results import Metric, Results, exact_match, judged, precision, recall, rouge_f1, stale, token_f1
from eval.specs import Item, MethodSpec


def plan(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """All methods on all transitions; chains after their last update."""
    return each(methods, selection.transitions(MINI, steps=(20,)))


def view(results: Results) -> View:
    """Recall, judge, all other overlaps, staleness, tests, and the paper's table."""
    tables = [by_dataset(results, recall, "ROUGE-L recall after the update, %")]
    if results.has_judge:
        tables.append(by_dataset(results, judged, "LLM as a judge, %", notes=verdicts_given(results)))
    tables += [_split(results), _overlaps(results), _tests(results), paper()]
    return View(tables, (recalls(results, "recall", "Recall after the update"),))


def _split(results: Results) -> Table:
    """Affected and kept questions, and stale answers."""
    rows = tuple(
        (
            method,
            interval(results.estimate(method, None, recall, which="affected")),
            interval(results.estimate(method, None, recall, which="kept")),
            interval(results.estimate(method, None, stale)),
        )
        for method in results.methods
    )
    note = "Stale: the output holds a replaced reference and not the current one; of the questions with a replaced one."
    return Table(
        "Questions the update changes and keeps, all datasets together, %",
        ("method", "recall, affected", "recall, kept", "stale"),
        rows,
        (note, *unfinished(results)),
    )


def _overlaps(results: Results) -> Table:
    metrics: tuple[tuple[str, Metric], ...] = (
        ("ROUGE-L P", precision),
        ("ROUGE-L R", recall),
        ("ROUGE-L F1", rouge_f1),
        ("EM", exact_match),
        ("F1", token_f1),
    )
    rows = []
    for method in results.methods:
        rows.append((method, *(interval(macro(results, method, metric)) for _, metric in metrics)))
    notes = ("EM and F1 by SQuAD v1.1's definition. Macro averages over the datasets.", *unfinished(results))
    return Table("Every overlap measure, %", ("method", *(name for name, _ in metrics)), tuple(rows), notes)


def _tests(results: Results) -> Table:
    """PLUME, with either settings, against each other method, on the records both answered."""
    rows = []
    for subject in (PAPER.name, PLUME.name):
        for method in results.methods:
            both = subject in results.methods and method != subject
            found = results.compare(subject, method, recall) if both else None
            if found:
                difference = f"{100 * found.difference:+.1f}"
                rows.append((f"{subject} − {method}", difference, f"{found.p_value:.4f}", str(found.clusters)))
    note = f"Paired sign-flip test on record means, two-sided, {RESAMPLES} draws; several comparisons, not corrected."
    return Table("Paired tests, recall, points", ("pair", "difference", "p", "records"), tuple(rows), (note,))


def paper() -> Table:
    """Recall / judge of the paper, with the averages that follow."""
    rows = []
    for kind, own in published.RECALL.items():
        rows.append(_published(f"{kind}, {published.MODEL}", list(zip(own, published.JUDGE[kind], strict=True))))
    for kind, pairs in published.SMALLER.items():
        rows.append(_published(f"{kind}, {published.SMALLER_MODEL}", pairs))
    header = ("method", *published.DATASETS, "average")
    return Table("The paper's, recall / judge, %", header, tuple(rows))


def _published(name: str, pairs: Sequence[tuple[float, float]]) -> tuple[str, ...]:
    mean = (fmean(r for r, _ in pairs), fmean(j for _, j in pairs))
    return (name, *(f"{r:.2f} / {j:.2f}" for r, j in [*pairs, mean]))


def recalls(results: Results, name: str, title: str) -> BarFigure:
    """Recall of every method on every dataset."""
    series = [
        bars(labelled(results, method), [results.estimate(method, one, recall) for one in results.datasets])
        for method in results.methods
    ]
    return BarFigure(name, title, "ROUGE-L recall, %", tuple(results.datasets), tuple(series))


MAIN = Experiment("main", "Every method on every dataset: the paper's table 1.", EVERYTHING, plan, view)
