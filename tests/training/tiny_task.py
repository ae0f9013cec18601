"""A small regression behind the Task protocol; as a script, a run of it in a process that can be killed.

python tiny_task.py FOLDER SETTINGS_JSON [--resume]
"""

import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from plume_memory.training.card import DataSource, TaskCard
from plume_memory.training.progress import RunProgress
from plume_memory.training.run import RunResult, RunSettings, StepReport, run


class TinyNetwork(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.norm = nn.LayerNorm(8)
        self.stack = nn.Parameter(torch.randn(2, 8, 8) * 0.3)
        self.last = nn.Linear(8, 1)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(torch.tanh(self.first(x)))
        for matrix in self.stack:
            x = torch.tanh(x @ matrix)
        return self.last(nn.functional.dropout(x, 0.1, self.training))


class TinyTask:
    flops_per_text_token = 10.0
    flops_per_student_token = 30.0

    def __init__(self, *, broken_from: int | None = None, broken_to: int = 10**9, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self.network = TinyNetwork()
        self.broken = range(0, 0) if broken_from is None else range(broken_from, broken_to)
        self.asked: list[tuple[int, int]] = []

    def step(self, step: int, micro: int, process: int) -> StepReport:
        self.asked.append((step, micro))
        chance = torch.Generator().manual_seed(1000 * step + micro)
        x = torch.randn(16, 4, generator=chance)
        loss = nn.functional.mse_loss(self.network(x), torch.sin(x.sum(1, keepdim=True)))
        if step in self.broken:
            loss = loss * math.inf
        name = "odd" if micro % 2 else "even"
        return StepReport(loss, {"mse": float(loss.detach()), name: 1.0 + step}, 5, 7, samples=16)

    @torch.no_grad()
    def evaluate(self, step: int) -> Mapping[str, float]:
        self.network.eval()
        x = torch.randn(64, 4, generator=torch.Generator().manual_seed(99))
        loss = nn.functional.mse_loss(self.network(x), torch.sin(x.sum(1, keepdim=True)))
        self.network.train()
        return {"mse": float(loss), "negative": -float(loss)}

    def save(self, folder: Path) -> None:
        save_file({n: t.clone() for n, t in self.network.state_dict().items()}, folder / "model.safetensors")
        (folder / "config.json").write_text(json.dumps({"kind": "tiny"}))


class CardedTask(TinyTask):
    def card(self) -> TaskCard:
        return TaskCard(
            name="tiny-hypernetwork",
            summary="Learns a sine.",
            base_model="tiny/base",
            base_fingerprint="f" * 12,
            dtype="float32",
            licence="apache-2.0",
            sources=(DataSource("numbers", "CC0-1.0", "drawn | at random"),),
            results=({"set": "unseen", "exact": 0.51234}, {"set": "control", "exact": 0.01}),
            results_command="python -m eval tiny",
            limits=("Knows nothing.",),
        )


def run_tiny(
    folder: Path,
    *,
    resume: bool = False,
    task: TinyTask | None = None,
    judge: int = 0,
    quiet: bool = True,
    described: Mapping[str, Any] | None = None,
    **settings: Any,
) -> RunResult:
    chosen = {"tensorboard": False, "learning_rate": 0.01, "warm_up": 5, "log_every": 3} | settings
    return run(
        task or TinyTask(),
        RunSettings.model_validate(chosen),
        folder,
        resume=resume,
        device="cpu",
        progress=RunProgress(quiet=quiet),
        described={"data": {"name": "sine"}, "evaluation": {"seed": judge}, **(described or {})},
    )


if __name__ == "__main__":
    torch.set_num_threads(1)
    run_tiny(Path(sys.argv[1]), resume="--resume" in sys.argv, **json.loads(sys.argv[2]))
