"""The training task of a reranker: which sentence makes a question likely is to be the one that answers it.

The router takes sentence i for evidence by L_i, the mean log p of the question's tokens behind it, as an unsupervised
re-ranker does (UPR, Sachan et al. 2022). Here an adapter learns to set right what the frozen model ranks wrongly:

    loss = −log Σ_{i answers} softmax_i(κ · L_i)        κ: `network.sharpness`

over the sentences of a history, for each of its questions. Several sentences may answer; which of them is left to the
model (marginal likelihood). A sentence is read once for all questions: they are packed behind it, none sees another.

Legend: S sentences of a micro-batch, Q questions of one choice.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from plume_memory.errors import TrainingError
from plume_memory.hypernet.fastweight.checkpoint import (
    FastWeightManifest,
    read_manifest,
    write_manifest,
)
from plume_memory.hypernet.judge import JudgeWeights
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.hypernet.reranker import save_reranker
from plume_memory.lora.factors import LoraFactors, Pair
from plume_memory.model.adapters import decoder_layers, shared_rows
from plume_memory.model.base import BaseModel
from plume_memory.policy import Calibration
from plume_memory.retrieval.reader import question_ids, text_head, text_ids
from plume_memory.training.ahead import DrawnAhead
from plume_memory.training.batches import largest_at
from plume_memory.training.build import card_of
from plume_memory.training.card import TaskCard
from plume_memory.training.choices import Choice, choice_of
from plume_memory.training.conversations import WrittenConversations
from plume_memory.training.data import Data
from plume_memory.training.inputs import inputs_of
from plume_memory.training.items import Item
from plume_memory.training.packing import pack_behind
from plume_memory.training.samples import Sample
from plume_memory.training.settings import RerankerSettings, TrainSettings
from plume_memory.training.student import item_means, target_logits, token_losses
from plume_memory.training.task_protocol import StepReport

MODULES = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.down_proj")
_TRIES = 200
_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class Start:
    """The hypernetwork that a reranker is trained for, read once: its folder may change or go during the run."""

    manifest: FastWeightManifest
    files: dict[str, bytes]
    """The contents of its weight files, by name: what is trained anew is written over them."""
    reranker: LoraFactors | None
    """The one it has, to go on from."""
    judge: JudgeWeights | None
    """As the reranker."""


def load_start(base: BaseModel, settings: TrainSettings) -> Start:
    """Read the network in `start`, and see that it can be asked with this base model.

    Raises:
        CheckpointError: it cannot be read.
        ParameterizerError: it was made for a model of other sizes.
    """
    assert settings.start is not None, "checked by require_use"
    folder = Path(settings.start).expanduser()
    manifest = read_manifest(folder)
    loaded = load_hypernetwork(base, folder)
    others = ("config.json", "README.md")
    files = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name not in others}
    return Start(manifest, files, loaded.reranker, loaded.judge)


class RerankerNetwork(nn.Module):
    """Factors of one adapter; it starts as the identity."""

    def __init__(self, model: nn.Module, layers: Sequence[int], rank: int) -> None:
        super().__init__()
        self.layers = tuple(layers)
        block = decoder_layers(model)[self.layers[0]]
        linear: list[Any] = [block.get_submodule(name) for name in MODULES]
        widths = [(int(one.in_features), int(one.out_features)) for one in linear]
        count = len(self.layers)
        self.A = nn.ParameterList(torch.randn(count, rank, d_in) / d_in**0.5 for d_in, _ in widths)
        self.B = nn.ParameterList(torch.zeros(count, rank, d_out) for _, d_out in widths)

    def factors(self) -> LoraFactors:
        """The adapter, with gradients into the parameters."""
        pairs = {name: Pair(A, B) for name, A, B in zip(MODULES, self.A, self.B, strict=True)}
        return LoraFactors(pairs, self.layers)

    def take(self, trained: LoraFactors, where: str) -> None:
        """Go on from a trained adapter: it says at first what that says, also with a rank or layers to spare.

        Raises:
            TrainingError: that has other modules or sizes, layers that this lacks, or a larger rank.
        """
        own = self.factors()
        if not set(trained.layers) <= set(own.layers) or trained.rank > own.rank or _widths(trained) != _widths(own):
            raise TrainingError(
                f"The adapter in {where} has rank {trained.rank} on layers {trained.layers[0]} to "
                f"{trained.layers[-1]}, the settings ask for rank {own.rank} on {own.layers[0]} to {own.layers[-1]} of "
                "this base model; ask for its own, or for more."
            )
        places = [own.layers.index(layer) for layer in trained.layers]
        with torch.no_grad():
            for name, A, B in zip(MODULES, self.A, self.B, strict=True):
                A[places, : trained.rank] = trained.modules[name].A.to(A.dtype)
                B[places, : trained.rank] = trained.modules[name].B.to(B.dtype)


class RerankingTask:
    """See `training.task_protocol.Task`."""

    def __init__(
        self, base: BaseModel, settings: TrainSettings, start: "Start", data: Data, *, processes: int = 1
    ) -> None:
        """Take the parts.

        Raises:
            TrainingError: the reranker to go on from is of other sizes than the settings'.
        """
        own = settings.network
        assert isinstance(own, RerankerSettings), "another network has another task"
        self._start = start
        self.base, self._settings, self._own, self._data = base, settings, own, data
        self._per_step = settings.run.accumulation * processes
        self._pool: tuple[int, list[list[Choice]]] = (-1, [])
        self._drawn_ahead = DrawnAhead(
            self._micro_batch, device=base.device, stride=processes, end=settings.run.steps * self._per_step
        )
        self._conversations = WrittenConversations([Path(one).expanduser() for one in own.written_conversations])
        self._head = text_head(base, reranked=True)
        count = base.model.config.num_hidden_layers
        torch.manual_seed(settings.run.seed)
        self.network = RerankerNetwork(base.model, range(int(own.lowest_layer * count), count), own.rank)
        if start.reranker is not None:
            self.network.take(start.reranker, str(settings.start))
        self.network.to(base.device)
        weights = sum(p.numel() for p in base.model.parameters()) - base.model.get_input_embeddings().weight.numel()
        self.flops_per_text_token = 2.0 * weights
        # forward, and backward through activations above the lowest adapted layer; no gradient of the weights
        self.flops_per_student_token = 2.0 * weights * (2.0 - own.lowest_layer)

    def step(self, step: int, micro: int, process: int) -> StepReport:
        """Run one micro-batch forward."""
        del process
        choices = self._drawn_ahead(step * self._per_step + micro)
        losses, hits = [], []
        with self.base.lock:
            read, tokens = self._read(choices)
        for choice, log_p in zip(choices, read, strict=True):
            for scores, answers in zip(log_p, choice.answers, strict=True):
                losses.append(_loss(scores, answers, self._own.sharpness))
                hits.append(_is_hit(scores, answers))
        first = sum(hits) / len(hits)
        loss = torch.stack(losses).mean()
        return StepReport(loss, {"choice": float(loss.detach()), "first": first}, 0, tokens, len(choices))

    def evaluate(self, step: int) -> Mapping[str, float]:
        """Share of questions whose likeliest sentence answers, of all sentences of the text.

        `first_N` of N invented facts, `first_held_out_N` of families that are not trained, `first_NAME` of prose. Only
        questions that some sentences answer and some do not count; a figure without any is left out.
        """
        del step
        chosen = self._settings.evaluation
        judged = dict(self._data.evaluation)
        for held_out in (False, True) if chosen.families else (False,):
            for count in chosen.facts:
                chance = random.Random(f"{chosen.seed}:{count}")
                source = self._data.facts(count, held_out)
                name = f"held_out_{count}" if held_out else str(count)
                judged[name] = [source.draw(chance, largest=count, update=False) for _ in range(chosen.texts)]
        shares = {f"first_{name}": self._first(samples) for name, samples in judged.items()}
        return {name: share for name, share in shares.items() if share is not None}

    def save(self, folder: Path) -> None:
        """Write the hypernetwork it started from, with the reranker."""
        for name, content in self._start.files.items():
            (folder / name).write_bytes(content)
        factors = self.network.factors()
        stored = LoraFactors({n: Pair(A.detach(), B.detach()) for n, (A, B) in factors.modules.items()}, factors.layers)
        sha256 = save_reranker(stored.to(device="cpu", dtype=torch.bfloat16), folder)
        # how sure its answers were was fitted to other evidence
        # Fitted to the reranker that it started from: the calibration, and the embedding of what that one keeps.
        made_anew = {"calibration": Calibration(), "reranker_sha256": sha256, "embedding_sha256": None}
        manifest = self._start.manifest.model_copy(update=made_anew)
        write_manifest(manifest, folder)

    def card(self) -> TaskCard:
        """What the model card says of it."""
        return card_of(self.base, self._settings)

    def inputs(self) -> dict[str, str]:
        """Hashes of everything the run reads, by name: a run is resumed with the same."""
        return inputs_of(self.base, self._settings)

    def sources(self) -> list[str]:
        """One line for each source of data: what of it is used, and what is left out."""
        return self._data.sources

    # --- batches ------------------------------------------------------------------------------------

    def _micro_batch(self, number: int) -> list[Choice]:
        """The micro-batch of that number, counted over the whole run; drawn in pools sorted by length."""
        chosen = self._settings
        index, place = divmod(number, chosen.pool)
        if self._pool[0] != index:
            chance = random.Random(f"{chosen.run.seed}:pool:{index}")
            largest = largest_at(chosen.curriculum.largest, index * chosen.pool // self._per_step)
            drawn = sorted((self._draw(chance, largest) for _ in range(chosen.pool * chosen.texts)), key=_width)
            batches = [drawn[at : at + chosen.texts] for at in range(0, len(drawn), chosen.texts)]
            chance.shuffle(batches)
            self._pool = (index, batches)
        return self._pool[1][place]

    def _draw(self, chance: random.Random, largest: int) -> Choice:
        for _ in range(_TRIES):
            choice = self._drawn(chance, largest)
            if choice is not None:
                return choice
        raise TrainingError(
            f"{_TRIES} samples in a row have no question that some of their sentences answer and some do not; use "
            "texts of several sentences, or raise curriculum.largest."
        )

    def _drawn(self, chance: random.Random, largest: int) -> Choice | None:
        chosen, own = self._settings, self._own
        asks = chosen.curriculum.asks
        if own.written > 0 and chance.random() < own.written:
            return self._conversations.choice(chance, asks=asks, sentences=own.sentences)
        update = chance.random() < chosen.update.share
        sample = (self._data.updates if update else self._data.source).draw(chance, largest=largest, update=update)
        return choice_of(sample, chance, asks=asks, sentences=own.sentences)

    # --- reading ------------------------------------------------------------------------------------

    def _read(self, choices: Sequence[Choice]) -> tuple[list[Tensor], int]:
        """L [Q, S of the choice] of every choice in nats per token, and the tokens read."""
        base = self.base
        heads, rows = [], []
        for choice in choices:
            asked = [tuple(question_ids(base, question)) for question in choice.questions]
            for sentence in choice.sentences:
                *told, last = text_ids(base, sentence)
                heads.append([*self._head, *told])
                rows.append([Item((last,), ids, "answer") for ids in asked])
        packed = pack_behind(heads, rows, device=base.device, dtype=base.dtype)
        adapter = shared_rows(self.network.factors(), device=base.device, dtype=base.dtype)
        means = -item_means(token_losses(target_logits(base, packed, adapter), packed), packed)
        sizes = [len(choice.sentences) * len(choice.questions) for choice in choices]
        parts = torch.split(means, sizes)
        read = [part.view(len(c.sentences), len(c.questions)).T for part, c in zip(parts, choices, strict=True)]
        return read, packed.tokens

    def _first(self, samples: Sequence[Sample]) -> float | None:
        chance = random.Random(self._settings.evaluation.seed)
        choices = [
            c for s in samples if (c := choice_of(s, chance, asks=len(s.asks), sentences=len(s.text))) is not None
        ]
        hits = []
        with torch.no_grad(), self.base.lock:
            for at in range(0, len(choices), _AT_ONCE):
                some = choices[at : at + _AT_ONCE]
                for choice, log_p in zip(some, self._read(some)[0], strict=True):
                    hits += [_is_hit(scores, own) for scores, own in zip(log_p, choice.answers, strict=True)]
        return sum(hits) / len(hits) if hits else None


def _loss(scores: Tensor, answers: Sequence[bool | None], sharpness: float) -> Tensor:
    """−log of the share of those that answer [S]; what no longer holds takes no part."""
    judged = [i for i, own in enumerate(answers) if own is not None]
    right = [i for i, own in enumerate(answers) if own]
    return torch.logsumexp(sharpness * scores[judged], 0) - torch.logsumexp(sharpness * scores[right], 0)


def _is_hit(scores: Tensor, answers: Sequence[bool | None]) -> bool:
    """Whether the likeliest of the judged sentences answers."""
    judged = [i for i, own in enumerate(answers) if own is not None]
    return bool(answers[judged[int(scores.detach()[judged].argmax())]])


def _width(choice: Choice) -> int:
    """About how wide its widest row is, in characters."""
    return max(map(len, choice.sentences)) + sum(map(len, choice.questions))


def _widths(factors: LoraFactors) -> dict[str, tuple[int, int]]:
    return {name: (pair.A.shape[-1], pair.B.shape[-1]) for name, pair in factors.modules.items()}
