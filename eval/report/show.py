"""Shows what a run folder has of an experiment: its page, its figures, and the keys that the report finds rows by."""

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from eval.experiments.experiment import Experiment
from eval.manifest import Manifest
from eval.metrics.verdicts import Verdicts, read_decisions
from eval.report.markdown import to_markdown
from eval.report.view import View
from eval.results import Results
from eval.rows import RowFolder
from eval.specs import Item
from plume_memory.errors import InvalidInput


def show(
    experiment: Experiment,
    items: Sequence[Item],
    run: Path,
    *,
    command: str,
    console: Console,
    judge: str | None = None,
) -> View:
    """Write an experiment's page and figures into the run folder, and say where they are.

    Args:
        experiment: whose view is shown.
        items: whose rows count.
        run: the folder.
        command: what the page says made it.
        console: for the line that says where.
        judge: whose verdicts, where several judged.

    Raises:
        InvalidInput: no row of these, no run folder, or nothing judged by that judge.
    """
    from eval.report.plots import save_figures  # noqa: PLC0415 - matplotlib takes a second

    manifest = Manifest.read(run)
    keys = {item.key(manifest.settings): item.method.name for item in items}
    rows = RowFolder(run).named(keys)
    if not rows:
        raise InvalidInput(f"{run} holds no row of {experiment.name} with these choices yet.")
    view = experiment.view(Results(rows, _verdicts(run, judge)))
    left = len(keys) - len(rows)
    partly = [f"**unfinished: {left} of {len(keys)} items of this command have no row yet**"] if left else []
    page = to_markdown(experiment.name, experiment.about, view, command=command, facts=[*manifest.facts, *partly])
    folder = run / experiment.name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "README.md").write_text(page, encoding="utf-8")
    save_figures(view.figures, folder)
    shown = {"command": command, "keys": keys}
    (folder / "keys.json").write_text(json.dumps(shown, indent=1) + "\n", encoding="utf-8")  # for the report
    console.print(f"{len(rows)} of {len(keys)} items · {folder / 'README.md'}", highlight=False)
    return view


def _verdicts(run: Path, judge: str | None) -> Verdicts | None:
    verdicts = Verdicts.read(run, judge)
    if judge is not None and verdicts is None:
        known = ", ".join(sorted({one.judge for one in read_decisions(run)}))
        said = f"it was judged by: {known}" if known else "nobody judged it yet, see `python -m eval judge`"
        raise InvalidInput(f"{run} holds no verdicts of {judge!r}; {said}.")
    return verdicts
