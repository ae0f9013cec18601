"""The training task: a network over a frozen base model, its batches and its objectives.

One micro-batch: write every text once; let each row read its weighted sum; run the base model over
the packed questions; weigh the losses. Knows nothing of optimisers, folders or progress.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from plume_memory.model.base import BaseModel
from plume_memory.training import losses
from plume_memory.training.batches import Batch, Batches
from plume_memory.training.build import WRITTEN_MODULES, Built, build
from plume_memory.training.card import TaskCard
from plume_memory.training.compiled import compile_layers
from plume_memory.training.data import read_data
from plume_memory.training.evaluate import Evaluator
from plume_memory.training.inputs import inputs_of
from plume_memory.training.items import Item
from plume_memory.training.judging import JudgingTask
from plume_memory.training.packing import Packed, pack
from plume_memory.training.requirements import require_use
from plume_memory.training.reranking import MODULES as RERANKER_MODULES
from plume_memory.training.reranking import RerankingTask, load_start
from plume_memory.training.settings import JudgeSettings, RerankerSettings, TrainSettings
from plume_memory.training.student import exact_items, item_means, target_logits, token_losses
from plume_memory.training.task_protocol import StepReport
from plume_memory.training.writing import Written, rows_of


def build_task(
    settings: TrainSettings, device: str | None, processes: int = 1
) -> "HypernetworkTask | RerankingTask | JudgingTask":
    """Load the base model and the data, make or load the network.

    Args:
        settings: the run's.
        device: where it runs.
        processes: that share the micro-batches of each step.

    Raises:
        ModelError: the base model cannot be had.
        TrainingError: a data source or the starting network cannot be read, or parts of the settings do not fit.
        CheckpointError: the network that a reranker is trained for cannot be read.
        ParameterizerError: that network was made for a model of other sizes.
    """
    base = BaseModel.load(settings.model, device=device)
    kind = settings.network
    is_reader = isinstance(kind, RerankerSettings | JudgeSettings)
    if settings.compile:
        compile_layers(base.model, RERANKER_MODULES if is_reader else WRITTEN_MODULES)
    if is_reader:
        require_use(settings, vocabulary=base.model.config.vocab_size)
        task = RerankingTask if isinstance(kind, RerankerSettings) else JudgingTask
        return task(base, settings, load_start(base, settings), read_data(settings), processes=processes)
    return HypernetworkTask(base, settings, build(base, settings, processes=processes))


class HypernetworkTask:
    """See `training.task_protocol.Task`."""

    def __init__(self, base: BaseModel, settings: TrainSettings, built: Built) -> None:
        self.base, self._settings, self._built = base, settings, built
        self._head = base.chat.prefix_ids()
        self._batches = Batches(
            built.data.source,
            built.item_writer,
            settings,
            base.chat.encode,
            updates=built.data.updates,
            processes=built.processes,
        )
        self._evaluator = Evaluator(base, settings, built)
        self.network = built.writer.network
        weights = sum(p.numel() for p in base.model.parameters()) - base.model.get_input_embeddings().weight.numel()
        own = sum(p.numel() for p in self.network.parameters())
        self.flops_per_text_token = 2.0 * weights + 6.0 * own
        below = min(built.writer.layers) / base.model.config.num_hidden_layers
        # forward, and backward through activations above the lowest adapted layer; no gradient of the weights
        self.flops_per_student_token = 2.0 * weights * (2.0 - below)

    def step(self, step: int, micro: int, process: int) -> StepReport:
        """Run one micro-batch forward."""
        batch = self.batch(step, micro)
        base = self.base
        with base.lock:
            written = self._built.writer.write(batch.texts)
            states = [row.states for row in batch.rows]
            items = [row.items for row in batch.rows]
            packed = pack(items, self._head, states=states, device=base.device, dtype=base.dtype)
            rows = rows_of(written, [row.reads for row in batch.rows], self._built.writer.layers, base.dtype)
            logits = target_logits(base, packed, rows)
            parts = self._parts(batch, written, packed, logits)
        weights = self._settings.objectives.model_dump()
        total = torch.stack([weights[name] * value for name, value in parts.items()]).sum()
        report = {name: float(value.detach()) for name, value in parts.items()}
        report |= _exact_by_source(batch, packed, logits.detach())
        report["padding"] = 1 - packed.tokens / packed.ids.numel()
        return StepReport(total, report, sum(map(len, batch.texts)), packed.tokens, batch.samples)

    def batch(self, step: int, micro: int = 0) -> Batch:
        """The micro-batch of that number among all of a step, over all processes."""
        per_step = self._settings.run.accumulation * self._built.processes
        return self._batches.micro_batch(step * per_step + micro)

    def evaluate(self, step: int) -> Mapping[str, float]:
        """Exact answers by number of facts, prose, and what else changed; see training/evaluate.py."""
        del step
        return self._evaluator.figures()

    def save(self, folder: Path) -> None:
        """Write the loadable hypernetwork."""
        self._built.save(folder)

    def card(self) -> TaskCard:
        """What the model card says of it."""
        return self._built.card()

    def inputs(self) -> dict[str, str]:
        """Hashes of everything the run reads, by name: a run is resumed with the same."""
        return inputs_of(self.base, self._settings)

    def sources(self) -> list[str]:
        """One line for each source of data: what of it is used, and what is left out."""
        return self._built.data.sources

    # --- objectives -------------------------------------------------------------------------------

    def _parts(self, batch: Batch, written: Written, packed: Packed, logits: Tensor) -> dict[str, Tensor]:
        wanted = self._settings.objectives
        means = item_means(token_losses(logits, packed), packed, lead=wanted.lead)
        parts: dict[str, Tensor | None] = {}
        for kind in ("answer", "reconstruction", "completion"):
            parts[kind] = losses.mean_of(means, losses.of_kind(packed, kind))
        kept = losses.of_kind(packed, "kept")
        if wanted.kept > 0 and bool(kept.any()):
            parts["kept"] = losses.item_divergence(logits, self._reference(packed, kept, batch, None), packed, kept)
        pairs = _pairs(batch)
        if wanted.fused > 0 and pairs:
            stage = self._settings.update
            parts["fused"] = losses.fused(logits, packed, pairs, lambda_max=stage.lambda_max, tau=stage.tau)
        if wanted.stale > 0:
            parts["stale"] = losses.unlikelihood(logits, packed)
        unchanged = _unchanged(batch, packed)
        if wanted.unchanged > 0 and bool(unchanged.any()):
            reference = self._reference(packed, unchanged, batch, written)
            parts["unchanged"] = losses.item_divergence(logits, reference, packed, unchanged)
        if wanted.distillation > 0:
            parts["distillation"] = self._distilled(batch, packed, logits)
        if wanted.factors_l1 > 0:
            parts["factors_l1"] = written.B.abs().mean()
        if wanted.factors_l2 > 0:
            parts["factors_l2"] = written.B.square().mean()
        return {name: value for name, value in parts.items() if value is not None}

    def _reference(self, packed: Packed, chosen: Tensor, batch: Batch, written: Written | None) -> Tensor:
        """Logits of the chosen items without any memory, or with each row's memory before the update.

        None of them is of a row with states: those ask of one text alone, and nothing that must be kept.
        """
        items = iter(zip(packed.items, chosen.tolist(), strict=True))
        picked = [[item for item, wanted in (next(items) for _ in row.items) if wanted] for row in batch.rows]
        rows = [i for i, some in enumerate(picked) if some]
        small = pack([picked[i] for i in rows], self._head, device=self.base.device, dtype=self.base.dtype)
        with torch.no_grad():
            adapters = None
            if written is not None:
                before = [batch.rows[i].before for i in rows]
                adapters = rows_of(written, before, self._built.writer.layers, self.base.dtype)
            return target_logits(self.base, small, adapters)

    def _distilled(self, batch: Batch, packed: Packed, logits: Tensor) -> Tensor | None:
        """Distillation where the row reads exactly one whole text: only there is there one context to read.

        Not beside states: the teacher is the student without its adapter there.
        """
        teacher = self._built.teacher
        assert teacher is not None, "built with the objective"
        asked: list[int] = []
        wanted: list[tuple[tuple[int, ...], Item]] = []
        at = 0
        for row in batch.rows:
            for item in row.items:
                if item.kind == "answer" and len(row.reads) == 1 and not row.states:
                    asked.append(at)
                    wanted.append((batch.texts[row.reads[0][0]], item))
                at += 1
        return losses.distillation(logits, packed, asked, teacher.top(wanted)) if asked else None


def _exact_by_source(batch: Batch, packed: Packed, logits: Tensor) -> dict[str, float]:
    """Share of exactly right answers: `exact` over all, `exact/SOURCE` by the rows' sources."""
    hits = exact_items(logits, packed).tolist()
    sources = [row.source for row in batch.rows for _ in row.items]
    found: dict[str, list[bool]] = {}
    for item, hit, source in zip(packed.items, hits, sources, strict=True):
        if item.kind == "answer":
            found.setdefault("exact", []).append(hit)
            found.setdefault(f"exact/{source}", []).append(hit)
    return {name: sum(own) / len(own) for name, own in found.items()}


def _pairs(batch: Batch) -> list[tuple[int, int]]:
    """(global item, evidence item) over the flat list of items."""
    found: list[tuple[int, int]] = []
    at = whole = 0
    for row in batch.rows:
        if not row.pairs:
            whole = at
        found += [(whole + place, at + i) for i, place in enumerate(row.pairs)]
        at += len(row.items)
    return found


def _unchanged(batch: Batch, packed: Packed) -> Tensor:
    """[I] bool: questions of composed rows whose answer the update leaves as it was."""
    flags = [
        bool(row.before) and item.kind == "answer" and not item.affected for row in batch.rows for item in row.items
    ]
    return torch.tensor(flags, device=packed.targets.device)
