"""The model card: a README.md that says what a trained hypernetwork is, what made it, and how good it is.

Knows no torch; numbers come from the caller and from the run's `metrics.jsonl`.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from plume_memory.errors import counted
from plume_memory.lora.atomic import write_file
from plume_memory.training.metrics import read_metrics
from plume_memory.training.progress import duration

_CURVE_ROWS = 12


@dataclass(frozen=True, slots=True)
class DataSource:
    """Something the network was trained on."""

    name: str
    licence: str
    """SPDX name where there is one."""
    note: str = ""
    """How much of it, how it was used."""


@dataclass(frozen=True, slots=True)
class TaskCard:
    """What only the task knows."""

    name: str
    """The hypernetwork's."""
    summary: str
    """One or two sentences: what it is and what it does."""
    base_model: str
    """Name or Hugging Face id."""
    base_fingerprint: str
    dtype: str
    """The base model computes in it: "bfloat16", …"""
    licence: str
    """The hypernetwork's own."""
    sources: tuple[DataSource, ...]
    results: tuple[Mapping[str, Any], ...] = ()
    """Rows of one table; the first row's keys are its columns."""
    results_command: str | None = None
    """Reproduces the results."""
    limits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CardFacts:
    """Everything a card says."""

    task: TaskCard
    settings: Mapping[str, Any]
    """The run's whole configuration, as JSON."""
    parameters: int
    """Trained numbers of the network."""
    steps: int
    planned_steps: int
    samples: int
    text_tokens: int
    student_tokens: int
    seconds: float
    """Of wall-clock time, evaluations included."""
    machine: str
    """A class of machine, not its name: "2 CPU cores, bfloat16"."""
    resume_command: str


def write_card(folder: Path, facts: CardFacts, *, metrics: Path | None = None) -> Path:
    """Write `README.md` into a folder, atomically.

    Args:
        folder: the hypernetwork's.
        facts: what to say.
        metrics: the run's `metrics.jsonl` for the curves; none are shown without.

    Raises:
        TrainingError: the metrics are damaged.
    """
    text = card_text(facts, read_metrics(metrics) if metrics else [])
    write_file(folder / "README.md", lambda path: _write(path, text))
    return folder / "README.md"


def card_text(facts: CardFacts, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the card as Markdown with a YAML header."""
    task = facts.task
    sections = [
        _header(task),
        f"# {task.name}",
        task.summary,
        "It turns a text into LoRA factors for the base model in one pass; "
        f"it is read by `plume_memory` (made with version {version('plume-memory')}).",
        f"## Base model\n`{task.base_model}`, fingerprint `{task.base_fingerprint}`; it was frozen.",
        "## Training data\n" + _table([{"source": s.name, "licence": s.licence, "use": s.note} for s in task.sources]),
        "## Training\n" + _table(_training(facts)),
        *_curves(rows),
    ]
    if task.results:
        command = f"\n\n```sh\n{task.results_command}\n```" if task.results_command else ""
        sections.append("## Results\n" + _table(task.results) + command)
    if task.limits:
        sections.append("## Limits\n" + "\n".join(f"- {limit}" for limit in task.limits))
    sections.append(f"## Go on training\n```sh\n{facts.resume_command}\n```")
    settings = json.dumps(facts.settings, indent=2, sort_keys=True, ensure_ascii=False)
    sections.append(f"## Settings\n```json\n{settings}\n```")
    return "\n\n".join(sections) + "\n"


def machine_class(device: str, dtype: str, processes: int = 1) -> str:
    """Say what kind of machine this is: "2 CPU cores, bfloat16", "NVIDIA H200, bfloat16, 2 processes"."""
    if device.startswith("cuda"):
        import torch  # noqa: PLC0415 — only where there is a GPU to name

        kind = torch.cuda.get_device_name(device)
    else:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        kind = f"{cores} CPU core{'s' if cores > 1 else ''}"
    return f"{kind}, {dtype}" + (f", {processes} processes" if processes > 1 else "")


def _header(task: TaskCard) -> str:
    """The hub's YAML; a JSON string is a YAML string."""
    fields = {
        "license": task.licence,
        "base_model": task.base_model,
        "library_name": "plume-memory",
        "tags": ["hypernetwork", "lora", "memory"],
    }
    return "\n".join(["---", *(f"{name}: {json.dumps(value)}" for name, value in fields.items()), "---"])


def _training(facts: CardFacts) -> list[Mapping[str, Any]]:
    steps = f"{facts.steps:,}" + (f" of {facts.planned_steps:,} planned" if facts.steps < facts.planned_steps else "")
    told = {
        "trained numbers": f"{facts.parameters:,}",
        "steps": steps,
        "texts": f"{facts.samples:,}",
        "text tokens": f"{facts.text_tokens:,}",
        "question and answer tokens": f"{facts.student_tokens:,}",
        "time": duration(facts.seconds),
        "machine": facts.machine,
    }
    return [{"": name, "value": value} for name, value in told.items()]


def _curves(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Loss and evaluation figures over the steps, sampled evenly, first and last kept."""
    sections = []
    train = [
        {
            "step": r["step"],
            "time": duration(r.get("seconds") or 0),
            "loss": r.get("loss"),
            "learning rate": r.get("learning_rate"),
            "gradient norm": r.get("grad_norm"),
        }
        for r in rows
        if r["kind"] == "train"
    ]
    if train:
        sections.append("## Training loss\n" + _table(_sampled(train)))
    judged = [{"step": r["step"], **r.get("figures", {})} for r in rows if r["kind"] == "evaluation"]
    if judged:
        sections.append("## Evaluation during training\n" + _table(_sampled(judged)))
    skipped = sum(r["kind"] == "skip" for r in rows)
    if skipped:
        left_out = counted(skipped, "update was", "updates were")
        sections.append(f"{left_out} left out because the loss or its gradient was not finite.")
    return sections


def _sampled(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    last = len(rows) - 1
    if last < _CURVE_ROWS:
        return rows
    return [rows[round(at * last / (_CURVE_ROWS - 1))] for at in range(_CURVE_ROWS)]


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    lines = [columns, ["---"] * len(columns), *([_cell(row.get(name)) for name in columns] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    text = f"{value:.4g}" if isinstance(value, float) else str(value)
    return text.replace("|", "\\|").replace("\n", " ")


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
