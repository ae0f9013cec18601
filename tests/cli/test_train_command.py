"""`plume train`, on a task of two numbers."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import nn

from plume_memory.cli.main import main


class LineTask:
    """Learns y = 2x; remembers what it was built with."""

    flops_per_text_token = 1.0
    flops_per_student_token = 1.0

    def __init__(self, settings: Any, device: str | None, processes: int) -> None:
        self.settings, self.device, self.processes = settings, device, processes
        torch.manual_seed(settings.run.seed)
        self.network = nn.Linear(1, 1)

    def step(self, step: int, micro: int, process: int) -> Any:
        from plume_memory.training.run import StepReport

        x = torch.randn(8, 1, generator=torch.Generator().manual_seed(100 * step + micro))
        return StepReport(nn.functional.mse_loss(self.network(x), 2 * x), {}, 1, 1)

    def evaluate(self, step: int) -> Mapping[str, float]:
        return {"slope": self.network.weight.item()}

    def save(self, folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps({"slope": self.network.weight.item()}))


@pytest.fixture
def plume(workdir: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run a command on the line task; return (exit code, stdout or its JSON, stderr)."""
    module = ModuleType("plume_memory.training.task")
    module.build_task = LineTask  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    config = {"run": {"steps": 6, "learning_rate": 0.1, "warm_up": 0, "log_every": 3, "tensorboard": False}}
    (workdir / "line.json").write_text(json.dumps(config))

    def run(*arguments: str) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = main(["train", *arguments])
        out, err = capsys.readouterr()
        return code, json.loads(out) if "--json" in arguments and code == 0 else out, err

    return run


def test_it_trains_and_says_where_the_network_is(plume: Any, workdir: Path) -> None:
    code, out, err = plume("line.json", "--device", "cpu")

    assert (code, out.startswith("done after 6 steps, loss ")) == (0, True)
    assert out.endswith("the hypernetwork is in runs/line/hypernetwork\n")
    assert "step 6/6 · loss" in err
    assert (workdir / "runs/line/hypernetwork/config.json").exists()


def test_overrides_seed_and_resume(plume: Any, workdir: Path) -> None:
    arguments = ["line.json", "--out", "here", "--device", "cpu", "--seed", "3", "--set", "model=other", "--json"]
    code, first, _ = plume(*arguments, "--set", "run.steps=4")
    assert (code, first["steps"], first["stopped"], first["folder"]) == (0, 4, "steps", "here")
    recorded = json.loads((workdir / "here/run.json").read_text())
    assert recorded["run"]["seed"] == 3
    assert recorded["described"]["model"] == "other"

    code, second, _ = plume(*arguments, "--resume")
    assert (code, second["steps"], second["resumed_from"]) == (0, 6, 4)
    assert plume(*[a if a != "3" else "4" for a in arguments], "--resume")[0] == 1


def test_the_time_limit_names_the_command_that_goes_on(plume: Any) -> None:
    code, out, err = plume("line.json", "--device", "cpu", "--set", "run.minutes=1e-9")

    assert code == 0
    assert out.startswith("stopped at the time limit after 1 steps")
    assert "plume train line.json --set run.minutes=1e-9 --out runs/line --device cpu --resume" in err


@pytest.mark.parametrize(("device", "launcher"), [("cpu", "torchrun --nproc_per_node 2"), (None, "accelerate launch")])
def test_several_processes_are_resumed_by_their_launcher(device: str | None, launcher: str) -> None:
    from plume_memory.cli.train_command import _command

    command = _command(Path("a b.json"), Path("runs/a b"), ["model=x y"], device, 2)
    assert command.startswith(launcher)
    assert "-m plume_memory.cli train 'a b.json' --set 'model=x y' --out 'runs/a b'" in command


@pytest.mark.parametrize(
    ("arguments", "code", "error", "message"),
    [
        (["none.json"], 2, "InvalidInput", "Cannot read the settings"),
        (["line.json", "--set", "run.lerning_rate=1"], 2, "InvalidInput", "the nearest is 'run.learning_rate'"),
        (["line.json", "--set", "run.steps=0"], 2, "InvalidInput", "run.steps: Input should be greater"),
        (["line.json", "--device", "tpu9"], 2, "InvalidInput", "Unknown device"),
        (["line.json", "--out", "."], 1, "TrainingError", "is not empty (it holds line.json)"),
        (["line.json", "--out", ".", "--resume"], 1, "TrainingError", "holds no run to resume"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(
    plume: Any, arguments: list[str], code: int, error: str, message: str
) -> None:
    found, out, err = plume(*arguments, "--json")

    assert (found, out) == (code, "")
    assert json.loads(err)["error"] == error
    assert message in json.loads(err)["message"]


def test_help_starts_without_torch() -> None:
    code = "import sys; from plume_memory.cli.main import main; main(['train', '-h']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert "--resume" in done.stdout
