"""`efficiency`: seconds and memory of an update and of an answer, by the paper's protocol, and `radar`: all at once.

Batch size 1, nothing derived beforehand, device synchronised. The paper drops no warm-up; the steady-state
column leaves out the first record of each method in a process.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

from eval import published
from eval.experiments.cells import NOTHING, macro, unfinished
from eval.experiments.experiment import EVERYTHING, MINI, Experiment, Selection, each
from eval.report.view import BarFigure, Bars, RadarFigure, Table, View
from eval.results import Results, recall
from eval.rows import ItemRow
from eval.specs import Item, MethodSpec

COMPARED = ("plume", "cd", "cd oracle", "anyedit")
"""The radar's axes are divided by the best of these."""


def plan_efficiency(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """One question at a time, each record from an empty cache."""
    transitions = selection.transitions(("mini-squad",))
    return [Item(method, transition, batch=1, fresh=True) for method in methods for transition in transitions]


def plan_radar(methods: Sequence[MethodSpec], selection: Selection) -> list[Item]:
    """The rows of `main` and of `efficiency`."""
    return [*each(methods, selection.transitions(MINI, steps=(20,))), *plan_efficiency(methods, selection)]


def view_efficiency(results: Results) -> View:
    """A row per method; the paper's under it."""
    rows = []
    for method in results.methods:
        own = _timed(results, method)
        if own:
            rows.append((method, *_update(own), *_generation(own), str(len(own))))
    header = (
        *("method", "update s", "steady", "peak MiB", "answer s", "steady", "s per token", "peak MiB", "records"),
    )
    paper = [
        (kind, *(f"{found[key]:.3f}" if key in found else NOTHING for key in _PAPER))
        for kind, found in published.EFFICIENCY.items()
    ]
    notes = (
        "Means over records and over questions, batch 1; peaks are the largest increase over what was allocated at "
        "the phase's start (CPU: resident set, to which freed heap still counts, so small phases read 0). Every "
        "answer pays for its own evidence adapter.",
        *(f"Made on {where}." for where in sorted({row.made_on for row in results.rows})),
        *unfinished(results),
    )
    return View(
        [
            Table("Update and generation", header, tuple(rows), notes),
            Table(f"The paper's ({published.MODEL}, A800)", ("method", *_PAPER), tuple(paper)),
        ],
        _seconds(results),
    )


def _seconds(results: Results) -> tuple[BarFigure, ...]:
    """Of an update and of an answer, first ones included, as the paper counts."""
    timed = {method: rows for method in results.methods if (rows := _timed(results, method))}
    if not timed:
        return ()
    series = tuple(
        Bars(
            method,
            (fmean(row.update_seconds for row in rows), fmean(a.seconds for row in rows for a in row.answers)),
            (None, None),
            (None, None),
        )
        for method, rows in timed.items()
    )
    title = "Seconds, one question at a time"
    return (BarFigure("efficiency", title, "seconds", ("update", "answer"), series, one_scale=False),)


def view_radar(results: Results) -> View:
    """Recall, locality, and the inverse of latency and, on a GPU, memory, over the best of the compared methods."""
    chosen = [method for method in results.methods if results.kind(method) in (*COMPARED, "d2l")]
    axes = AXES if all(", cuda" in row.made_on for row in results.rows if row.fresh) else AXES[:-1]
    values = {
        method: [
            # the CD oracle trains when it is asked; its update costs nothing and says nothing
            None if results.kind(method) == "cd oracle" and name.startswith("update") else axis(results, method)
            for name, axis in axes
        ]
        for method in chosen
    }
    best = [
        max((own[i] or 0.0 for method, own in values.items() if results.kind(method) in COMPARED), default=0.0)
        for i in range(len(axes))
    ]
    series = tuple(
        Bars(method, tuple(_over(value, top) for value, top in zip(own, best, strict=True)))
        for method, own in values.items()
    )
    names = tuple(name for name, _ in axes)
    rows = tuple((one.name, *(NOTHING if v is None else f"{v:.2f}" for v in one.values)) for one in series)
    notes = (
        f"Latency and memory as 1/x; every axis over the best of {', '.join(COMPARED)}; the CD oracle trains per "
        "question, so it has no update of its own.",
        *((ON_A_CPU,) if axes != AXES else ()),
        *unfinished(results),
    )
    figure = RadarFigure("radar", "PLUME and the trained baselines", names, series)
    return View([Table("Radar", ("method", *names), rows, notes)], (figure,))


def _update(rows: Sequence[ItemRow]) -> tuple[str, str, str]:
    steady = [row.update_seconds for row in rows if not row.first_in_process]
    peaks = [row.update_peak_bytes for row in rows if row.update_peak_bytes is not None]
    return f"{fmean(row.update_seconds for row in rows):.3f}", _mean(steady), _mib(peaks)


def _generation(rows: Sequence[ItemRow]) -> tuple[str, str, str, str]:
    answers = [answer for row in rows for answer in row.answers]
    steady = [answer.seconds for row in rows if not row.first_in_process for answer in row.answers]
    per_token = sum(a.seconds for a in answers) / max(1, sum(a.tokens for a in answers))
    peaks = [answer.peak_bytes for answer in answers if answer.peak_bytes is not None]
    return f"{fmean(a.seconds for a in answers):.3f}", _mean(steady), f"{per_token:.4f}", _mib(peaks)


def _timed(results: Results, method: str) -> list[ItemRow]:
    return [row for row in results.rows if row.method == method and row.fresh and row.batch == 1 and not row.error]


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.3f}" if values else NOTHING


def _mib(peaks: Sequence[int]) -> str:
    return f"{max(peaks) / 2**20:.0f}" if peaks else NOTHING


def _over(value: float | None, best: float) -> float | None:
    return None if value is None or best <= 0 else value / best


def _recall(results: Results, method: str) -> float | None:
    found = macro(results, method, recall)
    return found.mean if found else None


def _locality(results: Results, method: str) -> float | None:
    found = results.estimate(method, None, recall, which="kept")
    return found.mean if found else None


def _inverse(read: Callable[[Sequence[ItemRow]], float]) -> Callable[[Results, str], float | None]:
    def axis(results: Results, method: str) -> float | None:
        own = _timed(results, method)
        value = read(own) if own else 0.0
        return 1 / value if value > 0 else None

    return axis


AXES: tuple[tuple[str, Callable[[Results, str], float | None]], ...] = (
    ("recall", _recall),
    ("locality", _locality),
    ("update speed", _inverse(lambda rows: fmean(row.update_seconds for row in rows))),
    ("answer speed", _inverse(lambda rows: fmean(a.seconds for row in rows for a in row.answers))),
    ("update memory", _inverse(lambda rows: max((row.update_peak_bytes or 0) for row in rows))),
)
ON_A_CPU = (
    "Memory is compared on a GPU only: a CPU's resident set does not grow while what was freed before lasts, "
    "so whoever runs last would look best."
)
_PAPER = ("update_s", "update_gib", "generation_s", "generation_gib")
EFFICIENCY = Experiment(
    "efficiency", "Seconds and memory of updates and answers, batch 1.", EVERYTHING, plan_efficiency, view_efficiency
)
RADAR = Experiment("radar", "Recall, locality, speed and memory in one chart.", EVERYTHING, plan_radar, view_radar)
