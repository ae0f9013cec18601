"""`topk`: is the right token among the first k candidates, where the reference is forced (candidate-rank analysis)?"""

from collections.abc import Sequence

from eval import published
from eval.experiments.cells import interval, unfinished
from eval.experiments.experiment import ABLATIONS, MINI, PAPER, PLUME, Experiment, Selection
from eval.report.view import Line, LineFigure, Table, View
from eval.results import Metric, Results, Scored, Which
from eval.specs import Item, MethodSpec

K = (1, 3, 5, 8, 10)
GROUPS: tuple[tuple[str, Which], ...] = (("all questions", "all"), ("affected questions", "affected"))


def plan(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """Ranks instead of answers."""
    transitions = selection.transitions(MINI, steps=(20,))
    return [Item(method, transition, probe="ranks") for method in methods for transition in transitions]


def view(results: Results) -> View:
    """Recall by k, overall and for the questions the update changes."""
    tables = [
        Table(
            f"Teacher-forced recall within k candidates, {title}, %",
            ("method", *(f"k = {k}" for k in K)),
            tuple(
                (method, *(interval(results.estimate(method, None, within(k), which=which)) for k in K))
                for method in results.methods
            ),
            (
                "A token of the canonical reference counts as recalled when it is among the first k candidates; the "
                "reference is forced, so ROUGE-L recall over tokens is their share.",
                *unfinished(results),
            ),
        )
        for title, which in GROUPS
    ]
    paper = ("plume", *(f"{published.TOP_K[k]:.2f}" for k in K))
    tables.append(Table(f"The paper's ({published.MODEL}), %", ("method", *(f"k = {k}" for k in K)), (paper,)))
    return View(tables, (_figure(results),))


def within(k: int) -> Metric:
    """Share of the reference's tokens among the first k candidates."""

    def share(scored: Scored) -> float:
        ranks: list[int] = scored.answer.detail["ranks"]
        return sum(rank <= k for rank in ranks) / len(ranks)

    return share


def _figure(results: Results) -> LineFigure:
    ks = tuple(float(k) for k in K)
    lines = []
    for method in results.methods:
        found = [results.estimate(method, None, within(k)) for k in K]
        lines.append(Line(method, ks, tuple(100 * one.mean if one else 0.0 for one in found)))
    paper = Line(f"plume, the paper ({published.MODEL})", ks, tuple(published.TOP_K[k] for k in K), published=True)
    return LineFigure("topk", "Recall within k candidates", "k", "recall, %", (*lines, paper), ks)


TOPK = Experiment(
    "topk",
    "Rank of the reference's tokens among the candidates, teacher-forced.",
    (PAPER, *ABLATIONS, PLUME),
    plan,
    view,
)
