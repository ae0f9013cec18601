"""One HTML page from a run folder: self-contained, opened from disk, without a single request.

Outputs of models are untrusted text. Everything is escaped by the template, and the page's content security policy
admits the page's own script alone, by its hash, and no connection to anywhere.
"""

import base64
import hashlib
import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from eval.experiments.catalogue import EXPERIMENTS
from eval.experiments.experiment import Experiment
from eval.manifest import Manifest
from eval.metrics.verdicts import Verdicts
from eval.report.outputs import Listing, listings
from eval.report.plots import save_figures
from eval.report.view import Figure, Table
from eval.results import Results
from eval.rows import ItemRow, RowFolder
from plume_memory.errors import InvalidInput

_HERE = Path(__file__).parent
KEYS = "keys.json"
"""In an experiment's folder: the command that showed it and the keys of its items, as `show` writes them."""
_COLOURS = {
    "#000000": "currentColor",
    "#ffffff": "var(--page)",
    "#cccccc": "var(--rule)",
    "#0072b2": "var(--blue)",
    "#666666": "var(--grey)",
}
"""Colours of figures that a dark page needs otherwise: of text and axes, ground, grid, and two too dark series."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A figure as it stands in the page."""

    title: str
    svg: Markup


@dataclass(frozen=True, slots=True)
class Section:
    """One experiment."""

    name: str
    about: str
    command: str
    finished: int
    planned: int
    tables: Sequence[Table]
    drawings: Sequence[Drawing]


def to_html(run: Path, *, judge: str | None = None) -> str:
    """Make the page.

    Args:
        run: a run folder in which at least one experiment was shown.
        judge: whose verdicts are shown where several judged.

    Raises:
        InvalidInput: no run folder, no experiment was shown in it, or a file of it is damaged.
    """
    manifest = Manifest.read(run)
    folder = RowFolder(run)
    verdicts = Verdicts.read(run, judge)
    sections, used = [], dict[str, ItemRow]()
    for experiment in EXPERIMENTS:
        shown = _read_keys(run / experiment.name / KEYS)
        rows = folder.named(shown.methods) if shown else []
        if shown and rows:
            sections.append(_section(experiment, shown, rows, verdicts))
            used |= {row.key: row for row in rows}
    if not sections:
        raise InvalidInput(
            f"{run} has nothing to report yet: run an experiment, or show the rows there are with "
            f"`python -m eval main --out {run} --show-only`."
        )
    return _page(run.resolve().name, manifest.facts, sections, listings(list(used.values()), verdicts), verdicts)


@dataclass(frozen=True, slots=True)
class _Shown:
    command: str
    methods: dict[str, str]
    """By key of an item, what its method is called."""


def _read_keys(path: Path) -> _Shown | None:
    if not path.exists():
        return None
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        return _Shown(str(raw["command"]), {str(key): str(name) for key, name in dict(raw["keys"]).items()})
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise InvalidInput(f"{path} cannot be read ({err}); run the experiment's command with --show-only.") from err


def _section(experiment: Experiment, shown: _Shown, rows: Sequence[ItemRow], verdicts: Verdicts | None) -> Section:
    view = experiment.view(Results(rows, verdicts))
    return Section(
        experiment.name,
        experiment.about,
        shown.command,
        len(rows),
        len(shown.methods),
        view.tables,
        _drawings(experiment.name, view.figures),
    )


def _drawings(section: str, figures: Sequence[Figure]) -> list[Drawing]:
    with tempfile.TemporaryDirectory() as folder:
        files = save_figures(figures, Path(folder))
        return [
            Drawing(figure.title, _inlined(file.read_text(encoding="utf-8"), f"{section}-{figure.name}", figure.title))
            for figure, file in zip(figures, files, strict=True)
        ]


def _inlined(svg: str, prefix: str, title: str) -> Markup:
    """An SVG file as an element: ids that no other figure has, colours of text and axes from the page.

    matplotlib escapes the text it writes; black is what it draws text, axes and the paper's series with.
    """
    element = svg[svg.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", element, flags=re.DOTALL)
    element = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', element)
    element = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", element)
    element = re.sub(r'\bhref="#([^"]+)"', rf'href="#{prefix}-\1"', element)
    for drawn, shown in _COLOURS.items():
        element = re.sub(rf"{drawn}\b", shown, element)
    label = f'<svg role="img" aria-label="{escape(title)}" '
    return Markup(label + element.removeprefix("<svg "))  # made by matplotlib, not by a model


def _page(
    title: str,
    facts: Sequence[str],
    sections: Sequence[Section],
    outputs: Mapping[str, Sequence[Listing]],
    verdicts: Verdicts | None,
) -> str:
    environment = Environment(
        loader=FileSystemLoader(_HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"coded": _coded, "cell": _cell}
    script = (_HERE / "page.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    methods = dict.fromkeys(line.method for group in outputs.values() for one in group for line in one.lines)
    return environment.get_template("page.html.j2").render(
        title=title,
        facts=facts,
        sections=sections,
        outputs=outputs,
        methods=list(methods),
        judge=verdicts.judge if verdicts else None,
        style=Markup((_HERE / "page.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_digest=digest,
    )


def _coded(text: str) -> Markup:
    """Escaped, with `quoted` words as code."""
    parts = text.split("`")
    marked = [Markup("<code>{}</code>").format(part) if at % 2 else escape(part) for at, part in enumerate(parts)]
    return Markup("").join(marked)


def _cell(text: str) -> Markup:
    """Escaped, with an interval in brackets set apart from its mean."""
    mean, bracket, rest = text.partition(" [")
    if not bracket or not rest.endswith("]"):
        return escape(text)
    return Markup('{} <span class="interval">[{}</span>').format(mean, rest)
