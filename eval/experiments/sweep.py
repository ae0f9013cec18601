"""`sweep`: one parameter of the method at a time; `amplify`: is it the difference that matters, or its size?

Parameters that are not varied have the values of `specs.REPRODUCTION`; in `sweep-shipped`, those that come with the
network.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from eval import published
from eval.experiments.cells import NOTHING, QUESTIONS, by_questions, interval, unfinished
from eval.experiments.experiment import PAPER, PLUME, Experiment, Selection, each, spec
from eval.report.view import Line, LineFigure, Table, View
from eval.results import Results, recall, stale
from eval.specs import REPRODUCTION, Item, MethodSpec

Values = Mapping[str, Sequence[float]]
"""What is tried, by parameter."""
VALUES: Values = {
    "beta": (0.0, 0.125, 0.25, 0.5, 0.75, 1.5, 3.0),
    "tau": (0.05, 0.2, 0.3, 0.4, 1.0),
    "lambda_max": (0.0, 0.5, 1.0, 2.0, 5.0, 10.0),
    "delta": (0.0, 0.2, 0.35, 0.4, 0.5, 0.7),
    "unit_tokens": (64, 128, 192, 256),
}
AROUND: Values = {
    "beta": (0.0, 1.0),
    "tau": (0.01, 0.2),
    "lambda_max": (0.0, 1.0, 3.0, 30.0),
    "evidence_units": (2,),
    "lead": (0.0, 0.5),
    "min_gain": (0.0,),
    "retry_scale": (2.0,),
}
"""Neighbours of the default policy of the shipped network, or a step left out (`lead`, `min_gain` at 0); the shipped
value itself is the method `plume`."""


def plan(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """Records of SQuAD's form, as in the paper."""
    return each(methods, selection.transitions(("mini-squad",)))


def _varied(values: Values, base: MethodSpec) -> dict[str, dict[float, MethodSpec]]:
    """`base` with one setting changed, by parameter and value."""
    return {
        name: {
            value: base.model_copy(
                update={"name": f"{'plume ' if base.shipped else ''}{name} = {value:g}", "settings": {name: value}}
            )
            for value in tried
        }
        for name, tried in values.items()
    }


def _view(values: Values, base: MethodSpec, results: Results) -> View:
    """A table and a figure per parameter that was varied; the paper's figures where its settings are the others."""
    known: Mapping[str, Any] = {} if base.shipped else REPRODUCTION.model_dump()
    known = next((row.settings for row in results.rows if row.method == base.name), known)
    known = {key: known[key] for key in ("alpha", *values) if known.get(key) is not None}
    tables, figures = [], []
    for name, methods in _varied(values, base).items():
        points = [(value, one.name) for value, one in methods.items() if one.name in results.methods]
        if not points:
            continue
        if base.shipped and base.name in results.methods and name in known:
            points.append((float(known[name]), base.name))
        points.sort()
        paper = {} if base.shipped else published.SWEEP.get(name, {})
        others = ", ".join(f"{key} {value:g}" for key, value in known.items() if key != name)
        tables.append(_table(results, name, points, paper, others))
        figures.append(_figure(results, name, points, paper))
    return View(tables, tuple(figures))


def _table(
    results: Results, name: str, points: Sequence[tuple[float, str]], paper: Mapping[float, float], others: str
) -> Table:
    rows = [
        (
            f"{value:g}",
            *(interval(results.estimate(method, None, recall, which=which)) for which in QUESTIONS),
            interval(results.estimate(method, None, stale)),
            *((f"{paper[value]:.2f}" if value in paper else NOTHING,) if paper else ()),
        )
        for value, method in points
    ]
    beside = (f"the paper's recall, {published.MODEL}",) if paper else ()
    note = (f"The others as by default: {others}.",) if others else ()
    header = (name, "recall", "affected", "kept", "stale", *beside)
    return Table(f"{name}, %", header, tuple(rows), (*note, *unfinished(results)))


def _figure(
    results: Results, name: str, points: Sequence[tuple[float, str]], paper: Mapping[float, float]
) -> LineFigure:
    lines = []
    for which in QUESTIONS:
        found = [(value, results.estimate(method, None, recall, which=which)) for value, method in points]
        known = [(value, one) for value, one in found if one]
        lines.append(
            Line(
                which,
                tuple(value for value, _ in known),
                tuple(100 * one.mean for _, one in known),
                tuple(100 * one.low for _, one in known),
                tuple(100 * one.high for _, one in known),
            )
        )
    if paper:
        lines.append(Line(f"the paper ({published.MODEL})", tuple(paper), tuple(paper.values()), published=True))
    return LineFigure(f"sweep-{name}", f"Recall by {name}", name, "ROUGE-L recall, %", tuple(lines))


def view_amplify(results: Results) -> View:
    """Recall of the difference against that of plain scaling to the same norm."""
    rows = [
        (
            method,
            *(interval(results.estimate(method, None, recall, which=which)) for which in QUESTIONS),
            interval(results.estimate(method, None, stale)),
        )
        for method in results.methods
    ]
    tests = []
    for first, second in PAIRS:
        if first in results.methods and second in results.methods:
            for which in QUESTIONS:
                found = results.compare(first, second, recall, which=which)
                if found:
                    tests.append(
                        (f"{first} − {second}", which, f"{100 * found.difference:+.1f}", f"{found.p_value:.4f}")
                    )
    notes = (
        *unfinished(results),
        "Scaled: s·ΔW_full with s such that its Frobenius norm over all layers is that of "
        "α·ΔW_full + β·(ΔW_full − ΔW_old).",
    )
    return View(
        [
            Table("The difference, or its size? Recall, %", ("method", *QUESTIONS, "stale"), tuple(rows), notes),
            Table("Paired tests, recall, points", ("pair", "questions", "difference", "p"), tuple(tests)),
        ],
        (by_questions(results, "amplify", "The difference, or its size?"),),
    )


PAIRS = (
    ("global only", "scaled full global only"),
    ("global only", "full alone global only"),
    ("plume-paper", "scaled full"),
    ("plume-paper", "full alone"),
)
SWEEP = Experiment(
    "sweep",
    "β, τ, λ_max, δ and the unit size, one at a time.",
    (PAPER, *(one for methods in _varied(VALUES, PAPER).values() for one in methods.values())),
    plan,
    partial(_view, VALUES, PAPER),
)
SWEEP_SHIPPED = Experiment(
    "sweep-shipped",
    "The settings that come with the network, one at a time.",
    (PLUME, *(one for methods in _varied(AROUND, PLUME).values() for one in methods.values())),
    plan,
    partial(_view, AROUND, PLUME),
)
AMPLIFY = Experiment(
    "amplify",
    "β(full − old) against plain scaling of full to the same norm.",
    (
        spec("global only"),
        spec("scaled full global only"),
        spec("global only", "full alone global only", beta=0.0),
        PAPER,
        spec("scaled full"),
        spec("plume", "full alone", beta=0.0),
    ),
    plan,
    view_amplify,
)
