"""Figures are the same bytes every time and draw whatever a view may hold."""

import re
from pathlib import Path

import pytest

from eval.report.plots import WIDTH, save_figures
from eval.report.view import BarFigure, Bars, Figure, Line, LineFigure, RadarFigure

METHODS = ("base with context", "d2l", "gold evidence memory only", "plume")
LINES = LineFigure(
    "lines",
    "Recall",
    "updates",
    "recall, %",
    (
        Line("plume", (3.0, 5.0), (70.0, 60.0), (65.0, 55.0), (75.0, 65.0)),
        Line("the paper (Qwen3-4B)", (3.0, 5.0), (79.0, 78.0), published=True),
    ),
    x_ticks=(3.0, 5.0),
)
SINGLE = BarFigure(
    "single",
    "Locality",
    "recall, %",
    METHODS,
    (Bars("recall", (1.0, None, 3.0, 4.0), (0.5, None, 2.0, 3.0), (2.0, None, 4.0, 5.0)),),
)
GROUPED = BarFigure(
    "grouped",
    "Recall",
    "recall, %",
    ("mini-squad", "mini-ropes", "mini-multihop", "mini-math", "mini-code"),
    tuple(Bars(method, (1.0, None, 3.0, 4.0, 50.0)) for method in METHODS),
)
RADAR = RadarFigure(
    "radar",
    "All",
    ("recall", "update speed", "memory"),
    (Bars("plume", (1.0, 0.5, None)), Bars("d2l", (0.7, 14.2, 1.0))),
)
ODD = LineFigure("odd", "Costs $5 or $6_x? " * 6, "k", "", (Line("a <b> & $c_", (1.0,), (2.0,)),), logarithmic_x=True)
ALONE = LineFigure(
    "alone", "Nothing of ours yet", "k", "", (Line("the paper", (1.0, 3.0), (2.0, 4.0), published=True),)
)
ALL: tuple[Figure, ...] = (LINES, SINGLE, GROUPED, RADAR, ODD, ALONE)


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_the_same_figure_gives_the_same_bytes_without_a_warning(figure: Figure, tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        folder = tmp_path / name
        folder.mkdir()
        (svg,) = save_figures([figure], folder)
        made.append((svg.read_bytes(), svg.with_suffix(".png").read_bytes()))
    assert made[0] == made[1]
    assert made[0][1].startswith(b"\x89PNG")


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.name)
def test_a_figure_is_a_column_wide(figure: Figure, tmp_path: Path) -> None:
    (svg,) = save_figures([figure], tmp_path)
    found = re.search(r'<svg [^>]*width="([\d.]+)pt"', svg.read_text(encoding="utf-8"))
    assert found
    assert float(found[1]) == pytest.approx(72 * WIDTH, abs=0.1)


def test_the_papers_series_is_dashed_black_and_hollow_and_ours_are_not(tmp_path: Path) -> None:
    svg = save_figures([LINES], tmp_path)[0].read_text(encoding="utf-8")
    dashed = [style for style in re.findall(r'style="([^"]*)"', svg) if "stroke-dasharray" in style]
    assert dashed
    assert all("stroke: #000000" in style for style in dashed)
    assert re.search(r'style="fill: #ffffff; stroke: #000000', svg)  # the hollow marker
    assert not re.search(r'style="fill: #ffffff; stroke: #0072b2', svg)


def test_a_missing_bar_is_marked_and_no_zero(tmp_path: Path) -> None:
    svg = save_figures([SINGLE], tmp_path)[0].read_text(encoding="utf-8")
    assert svg.count("–</text>") == 1
    assert svg.count("fill: #0072b2") == 3


def test_every_method_and_data_set_is_written_out(tmp_path: Path) -> None:
    svg = save_figures([GROUPED], tmp_path)[0].read_text(encoding="utf-8")
    for words in ("base with context", "gold evidence", "only", "mini-multihop", "mini-code"):
        assert f">{words}</text>" in svg or words in re.sub(r"\s+", " ", svg)


def test_what_lies_beyond_a_radars_rim_is_said_in_numbers(tmp_path: Path) -> None:
    svg = save_figures([RADAR], tmp_path)[0].read_text(encoding="utf-8")
    assert "(d2l 14.2)" in svg


def test_text_is_shown_as_it_is(tmp_path: Path) -> None:
    svg = save_figures([ODD], tmp_path)[0].read_text(encoding="utf-8")
    assert "Costs $5 or $6_x?" in svg
    assert "<b>" not in svg


def test_many_series_all_look_different(tmp_path: Path) -> None:
    lines = tuple(Line(f"m{n}", (1.0, 2.0), (float(n), n + 1.0)) for n in range(14))
    svg = save_figures([LineFigure("many", "Many", "x", "y", lines)], tmp_path)[0].read_text(encoding="utf-8")
    strokes = re.findall(r'style="(fill: none; stroke(?:-dasharray)?: [^"]*#[^"]*)"', svg)
    assert len({stroke for stroke in strokes if not re.search("#000000|#cccccc", stroke)}) == 14


@pytest.mark.parametrize(("one_scale", "ticks"), [(True, 1), (False, 2)])
def test_seconds_and_minutes_can_each_have_their_own_scale(one_scale: bool, ticks: int, tmp_path: Path) -> None:
    """Beside an update of minutes an answer of seconds would not be seen."""
    series = (Bars("cd", (150.0, 3.0)), Bars("plume", (0.4, 2.0)))
    (svg,) = save_figures(
        [BarFigure("seconds", "Seconds", "seconds", ("update", "answer"), series, one_scale=one_scale)], tmp_path
    )
    texts = re.findall(r"<text[^>]*>([^<]+)</text>", svg.read_text(encoding="utf-8"))
    assert len({tuple(sorted(float(one) for one in part)) for part in _scales(texts)}) == ticks


def _scales(texts: list[str]) -> list[list[str]]:
    """The runs of numbers among a figure's texts: the ticks of each panel."""
    runs: list[list[str]] = [[]]
    for text in texts:
        if text.replace(".", "").isdigit():
            if runs[-1] and float(text) == 0:
                runs.append([])
            runs[-1].append(text)
    return runs
