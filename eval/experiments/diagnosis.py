"""`diagnosis`: where PLUME's answers are lost, one suspect at a time: network, router, scale, fusion, or adding up.

Each variant changes one thing against `plume-paper` or its streams alone, on the same records.
"""

from collections.abc import Sequence

from eval.experiments.cells import QUESTIONS, by_questions, interval, percent, unfinished
from eval.experiments.experiment import PAPER, PLUME, PLUME_ABLATIONS, Experiment, Selection, each, spec
from eval.report.view import Table, View
from eval.results import Results, Scored, recall, stale
from eval.specs import Item, MethodSpec

SUSPECTS: tuple[tuple[str, str, str], ...] = (
    ("network: the right sentence written, or read", "d2l oracle", "evidence in prompt"),
    ("units: sentences of the whole history, evidence stream alone", "plume-memory-only", "memory only"),
    ("units: the same, both streams, against evidence that leads", "plume", "evidence leads"),
    ("router: a perfect one, evidence stream alone", "gold evidence memory only", "memory only"),
    ("router: a perfect one, both streams", "gold evidence", "plume-paper"),
    (
        "adding up: units added up, or one pass over each text (global stream alone)",
        "whole texts global only",
        "global only",
    ),
    ("adding up: the same, both streams", "whole texts", "plume-paper"),
    ("scale: α = 1, β = 0 (full alone), global stream alone", "full alone global only", "global only"),
    ("scale: α = 0.5, β = 0.5, both streams", "half strength", "plume-paper"),
    ("fusion: evidence leads (λ_max = 10, τ = 0.05)", "evidence leads", "plume-paper"),
    ("fusion: both streams against the evidence stream alone", "plume-paper", "memory only"),
    ("the method: PLUME against D2L", "plume-paper", "d2l"),
    ("the network's own settings: against D2L", "plume", "d2l"),
    ("the network's own settings: against reading", "plume", "base with context"),
)


def plan(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """Records of SQuAD's form."""
    return each(methods, selection.transitions(("mini-squad",)))


def view(results: Results) -> View:
    """Recall of all variants, a paired test per suspect, and how often the router is right."""
    rows = [
        (
            method,
            *(interval(results.estimate(method, None, recall, which=which)) for which in QUESTIONS),
            interval(results.estimate(method, None, stale)),
        )
        for method in results.methods
    ]
    tests = []
    for title, first, second in SUSPECTS:
        if first in results.methods and second in results.methods:
            cells = []
            for which in QUESTIONS:
                found = results.compare(first, second, recall, which=which)
                cells.append(f"{100 * found.difference:+.1f} (p {found.p_value:.4f})" if found else "–")
            tests.append((title, f"{first} − {second}", *cells))
    tables = [
        Table("Variants, recall, %", ("method", *QUESTIONS, "stale"), tuple(rows), unfinished(results)),
        Table("One suspect at a time, points of recall", ("suspect", "pair", *QUESTIONS), tuple(tests), (_NOTE,)),
    ]
    if "plume-paper" in results.methods:
        tables.append(_routing(results))
    return View(tables, (by_questions(results, "diagnosis", "One thing changed at a time"),))


def _routing(results: Results) -> Table:
    """Whether the routed unit holds a current reference: what the evidence stream can know at all."""
    rows = []
    for which in QUESTIONS:
        found = results.estimate("plume-paper", None, _holds_reference, which=which)
        rows.append((which, percent(found.mean if found else None), str(found.count if found else 0)))
    return Table("The routed unit says the answer, %", ("questions", "share", "of"), tuple(rows))


def _holds_reference(scored: Scored) -> float:
    unit = str(scored.answer.detail["evidence"]).lower()
    return float(any(reference.lower() in unit for reference in scored.answer.references))


_NOTE = "Paired sign-flip tests on record means, two-sided, not corrected for their number."
DIAGNOSIS = Experiment(
    "diagnosis",
    "Where PLUME's answers are lost: one suspect at a time.",
    (
        spec("base with context"),
        spec("d2l"),
        spec("d2l oracle"),
        spec("evidence in prompt"),
        spec("memory only"),
        spec("gold evidence memory only"),
        spec("global only"),
        spec("whole texts global only"),
        spec("global only", "full alone global only", beta=0.0),
        PAPER,
        spec("gold evidence"),
        spec("whole texts"),
        spec("plume", "half strength", alpha=0.5, beta=0.5),
        spec("plume", "evidence leads", lambda_max=10.0, tau=0.05),
        *PLUME_ABLATIONS,
        PLUME,
    ),
    plan,
    view,
)
