"""`python -m eval case`: one question explained."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from eval.caches import CountingCache
from eval.datasets.muse import load
from eval.experiments import case as experiment
from eval.experiments.experiment import ABLATIONS, PAPER, PLUME, PLUME_ABLATIONS
from eval.manifest import Manifest
from eval.methods.parametric import Plume
from eval.report.markdown import to_markdown
from eval.report.plots import save_figures
from eval.specs import RunSettings
from eval.workbench import Workbench
from plume_memory.errors import InvalidInput

EXPLAINED = {method.name: method for method in (PAPER, *ABLATIONS, PLUME, *PLUME_ABLATIONS)}


def case(
    question: Annotated[str, typer.Argument(help="Id of a question, e.g. mini-squad-001-q1 or chain-01-q03@5.")],
    out: Annotated[Path, typer.Option("--out", help="Where the page is written.")] = Path("eval-case"),
    dataset: Annotated[str, typer.Option(help="Where the question is from.")] = "muse-mini",
    method: Annotated[str, typer.Option("--method", help=f"One of: {'; '.join(EXPLAINED)}.")] = PLUME.name,
    model: Annotated[str, typer.Option(help="As in Engine.load.")] = "smollm2-135m",
    hypernetwork: Annotated[str, typer.Option(help="As in Engine.load.")] = "shipped",
    device: Annotated[str | None, typer.Option()] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1)] = 64,
) -> None:
    """Explain one answer: the evidence, both streams' candidates, λ and the divergence, token by token."""
    if method not in EXPLAINED:
        raise InvalidInput(f"Unknown method {method!r}; a case is explained of: {', '.join(EXPLAINED)}.")
    transition, asked = experiment.find(load(dataset), question)
    settings = RunSettings(model=model, hypernetwork=hypernetwork, device=device, max_new_tokens=max_new_tokens)
    answering = Workbench(settings).method(EXPLAINED[method], CountingCache(), batch=1)
    assert isinstance(answering, Plume), "all of these are"
    found = experiment.explain(answering, transition, asked)
    view = experiment.view(found)
    out.mkdir(parents=True, exist_ok=True)
    facts = Manifest.of(settings).facts
    options = {
        "--dataset": dataset,
        "--method": method,
        "--model": model,
        "--hypernetwork": hypernetwork,
        "--device": device,
        "--max-new-tokens": str(max_new_tokens),
        "--out": str(out),
    }
    given = [part for option, value in options.items() if value is not None for part in (option, value)]
    command = shlex.join(["python", "-m", "eval", "case", question, *given])
    page = to_markdown("case", f"`{question}`, {method}", view, command=command, facts=facts)
    (out / "README.md").write_text(page, encoding="utf-8")
    raw = {
        "question": asked.model_dump(),
        "transition": transition.id,
        "method": method,
        "settings": dict(answering.settings) | settings.model_dump(),
        "facts": list(facts),
        "text": found.text,
        "trace": [dataclasses.asdict(t) for t in found.trace],
    }
    (out / "case.json").write_text(json.dumps(raw, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    save_figures(view.figures, out)
    Console().print(f"{found.text!r} · {out / 'README.md'}", highlight=False, soft_wrap=True)
