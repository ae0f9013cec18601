"""The training task of a judge: what a later text does to an earlier one, and whether an answer is supported.

An adapter and two linear heads over the frozen base model (retrieval/judge.py), trained as a cross-encoder:

    loss = mean over pairs of −log Σ_{verdicts allowed} p  +  mean over claims of the binary cross-entropy

Legend: R cases of a micro-batch, D hidden width.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from plume_memory.errors import TrainingError
from plume_memory.hypernet.fastweight.checkpoint import write_manifest
from plume_memory.hypernet.judge import OUTPUTS, JudgeWeights, save_judge
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.factors import Pair as FactorPair
from plume_memory.model.adapters import attached, shared_rows
from plume_memory.model.base import BaseModel
from plume_memory.retrieval.judge import claim_ids, padded, pair_ids
from plume_memory.training.build import card_of
from plume_memory.training.card import TaskCard
from plume_memory.training.cases import Claim, Pair, Verdict
from plume_memory.training.data import Data
from plume_memory.training.facts import FAMILIES
from plume_memory.training.facts.cases import FactPairs
from plume_memory.training.facts.relation import Relation
from plume_memory.training.inputs import inputs_of
from plume_memory.training.judgements import claim_of, pair_of
from plume_memory.training.reranking import RerankerNetwork, Start
from plume_memory.training.settings import FactsData, JudgeSettings, TrainSettings
from plume_memory.training.student import plain_attention
from plume_memory.training.task_protocol import StepReport

Case = Pair | Claim

ALLOWED: dict[Verdict, tuple[int, ...]] = {"unrelated": (0,), "adds": (1,), "replaces": (2,), "not replaces": (0, 1)}
"""Outputs of the heads that a verdict allows."""

_Case = TypeVar("_Case", Pair, Claim)
_TRIES = 200
_AT_ONCE = 32
_ALIKE = 8
"""Rows read at once, of like length: what attention in plain operations holds for the backward pass grows with both."""


class JudgeNetwork(nn.Module):
    """An adapter and two heads; both start without a say."""

    def __init__(self, model: nn.Module, layers: Sequence[int], rank: int, width: int) -> None:
        super().__init__()
        self.adapter = RerankerNetwork(model, layers, rank)
        self.weight = nn.Parameter(torch.zeros(OUTPUTS, width))
        self.bias = nn.Parameter(torch.zeros(OUTPUTS))

    def weights(self) -> JudgeWeights:
        """What is stored: the adapter in bfloat16, the heads in float32; on the CPU."""
        factors = self.adapter.factors()
        pairs = {n: FactorPair(A.detach(), B.detach()) for n, (A, B) in factors.modules.items()}
        stored = LoraFactors(pairs, factors.layers).to(device="cpu", dtype=torch.bfloat16)
        return JudgeWeights(stored, self.weight.detach().cpu(), self.bias.detach().cpu())


class JudgingTask:
    """See `training.task_protocol.Task`."""

    def __init__(
        self, base: BaseModel, settings: TrainSettings, start: Start, data: Data, *, processes: int = 1
    ) -> None:
        own = settings.network
        assert isinstance(own, JudgeSettings), "another network has another task"
        self._start, self._own, self._data = start, own, data
        self.base, self._settings = base, settings
        self._per_step = settings.run.accumulation * processes
        self._facts = FactPairs(_relations(settings, held_out=False))
        count = base.model.config.num_hidden_layers
        torch.manual_seed(settings.run.seed)
        layers = range(int(own.lowest_layer * count), count)
        self.network = JudgeNetwork(base.model, layers, own.rank, base.model.config.hidden_size)
        if start.reranker is not None:  # it has learnt already which sentence answers a question
            self.network.adapter.take(start.reranker, str(settings.start))
        self.network.to(base.device)
        weights = sum(p.numel() for p in base.model.parameters()) - base.model.get_input_embeddings().weight.numel()
        self.flops_per_text_token = 2.0 * weights
        # forward, and backward through activations above the lowest adapted layer; no gradient of the weights
        self.flops_per_student_token = 2.0 * weights * (2.0 - own.lowest_layer)

    def step(self, step: int, micro: int, process: int) -> StepReport:
        """Run one micro-batch forward."""
        del process
        chance = random.Random(f"{self._settings.run.seed}:{step * self._per_step + micro}")
        drawn = range(self._settings.texts)
        pairs = [self._pair(chance) for _ in drawn]
        claims = [self._claim(chance) for _ in range(round(self._own.claims * len(drawn)))]
        cases: list[Case] = [*pairs, *claims]
        with self.base.lock:
            scores, tokens = self._scores(cases)
        parts = {"pairs": _pair_loss(scores[: len(pairs)], pairs), "claims": _claim_loss(scores[len(pairs) :], claims)}
        report = {name: float(value.detach()) for name, value in parts.items()}
        report |= {"right_pairs": _right_pairs(scores, pairs), "right_claims": _right(scores[len(pairs) :], claims)}
        return StepReport(parts["pairs"] + parts["claims"], report, 0, tokens, len(cases))

    def evaluate(self, step: int) -> Mapping[str, float]:
        """Share of pairs and claims judged rightly, of relations that are not trained and of held-out passages."""
        del step
        chance = random.Random(self._settings.evaluation.seed)
        count = self._settings.evaluation.texts
        facts = FactPairs(_relations(self._settings, held_out=True) or _relations(self._settings, held_out=False))
        judged: dict[str, tuple[list[Pair], list[Claim]]] = {
            "facts": ([facts.pair(chance) for _ in range(count)], [facts.claim(chance) for _ in range(count)])
        }
        for name, samples in self._data.evaluation.items():
            claims = [claim for sample in samples if (claim := claim_of(sample, chance)) is not None]
            judged[name] = ([], claims)
        figures: dict[str, float] = {}
        with torch.no_grad(), self.base.lock:
            for name, (pairs, claims) in judged.items():
                if pairs:
                    figures |= {f"{k}_{name}": v for k, v in _figures(self._all(pairs), pairs).items()}
                if claims:
                    figures[f"claims_{name}"] = _right(self._all(claims), claims)
        return figures

    def save(self, folder: Path) -> None:
        """Write the hypernetwork it started from, with the judge."""
        for name, content in self._start.files.items():
            (folder / name).write_bytes(content)
        sha256 = save_judge(self.network.weights(), folder)
        write_manifest(self._start.manifest.model_copy(update={"judge_sha256": sha256}), folder)

    def card(self) -> TaskCard:
        """What the model card says of it."""
        return card_of(self.base, self._settings)

    def inputs(self) -> dict[str, str]:
        """Hashes of everything the run reads, by name: a run is resumed with the same."""
        return inputs_of(self.base, self._settings)

    def sources(self) -> list[str]:
        """One line for each source of data: what of it is used, and what is left out."""
        return self._data.sources

    # --- cases --------------------------------------------------------------------------------------

    def _pair(self, chance: random.Random) -> Pair:
        if chance.random() < self._own.facts:
            return self._facts.pair(chance)
        return _drawn(lambda: pair_of(self._data.updates.draw(chance, largest=6, update=True), chance))

    def _claim(self, chance: random.Random) -> Claim:
        if chance.random() < self._own.facts:
            return self._facts.claim(chance)
        return _drawn(lambda: claim_of(self._data.source.draw(chance, largest=6, update=False), chance))

    # --- the model ----------------------------------------------------------------------------------

    def _scores(self, cases: Sequence[Case]) -> tuple[Tensor, int]:
        """[R, OUTPUTS] float32 of some cases, and the tokens read."""
        base = self.base
        rows = [_ids(base, case) for case in cases]
        adapter = shared_rows(self.network.adapter.factors(), device=base.device, dtype=base.dtype)
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        parts = []
        with attached(base.model, adapter), plain_attention(base):
            for at in range(0, len(order), _ALIKE):
                ids, last = padded([rows[i] for i in order[at : at + _ALIKE]], base)
                hidden = base.model.model(input_ids=ids, use_cache=False).last_hidden_state
                parts.append(hidden[torch.arange(len(ids), device=ids.device), last].float())
        places = torch.tensor(order, device=base.device).argsort()
        own = torch.cat(parts)[places]
        return own @ self.network.weight.T + self.network.bias, sum(map(len, rows))

    def _all(self, cases: Sequence[Case]) -> Tensor:
        return torch.cat([self._scores(cases[at : at + _AT_ONCE])[0] for at in range(0, len(cases), _AT_ONCE)])


def _ids(base: BaseModel, case: Case) -> list[int]:
    if isinstance(case, Pair):
        return pair_ids(base, case.earlier, case.later)
    return claim_ids(base, case.text, case.question, case.answer)


def _drawn(draw: Callable[[], _Case | None]) -> _Case:
    for _ in range(_TRIES):
        case = draw()
        if case is not None:
            return case
    raise TrainingError(f"{_TRIES} samples in a row gave nothing to judge; use texts of several sentences.")


def _relations(settings: TrainSettings, *, held_out: bool) -> list[Relation]:
    excluded = [set(one.exclude_families) for one in settings.data if isinstance(one, FactsData)]
    never = set.intersection(*excluded) if excluded else set()
    return [one for family, own in FAMILIES.items() if (family in never) == held_out for one in own]


# --- losses and figures ---------------------------------------------------------------------------


def _pair_loss(scores: Tensor, pairs: Sequence[Pair]) -> Tensor:
    log_p = torch.log_softmax(scores[:, :3], dim=1)
    allowed = [torch.logsumexp(row[list(ALLOWED[pair.verdict])], 0) for row, pair in zip(log_p, pairs, strict=True)]
    return -torch.stack(allowed).mean()


def _claim_loss(scores: Tensor, claims: Sequence[Claim]) -> Tensor:
    wanted = torch.tensor([float(claim.supported) for claim in claims], device=scores.device)
    return F.binary_cross_entropy_with_logits(scores[:, 3], wanted)


def _right_pairs(scores: Tensor, pairs: Sequence[Pair]) -> float:
    best = scores[: len(pairs), :3].argmax(1).tolist()
    return sum(at in ALLOWED[pair.verdict] for at, pair in zip(best, pairs, strict=True)) / len(pairs)


def _right(scores: Tensor, claims: Sequence[Claim]) -> float:
    said = (scores[:, 3] > 0).tolist()
    hits = sum(bool(one) == claim.supported for one, claim in zip(said, claims, strict=True))
    return hits / max(1, len(claims))


def _figures(scores: Tensor, pairs: Sequence[Pair]) -> dict[str, float]:
    """Of `replaces`: precision and recall at one half; and the share of verdicts that are right."""
    said = (torch.softmax(scores[:, :3], dim=1)[:, 2] > 0.5).tolist()
    wanted = [pair.verdict == "replaces" for pair in pairs]
    both = sum(a and b for a, b in zip(said, wanted, strict=True))
    return {
        "precision": both / max(1, sum(said)),
        "recall": both / max(1, sum(wanted)),
        "verdicts": _right_pairs(scores, pairs),
    }
