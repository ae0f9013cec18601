"""The loop's promises, on a network of two hundred numbers."""

import json
import os
import random
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from filelock import FileLock
from safetensors.torch import load_file

from plume_memory.errors import InvalidInput, MissingExtra, TrainingError
from plume_memory.training.metrics import read_metrics
from plume_memory.training.processes import Processes
from plume_memory.training.run import RunSettings

SCRIPT = Path(__file__).with_name("tiny_task.py")
CLOCK = {"seconds", "text_tokens_per_s", "student_tokens_per_s", "mfu"}


def curve(folder: Path) -> list[dict[str, Any]]:
    """All rows without what depends on the clock."""
    return [
        {name: value for name, value in row.items() if name not in CLOCK}
        for row in read_metrics(folder / "metrics.jsonl")
    ]


def weights(folder: Path, name: str = "hypernetwork") -> dict[str, torch.Tensor]:
    return load_file(folder / name / "model.safetensors")


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        torch.testing.assert_close(one[name], other[name], rtol=0, atol=0)


def test_a_run_learns_and_leaves_a_loadable_network(tmp_path: Path, tiny: ModuleType) -> None:
    task = tiny.TinyTask()

    result = tiny.run_tiny(tmp_path / "run", task=task, steps=60, eval_every=20)

    rows = curve(tmp_path / "run")
    train = [r for r in rows if r["kind"] == "train"]
    judged = [(r["step"], r["figures"]["mse"]) for r in rows if r["kind"] == "evaluation"]
    assert (result.stopped, result.steps, result.resumed_from) == ("steps", 60, None)
    assert (result.samples, result.text_tokens, result.student_tokens) == (960, 300, 420)
    assert [r["step"] for r in train] == list(range(3, 61, 3))
    assert [step for step, _ in judged] == [0, 20, 40, 60]
    assert judged[-1][1] < 0.7 * judged[0][1]
    assert result.loss == train[-1]["loss"]
    assert result.figures["mse"] == judged[-1][1]
    assert_same(weights(tmp_path / "run"), dict(task.network.state_dict()))


def test_a_row_is_the_mean_of_its_steps_and_names_every_figure(tmp_path: Path, tiny: ModuleType) -> None:
    tiny.run_tiny(tmp_path / "one", steps=6, log_every=1, accumulation=3)
    tiny.run_tiny(tmp_path / "three", steps=6, log_every=3, accumulation=3)

    single = [r for r in read_metrics(tmp_path / "one/metrics.jsonl") if r["kind"] == "train"]
    row = next(r for r in read_metrics(tmp_path / "three/metrics.jsonl") if r["kind"] == "train")
    assert row["loss"] == pytest.approx(sum(r["loss"] for r in single[:3]) / 3, rel=1e-6)
    assert row["parts"]["mse"] == pytest.approx(row["loss"], rel=1e-5)
    assert row["parts"]["odd"] == pytest.approx(2.0)
    assert row["samples"] == 3 * 3 * 16
    assert row.keys() >= CLOCK | {"learning_rate", "grad_norm"}
    assert 0 < row["mfu"] < 1


def test_an_interrupted_run_goes_on_as_if_it_had_not_stopped(tmp_path: Path, tiny: ModuleType) -> None:
    """The checkpoint at step 7 lies inside a window of metrics; time limits stop a run at any step."""
    same = {"eval_every": 5, "average": 0.9, "checkpoint_every": 7, "accumulation": 2, "keep_best": "average/negative"}
    tiny.run_tiny(tmp_path / "whole", steps=20, **same)
    tiny.run_tiny(tmp_path / "parts", steps=20, minutes=1e-9, **same)
    for _ in range(3):
        result = tiny.run_tiny(tmp_path / "parts", resume=True, steps=20, minutes=1e-9, **same)
    assert (result.stopped, result.steps, result.resumed_from) == ("minutes", 4, 3)
    result = tiny.run_tiny(tmp_path / "parts", resume=True, steps=20, **same)

    assert result.stopped == "steps"
    assert result.samples == 20 * 2 * 16
    assert curve(tmp_path / "parts") == curve(tmp_path / "whole")
    for name in ("hypernetwork", "average", "best"):
        assert_same(weights(tmp_path / "parts", name), weights(tmp_path / "whole", name))


@pytest.mark.parametrize(("optimiser", "moments"), [("adamw", (1, 5, 9)), ("muon", (4,))])
def test_a_killed_run_goes_on_to_the_same_curve(
    tmp_path: Path, tiny: ModuleType, optimiser: str, moments: tuple[int, ...]
) -> None:
    """kill -9 at random times after so many rows; a checkpoint after every step: most kills hit one being written."""
    settings = {"optimiser": optimiser, "steps": 39, "eval_every": 13, "average": 0.9}
    tiny.run_tiny(tmp_path / "whole", **settings)
    settings["checkpoint_every"] = 1
    chance = random.Random(optimiser)
    folder = tmp_path / "killed"
    kills = 0
    for lines in moments:
        process = subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), json.dumps(settings), "--resume"], stderr=subprocess.PIPE
        )
        metrics = folder / "metrics.jsonl"
        while process.poll() is None and (not metrics.exists() or metrics.read_bytes().count(b"\n") < lines):
            time.sleep(0.002)
        time.sleep(chance.random() * 0.05)
        process.kill()
        _, errors = process.communicate()
        kills += process.returncode == -9
        assert process.returncode in (-9, 0), errors.decode()
    assert kills == len(moments)

    result = tiny.run_tiny(folder, resume=True, **settings)

    assert result.resumed_from is not None
    assert curve(folder) == curve(tmp_path / "whole")
    for name in ("hypernetwork", "average"):
        assert_same(weights(folder, name), weights(tmp_path / "whole", name))
    assert not [path for path in folder.rglob(".*.tmp")]


def test_a_resumed_run_that_is_done_only_restores_what_is_missing(tmp_path: Path, tiny: ModuleType) -> None:
    tiny.run_tiny(tmp_path, steps=4)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    for file in (tmp_path / "hypernetwork").iterdir():
        file.unlink()

    result = tiny.run_tiny(tmp_path, resume=True, steps=4)

    assert (result.steps, result.resumed_from, result.stopped) == (4, 4, "steps")
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    assert weights(tmp_path)


def test_more_steps_and_other_judges_may_be_asked_of_a_run_that_is_done(tmp_path: Path, tiny: ModuleType) -> None:
    tiny.run_tiny(tmp_path, steps=4)

    result = tiny.run_tiny(tmp_path, resume=True, steps=9, log_every=1, keep_checkpoints=1, judge=7)

    assert (result.steps, result.resumed_from) == (9, 4)
    assert json.loads((tmp_path / "run.json").read_text())["run"]["steps"] == 9
    assert len(list((tmp_path / "checkpoints").iterdir())) == 1


def test_resuming_with_other_settings_names_what_differs(tmp_path: Path, tiny: ModuleType) -> None:
    tiny.run_tiny(tmp_path, steps=3, learning_rate=0.01)

    with pytest.raises(TrainingError, match=r"run\.learning_rate was 0\.01, now 0\.5; run\.seed was 0, now 3"):
        tiny.run_tiny(tmp_path, resume=True, steps=3, learning_rate=0.5, seed=3)
    with pytest.raises(TrainingError, match=r"run\.accumulation × processes was 1, now 2"):
        tiny.run_tiny(tmp_path, resume=True, steps=3, accumulation=2)
    assert json.loads((tmp_path / "run.json").read_text())["run"]["seed"] == 0, "a refused run changes nothing"


def test_a_run_begins_in_an_empty_folder_only(tmp_path: Path, tiny: ModuleType) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    with pytest.raises(TrainingError, match=r"not empty \(it holds notes\.txt\)"):
        tiny.run_tiny(tmp_path, steps=3)
    with pytest.raises(TrainingError, match="holds no run to resume"):
        tiny.run_tiny(tmp_path, resume=True, steps=3)
    assert tiny.run_tiny(tmp_path / "new", resume=True, steps=3).resumed_from is None


def test_two_processes_cannot_train_in_one_folder(tmp_path: Path, tiny: ModuleType) -> None:
    with FileLock(tmp_path / ".lock"), pytest.raises(TrainingError, match="Another process is training"):
        tiny.run_tiny(tmp_path, steps=3)


def test_updates_that_are_not_finite_are_left_out_and_logged(tmp_path: Path, tiny: ModuleType) -> None:
    task = tiny.TinyTask(broken_from=4, broken_to=6)

    tiny.run_tiny(tmp_path, task=task, steps=9, max_skips=2)

    skips = [r for r in curve(tmp_path) if r["kind"] == "skip"]
    assert [r["step"] for r in skips] == [5, 6]
    assert "loss inf" in skips[0]["reason"]
    assert all(torch.isfinite(t).all() for t in weights(tmp_path).values())


def test_too_many_of_them_in_a_row_fail_the_run(tmp_path: Path, tiny: ModuleType) -> None:
    with pytest.raises(TrainingError, match="3 steps in a row up to step 7 were not finite"):
        tiny.run_tiny(tmp_path, task=tiny.TinyTask(broken_from=4), steps=50, max_skips=2, checkpoint_every=2)

    assert [r["step"] for r in curve(tmp_path) if r["kind"] == "skip"] == [5, 6, 7]


def test_the_gradient_norm_is_clipped(tmp_path: Path, tiny: ModuleType) -> None:
    """Gradients far below AdamW's ε move nothing; the logged norm is that before clipping."""
    start = dict(tiny.TinyTask().network.state_dict())
    tiny.run_tiny(tmp_path, steps=3, clip_norm=1e-12, weight_decay=0.0)

    for name, tensor in weights(tmp_path).items():
        torch.testing.assert_close(tensor, start[name], rtol=0, atol=1e-4)
    assert curve(tmp_path)[1]["grad_norm"] > 0.01


def test_the_average_follows_slowly_and_is_judged_beside(tmp_path: Path, tiny: ModuleType) -> None:
    task = tiny.TinyTask()
    expected = {name: p.detach().clone() for name, p in task.network.named_parameters()}
    result = tiny.run_tiny(tmp_path, task=task, steps=1, average=0.9)

    for name, parameter in task.network.named_parameters():
        expected[name].lerp_(parameter.detach(), 1 - 2 / 11)
        torch.testing.assert_close(weights(tmp_path, "average")[name], expected[name])
    assert result.figures.keys() == {"mse", "negative", "average/mse", "average/negative"}


def test_the_best_network_is_kept(tmp_path: Path, tiny: ModuleType) -> None:
    """A rate this high gets worse again."""
    settings = {"learning_rate": 0.3, "warm_up": 0, "schedule": "constant", "eval_every": 1, "eval_first": False}
    task = tiny.TinyTask()
    tiny.run_tiny(tmp_path, task=task, steps=12, keep_best="mse", keep_best_of="lowest", **settings)

    figures = [r["figures"]["mse"] for r in curve(tmp_path) if r["kind"] == "evaluation"]
    task.network.load_state_dict(weights(tmp_path, "best"))
    assert task.evaluate(0)["mse"] == min(figures)
    assert figures[-1] > min(figures)
    with pytest.raises(TrainingError, match=r"keep_best is 'exact'; the evaluation has mse, negative"):
        tiny.run_tiny(tmp_path / "other", steps=2, keep_best="exact")


def test_torch_generators_are_given_back(tmp_path: Path, tiny: ModuleType) -> None:
    task = tiny.TinyTask()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    tiny.run_tiny(tmp_path, task=task, steps=2)

    assert torch.equal(torch.get_rng_state(), before)


def test_two_processes_do_the_step_of_one(tmp_path: Path, tiny: ModuleType) -> None:
    """2 processes × accumulation 1 == 1 process × accumulation 2, over the same numbered micro-batches."""
    settings = {"steps": 8, "eval_every": 4, "average": 0.9}
    task = tiny.TinyTask()
    tiny.run_tiny(tmp_path / "one", task=task, accumulation=2, **settings)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "ACCELERATE_USE_CPU": "true"}
    command = [sys.executable, str(SCRIPT), str(tmp_path / "two"), json.dumps(settings)]
    started = [
        subprocess.Popen(
            command,
            env={**os.environ, **world, "RANK": rank, "LOCAL_RANK": rank, "OMP_NUM_THREADS": "1"},
            stderr=subprocess.PIPE,
        )
        for rank in "01"
    ]
    for process in started:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()

    assert task.asked[:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    one, two = curve(tmp_path / "one"), curve(tmp_path / "two")
    assert [(r["kind"], r["step"]) for r in one] == [(r["kind"], r["step"]) for r in two]
    for alone, together in zip(one, two, strict=True):
        if alone["kind"] == "train":
            assert together["loss"] == pytest.approx(alone["loss"], abs=1e-6)
            assert together["parts"] == pytest.approx(alone["parts"], abs=1e-6)
            assert together["samples"] == alone["samples"]
    for name, tensor in weights(tmp_path / "one").items():
        torch.testing.assert_close(weights(tmp_path / "two")[name], tensor, rtol=0, atol=1e-6)
    assert tiny.run_tiny(tmp_path / "two", resume=True, accumulation=2, **settings).resumed_from == 8


def test_unknown_devices_and_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="Unknown device 'tpu9'"):
        Processes.join("tpu9")
    with pytest.raises(ValueError, match="betas must lie in"):
        RunSettings(betas=(0.9, 1.0))
    assert json.loads(RunSettings().canonical())["steps"] == RunSettings().steps


def test_several_processes_without_accelerate_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "accelerate", None)

    with pytest.raises(MissingExtra, match=r"pip install 'plume-memory\[train\]'"):
        Processes.join("cpu")


def test_damaged_checkpoints_never_begin_a_run_anew(
    tmp_path: Path, tiny: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    tiny.run_tiny(folder, steps=6, checkpoint_every=3)
    before = curve(folder)
    newest, older = (folder / "checkpoints" / f"step-0000000{step}" for step in (6, 3))
    os.truncate(next(newest.glob("*.safetensors")), 100)

    result = tiny.run_tiny(folder, resume=True, quiet=False, steps=6, checkpoint_every=3)
    assert result.resumed_from == 3
    assert f"{newest} is damaged and passed over" in capsys.readouterr().err
    assert curve(folder) == before
    for path in (newest, older):
        os.truncate(next(path.glob("*.safetensors")), 100)
    with pytest.raises(TrainingError, match="No checkpoint"):
        tiny.run_tiny(folder, resume=True, steps=6, checkpoint_every=3)
    assert curve(folder) == before


def test_a_resumed_run_without_a_checkpoint_says_that_it_begins(
    tmp_path: Path, tiny: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny.run_tiny(tmp_path / "mistyped", resume=True, quiet=False, steps=2)

    assert "mistyped holds no checkpoint to go on from: beginning at the first step" in capsys.readouterr().err


def test_a_run_is_not_resumed_on_other_data(tmp_path: Path, tiny: ModuleType) -> None:
    folder = tmp_path / "run"
    tiny.run_tiny(folder, steps=2, described={"inputs": {"qa/a.jsonl": "1f"}, "licence": "MIT"})

    with pytest.raises(TrainingError, match=r"other data: inputs.qa/a.jsonl was '1f', now '2e'"):
        tiny.run_tiny(folder, resume=True, steps=3, described={"inputs": {"qa/a.jsonl": "2e"}})
    tiny.run_tiny(folder, resume=True, steps=3, described={"inputs": {"qa/a.jsonl": "1f"}, "licence": "Apache-2.0"})


def test_a_run_of_which_no_step_was_finite_is_not_done(tmp_path: Path, tiny: ModuleType) -> None:
    with pytest.raises(TrainingError, match="None of the 4 steps had a finite loss"):
        tiny.run_tiny(tmp_path / "run", task=tiny.TinyTask(broken_from=0), steps=4)


def test_an_evaluation_that_fails_costs_no_step(tmp_path: Path, tiny: ModuleType) -> None:
    same = {"steps": 4, "eval_first": False, "eval_every": None}
    with pytest.raises(TrainingError, match="keep_best is 'typo'"):
        tiny.run_tiny(tmp_path / "run", keep_best="typo", **same)

    assert tiny.run_tiny(tmp_path / "run", resume=True, keep_best="negative", **same).resumed_from == 4
