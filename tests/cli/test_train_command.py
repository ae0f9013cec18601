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

    def sources(self) -> list[str]:
        return ["qa: 3 of 4 contexts, 9 questions; 2 left out"]

    def inputs(self) -> dict[str, str]:
        return {"base": "fingerprint"}

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
    assert "qa: 3 of 4 contexts, 9 questions; 2 left out\n" in err
    assert json.loads((workdir / "runs/line/run.json").read_text())["described"]["inputs"] == {"base": "fingerprint"}
    assert (workdir / "runs/line/hypernetwork/config.json").exists()


def test_it_says_what_it_does_before_model_and_data_are_read(
    plume: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = []

    def build(*arguments: Any) -> LineTask:
        said.append(capsys.readouterr().err)
        return LineTask(*arguments)

    monkeypatch.setattr(sys.modules["plume_memory.training.task"], "build_task", build)
    assert plume("line.json", "--device", "cpu", "--set", "model=other")[0] == 0
    assert said == ["training a network for other, 6 steps, into runs/line; reading the model and the data ...\n"]


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
    assert out.startswith("stopped at the time limit after 1 step;")
    assert "plume train line.json --set run.minutes=1e-9 --out runs/line --device cpu --resume" in err


@pytest.mark.parametrize(
    ("device", "launcher"),
    [("cpu", "OMP_NUM_THREADS=1 torchrun --nproc_per_node 2"), ("cuda", "accelerate launch --num_processes 2")],
)
def test_several_processes_are_resumed_by_their_launcher(
    device: str, launcher: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the device they are on, whether it was asked for or found."""
    from plume_memory.cli.train_command import _command
    from plume_memory.training.processes import Processes

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    processes = Processes(torch.device(device), count=2)
    command = _command(Path("a b.json"), Path("runs/a b"), ["model=x y"], None, processes)
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


def test_a_folder_that_is_taken_is_refused_before_anything_is_loaded(
    plume: Any, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plume("line.json", "--device", "cpu")
    monkeypatch.setattr(sys.modules["plume_memory.training.task"], "build_task", lambda *_: pytest.fail("loaded"))

    for more, message in (([], "is not empty"), (["--seed", "7", "--resume"], "run.seed was 0, now 7")):
        code, _, err = plume("line.json", "--device", "cpu", "--json", *more)
        assert code == 1
        assert message in json.loads(err)["message"]


def test_a_key_that_stands_twice_is_refused(plume: Any, workdir: Path) -> None:
    (workdir / "twice.json").write_text('{"run": {"steps": 1, "steps": 9}}')

    code, _, err = plume("twice.json", "--device", "cpu")
    assert (code, "'steps' stands twice" in err) == (2, True)


def test_help_starts_without_torch() -> None:
    code = "import sys; from plume_memory.cli.main import main; main(['train', '-h']); sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0
    assert "--resume" in done.stdout
