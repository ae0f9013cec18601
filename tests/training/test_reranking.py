"""The reranker's task as the loop sees it: equal steps, a falling loss, a folder that loads and ranks as it did."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import ValidationError

from plume_memory.errors import CheckpointError, ParameterizerError, TrainingError
from plume_memory.hypernet.fastweight import checkpoint
from plume_memory.hypernet.fastweight.config import FastWeightConfig
from plume_memory.hypernet.fastweight.network import FastWeightNetwork
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.hypernet.reranker import FILE
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.base import BaseModel
from plume_memory.policy import AnswerPolicy, Calibration
from plume_memory.retrieval.reader import Reader
from plume_memory.testing import tiny_base
from plume_memory.training.ahead import DrawnAhead
from plume_memory.training.build import build
from plume_memory.training.choices import Choice
from plume_memory.training.data import Data, read_data
from plume_memory.training.facts import FactSource
from plume_memory.training.metrics import read_metrics
from plume_memory.training.progress import RunProgress
from plume_memory.training.requirements import require_use
from plume_memory.training.reranking import RerankingTask, load_start
from plume_memory.training.run import run
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.settings import TrainSettings
from plume_memory.training.task import build_task
from plume_memory.training.task_protocol import Carded

Small = Callable[..., TrainSettings]
RERANKER = {"kind": "reranker", "rank": 4, "lowest_layer": 0.0}
TEXTS = ("Al is in Bern. Bo eats figs.", "Bo is in Rome. Al eats nuts.")
ASKS = ((Ask("Where is Al?", "Bern"), Ask("What eats Bo?", "figs")), (Ask("Where is Bo?", "Rome"),))
SAMPLES = tuple(Sample(text, asks, "notes") for text, asks in zip(TEXTS, ASKS, strict=True))


@pytest.fixture
def network(tmp_path: Path) -> Path:
    folder = tmp_path / "start"
    folder.mkdir()
    sizes = FastWeightConfig(hidden_size=32, intermediate_size=64, layers=(2,), rank=4, value_width=4, mixer_layer=1)
    policy = AnswerPolicy(retrieval="reader", unit_tokens=192)
    manifest = checkpoint.save(FastWeightNetwork(sizes), folder, base_model="tiny", max_tokens=40, policy=policy)
    fitted = Calibration(slope=2.0, offset=-1.0, per_nat=1.5)
    checkpoint.write_manifest(manifest.model_copy(update={"calibration": fitted}), folder)
    (folder / "README.md").write_text("the start's own card")
    return folder


def made(base: BaseModel, settings: TrainSettings, source: Any = None) -> RerankingTask:
    require_use(settings, vocabulary=base.model.config.vocab_size)
    start = load_start(base, settings)
    if source is None:
        return RerankingTask(base, settings, start, read_data(settings))
    own = Data(
        source, source, lambda count, held_out: FactSource("facts", smallest=count), {"notes": list(SAMPLES)}, []
    )
    return RerankingTask(base, settings, start, own)


def read(base: BaseModel, task: RerankingTask, choice: Choice) -> list[list[float]]:
    """Means by question and sentence, as the router reads them."""
    reader = Reader(base, task.network.factors())
    return [[one.log_p for one in reader.read(choice.sentences, q)] for q in choice.questions]


def first(base: BaseModel, task: RerankingTask) -> float:
    """Share of the questions of SAMPLES whose likeliest sentence, as the router reads them, holds the answer."""
    hits = []
    for sample in SAMPLES:
        sentences = tuple(f"{one.strip('.')}." for one in sample.text.split(". "))
        asked = Choice(sentences, tuple(ask.question for ask in sample.asks), (), "notes")
        for ask, means in zip(sample.asks, read(base, task, asked), strict=True):
            hits.append(ask.answer in sentences[means.index(max(means))])
    return sum(hits) / len(hits)


def test_what_is_trained_is_what_the_router_reads(small: Small, network: Path, fixed: Any) -> None:
    """Questions packed behind a sentence are scored as each alone behind it, on every tiny architecture."""
    for name in ("llama", "gemma2"):
        base = tiny_base(name)
        task = made(base, small(network=RERANKER, start=str(network)), fixed(SAMPLES))
        with torch.no_grad():
            for p in task.network.parameters():
                p += 0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()))
        choices = task._micro_batch(0)
        with torch.no_grad():
            found, _ = task._read(choices)

        for own, choice in zip(found, choices, strict=True):
            torch.testing.assert_close(own, torch.tensor(read(base, task, choice)), atol=1e-4, rtol=1e-4)


def test_it_starts_as_the_bare_model_and_learns_which_sentence_answers(small: Small, network: Path, fixed: Any) -> None:
    base = tiny_base("llama")
    settings = small(network=RERANKER, start=str(network))
    task = made(base, settings, fixed(SAMPLES))
    (choice, *_) = task._micro_batch(0)
    with torch.no_grad():
        nothing = {
            n: Pair(torch.zeros_like(A), torch.zeros_like(B)) for n, (A, B) in task.network.factors().modules.items()
        }
    bare = Reader(base, LoraFactors(nothing, task.network.factors().layers))
    wanted = [[one.log_p for one in bare.read(choice.sentences, q)] for q in choice.questions]
    assert read(base, task, choice) == [pytest.approx(own, abs=1e-5) for own in wanted]
    assert task.evaluate(0)["first_notes"] == first(base, task) < 1.0

    optimizer = torch.optim.Adam(task.network.parameters(), lr=0.01)
    losses = []
    for step in range(40):
        optimizer.zero_grad()
        report = task.step(step, 0, 0)
        report.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(report.loss.item())
    assert sum(losses[-5:]) < 0.3 * sum(losses[:5])
    assert task.step(99, 0, 0).parts["first"] == 1.0
    assert task.evaluate(99)["first_notes"] == 1.0 == first(base, task)
    assert all(not p.requires_grad or p.grad is None for p in base.model.parameters())


def test_a_step_is_a_function_of_its_number(small: Small, network: Path) -> None:
    settings = small(network=RERANKER, start=str(network), update={"share": 0.5}, curriculum={"largest": [[0, 4]]})
    base = tiny_base("llama")
    tasks = [made(base, settings) for _ in range(2)]
    tasks[1].step(0, 0, 0)  # what was asked before does not matter
    one, other = (task.step(5, 0, 0) for task in tasks)
    assert torch.equal(one.loss, other.loss)
    assert one.parts == other.parts
    assert one.student_tokens == other.student_tokens > 0
    figures = tasks[0].evaluate(0)
    assert figures == tasks[1].evaluate(3)
    assert set(figures) <= {"first_1"}, "one fact is one sentence or two"


def test_other_processes_draw_what_the_trainer_draws(small: Small, network: Path) -> None:
    task = made(tiny_base("llama"), small(network=RERANKER, start=str(network)))
    ahead = DrawnAhead(task._micro_batch, device=torch.device("cuda"), stride=1, end=5)
    assert [ahead(number) for number in range(5)] == [task._micro_batch(number) for number in range(5)]


def test_it_learns_from_conversations_that_were_written_too(
    small: Small, network: Path, fixed: Any, tmp_path: Path
) -> None:
    turns = [{"speaker": "Al", "text": f"I have {n} hats."} for n in range(6)]
    path = tmp_path / "talk.jsonl"
    path.write_text(json.dumps({"turns": turns, "qas": [{"question": "How many?", "turns": [3]}]}))
    own = RERANKER | {"written": 0.5, "written_conversations": [str(path)], "sentences": 4}
    task = made(tiny_base("llama"), small(network=own, start=str(network)), fixed(SAMPLES))
    drawn = [choice for number in range(20) for choice in task._micro_batch(number)]
    sizes = {(one.source, len(one.sentences)) for one in drawn}
    assert sizes == {("conversations", 4), ("notes", 2)}, "both, of so many texts each"
    assert task.inputs()[str(path)]
    with pytest.raises(ValidationError, match="there are no written_conversations"):
        small(network=RERANKER | {"written": 0.5}, start=str(network))


def test_a_run_ends_in_a_network_with_a_reranker_and_another_run_goes_on_from_it(
    small: Small, network: Path, tmp_path: Path
) -> None:
    base = tiny_base("llama")
    settings = small(network=RERANKER, start=str(network), curriculum={"largest": [[0, 4]]}, evaluation={"facts": [4]})
    task = made(base, settings)
    assert isinstance(task, Carded)
    result = run(task, settings.run, tmp_path / "run", resume=False, progress=RunProgress(quiet=True))
    rows = read_metrics(tmp_path / "run" / "metrics.jsonl")
    assert "first_4" in rows[-1]["figures"]

    loaded = load_hypernetwork(base, result.hypernetwork)
    assert loaded.policy.retrieval == "reader"
    assert loaded.calibration == Calibration(), "fitted to other evidence"
    assert loaded.reranker is not None
    now = task.network.factors()
    for name, pair in loaded.reranker.modules.items():
        assert torch.equal(pair.B, now.modules[name].B.to(torch.bfloat16))
        assert pair.B.abs().max() > 0
    assert "reranker" in (result.hypernetwork / "README.md").read_text()
    assert load_hypernetwork(base, network).reranker is None, "the start stays as it is"

    again = made(base, small(network=RERANKER, start=str(result.hypernetwork)))
    for name, pair in again.network.factors().modules.items():
        assert torch.equal(pair.A, loaded.reranker.modules[name].A.float())
    with pytest.raises(TrainingError, match="has rank 4 on layers 0 to 2, the settings ask for rank 2"):
        made(base, small(network=RERANKER | {"rank": 2}, start=str(result.hypernetwork)))
    with pytest.raises(TrainingError, match="ask for its own, or for more"):
        made(base, small(network=RERANKER | {"lowest_layer": 0.5}, start=str(result.hypernetwork)))


def test_the_start_is_read_once(small: Small, network: Path, tmp_path: Path) -> None:
    """Its folder may be another run's, which goes on; what is saved is what was hashed when the run began."""
    base = tiny_base("llama")
    task = made(base, small(network=RERANKER, start=str(network)))
    shutil.rmtree(network)
    task.save(tmp_path)
    assert load_hypernetwork(base, tmp_path).reranker is not None


def test_a_start_that_cannot_be_asked_is_refused_before_training(small: Small, network: Path) -> None:
    base = tiny_base("llama")
    settings = small(network=RERANKER, start=str(network))
    manifest = json.loads((network / "config.json").read_text())
    sizes = FastWeightConfig.model_validate(manifest["network"] | {"hidden_size": 48})
    wider = network.parent / "wider"
    wider.mkdir()
    checkpoint.save(FastWeightNetwork(sizes), wider, base_model="tiny", max_tokens=40)
    with pytest.raises(ParameterizerError, match="Load the model it was trained for"):
        made(base, small(network=RERANKER, start=str(wider)))
    shard = next(network.glob("model-*.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match="Cannot read the weights"):
        made(base, settings)


def test_a_network_that_goes_on_keeps_its_reranker(small: Small, network: Path, tmp_path: Path) -> None:
    base = tiny_base("llama")
    made(base, small(network=RERANKER, start=str(network))).save(tmp_path)
    sizes = {"kind": "fast-weight", "rank": 4, "value_width": 4, "lowest_layer": 0.7, "mixer_layer": 0.4}
    built = build(base, small(network=sizes, start=str(tmp_path)))
    again = tmp_path / "again"
    again.mkdir()
    built.save(again)
    before, after = (load_hypernetwork(base, folder).reranker for folder in (tmp_path, again))
    assert before is not None
    assert after is not None
    assert all(torch.equal(pair.A, after.modules[name].A) for name, pair in before.modules.items())


def test_a_reranker_that_is_missing_damaged_or_another_ones_is_refused(
    small: Small, network: Path, tmp_path: Path
) -> None:
    base = tiny_base("llama")
    folder = tmp_path / "saved"
    folder.mkdir()
    made(base, small(network=RERANKER, start=str(network))).save(folder)
    assert load_hypernetwork(base, folder).reranker is not None
    whole = (folder / FILE).read_bytes()

    (folder / FILE).write_bytes(whole[:-3])
    with pytest.raises(CheckpointError, match="another one's"):
        load_hypernetwork(base, folder)
    (folder / FILE).write_bytes(whole)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"reranker_sha256": "0" * 64}))
    with pytest.raises(CheckpointError, match="another one's"):
        load_hypernetwork(base, folder)
    (folder / FILE).unlink()
    with pytest.raises(CheckpointError, match=r"has a reranker, and reranker\.safetensors cannot be read"):
        load_hypernetwork(base, folder)


def test_numbers_that_are_not_finite_are_not_saved(small: Small, network: Path, tmp_path: Path) -> None:
    task = made(tiny_base("llama"), small(network=RERANKER, start=str(network)))
    with torch.no_grad():
        task.network.B[0][0, 0, 0] = torch.nan
    with pytest.raises(CheckpointError, match="not finite"):
        task.save(tmp_path)
    assert not (tmp_path / "config.json").exists()


def test_what_cannot_be_learnt_from_is_refused(small: Small, network: Path, fixed: Any, tmp_path: Path) -> None:
    base = tiny_base("llama")
    with pytest.raises(TrainingError, match="belongs to a hypernetwork"):
        made(base, small(network=RERANKER))
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("Some words. " * 20)
    plain = [{"kind": "text", "name": "books", "folder": str(tmp_path / "texts")}]
    with pytest.raises(TrainingError, match="'books' is plain text"):
        made(base, small(network=RERANKER, start=str(network), data=plain))
    free = [{"kind": "jsonl", "name": "free", "paths": ["b.jsonl"], "extractive": False}]
    with pytest.raises(TrainingError, match="'free' has `extractive` off"):
        made(base, small(network=RERANKER, start=str(network), data=free))
    qa = {"kind": "jsonl", "name": "qa", "paths": ["a.jsonl"]}
    with pytest.raises(TrainingError, match=r"a\.jsonl is training data and evaluation\.prose too"):
        made(base, small(network=RERANKER, start=str(network), data=[qa], evaluation={"prose": [qa]}), fixed(SAMPLES))
    task = made(base, small(network=RERANKER, start=str(network)), fixed((Sample("Al is in Bern.", ASKS[0], "x"),)))
    with pytest.raises(TrainingError, match="use texts of several sentences"):
        task.step(0, 0, 0)


def test_the_settings_say_which_task_is_built(small: Small, network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BaseModel, "load", lambda name, device: tiny_base("llama"))
    task = build_task(small(network=RERANKER, start=str(network)), "cpu")
    assert isinstance(task, RerankingTask)
    assert task.sources() == []
    assert {"base", "start"} <= set(task.inputs())
