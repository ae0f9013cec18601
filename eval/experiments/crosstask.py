"""`crosstask`: memory of problems and programs, where the answer must be computed, not found."""

from collections.abc import Sequence

from eval import published
from eval.experiments.cells import by_dataset, verdicts_given
from eval.experiments.experiment import EVERYTHING, Experiment, Selection, each
from eval.experiments.main_table import recalls
from eval.report.view import Table, View
from eval.results import Results, exact_match, judged, recall
from eval.specs import Item, MethodSpec


def plan(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """The two mini datasets; records of GSM8K and CRUXEval are passed as files."""
    return each(methods, selection.transitions(("mini-math", "mini-code")))


def view(results: Results) -> View:
    """Recall and exact match; judge where there is one."""
    tables = [by_dataset(results, recall, "ROUGE-L recall, %")]
    if results.has_judge:
        tables.append(by_dataset(results, judged, "LLM as a judge, %", notes=verdicts_given(results)))
    tables.append(by_dataset(results, exact_match, "Exact match, %"))
    rows = [
        (kind, *(f"{found[name][0]:.2f} / {found[name][1]:.2f}" for name in ("gsm8k", "cruxeval")))
        for kind, found in published.CROSSTASK.items()
    ]
    header = ("method", "gsm8k", "cruxeval")
    tables.append(Table(f"The paper's ({published.MODEL}), recall / judge, %", header, tuple(rows)))
    return View(tables, (recalls(results, "crosstask", "Recall on problems and programs"),))


CROSSTASK = Experiment("crosstask", "Problems and programs: GSM8K and CRUXEval's form.", EVERYTHING, plan, view)
