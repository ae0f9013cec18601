"""One question explained on a tiny model."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from eval.cli import main
from eval.rows import RowFolder
from plume_memory.answering.answer import decode_all
from plume_memory.model.queries import DecodeSettings


def options(tiny_model_folder: Path, tiny_network_folder: Path, records_file: Path, out: Path) -> list[str]:
    return [
        *(
            "--dataset",
            str(records_file),
            "--model",
            str(tiny_model_folder),
            "--hypernetwork",
            str(tiny_network_folder),
        ),
        *("--device", "cpu", "--max-new-tokens", "5", "--out", str(out)),
    ]


def test_a_case_shows_the_evidence_and_both_streams(
    tiny_model_folder: Path, tiny_network_folder: Path, records_file: Path, tmp_path: Path
) -> None:
    call = ["case", "r1-q1", *options(tiny_model_folder, tiny_network_folder, records_file, tmp_path / "case")]
    assert main(call) == 0
    page = (tmp_path / "case" / "README.md").read_text(encoding="utf-8")
    assert "Ann 1 lives in Zug." in page
    raw = json.loads((tmp_path / "case" / "case.json").read_text(encoding="utf-8"))
    assert raw["question"]["id"] == "r1-q1"
    assert 1 <= len(raw["trace"]) <= 5
    assert all(len(token["global_top"]) == len(token["evidence_top"]) == 5 for token in raw["trace"])
    assert (tmp_path / "case" / "case.svg").is_file()
    command = shlex.split(next(line for line in page.splitlines() if line.startswith("python -m eval")))
    (tmp_path / "case" / "README.md").unlink()
    assert main(command[3:]) == 0
    assert (tmp_path / "case" / "README.md").read_text(encoding="utf-8") == page


def test_an_unknown_question_says_what_ids_look_like(
    tiny_model_folder: Path,
    tiny_network_folder: Path,
    records_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    call = ["case", "q9", *options(tiny_model_folder, tiny_network_folder, records_file, tmp_path)]
    assert main(call) == 2
    assert "ids look like r0-q0" in " ".join(capsys.readouterr().err.split())


def test_a_case_explains_the_answer_that_is_in_the_rows(
    tiny_model_folder: Path,
    tiny_network_folder: Path,
    records_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[DecodeSettings] = []

    def decode(decoder: Any, prepared: Any, settings: DecodeSettings) -> Any:
        decoded.append(settings)
        return decode_all(decoder, prepared, settings)

    monkeypatch.setattr("eval.experiments.case.decode_all", decode)
    chosen = options(tiny_model_folder, tiny_network_folder, records_file, tmp_path / "run")
    assert main(["main", *chosen, "--method", "plume", "--batch", "1"]) == 0
    chosen = options(tiny_model_folder, tiny_network_folder, records_file, tmp_path / "case")
    assert main(["case", "r1-q1", *chosen, "--method", "plume"]) == 0
    explained = json.loads((tmp_path / "case" / "case.json").read_text(encoding="utf-8"))
    (row,) = [row for row in RowFolder(tmp_path / "run").read() if row.transition == "r1"]
    assert explained["text"] == row.answers[1].output
    assert explained["method"] == "plume"
    assert {"seed", "alpha", "hypernetwork"} <= explained["settings"].keys()
    assert not decoded[0].stop_loops, "no row's answer is cut short as a loop"


def test_only_plume_and_its_ablations_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["case", "mini-squad-001-q1", "--method", "bm25", "--out", str(tmp_path)]) == 2
    assert "'bm25'; a case is explained of: plume" in " ".join(capsys.readouterr().err.split())
