"""Runs go on where they were, and do not depend on who runs what."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from eval.caches import CountingCache
from eval.cli import main
from eval.experiments.experiment import each, spec
from eval.manifest import Manifest
from eval.methods.anyedit import AnyEdit, AnyEditSettings
from eval.methods.parametric import Plume
from eval.methods.prompted import Prompted
from eval.methods.protocol import Prepared
from eval.metrics.verdicts import Decision
from eval.records import MuseRecord, MuseTransition, of_record, read_records
from eval.rows import ItemRow, RowFolder
from eval.runner import Shard, missing
from eval.specs import REPRODUCTION, Item, MethodSpec, RunSettings
from eval.workbench import Workbench
from plume_memory.engine import Engine
from plume_memory.errors import InvalidInput, PromptTooLong
from plume_memory.policy import AnswerPolicy
from plume_memory.testing import HashParameterizer, tiny_base, tiny_engine

ROOT = Path(__file__).parents[2]
METHODS = ["--method", "base", "--method", "d2l", "--method", "plume"]
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
"""Sums round by the number of threads, and these tests compare to the last digit."""


def outcome(row: ItemRow) -> ItemRow:
    """A row without what a clock or another order of work changes."""
    answers = tuple(dataclasses.replace(answer, seconds=0.0, peak_bytes=None) for answer in row.answers)
    return dataclasses.replace(
        row,
        answers=answers,
        made_on="",  # workers share the cores: other threads, the same answers
        update_seconds=0.0,
        update_peak_bytes=None,
        update_derived=0,
        first_in_process=False,
    )


def outcomes(folder: Path) -> dict[str, ItemRow]:
    return {row.key: outcome(row) for row in RowFolder(folder).read()}


@pytest.fixture(scope="module")
def whole_run(arguments: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One undisturbed run of three methods on four records."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    cores = torch.get_num_threads()
    torch.set_num_threads(1)  # a fixture of a module comes before the one that sets them for each test
    assert main(["main", *arguments, *METHODS, "--out", str(folder)]) == 0
    torch.set_num_threads(cores)
    return folder


def test_a_run_has_a_row_per_method_and_record_and_a_page(whole_run: Path) -> None:
    rows = RowFolder(whole_run).read()
    assert [(row.method, row.transition) for row in rows] == [
        (method, f"r{i}") for method in ("base", "d2l", "plume") for i in range(4)
    ]
    assert all(len(row.answers) == 2 and row.update_seconds >= 0 for row in rows)
    assert rows[-1].settings["beta"] == 0.75
    page = (whole_run / "main" / "README.md").read_text(encoding="utf-8")
    assert "| plume |" in page
    assert "tiny (8)" in page
    assert (whole_run / "main" / "recall.svg").stat().st_size > 1000


def test_finished_items_are_not_run_again(
    whole_run: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eval.workbench.Workbench.run", lambda *_: pytest.fail("an item was run again"))
    before = (whole_run / "rows" / "shard-1-of-1.jsonl").read_bytes()
    assert main(["main", *arguments, *METHODS, "--out", str(whole_run)]) == 0
    assert (whole_run / "rows" / "shard-1-of-1.jsonl").read_bytes() == before


def test_other_experiments_find_the_same_rows(
    whole_run: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["locality", *arguments, "--method", "plume", "--out", str(whole_run), "--show-only"]) == 0
    assert "4 of 4 items" in capsys.readouterr().out


def test_a_folder_belongs_to_one_set_of_settings(
    whole_run: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["main", *arguments, "--seed", "7", "--out", str(whole_run)]) == 2
    assert "seed: 0 there, 7 asked" in " ".join(capsys.readouterr().err.split())


def test_workers_make_the_rows_of_one_process(whole_run: Path, arguments: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "two"
    call = [sys.executable, "-m", "eval", "main", *arguments, *METHODS, "--out", str(folder), "--workers", "2"]
    done = subprocess.run(call, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False, env=ONE_THREAD)
    assert done.returncode == 0, done.stderr
    assert outcomes(folder) == outcomes(whole_run)
    assert len(list((folder / "rows").glob("shard-*-of-2.jsonl"))) == 2


def test_a_killed_run_goes_on_and_ends_as_an_undisturbed_one(
    whole_run: Path, arguments: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "killed"
    call = [sys.executable, "-m", "eval", "main", *arguments, *METHODS, "--out", str(folder)]
    running = subprocess.Popen(call, cwd=ROOT, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=ONE_THREAD)
    rows = folder / "rows" / "shard-1-of-1.jsonl"
    while not (rows.exists() and rows.read_bytes().count(b"\n") >= 2):
        assert running.poll() is None, "it ended before it could be killed"
        time.sleep(0.002)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    before = len(RowFolder(folder).read())
    assert 2 <= before < 12
    assert main(["main", *arguments, *METHODS, "--out", str(folder)]) == 0
    assert outcomes(folder) == outcomes(whole_run)
    assert rows.read_bytes().count(b"\n") == 12, "no item was run twice"


def test_shards_are_disjoint_whole_and_keep_a_history_together(records_file: Path) -> None:
    records = [of_record(record) for record in read_records(records_file)]
    chains = [dataclasses.replace(records[0], id=f"c{n}@{step}", step=step) for n in range(3) for step in (3, 5)]
    items = each([spec("base"), spec("plume")], [*records, *chains])
    parts = [Shard(i, 3).of(items) for i in (1, 2, 3)]
    assert sorted(id(item) for part in parts for item in part) == sorted(map(id, items))
    for part in parts:
        for item in part:
            same = item.transition.id.split("@")[0]
            assert {id(i) for i in items if i.transition.id.split("@")[0] == same} <= set(map(id, part))


@pytest.mark.parametrize(
    "ways", [["--shard", "1/2", "--workers", "2"], ["--ray", "2", "--workers", "2"], ["--shard", "1/2", "--ray", "1"]]
)
def test_two_ways_of_dividing_the_work_are_refused(
    ways: list[str], arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["main", *arguments, *ways, "--out", str(tmp_path)]) == 2
    assert "use one of them" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("ways", [["--workers", "2"], ["--ray", "2"]])
@pytest.mark.parametrize("experiment", ["efficiency", "radar"])
def test_latencies_are_not_measured_beside_other_workers(
    experiment: str, ways: list[str], arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([experiment, *arguments, *ways, "--out", str(tmp_path)]) == 2
    assert "one process alone" in " ".join(capsys.readouterr().err.split())


def test_a_judge_that_never_judged_is_refused(
    whole_run: Path, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    call = ["main", *arguments, *METHODS, "--out", str(whole_run), "--show-only", "--judge", "nobody"]
    assert main(call) == 2
    assert "no verdicts of 'nobody'; nobody judged it yet" in " ".join(capsys.readouterr().err.split())
    decision = Decision(
        key="k", judge="m at u", prompts="p", criterion="agreement", yes=True, rationale="", question=""
    )
    (whole_run / "judge.jsonl").write_text(decision.model_dump_json() + "\n", encoding="utf-8")
    assert main([*call[:-1], "m"]) == 2
    assert "no verdicts of 'm'; it was judged by: m at u" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "a/b", "1/0", "-1/2"])
def test_a_shard_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="--shard is i/n"):
        Shard.parse(text)


def test_a_key_follows_what_answers_depend_on_and_nothing_else(
    records_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transition = of_record(read_records(records_file)[0])
    settings = RunSettings()

    def key(item: Item, run: RunSettings = settings) -> str:
        return item.key(run)

    base, plume = Item(spec("base"), transition), Item(spec("plume"), transition)
    same, other = key(plume), RunSettings(hypernetwork="distill")
    assert key(base) == key(base, other), "a prompt does not depend on the network"
    assert key(plume) != key(plume, other)
    assert key(plume) == key(plume, RunSettings(distill_epochs=3)), "only CD is distilled"
    (tmp_path / "config.json").write_text("{}")
    own = RunSettings(hypernetwork=str(tmp_path))
    before = key(plume, own)
    (tmp_path / "config.json").write_text('{"weights": "others"}')
    assert key(plume, own) != before, "a network that was trained on has another config"
    shipped, found = Item(MethodSpec(name="ours", kind="plume", shipped=True), transition), []
    for config in ({"policy": {"tau": 0.1}}, {"policy": {"tau": 0.2}}, {"policy": {"tau": 0.2}, "calibration": {}}):
        (tmp_path / "config.json").write_text(json.dumps(config))
        found.append(key(shipped, own))
    assert found[0] != found[1] == found[2], "how sure an answer counts as changes no answer"
    before = key(plume), key(shipped)
    monkeypatch.setattr("eval.specs.SHIPPED_EPOCH", 0)
    assert key(plume) == before[0], "what only a network's own settings use changes no other method"
    assert key(shipped) != before[1], "rows of other rules are run again"
    assert key(plume) != key(plume, RunSettings(max_new_tokens=9))
    monkeypatch.setattr("eval.specs.REPRODUCTION", REPRODUCTION.model_copy(update={"delta": 0.2}))
    assert key(plume) != same
    monkeypatch.undo()
    assert key(plume) != key(Item(MethodSpec(name="plume", kind="plume", settings={"beta": 1.0}), transition))
    assert key(plume) != key(Item(spec("plume"), transition, fresh=True))
    assert key(plume) != key(Item(spec("plume"), dataclasses.replace(transition, texts=("other",))))


def test_an_item_that_is_asked_for_twice_is_run_once(records_file: Path, tmp_path: Path) -> None:
    transition: MuseTransition = of_record(read_records(records_file)[0])
    items = each([spec("base"), spec("base")], [transition])
    assert len(missing(items, RunSettings(), tmp_path)) == 1


def test_an_unknown_method_names_the_experiments_own(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ablation", *arguments, "--method", "plum", "--out", str(tmp_path)]) == 2
    assert "this experiment has: base with context" in " ".join(capsys.readouterr().err.split())


def test_nothing_to_show_is_said(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["main", *arguments, "--show-only", "--out", str(tmp_path)]) == 2
    assert "is not a run folder" in " ".join(capsys.readouterr().err.split())
    assert list(tmp_path.iterdir()) == [], "looking leaves nothing behind"


def test_a_misspelt_model_does_not_claim_the_folder(arguments: list[str], tmp_path: Path) -> None:
    named = [word if arguments[at - 1] != "--model" else "nope" for at, word in enumerate(arguments)]
    assert "nope" in named
    assert main(["main", *named, "--method", "base", "--out", str(tmp_path / "run")]) != 0
    assert not (tmp_path / "run" / "run.json").exists()


def test_a_history_that_is_too_long_for_a_method_is_a_row_and_no_end(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_long(self: Prompted, transition: MuseTransition) -> Prepared:
        if transition.id == "r1":
            raise PromptTooLong("The prompt has 9000 tokens.")
        return whole(self, transition)

    whole = Prompted.prepare
    monkeypatch.setattr(Prompted, "prepare", too_long)
    call = ["main", *arguments, "--method", "base", "--out", str(tmp_path)]

    assert main(call) == 0
    rows = RowFolder(tmp_path).read()
    assert [(row.transition, row.error, len(row.answers)) for row in rows] == [
        ("r0", "", 2),
        ("r1", "The prompt has 9000 tokens.", 0),
        ("r2", "", 2),
        ("r3", "", 2),
    ]
    assert "Refused by the method itself" in (tmp_path / "main" / "README.md").read_text(encoding="utf-8")
    assert main(call) == 0
    assert len(RowFolder(tmp_path).read()) == 4, "it is not tried again"


def test_rows_are_not_reused_for_what_they_do_not_answer(tmp_path: Path) -> None:
    """Another set of affected questions, other weights in the model's folder."""
    record = MuseRecord.model_validate_json((ROOT / "eval/data/muse-mini/mini_squad.jsonl").read_text().splitlines()[0])
    turned = record.model_copy(
        update={"qas": tuple(q.model_copy(update={"affected": not q.affected}) for q in record.qas)}
    )
    (tmp_path / "config.json").write_text("{}")
    settings = RunSettings(model=str(tmp_path), hypernetwork="none")
    keys = set()
    for content in (b"one", b"other"):
        (tmp_path / "model.safetensors").write_bytes(content)
        keys |= {Item(spec("base"), of_record(one)).key(settings) for one in (record, turned)}

    assert len(keys) == 4


def test_a_method_under_one_set_of_settings_has_one_engine(arguments: list[str]) -> None:
    """What an engine reads once must not count as every update's time."""
    bench = Workbench(RunSettings(), given=tiny_engine())
    cache = CountingCache()
    first, again, other = (
        bench.method(one, cache, 8) for one in (spec("plume"), spec("memory only"), spec("plume", beta=0.5))
    )

    assert isinstance(first, Plume)
    assert first.engine is again.engine  # type: ignore[attr-defined]
    assert first.engine is not other.engine  # type: ignore[attr-defined]
    assert "count_tokens" in vars(first.engine.segmenter), "the tokenizer is read before an update is timed"
    assert not first.answerer.settings.stop_loops


def test_without_a_folder_the_null_space_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a machine of a cluster, where a method is made anew for every item."""
    made: list[AnyEditSettings] = []
    build = AnyEdit.build

    def counted(base: Any, answerer: Any, settings: AnyEditSettings, **options: Any) -> AnyEdit:
        made.append(settings)
        return build(base, answerer, settings, background=["Nothing much. " * 50], **options)

    monkeypatch.setattr("eval.workbench.AnyEdit.build", counted)
    base = tiny_base(layers=9)
    bench = Workbench(RunSettings(), given=Engine(base, HashParameterizer(base), AnswerPolicy()))
    edit = spec("anyedit", background_tokens=300, null_threshold=2.0)
    first, again = (bench.method(edit, CountingCache(), 8) for _ in range(2))
    assert len(made) == 1
    assert first.settings == again.settings
    bench.method(spec("anyedit", background_tokens=200, null_threshold=2.0), CountingCache(), 8)
    assert len(made) == 2


def test_a_failed_item_is_named_and_the_rows_before_it_are_kept(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tiny model has three layers; AnyEdit's are 4 to 8."""
    call = ["main", *arguments, "--method", "base", "--method", "anyedit", "--out", str(tmp_path)]
    assert main(call) == 2
    assert "anyedit on r0:" in " ".join(capsys.readouterr().err.split())
    assert [row.method for row in RowFolder(tmp_path).read()] == ["base"] * 4


def test_a_page_of_half_the_items_says_so(arguments: list[str], tmp_path: Path) -> None:
    """Also where every method lacks the same records."""
    call = ["main", *arguments, "--method", "base", "--out", str(tmp_path)]
    assert main([*call, "--shard", "1/2"]) == 0
    assert main([*call, "--show-only"]) == 0
    page = tmp_path / "main" / "README.md"
    assert "unfinished: 2 of 4 items of this command have no row yet" in page.read_text(encoding="utf-8")

    assert main(call) == 0
    assert "unfinished" not in page.read_text(encoding="utf-8")


def test_a_row_is_found_under_the_name_that_its_method_has_now(whole_run: Path, records_file: Path) -> None:
    item = Item(MethodSpec(name="bare model", kind="base"), of_record(read_records(records_file)[0]))
    settings = Manifest.read(whole_run).settings
    (row,) = RowFolder(whole_run).named({item.key(settings): item.method.name, "no row": "other"})
    assert (row.method, row.kind) == ("bare model", "base")
    assert "base" in {row.method for row in RowFolder(whole_run).read()}, "it was written under another"


def test_a_setting_that_comes_later_parts_no_row_of_the_paper_s_method(
    records_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Later(AnswerPolicy):
        new: float | None = None

    item = Item(spec("plume"), of_record(read_records(records_file)[0]))
    before = item.key(RunSettings())
    monkeypatch.setattr("eval.specs.AnswerPolicy", Later)
    monkeypatch.setattr("eval.specs.REPRODUCTION", Later(**REPRODUCTION.model_dump()))
    assert item.key(RunSettings()) == before
