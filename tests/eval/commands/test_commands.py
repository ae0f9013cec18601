"""Each command parses, calls one function, prints, and leaves errors to the command line's own handling."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from typer.testing import CliRunner

import eval.commands.judge
from eval.commands.judge import judge
from eval.commands.report import report
from eval.commands.stats import stats
from eval.manifest import Manifest
from eval.metrics.verdicts import read_decisions
from eval.rows import Answered, ItemRow, RowFolder
from eval.specs import RunSettings
from plume_memory.errors import InvalidInput

ROW = ItemRow(
    key="k",
    method="base",
    kind="base",
    dataset="mini-squad",
    transition="r1",
    step=1,
    settings={},
    seed=0,
    probe="answers",
    batch=8,
    fresh=False,
    update_seconds=1.0,
    update_peak_bytes=5,
    update_derived=2,
    made_on="cpu",
    first_in_process=True,
    answers=(Answered("q", "Where?", ("Zug",), ("Bern",), True, "In Zug.", 3, "stop", 0.5, None),),
)


def _call(command: Callable[..., None], *arguments: str) -> str:
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run folder with one row, shown by `main`."""
    Manifest(RunSettings(), {"torch": "2"}, "CPU").claim(tmp_path)
    with RowFolder(tmp_path).writer("w") as writer:
        writer.write(ROW)
    (tmp_path / "main").mkdir()
    (tmp_path / "main" / "keys.json").write_text(json.dumps({"command": "python -m eval main", "keys": {"k": "base"}}))
    return tmp_path


def test_report_writes_one_page_into_the_run(run: Path) -> None:
    assert "report.html" in _call(report, "--out", str(run))
    page = (run / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "In Zug." in page


def test_judge_judges_and_says_how_much(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[tuple[str, str | None]] = []
    yes = json.dumps({"decision": "yes", "rationale": "Same."})

    def open_judge(name: str, url: str | None) -> FakeListChatModel:
        opened.append((name, url))
        return FakeListChatModel(responses=[yes])

    monkeypatch.setattr(eval.commands.judge, "open_judge", open_judge)
    said = _call(judge, "--out", str(run), "--judge-model", "m", "--judge-url", "http://localhost:1/v1")
    assert "1 outputs judged by m at http://localhost:1/v1, 2 calls now" in " ".join(said.split())
    assert opened == [("m", "http://localhost:1/v1")]
    assert [one.judge for one in read_decisions(run)] == ["m at http://localhost:1/v1"] * 2
    assert "0 calls now" in _call(judge, "--out", str(run), "--judge-model", "m", "--judge-url", opened[0][1])


def test_another_server_under_the_same_name_is_another_judge(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yes = json.dumps({"decision": "yes", "rationale": "Same."})
    monkeypatch.setattr(eval.commands.judge, "open_judge", lambda *_: FakeListChatModel(responses=[yes]))
    for where in ([], ["--judge-url", "http://a/v1"], ["--judge-url", "http://b/v1"]):
        assert "2 calls now" in _call(judge, "--out", str(run), "--judge-model", "m", *where)


def test_a_judge_s_name_holds_no_password(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yes = json.dumps({"decision": "yes", "rationale": "Same."})
    monkeypatch.setattr(eval.commands.judge, "open_judge", lambda *_: FakeListChatModel(responses=[yes]))
    said = _call(judge, "--out", str(run), "--judge-model", "m", "--judge-url", "http://me:secret@a:1/v1?key=secret")
    assert "judged by m at http://a:1/v1," in " ".join(said.split())
    assert "secret" not in (run / "judge.jsonl").read_text(encoding="utf-8")


def test_judge_needs_a_run_with_rows(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="not a run folder"):
        _call(judge, "--out", str(tmp_path), "--judge-model", "m")
    Manifest(RunSettings(), {}, "CPU").claim(tmp_path)
    with pytest.raises(InvalidInput, match="no rows yet"):
        _call(judge, "--out", str(tmp_path), "--judge-model", "m")


def test_stats_prints_the_table(records_file: Path, tiny_model_folder: Path) -> None:
    said = _call(stats, "--dataset", str(records_file), "--tokenizer", str(tiny_model_folder), "--limit", "2")
    line = next(line for line in said.splitlines() if line.startswith(f"| {records_file}"))
    assert line.split(" | ")[1:3] == ["2", "4"]


@pytest.mark.parametrize("command", [judge, report, stats])
def test_every_command_and_option_has_a_help_text(command: Callable[..., None]) -> None:
    app = typer.Typer()
    app.command()(command)
    made = typer.main.get_command(app)
    assert made.help
    assert [p.name for p in made.params if not getattr(p, "help", None)] == []
