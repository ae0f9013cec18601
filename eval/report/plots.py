"""Figures as SVG and PNG, readable at the width of a column and without telling red from green.

Colours are Okabe and Ito's without yellow, which fades on white, and without black, which the paper's series have:
they are dashed and hollow. Series beyond the colours get another stroke; every line has a marker of its own besides.
Bars lie on their side under the names of what they measure, one panel per data set, so that long names need no
slanting and no legend. The same figures give the same bytes.
"""

import math
import textwrap
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from eval.report.view import BarFigure, Figure, Line, LineFigure, RadarFigure

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#666666")
STROKES = ("-", (0, (5, 1)), (0, (1, 1)), (0, (3, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">", "p", "h", "d")
WIDTH = 3.4
"""Inches: one column of a paper."""
PANELS = 3
"""Of bars beside each other."""
RIM = 1.2
"""Where a radar chart ends; what lies beyond is drawn there, hollow, with its number."""
STYLE: Any = {
    "font.family": "DejaVu Sans",  # ships with matplotlib, so that every machine measures text alike
    "font.size": 7,
    "axes.titlesize": 8,
    "axes.labelsize": 7,
    "xtick.labelsize": 6.5,
    "ytick.labelsize": 6.5,
    "legend.fontsize": 6.5,
    "legend.handlelength": 2.4,
    "legend.columnspacing": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": "#cccccc",
    "grid.linewidth": 0.4,
    "text.parse_math": False,  # a question may hold dollar signs
    "svg.hashsalt": "plume",  # ids of clip paths follow from the content
    "svg.fonttype": "none",
}
_LETTER = 0.052
"""Inches per letter of a legend, roughly; a little more than the mean, so that nothing is cut."""
_LINE = 0.125
"""Inches per line of a legend or label."""


def save_figures(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Draw figures into a folder, as SVG and PNG; returns the SVG files."""
    import matplotlib as mpl  # noqa: PLC0415 - a second, and not every command draws
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    made = []
    with mpl.rc_context(STYLE):
        for figure in figures:
            canvas = Canvas(figsize=_size(figure), layout="constrained")
            _draw(figure, canvas)
            path = folder / f"{figure.name}.svg"
            canvas.savefig(path, metadata={"Date": None})
            canvas.savefig(path.with_suffix(".png"), dpi=220)
            made.append(path)
    return made


def _size(figure: Figure) -> tuple[float, float]:
    """Width and height in inches; the height follows from what has to be written."""
    title = 0.15 * len(_title(figure).split("\n"))
    if isinstance(figure, BarFigure):
        labels, panels, _ = _panels(figure)
        rows = math.ceil(len(panels) / PANELS)
        # bars lie at even distances: two labels of two lines beside each other make room for all
        lines = [1 + label.count("\n") for label in labels]
        height = len(lines) * (0.05 + 0.11 * max((a + b) / 2 for a, b in pairwise([*lines, lines[-1]])))
        return WIDTH, title + 0.25 + rows * (height + 0.4)
    legend = _LINE * math.ceil(len(_legend(figure)) / _columns(figure)) + 0.1 if len(_legend(figure)) > 1 else 0.0
    return WIDTH, title + legend + (2.9 if isinstance(figure, RadarFigure) else 2.1)


def _draw(figure: Figure, canvas: Any) -> None:
    canvas.suptitle(_title(figure), fontsize=8)
    if isinstance(figure, BarFigure):
        _bars(figure, canvas)
        return
    if isinstance(figure, LineFigure):
        axes = canvas.add_subplot()
        _lines(figure, axes)
    else:
        axes = canvas.add_subplot(projection="polar")
        _radar(figure, axes)
    handles, names = axes.get_legend_handles_labels()
    if len(names) > 1:
        canvas.legend(handles, names, loc="outside lower center", ncols=_columns(figure), frameon=False)


def _title(figure: Figure) -> str:
    return textwrap.fill(figure.title, 56)


def _legend(figure: LineFigure | RadarFigure) -> list[str]:
    """Names in the order of the legend: the paper's last."""
    if isinstance(figure, RadarFigure):
        return [one.name for one in figure.series]
    return [line.name for line in sorted(figure.lines, key=lambda line: line.published)]


def _columns(figure: LineFigure | RadarFigure) -> int:
    """As many legend columns as fit, filled from top to bottom: none may be cut off at the figure's edge."""
    names = _legend(figure)
    for columns in (3, 2):
        rows = math.ceil(len(names) / columns)
        longest = [max(map(len, names[at : at + rows])) for at in range(0, len(names), rows)]
        if sum(length * _LETTER + 0.45 for length in longest) <= WIDTH:
            return columns
    return 1


def _lines(figure: LineFigure, axes: Any) -> None:
    own = [line for line in figure.lines if not line.published]
    for number, line in enumerate(own):
        style = _style(number)
        axes.plot(line.x, line.y, label=line.name, **style)
        if line.low and line.high:
            axes.fill_between(line.x, line.low, line.high, color=style["color"], alpha=0.12, linewidth=0)
    for line in figure.lines:
        if line.published:
            _published(line, axes)
    axes.set_xlabel(figure.x_label)
    axes.set_ylabel(figure.y_label)
    axes.grid(axis="y")
    axes.set_axisbelow(True)
    if figure.logarithmic_x:
        axes.set_xscale("log")
    if figure.x_ticks:
        axes.set_xticks(figure.x_ticks, [f"{tick:g}" for tick in figure.x_ticks])
        axes.minorticks_off()


def _style(number: int) -> dict[str, Any]:
    """Of the n-th series: no two of the first 28 look alike."""
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": STROKES[number // len(COLOURS) % len(STROKES)],
        "marker": MARKERS[number % len(MARKERS)],
        "markersize": 3.2,
        "linewidth": 1.0,
    }


def _published(line: Line, axes: Any) -> None:
    axes.plot(
        line.x,
        line.y,
        color="black",
        linestyle="--",
        linewidth=0.9,
        marker="o",
        markersize=3.6,
        markerfacecolor="white",
        label=line.name,
    )


Panel = tuple[str, list[float | None], list[float | None], list[float | None]]
"""Heading, and the value, low and high of each label."""


def _panels(figure: BarFigure) -> tuple[list[str], list[Panel], str]:
    """Labels of the bars, panels, and what the common axis shows.

    One series: its groups are the bars, in one panel. Several: a panel per group, the series are the bars.
    """

    def wrapped(names: Sequence[str]) -> list[str]:
        return [textwrap.fill(name, 20) for name in names]

    if len(figure.series) == 1:
        one = figure.series[0]
        empty: list[float | None] = [None] * len(figure.groups)
        panel = ("", list(one.values), list(one.low) or empty, list(one.high) or empty)
        return wrapped(figure.groups), [panel], figure.y_label
    panels: list[Panel] = []
    for at, group in enumerate(figure.groups):
        columns = [[(one.values, one.low, one.high)[part] for one in figure.series] for part in range(3)]
        values, low, high = ([values[at] if values else None for values in column] for column in columns)
        panels.append((group, values, low, high))
    return wrapped([one.name for one in figure.series]), panels, figure.y_label


def _bars(figure: BarFigure, canvas: Any) -> None:
    labels, panels, said = _panels(figure)
    beside = min(PANELS, len(panels))
    rows = math.ceil(len(panels) / beside)
    grid = canvas.subplots(rows, beside, sharex=figure.one_scale, sharey=True, squeeze=False)
    for number, axes in enumerate(grid.flat):
        if number >= len(panels):
            axes.set_visible(False)
            continue
        _panel(panels[number], axes, textwrap_at=14 if beside > 1 else 40)
        # the panel above an empty place is the last of its column
        labelled = not figure.one_scale or number + beside >= len(panels)
        axes.tick_params(labelbottom=labelled, bottom=labelled)
    places = range(len(labels))
    grid[0][0].set_yticks(places, labels)
    grid[0][0].set_ylim(len(labels) - 0.4, -0.6)
    canvas.supxlabel(said, fontsize=7)


def _panel(panel: Panel, axes: Any, *, textwrap_at: int) -> None:
    heading, values, low, high = panel
    axes.set_title(textwrap.fill(heading, textwrap_at), fontsize=7)
    for place, (value, bottom, top) in enumerate(zip(values, low, high, strict=True)):
        if value is None:
            axes.annotate("–", (0, place), xytext=(4, 0), textcoords="offset points", va="center", fontsize=6)
            continue
        axes.barh(place, value, height=0.68, color=COLOURS[0], alpha=0.75, linewidth=0)
        if bottom is not None and top is not None:
            axes.plot([bottom, top], [place, place], color="black", linewidth=0.9, solid_capstyle="butt")
    axes.grid(axis="x")
    axes.set_axisbelow(True)
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(left=0)


def _radar(figure: RadarFigure, axes: Any) -> None:
    angles = [2 * math.pi * i / len(figure.axes) for i in range(len(figure.axes))]
    for number, series in enumerate(figure.series):
        # a missing value opens the polygon: its neighbours are not joined across it
        values = [math.nan if value is None else value for value in series.values]
        drawn = [math.nan if value is None else min(value, RIM) for value in series.values]
        style = _style(number)
        axes.plot([*angles, angles[0]], [*drawn, drawn[0]], label=series.name, **style)
        beyond = [(angle, RIM) for angle, value in zip(angles, values, strict=True) if value > RIM]
        if beyond:
            hollow = {**style, "linestyle": "none", "markerfacecolor": "white"}
            axes.plot(*zip(*beyond, strict=True), clip_on=False, **hollow)
    axes.set_theta_offset(math.pi / 2)
    axes.set_xticks(angles, [_axis_label(figure, at) for at in range(len(figure.axes))])
    axes.tick_params(axis="x", pad=7)
    axes.set_ylim(0, RIM)
    axes.set_yticks([0.25, 0.5, 0.75, 1.0], ["", "0.5", "", "1"])
    axes.set_rlabel_position(math.degrees(math.pi / len(figure.axes)))
    axes.spines["polar"].set_visible(False)


def _axis_label(figure: RadarFigure, at: int) -> str:
    """Name of an axis, with the numbers that lie beyond the rim."""
    beyond = [
        f"({one.name} {value:.3g})" for one in figure.series if (value := one.values[at]) is not None and value > RIM
    ]
    return "\n".join([textwrap.fill(figure.axes[at], 9), *beyond])
