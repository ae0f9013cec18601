"""`python -m eval conversations`: what has a row is not run again, and what is written holds no text."""

import json
from pathlib import Path

import pytest
import typer
from langchain_core.language_models import SimpleChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel
from rich.console import Console

import eval.conversations.readers
from eval.cli import main
from eval.commands.conversations import conversations
from eval.conversations.benchmarks import benchmark_of
from eval.conversations.locomo import read_locomo
from eval.conversations.methods import Given
from eval.conversations.readers import ChatReader, ReaderUnavailable
from eval.conversations.records import Conversation, Question
from eval.conversations.running import Plan, run
from eval.metrics.judge import distinct
from eval.rows import RowFolder
from eval.specs import RunSettings


@pytest.fixture
def call(locomo_file: Path, tiny_model_folder: Path, tiny_network_folder: Path, tmp_path: Path) -> list[str]:
    """A command line on the tiny model."""
    return [
        *("conversations", "locomo", "--file", str(locomo_file), "--out", str(tmp_path / "run")),
        *("--model", str(tiny_model_folder), "--hypernetwork", str(tiny_network_folder)),
        *("--device", "cpu", "--dtype", "float32", "--max-new-tokens", "4"),
    ]


def lines(run_folder: Path) -> list[bytes]:
    return (run_folder / "rows" / "conversations-locomo.jsonl").read_bytes().splitlines(keepends=True)


def test_a_run_goes_on_where_it_was_killed(call: list[str], tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main([*call, "--method", "bm25"]) == 0
    whole = lines(out)
    assert len(whole) == 4
    (out / "rows" / "conversations-locomo.jsonl").write_bytes(b"".join(whole[:2]) + whole[2][:40])

    assert main([*call, "--method", "bm25"]) == 0

    again = lines(out)
    assert again[:2] == whole[:2]
    assert [json.loads(one)["key"] for one in again] == [json.loads(one)["key"] for one in whole]
    assert main([*call, "--method", "bm25"]) == 0
    assert lines(out) == again


def test_all_methods_run_and_the_page_has_their_recall(call: list[str], tmp_path: Path) -> None:
    names = ("notes", "ranking", "answers", "bm25", "everything")
    assert main([*call, *(part for name in names for part in ("--method", name)), "--idle"]) == 0

    page = (tmp_path / "run" / "conversations-locomo" / "README.md").read_text(encoding="utf-8")
    assert "CC BY-NC 4.0" in page
    assert "## Recall of gold turns" in page
    assert "| bm25 | 2 |" in page
    figures = (tmp_path / "run" / "conversations-locomo" / "figures.jsonl").read_text(encoding="utf-8").splitlines()
    assert len(figures) == 5 * 14
    for secret in ("heron", "Ines", "Pim", "bakery", "Tomas", "haiku"):
        assert secret not in "".join(figures)


def test_a_chat_model_reads_what_was_found_and_can_be_judged(
    call: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = FakeListChatModel(responses=["A heron.", "I don't know.", "Bread", "I don't know."])
    monkeypatch.setattr(eval.conversations.readers, "open_chat_model", lambda *_, **__: model)

    assert main([*call, "--method", "bm25", "--reader", "some:model"]) == 0

    rows = RowFolder(tmp_path / "run").read()
    assert {row.method for row in rows} == {"bm25, read by some:model"}
    assert [row.answers[0].detail["abstained"] for row in rows] == [False, True, False, True]
    assert [row.answers[0].output for row in rows if row.probe == "answers"] == ["A heron.", "I don't know.", "Bread"]
    assert len(distinct(rows, "judge")) == 3
    page = (tmp_path / "run" / "conversations-locomo" / "README.md").read_text(encoding="utf-8")
    assert "| bm25, read by some:model | 66.7 | 33.3 | 100.0 |" in page


def test_the_run_s_own_model_reads_too(call: list[str], tmp_path: Path) -> None:
    assert main([*call, "--method", "everything", "--reader", "base", "--questions", "1"]) == 0

    rows = RowFolder(tmp_path / "run").read()
    assert [len(rows), {row.method for row in rows}] == [2, {"everything, read by base"}]
    assert all(row.answers[0].tokens >= 1 for row in rows)


def test_a_provider_that_fails_is_named() -> None:
    class Broken(SimpleChatModel):
        @property
        def _llm_type(self) -> str:
            return "broken"

        def _call(self, *_: object, **__: object) -> str:
            raise RuntimeError("out of quota")

    reader = ChatReader("some:model", Broken())
    with pytest.raises(ReaderUnavailable, match="some:model did not answer: RuntimeError: out of quota"):
        reader.answer(Question("q", "Who?", ("Ann",), "k"), Given(None, "Ann.", 1, 0.0))


class Counting:
    """Counts what it is told and asked."""

    name = "counting"

    def __init__(self) -> None:
        self.settings: dict[str, int] = {}
        self.told = 0
        self.asked: list[str] = []

    def remember(self, conversation: Conversation) -> "Counting":
        self.told += 1
        return self

    def ask(self, question: Question) -> Given:
        self.asked.append(question.id)
        return Given(question.gold, "", 0, 0.0)

    def close(self) -> None:
        pass


def test_a_conversation_whose_questions_are_all_answered_is_not_told_again(locomo_file: Path, tmp_path: Path) -> None:
    method = Counting()
    told = tuple(read_locomo(locomo_file))
    plan = Plan(benchmark_of("locomo"), told, (method,), None, RunSettings())
    for _ in range(2):
        run(plan, RowFolder(tmp_path), Console(quiet=True))

    assert method.told == 1
    assert method.asked == ["q1", "q2", "q3", "q4"]
    more = Plan(benchmark_of("locomo"), told, (method,), None, RunSettings(model="another"))
    assert not more.wanted().keys() & plan.wanted().keys()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--method", "magic"], "Unknown method 'magic'; known are notes"),
        (["--questions", "0"], "--questions must be at least 1"),
        (["--part", "s"], "use one of them"),
        (["--show-only"], "not a run folder"),
    ],
)
def test_wrong_input_is_told_in_a_line(
    call: list[str], options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*call, *options]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_every_option_has_a_help_text() -> None:
    app = typer.Typer()
    app.command()(conversations)
    made = typer.main.get_command(app)
    assert made.help
    assert [p.name for p in made.params if not getattr(p, "help", None)] == []


@pytest.mark.model
def test_the_whole_path_on_the_real_model(locomo_file: Path, smollm2: object, tmp_path: Path) -> None:
    call = ["conversations", "locomo", "--file", str(locomo_file), "--out", str(tmp_path / "run")]
    assert main([*call, "--method", "notes", "--method", "answers", "--max-new-tokens", "16"]) == 0

    by = {(row.method, row.answers[0].question_id): row.answers[0] for row in RowFolder(tmp_path / "run").read()}
    assert by["notes", "q1"].detail["gold_ranks"] == [1]
    assert by["notes", "q2"].detail["gold_ranks"][0] == 1
    assert by["notes", "q1"].detail["tokens"] > 0
    assert "heron" in by["answers", "q1"].output
