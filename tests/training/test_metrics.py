"""Rows of numbers, cut back to a step, on TensorBoard too; and what people see of them."""

import json
import sys
from pathlib import Path

import pytest

from plume_memory.errors import MissingExtra, TrainingError
from plume_memory.training.metrics import Metrics, Window, read_metrics
from plume_memory.training.progress import RunProgress, duration


def write(folder: Path, *steps: int) -> None:
    metrics = Metrics.resume(folder, step=10**9, tensorboard=False)
    for step in steps:
        metrics.write("train", step, {"loss": step / 10, "parts": {"a": 1.0}})
    metrics.sync()
    metrics.close()


def test_one_object_a_line(tmp_path: Path) -> None:
    write(tmp_path, 1, 2)

    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(lines[1]) == {"kind": "train", "step": 2, "loss": 0.2, "parts": {"a": 1.0}}


def test_numbers_that_are_not_finite_are_null(tmp_path: Path) -> None:
    metrics = Metrics.resume(tmp_path, step=None, tensorboard=False)
    metrics.write("evaluation", 0, {"figures": {"a": float("nan"), "b": float("inf"), "c": 1.0}})
    metrics.close()

    assert read_metrics(tmp_path / "metrics.jsonl")[0]["figures"] == {"a": None, "b": None, "c": 1.0}


@pytest.mark.parametrize(("step", "left"), [(None, []), (0, [0]), (4, [0, 2, 4]), (5, [0, 2, 4]), (99, [0, 2, 4, 6])])
def test_resuming_cuts_later_rows(tmp_path: Path, step: int | None, left: list[int]) -> None:
    write(tmp_path, 0, 2, 4, 6)
    with (tmp_path / "metrics.jsonl").open("a") as handle:
        handle.write('{"kind": "train", "st')  # the kill came here

    metrics = Metrics.resume(tmp_path, step=step, tensorboard=False)
    metrics.write("train", 100, {})
    metrics.close()

    assert [row["step"] for row in read_metrics(tmp_path / "metrics.jsonl")] == [*left, 100]


def test_a_damaged_row_is_refused_with_its_line(tmp_path: Path) -> None:
    write(tmp_path, 1)
    with (tmp_path / "metrics.jsonl").open("a") as handle:
        handle.write("gibberish\n")

    with pytest.raises(TrainingError, match=r"metrics\.jsonl, line 2 is no row"):
        Metrics.resume(tmp_path, step=5, tensorboard=False)


def test_tensorboard_gets_every_number(tmp_path: Path) -> None:
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    metrics = Metrics.resume(tmp_path, step=None, tensorboard=True)
    metrics.write("train", 3, {"loss": 0.5, "parts": {"answer": 0.25}, "bad": float("nan")})
    metrics.sync()
    metrics.close()

    events = reader.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert set(events.Tags()["scalars"]) == {"train/loss", "train/parts/answer"}
    assert [(e.step, e.value) for e in events.Scalars("train/loss")] == [(3, 0.5)]


def test_tensorboard_is_optional_until_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)

    Metrics.resume(tmp_path, step=None, tensorboard=None).close()
    assert not (tmp_path / "tensorboard").exists()
    with pytest.raises(MissingExtra, match=r"pip install 'plume-memory\[train\]'"):
        Metrics.resume(tmp_path, step=None, tensorboard=True)


def test_a_window_is_its_means_and_takes_in_others() -> None:
    one, other = Window(seconds=2.0), Window()
    for loss in (1.0, 2.0):
        one.add_step(loss, 3.0, 10, 20)
    one.add_parts({"a": 1.0})
    other.add_parts({"a": 2.0, "b": 5.0})
    one.take_parts(other)

    assert one.row() == {
        "loss": 1.5,
        "parts": {"a": 1.5, "b": 5.0},
        "grad_norm": 3.0,
        "text_tokens_per_s": 10.0,
        "student_tokens_per_s": 20.0,
    }


def test_a_process_that_is_not_the_first_writes_nothing() -> None:
    metrics = Metrics.resume(None, step=3, tensorboard=True)
    metrics.write("train", 4, {})
    metrics.sync()
    metrics.close()


def test_progress_is_plain_lines_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    progress = RunProgress()
    progress.begin(10, 20, None)
    progress.update(12)
    progress.show(12, "loss 1.0 [x]")
    progress.say("[bold]as it is[/bold]")
    progress.end()
    RunProgress(quiet=True).say("nothing")

    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == ["step 12/20 · loss 1.0 [x] · 0s passed, 0s left", "[bold]as it is[/bold]"]


def test_progress_is_a_bar_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    progress = RunProgress()
    progress.begin(0, 20, 1.0)
    progress.update(1)
    progress.show(4, "loss 1.0 [x]")
    progress.say("a line")
    progress.end()

    err = capsys.readouterr().err
    assert "4/20" in err
    assert "loss 1.0 [x]" in err
    assert "a line" in err


def test_progress_counts_down_to_the_time_limit_if_that_comes_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    progress = RunProgress()
    now = 100.0
    monkeypatch.setattr("plume_memory.training.progress.time.monotonic", lambda: now)
    progress.begin(0, 1000, 2.0)
    now += 30
    progress.show(10, "loss 1")
    progress.show(500, "loss 1")

    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("30s passed, 1m30s to the time limit")
    assert lines[1].endswith("30s passed, 30s left")


@pytest.mark.parametrize(("seconds", "text"), [(0.4, "0s"), (59, "59s"), (725, "12m05s"), (12000, "3h20m")])
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
