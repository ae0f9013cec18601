"""`sweep`: one parameter of the method at a time; `amplify`: is it the difference that matters, or its size?

Parameters that are not varied have the values of `specs.REPRODUCTION`.
"""

from collections.abc import Sequence

from eval import published
from eval.experiments.cells import NOTHING, QUESTIONS, by_questions, interval, unfinished
from eval.experiments.experiment import Experiment, Selection, each, spec
from eval.report.view import Line, LineFigure, Table, View
from eval.results import Results, recall, stale
from eval.specs import Item, MethodSpec

VALUES: dict[str, tuple[float, ...]] = {
    "beta": (0.0, 0.125, 0.25, 0.5, 0.75, 1.5, 3.0),
    "tau": (0.05, 0.2, 0.3, 0.4, 1.0),
    "lambda_max": (0.0, 0.5, 1.0, 2.0, 5.0, 10.0),
    "delta": (0.0, 0.2, 0.35, 0.4, 0.5, 0.7),
    "unit_tokens": (64, 128, 192, 256),
}


def plan(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """Records of SQuAD's form, as in the paper."""
    return each(methods, selection.transitions(("mini-squad",)))


def view_sweep(results: Results) -> View:
    """A table and a figure per parameter; that of `specs.REPRODUCTION` is in every table."""
    shown = [(name, _of(results, name)) for name in VALUES]
    known = [(name, points) for name, points in shown if points]
    return View([_table(results, *one) for one in known], [_figure(results, *one) for one in known])


def _of(results: Results, name: str) -> list[tuple[float, str]]:
    """(value, method) of the rows that vary a parameter, by value."""
    found = []
    for method in results.methods:
        row = next(row for row in results.rows if row.method == method)
        if method.startswith(f"{name} = "):
            found.append((float(row.settings[name]), method))
    return sorted(found)


def _table(results: Results, name: str, points: Sequence[tuple[float, str]]) -> Table:
    paper = published.SWEEP.get(name, {})
    rows = [
        (
            f"{value:g}",
            *(interval(results.estimate(method, None, recall, which=which)) for which in QUESTIONS),
            interval(results.estimate(method, None, stale)),
            f"{paper[value]:.2f}" if value in paper else NOTHING,
        )
        for value, method in points
    ]
    header = (name, "recall", "affected", "kept", "stale", f"the paper's recall, {published.MODEL}")
    default = results.rows[0].settings
    rest = ", ".join(f"{key} {default[key]:g}" for key in VALUES if key != name and key in default)
    return Table(
        f"{name}, %",
        header,
        tuple(rows),
        (f"The others as by default: {_defaults(results, rest)}.", *unfinished(results)),
    )


def _defaults(results: Results, fallback: str) -> str:
    """The unchanged settings, read off the rows of the method without overrides."""
    plain = next((row.settings for row in results.rows if row.method == "plume"), None)
    if plain is None:
        return fallback
    return ", ".join(f"{key} {plain[key]:g}" for key in ("alpha", *VALUES))


def _figure(results: Results, name: str, points: Sequence[tuple[float, str]]) -> LineFigure:
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
    paper = published.SWEEP.get(name)
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
    ("global only", "scaled full, global only"),
    ("global only", "full alone, global only"),
    ("plume", "scaled full"),
    ("plume", "full alone"),
)
SWEEP = Experiment(
    "sweep",
    "β, τ, λ_max, δ and the unit size, one at a time.",
    (
        spec("plume"),
        *(spec("plume", f"{name} = {value:g}", **{name: value}) for name, values in VALUES.items() for value in values),
    ),
    plan,
    view_sweep,
)
AMPLIFY = Experiment(
    "amplify",
    "β(full − old) against plain scaling of full to the same norm.",
    (
        spec("global only"),
        spec("scaled full, global only"),
        spec("global only", "full alone, global only", beta=0.0),
        spec("plume"),
        spec("scaled full"),
        spec("plume", "full alone", beta=0.0),
    ),
    plan,
    view_amplify,
)
