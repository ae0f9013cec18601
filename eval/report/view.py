"""What an experiment shows, as plain data: Markdown, plots and the HTML page are all made from it."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table of text cells; the first column names the row."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    """Sentences under the table: what a column means, what is left out and why."""


@dataclass(frozen=True, slots=True)
class Line:
    """One series of a line figure; `low` and `high` are its 95 % interval where there is one."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    published: bool = False
    """The paper's: drawn dashed, without markers' fill."""


@dataclass(frozen=True, slots=True)
class LineFigure:
    """Series over a numeric axis."""

    name: str
    """File name, without ending."""
    title: str
    x_label: str
    y_label: str
    lines: tuple[Line, ...]
    x_ticks: tuple[float, ...] = ()
    logarithmic_x: bool = False


@dataclass(frozen=True, slots=True)
class BarFigure:
    """Grouped bars: one group per label, one bar per series."""

    name: str
    title: str
    y_label: str
    groups: tuple[str, ...]
    series: tuple["Bars", ...]
    one_scale: bool = True
    """All groups on one scale; otherwise each on its own."""


@dataclass(frozen=True, slots=True)
class Bars:
    """One series of a bar figure, a value per group; None leaves the place empty."""

    name: str
    values: tuple[float | None, ...]
    low: tuple[float | None, ...] = ()
    high: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class RadarFigure:
    """One polygon per series over shared axes; 1 is the best of the compared methods."""

    name: str
    title: str
    axes: tuple[str, ...]
    series: tuple[Bars, ...]


Figure = LineFigure | BarFigure | RadarFigure


@dataclass(frozen=True, slots=True)
class View:
    """Tables and figures of one experiment, in reading order."""

    tables: Sequence[Table]
    figures: Sequence[Figure] = ()
