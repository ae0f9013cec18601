"""The commands around building and reviewing; what they call is tested in tests/eval/build."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from langchain_core.language_models import FakeListChatModel

from eval.build.pipeline import build
from eval.cli import main


@pytest.fixture
def source_file(tmp_path: Path) -> Path:
    path = tmp_path / "squad.jsonl"
    asked = {"id": "q", "question": "Where does Ann live?", "answers": ["Bern"]}
    path.write_text(json.dumps({"id": "c1", "context": "Ann lives in Bern.", "qas": [asked]}) + "\n", encoding="utf-8")
    return path


def test_a_build_whose_model_writes_no_json_rejects_and_says_so(
    source_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[tuple[str, str]] = []

    def scripted(name: str, url: str | None, *, option: str, max_tokens: int) -> Any:
        opened.append((option, name))
        return FakeListChatModel(responses=["no JSON here"])

    monkeypatch.setattr("eval.commands.build.open_chat_model", scripted)
    out = tmp_path / "made"
    call = ["build", "squad", "--annotator", "a:b", "--data", str(source_file), "--out", str(out)]
    assert main(call) == 0
    assert "0 of 1 accepted" in " ".join(capsys.readouterr().out.split())
    assert opened == [("--annotator", "a:b")], "the annotator verifies too"
    assert (out / "rejected.jsonl").read_text(encoding="utf-8").count("\n") == 1
    assert (out / "report.md").is_file()


def test_annotator_and_verifier_have_servers_and_prices_of_their_own(
    source_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, str, str | None, int]] = []

    def scripted(name: str, url: str | None, *, option: str, max_tokens: int) -> Any:
        opened.append((option, name, url, max_tokens))
        return FakeListChatModel(responses=["no JSON here"])

    def built(*given: Any, prices: Any, **chosen: Any) -> Any:
        paid.update({role: (price.input_per_million, price.output_per_million) for role, price in prices.items()})
        return build(*given, prices=prices, **chosen)

    paid: dict[str, tuple[float, float]] = {}
    monkeypatch.setattr("eval.commands.build.open_chat_model", scripted)
    monkeypatch.setattr("eval.commands.build.build_records", built)
    call = ["build", "squad", "--annotator", "own", "--url", "http://here", "--price", "0", "--max-tokens", "16384"]
    call += ["--verifier", "other", "--verifier-price", "1/4", "--data", str(source_file), "--out", str(tmp_path / "o")]
    assert main(call) == 0
    assert opened == [("--annotator", "own", "http://here", 16384), ("--verifier", "other", None, 16384)]
    assert paid == {"annotator": (0, 0), "verifier": (1, 4)}


def test_a_verifier_s_options_need_a_verifier(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "empty.jsonl"
    source.write_text("", encoding="utf-8")
    call = ["build", "squad", "--annotator", "a", "--verifier-url", "http://x", "--out", str(tmp_path / "o")]
    assert main([*call, "--data", str(source)]) == 2
    assert "of a --verifier" in " ".join(capsys.readouterr().err.split())


def test_a_price_that_is_none_is_refused(
    source_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("eval.commands.build.open_chat_model", lambda *_, **__: FakeListChatModel(responses=["{}"]))
    call = [
        "build",
        "squad",
        "--annotator",
        "a",
        "--data",
        str(source_file),
        "--out",
        str(tmp_path / "o"),
        "--price",
        "cheap",
    ]
    assert main(call) == 2
    assert "INPUT/OUTPUT per million" in " ".join(capsys.readouterr().err.split())


def test_a_sheet_goes_out_and_comes_back_as_agreement(
    records_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = tmp_path / "sheet.csv"
    assert main(["review", "export", str(records_file), str(sheet)]) == 0
    filled = []
    for reviewer in ("ann", "bo"):
        with sheet.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        for row in rows:
            row.update(
                reviewer=reviewer,
                natural="yes",
                closure_complete="yes",
                answer_correct="yes",
                classification_correct="yes",
            )
        path = tmp_path / f"{reviewer}.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        filled.append(str(path))
    capsys.readouterr()
    assert main(["review", "agreement", str(records_file), *filled]) == 0
    said = capsys.readouterr().out
    assert said.count("100.0 %") == 4, "a line per judged column"
