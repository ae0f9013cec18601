"""The task as the loop sees it: the same steps, a falling loss, and a folder that loads."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.model.base import BaseModel
from plume_memory.model.fusion import js_divergence
from plume_memory.policy import AnswerPolicy
from plume_memory.testing import tiny_base
from plume_memory.training import task as task_module
from plume_memory.training.build import Built, build
from plume_memory.training.evaluate import Evaluator
from plume_memory.training.metrics import read_metrics
from plume_memory.training.packing import pack
from plume_memory.training.progress import RunProgress
from plume_memory.training.run import run
from plume_memory.training.samples import Sample
from plume_memory.training.settings import TrainSettings
from plume_memory.training.student import target_logits
from plume_memory.training.task import HypernetworkTask, build_task
from plume_memory.training.task_protocol import Carded, Task
from plume_memory.training.writing import rows_of

Small = Callable[..., TrainSettings]
D2L = {"kind": "d2l", "rank": 2, "latent_size": 16, "blocks": 1, "heads": 2, "kv_heads": 1, "head_size": 8}
EVERYTHING = {
    "distillation": 0.5,
    "kept": 0.5,
    "kept_share": 1.0,
    "fused": 0.5,
    "stale": 0.1,
    "unchanged": 0.5,
    "factors_l1": 0.1,
    "factors_l2": 0.1,
    "retell_share": 1.0,
}
CLOCK = {"seconds", "text_tokens_per_s", "student_tokens_per_s", "mfu"}


def made(base: BaseModel, settings: TrainSettings, cache: Path | None = None, **parts: Any) -> HypernetworkTask:
    """A task; `parts` replace the data."""
    return HypernetworkTask(base, settings, with_data(build(base, settings, cache=cache), **parts))


def with_data(built: Built, **parts: Any) -> Built:
    return dataclasses.replace(built, data=dataclasses.replace(built.data, **parts))


def gradients(task: HypernetworkTask) -> dict[str, torch.Tensor]:
    return {name: p.grad for name, p in task.network.named_parameters() if p.grad is not None}


def learned(base: BaseModel, settings: TrainSettings, source: Any, steps: int) -> tuple[Built, list[float]]:
    built = with_data(build(base, settings), source=source)
    task = HypernetworkTask(base, settings, built)
    optimizer = torch.optim.Adam(task.network.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        report = task.step(step, 0, 0)
        report.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(float(report.loss.detach()))
    return built, losses


@pytest.mark.parametrize(("share", "states_share"), [(0.0, 0.0), (1.0, 0.0), (0.5, 0.5)])
def test_two_equal_tasks_take_equal_steps(small: Small, tmp_path: Path, share: float, states_share: float) -> None:
    parts = {"update": {"share": share}, "curriculum": {"states_share": states_share}, "largest_tokens": 256}
    settings = small(objectives=EVERYTHING, **parts)
    base = tiny_base("llama")
    tasks = [made(base, settings, tmp_path / str(i)) for i in range(2)]
    assert any(row.states for row in tasks[0].batch(5).rows) == (states_share > 0)
    tasks[1].step(0, 0, 0)  # what was asked before does not matter
    reports = [task.step(5, 0, 0) for task in tasks]
    for report in reports:
        report.loss.backward()  # type: ignore[no-untyped-call]

    assert torch.equal(reports[0].loss, reports[1].loss)
    assert reports[0].parts == reports[1].parts
    one, other = map(gradients, tasks)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert isinstance(tasks[0], Carded)
    as_the_loop_sees_it: Task = tasks[0]
    assert as_the_loop_sees_it.flops_per_student_token > 0


def test_it_learns_from_the_text_and_not_from_the_question(small: Small, fixed: Any, codes: tuple[Sample, ...]) -> None:
    """Four texts that differ in a letter, one question: with another text's adapter its letter comes out."""
    base = tiny_base("llama")
    settings = small(objectives={"reconstruction": 0, "completion": 0, "kept": 0})
    built, losses = learned(base, settings, fixed(codes), 60)
    evaluator = Evaluator(base, settings, built)

    assert sum(losses[-5:]) < 0.3 * sum(losses[:5])
    own, swapped = (evaluator._share(codes, swap=swap, exact=True) for swap in (False, True))
    assert own >= 0.75
    assert swapped <= 0.25


def test_the_update_stage_learns_the_current_answer(small: Small, fixed: Any, moves: tuple[Sample, ...]) -> None:
    settings = small(
        objectives={**EVERYTHING, "distillation": 0, "retell_share": 0}, update={"share": 1.0}, curriculum={"asks": 3}
    )
    base = tiny_base("llama")
    built = with_data(build(base, settings), updates=fixed(moves))
    task = HypernetworkTask(base, settings, built)
    optimizer = torch.optim.Adam(task.network.parameters(), lr=0.01)
    parts = []
    for step in range(25):
        optimizer.zero_grad()
        report = task.step(step, 0, 0)
        report.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        parts.append(report.parts)

    for name in ("answer", "fused"):
        assert sum(p[name] for p in parts[-5:]) < 0.7 * sum(p[name] for p in parts[:5])


@pytest.mark.parametrize("states_share", [0.0, 0.5])
def test_all_objectives_are_reported_and_add_up(small: Small, tmp_path: Path, states_share: float) -> None:
    curriculum = {"largest": [[0, 5]], "asks": 3, "states_share": states_share}
    settings = small(objectives=EVERYTHING, update={"share": 0.5}, texts=6, curriculum=curriculum, largest_tokens=256)
    task = made(tiny_base("llama"), settings, tmp_path)
    assert any(row.states for row in task.batch(0).rows) == (states_share > 0)
    weights = settings.objectives.model_dump()
    names: set[str] = set()
    for step in range(4):
        report = task.step(step, 0, 0)
        parts = {name: value for name, value in report.parts.items() if name in weights}
        names |= parts.keys()
        assert float(report.loss.detach()) == pytest.approx(sum(weights[n] * v for n, v in parts.items()), rel=1e-4)
        assert 0 <= report.parts["padding"] < 1
        assert report.samples == 6
        assert min(report.text_tokens, report.student_tokens) > 0

    losses = {"answer", "reconstruction", "completion"} | (EVERYTHING.keys() - {"kept_share", "retell_share"})
    assert names == losses


@pytest.mark.parametrize(
    "name",
    ["distillation", "reconstruction", "completion", "kept", "fused", "stale", "unchanged", "factors_l1", "factors_l2"],
)
def test_a_weight_of_zero_removes_its_part(small: Small, tmp_path: Path, name: str) -> None:
    settings = small(objectives={**EVERYTHING, name: 0.0}, update={"share": 0.5})
    task = made(tiny_base("llama"), settings, tmp_path)

    assert not any(name in task.step(step, 0, 0).parts for step in range(3))


def test_answers_of_weight_zero_teach_nothing(small: Small, fixed: Any, codes: tuple[Sample, ...]) -> None:
    """Their loss is still reported; it is what a run is watched by."""
    settings = small(objectives={"answer": 0, "reconstruction": 1e-9, "completion": 0, "kept": 0})
    report = made(tiny_base("llama"), settings, source=fixed(codes)).step(0, 0, 0)

    assert report.loss.item() < 1e-6
    assert report.parts["answer"] > 0.1


@pytest.mark.parametrize("states_share", [0.0, 1.0])
def test_the_unchanged_reference_is_the_memory_before_the_update(
    small: Small, fixed: Any, moves: tuple[Sample, ...], states_share: float
) -> None:
    """What is new weighs α + β = 0, which no setting may say: the student is its reference, the divergence zero."""
    settings = small(
        objectives={"unchanged": 1.0, "kept": 0, "fused": 0},
        update={"share": 1.0, "alpha": 1.0},
        curriculum={"asks": 3, "states_share": states_share},
    )
    base = tiny_base("llama")
    built = with_data(build(base, settings), updates=fixed(moves))
    settings = settings.model_copy(update={"update": settings.update.model_copy(update={"beta": -1.0})})
    report = HypernetworkTask(base, settings, built).step(0, 0, 0)

    assert report.parts["unchanged"] == pytest.approx(0, abs=1e-5)


def test_beside_states_the_answer_alone_teaches_and_it_reaches_the_network(
    small: Small, tmp_path: Path, fixed: Any, codes: tuple[Sample, ...]
) -> None:
    """Nothing is retold or kept there, and the teacher would be the student without its adapter."""
    settings = small(objectives=EVERYTHING, curriculum={"states_share": 1.0})
    task = made(tiny_base("llama"), settings, tmp_path, source=fixed(codes))
    assert all(row.states for row in task.batch(0).rows)
    report = task.step(0, 0, 0)
    report.loss.backward()  # type: ignore[no-untyped-call]

    assert report.parts.keys() & EVERYTHING.keys() == {"factors_l1", "factors_l2"}
    assert {"answer", "exact/codes-both"} <= report.parts.keys()
    assert gradients(task)["out"].abs().amax() > 0


@pytest.mark.parametrize("beta", [0.0, 0.75])
def test_evidence_with_states_is_fused_with_the_composed_row(
    small: Small, fixed: Any, moves: tuple[Sample, ...], beta: float
) -> None:
    """Against each row packed on its own, behind its own head."""
    base = tiny_base("llama")
    settings = small(
        objectives={**EVERYTHING, "distillation": 0},
        update={"share": 1.0, "beta": beta},
        curriculum={"asks": 3, "states_share": 1.0},
    )
    task = made(base, settings, updates=fixed(moves))
    batch = task.batch(0)
    writer = task._built.writer
    losses = []
    with torch.no_grad():
        written = writer.write(batch.texts)
        alone = []
        for row in batch.rows:
            packed = pack([row.items], [*task._head, *row.states], device=base.device, dtype=base.dtype)
            if row.states:
                closed = (torch.arange(packed.ids.shape[1]) >= len(task._head) + len(row.states)).float()
                packed = dataclasses.replace(packed, gate=closed[None, :, None])
            logits = target_logits(base, packed, rows_of(written, [row.reads], writer.layers, base.dtype))
            alone.append([logits[packed.item == n].log_softmax(-1) for n in range(len(row.items))])
        whole = 0
        for at, row in enumerate(batch.rows):
            whole = whole if row.pairs else at
            for n, place in enumerate(row.pairs):
                log_g, log_e = alone[whole][place], alone[at][n]
                js = js_divergence(log_e, log_g)[:, None]
                fused = log_g + settings.update.lambda_max * js / (js + settings.update.tau) * log_e
                targets = torch.tensor(row.items[n].target_ids)
                losses.append(torch.nn.functional.cross_entropy(fused, targets))
        found = task.step(0, 0, 0).parts["fused"]

    assert sum(bool(row.states) for row in batch.rows) >= 4
    assert found == pytest.approx(float(torch.stack(losses).mean()), rel=1e-4)


def test_nothing_of_a_step_stays_on_the_model(small: Small) -> None:
    base = tiny_base("llama")
    task = made(base, small())
    ids = torch.tensor([[5, 9, 7, 30]])
    with torch.no_grad():
        before = base.model(input_ids=ids).logits
        task.evaluate(0)
    task.step(0, 0, 0).loss.backward()  # type: ignore[no-untyped-call]
    with torch.no_grad():
        after = base.model(input_ids=ids).logits

    assert torch.equal(before, after)
    assert all(p.grad is None for p in base.model.parameters())


def test_processes_share_the_micro_batches_of_a_step(small: Small, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes of one micro-batch a step never run the same one, and together run what one of two would."""
    base = tiny_base("llama")
    monkeypatch.setattr(task_module.BaseModel, "load", lambda *_, **__: base)
    asked: list[int] = []
    real = task_module.Batches.micro_batch
    monkeypatch.setattr(task_module.Batches, "micro_batch", lambda self, n: asked.append(n) or real(self, n))
    shared = build_task(small(), "cpu", 2)
    for step in range(3):
        for micro in range(2):
            shared.step(step, micro, micro)
    alone = build_task(small(run={"accumulation": 2}), "cpu")
    for step in range(3):
        for micro in range(2):
            alone.step(step, micro, 0)

    assert asked == [*range(6), *range(6)]


# --- folders --------------------------------------------------------------------------------------


def test_a_saved_network_writes_as_it_did_in_training(small: Small, tmp_path: Path) -> None:
    """Its weights are stored in bfloat16: rounded first, the factors are the same; float32."""
    base = tiny_base("llama")
    task = made(base, small())
    with torch.no_grad():
        for p in task.network.parameters():
            p += 0.05 * torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel()))
            p.copy_(p.bfloat16())
    task.save(tmp_path)
    loaded = load_hypernetwork(base, tmp_path)
    texts = ["Alice lives in Bern.", "The code of the door is 4711."]

    written = task._built.writer.write([base.chat.encode(text) for text in texts])
    for t, factors in enumerate(loaded.parameterizer.parameterize(texts)):
        A, B = factors.modules["mlp.down_proj"]
        assert torch.equal(A, written.A)
        torch.testing.assert_close(B, written.B[:, t], atol=1e-5, rtol=1e-4)


def test_a_doc_to_lora_network_trains_and_is_saved_as_a_checkpoint_of_its_own(small: Small, tmp_path: Path) -> None:
    base = tiny_base("llama")
    task = made(base, small(network=D2L, update={"share": 0.5}))
    optimizer = torch.optim.Adam(task.network.parameters(), lr=0.01)
    losses = []
    for step in (0, 0, 0):
        optimizer.zero_grad()
        report = task.step(step, 0, 0)
        report.loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(report.loss.item())
    task.save(tmp_path)
    loaded = load_hypernetwork(base, tmp_path)

    assert losses[-1] < losses[0]
    assert loaded.policy == AnswerPolicy()
    text = "Alice lives in Bern."
    (factors,) = loaded.parameterizer.parameterize([text])
    written = task._built.writer.write([base.chat.encode(text)])
    for i, layer in enumerate(factors.layers):
        expected = written.B[i, 0].T @ written.A[i, 0]
        assert expected.abs().max() > 0
        torch.testing.assert_close(factors.delta("mlp.down_proj", layer), expected, atol=1e-5, rtol=1e-4)


def test_an_interrupted_run_of_this_task_goes_on_to_the_same_curve(small: Small, tmp_path: Path) -> None:
    base = tiny_base("llama")
    same = {"schedule": "constant", "log_every": 1, "eval_every": 3, "checkpoint_every": 2, "accumulation": 2}

    def go(folder: str, steps: int, *, resume: bool = False) -> Any:
        settings = small(run={**same, "steps": steps}, update={"share": 0.3}, objectives={"distillation": 0.2})
        return run(
            made(base, settings, tmp_path / f"cache-{folder}-{resume}"),
            settings.run,
            tmp_path / folder,
            resume=resume,
            device="cpu",
            progress=RunProgress(quiet=True),
            described=settings.model_dump(mode="json", exclude={"run"}),
        )

    go("whole", 6)
    go("parts", 3)
    result = go("parts", 6, resume=True)

    def curve(folder: str) -> dict[int, dict[str, Any]]:
        rows = read_metrics(tmp_path / folder / "metrics.jsonl")
        return {r["step"]: {k: v for k, v in r.items() if k not in CLOCK} for r in rows if r["kind"] == "train"}

    assert result.resumed_from == 3
    assert curve("whole") == curve("parts")
    assert len(curve("whole")) == 6
    saved = [
        (tmp_path / f / "hypernetwork" / "model-00001-of-00001.safetensors").read_bytes() for f in ("whole", "parts")
    ]
    assert saved[0] == saved[1]
    assert (tmp_path / "whole" / "hypernetwork" / "README.md").is_file()
