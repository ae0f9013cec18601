"""The training task of a judge: what a later text does to an earlier one, and whether an answer is supported.

An adapter and two linear heads over the frozen base model (retrieval/judge.py), trained as a cross-encoder:

    loss = mean over pairs of −log Σ_{verdicts allowed} p  +  mean over claims of the binary cross-entropy

Cases come in sets that share a text, which is read once: they are packed behind it, and none sees another.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from plume_memory.model.adapters import shared_rows
from plume_memory.model.base import BaseModel
from plume_memory.retrieval.judge import earlier_ids, later_ids, said_ids, text_ids
from plume_memory.training.ahead import DrawnAhead
from plume_memory.training.build import card_of
from plume_memory.training.card import TaskCard
from plume_memory.training.cases import ClaimSet, PairSet, Verdict
from plume_memory.training.data import Data
from plume_memory.training.facts import FAMILIES
from plume_memory.training.facts.cases import FactCases
from plume_memory.training.facts.relation import Relation
from plume_memory.training.inputs import inputs_of
from plume_memory.training.items import Item
from plume_memory.training.judgements import claims_of, pairs_of
from plume_memory.training.packing import pack_behind
from plume_memory.training.reranking import RerankerNetwork, Start
from plume_memory.training.settings import FactsData, JudgeSettings, TrainSettings
from plume_memory.training.student import target_states
from plume_memory.training.task_protocol import StepReport
from plume_memory.training.written import WrittenCases

ALLOWED: dict[Verdict, tuple[int, ...]] = {"unrelated": (0,), "adds": (1,), "replaces": (2,), "not replaces": (0, 1)}
"""Outputs of the heads that a verdict allows."""

_Set = TypeVar("_Set", PairSet, ClaimSet)
_TRIES = 200
_AT_ONCE = 8
_FILLED = 0.6


@dataclass(frozen=True, slots=True)
class _Read:
    """Cases as they are read: each behind the head of its set."""

    heads: tuple[list[int], ...]
    cases: tuple[list[list[int]], ...]


@dataclass(frozen=True, slots=True)
class _MicroBatch:
    """Sets that were drawn together, and their tokens."""

    pairs: list[PairSet]
    claims: list[ClaimSet]
    read: _Read
    """The pairs', then the claims'."""


class JudgeNetwork(nn.Module):
    """An adapter and two heads; both start without a say."""

    def __init__(self, model: nn.Module, layers: Sequence[int], rank: int, width: int) -> None:
        super().__init__()
        self.adapter = RerankerNetwork(model, layers, rank)
        self.weight = nn.Parameter(torch.zeros(OUTPUTS, width))
        self.bias = nn.Parameter(torch.zeros(OUTPUTS))

    def take(self, trained: JudgeWeights, where: str) -> None:
        """Go on from a trained judge.

        Raises:
            TrainingError: its adapter has other modules, layers that this lacks, or a larger rank.
        """
        self.adapter.take(trained.adapter, where)
        with torch.no_grad():
            self.weight.copy_(trained.weight)
            self.bias.copy_(trained.bias)

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
        self._drawn_ahead = DrawnAhead(
            self._micro_batch, device=base.device, stride=processes, end=settings.run.steps * self._per_step
        )
        written = [[Path(path).expanduser() for path in paths] for paths in (own.written_pairs, own.written_claims)]
        self._written = WrittenCases(written[0], written[1], most=own.most)
        self._facts = FactCases(_relations(settings, held_out=False), most=own.most)
        count = base.model.config.num_hidden_layers
        torch.manual_seed(settings.run.seed)
        layers = range(int(own.lowest_layer * count), count)
        self.network = JudgeNetwork(base.model, layers, own.rank, base.model.config.hidden_size)
        if start.judge is not None:
            self.network.take(start.judge, str(settings.start))
        elif start.reranker is not None:  # it has learnt already which sentence answers a question
            self.network.adapter.take(start.reranker, str(settings.start))
        self.network.to(base.device)
        weights = sum(p.numel() for p in base.model.parameters()) - base.model.get_input_embeddings().weight.numel()
        self.flops_per_text_token = 2.0 * weights
        # forward, and backward through activations above the lowest adapted layer; no gradient of the weights
        self.flops_per_student_token = 2.0 * weights * (2.0 - own.lowest_layer)

    def step(self, step: int, micro: int, process: int) -> StepReport:
        """Run one micro-batch forward."""
        del process
        drawn = self._drawn_ahead(step * self._per_step + micro)
        pairs, claims = drawn.pairs, drawn.claims
        with self.base.lock:
            scores, read = self._scores(drawn.read)
        count = sum(len(one.earlier) for one in pairs)
        of_pairs, of_claims = scores[:count], scores[count:]
        parts = {
            "pairs": pair_loss(of_pairs, barred(pairs).to(of_pairs.device)),
            "claims": _claim_loss(of_claims, claims),
        }
        report = {name: float(value.detach()) for name, value in parts.items()}
        report |= {"right_pairs": _right_pairs(of_pairs, pairs), "right_claims": _right_claims(of_claims, claims)}
        return StepReport(parts["pairs"] + parts["claims"], report, 0, read, len(scores))

    def evaluate(self, step: int) -> Mapping[str, float]:
        """Share of cases judged rightly, and of `replaces` precision and recall; of facts held out, and of prose."""
        del step
        chance, count = random.Random(self._settings.evaluation.seed), self._settings.evaluation.texts
        relations = _relations(self._settings, held_out=True) or _relations(self._settings, held_out=False)
        facts = FactCases(relations, most=self._own.most)
        pairs = [facts.pairs(chance) for _ in range(count)]
        claims = {"facts": [facts.claims(chance) for _ in range(count)]}
        for name, samples in self._data.evaluation.items():
            drawn = (claims_of(sample, chance, most=self._own.most) for sample in samples)
            claims[name] = [one for one in drawn if one is not None]
        with torch.no_grad(), self.base.lock:
            figures = _figures(torch.cat([self._scores(self._pairs_read(some))[0] for some in _few(pairs)]), pairs)
            for name, own in claims.items():
                if own:
                    scores = torch.cat([self._scores(self._claims_read(some))[0] for some in _few(own)])
                    figures[f"claims_{name}"] = _right_claims(scores, own)
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

    def _micro_batch(self, number: int) -> _MicroBatch:
        chance = random.Random(f"{self._settings.run.seed}:{number}")
        count = self._settings.texts
        pairs = [self.drawn_pairs(chance) for _ in range(count)]
        claims = [self._claims(chance) for _ in range(round(self._own.claims * count))]
        first, second = self._pairs_read(pairs), self._claims_read(claims)
        return _MicroBatch(pairs, claims, _Read(first.heads + second.heads, first.cases + second.cases))

    def drawn_pairs(self, chance: random.Random) -> PairSet:
        """Draw a set of pairs of any source."""
        if chance.random() < self._own.written:
            return self._written.pairs(chance)
        if chance.random() < self._own.facts:
            return self._facts.pairs(chance)
        updates = self._data.updates
        return _drawn(lambda: pairs_of(updates.draw(chance, largest=6, update=True), chance, most=self._own.most))

    def _claims(self, chance: random.Random) -> ClaimSet:
        if chance.random() < self._own.written:
            return self._written.claims(chance)
        if chance.random() < self._own.facts:
            return self._facts.claims(chance)
        source = self._data.source
        return _drawn(lambda: claims_of(source.draw(chance, largest=6, update=False), chance, most=self._own.most))

    # --- the model ----------------------------------------------------------------------------------

    def _pairs_read(self, sets: Sequence[PairSet]) -> _Read:
        base = self.base
        return _Read(
            tuple(later_ids(base, one.later) for one in sets),
            tuple([earlier_ids(base, text) for text, _ in one.earlier] for one in sets),
        )

    def _claims_read(self, sets: Sequence[ClaimSet]) -> _Read:
        base = self.base
        return _Read(
            tuple(text_ids(base, one.text) for one in sets),
            tuple([said_ids(base, asked, said) for asked, said, _ in one.claims] for one in sets),
        )

    def pair_states(self, sets: Sequence[PairSet]) -> Tensor:
        """[pairs, D] float32: what the heads judge of the pairs of some sets, in order; without gradients."""
        with torch.no_grad(), self.base.lock:
            return self._states_of(self._pairs_read(sets))[0]

    def _scores(self, read: _Read) -> tuple[Tensor, int]:
        """[cases, OUTPUTS] float32 of the cases of some sets, in order, and the tokens read; no case sees another."""
        states, tokens = self._states_of(read)
        return states @ self.network.weight.T + self.network.bias, tokens

    def _states_of(self, read: _Read) -> tuple[Tensor, int]:
        states, places, tokens = [], [], 0
        firsts = list(itertools.accumulate(map(len, read.cases), initial=0))
        widths = [len(head) + sum(map(len, own)) for head, own in zip(read.heads, read.cases, strict=True)]
        for some in _alike(widths):
            own, count = self._states([read.heads[n] for n in some], [read.cases[n] for n in some])
            states.append(own)
            places += [place for n in some for place in range(firsts[n], firsts[n + 1])]
            tokens += count
        order = torch.tensor(places, device=self.base.device).argsort()
        return torch.cat(states)[order], tokens

    def _states(self, heads: Sequence[list[int]], cases: Sequence[list[list[int]]]) -> tuple[Tensor, int]:
        """[cases, D] float32 behind the last token of each, and the tokens read."""
        base = self.base
        rows = [[Item(tuple(case), (0,), "answer") for case in own] for own in cases]
        packed = pack_behind(heads, rows, device=base.device, dtype=base.dtype)
        adapter = shared_rows(self.network.adapter.factors(), device=base.device, dtype=base.dtype)
        return target_states(base, packed, adapter).float(), packed.tokens


def _alike(widths: Sequence[int]) -> Iterator[list[int]]:
    """Rows to read together: each group's narrowest fills at least `_FILLED` of its widest, so that few tokens pad."""
    group: list[int] = []
    for n in sorted(range(len(widths)), key=lambda n: -widths[n]):
        if group and widths[n] < _FILLED * widths[group[0]]:
            yield group
            group = []
        group.append(n)
    if group:
        yield group


def _few(sets: Sequence[_Set]) -> Iterator[Sequence[_Set]]:
    return (sets[at : at + _AT_ONCE] for at in range(0, len(sets), _AT_ONCE))


def _drawn(draw: Callable[[], _Set | None]) -> _Set:
    for _ in range(_TRIES):
        found = draw()
        if found is not None:
            return found
    raise TrainingError(f"{_TRIES} samples in a row gave nothing to judge; use texts of several sentences.")


def _relations(settings: TrainSettings, *, held_out: bool) -> list[Relation]:
    excluded = [set(one.exclude_families) for one in settings.data if isinstance(one, FactsData)]
    never = set.intersection(*excluded) if excluded else set()
    return [one for family, own in FAMILIES.items() if (family in never) == held_out for one in own]


# --- losses and figures ---------------------------------------------------------------------------


def barred(sets: Sequence[PairSet]) -> Tensor:
    """Bool [pairs, 3]: the outputs that the verdicts of some sets do not allow."""
    return torch.tensor([[output not in ALLOWED[own] for output in range(3)] for own in _verdicts(sets)])


def pair_loss(scores: Tensor, never: Tensor) -> Tensor:
    """Mean −log Σ p of the outputs that may be; scores [pairs, ≥ 3], `never` of `barred`."""
    log_p = torch.log_softmax(scores[:, :3], dim=1)
    return -log_p.masked_fill(never, -torch.inf).logsumexp(1).mean()


def _verdicts(sets: Sequence[PairSet]) -> list[Verdict]:
    return [verdict for one in sets for _, verdict in one.earlier]


def _supported(sets: Sequence[ClaimSet]) -> list[bool]:
    return [supported for one in sets for *_, supported in one.claims]


def _claim_loss(scores: Tensor, sets: Sequence[ClaimSet]) -> Tensor:
    wanted = torch.tensor(_supported(sets), device=scores.device, dtype=scores.dtype)
    return F.binary_cross_entropy_with_logits(scores[:, 3], wanted)


def _right_pairs(scores: Tensor, sets: Sequence[PairSet]) -> float:
    best, wanted = scores[:, :3].argmax(1).tolist(), _verdicts(sets)
    return sum(at in ALLOWED[own] for at, own in zip(best, wanted, strict=True)) / len(wanted)


def _right_claims(scores: Tensor, sets: Sequence[ClaimSet]) -> float:
    said, wanted = (scores[:, 3] > 0).tolist(), _supported(sets)
    hits = sum(bool(one) == own for one, own in zip(said, wanted, strict=True))
    return hits / len(wanted)


def _figures(scores: Tensor, sets: Sequence[PairSet]) -> dict[str, float]:
    """Of `replaces`: precision and recall at one half; and the share of verdicts that are right."""
    said = (torch.softmax(scores[:, :3], dim=1)[:, 2] > 0.5).tolist()
    wanted = [verdict == "replaces" for verdict in _verdicts(sets)]
    both = sum(a and b for a, b in zip(said, wanted, strict=True))
    return {
        "precision": both / max(1, sum(said)),
        "recall": both / max(1, sum(wanted)),
        "verdicts": _right_pairs(scores, sets),
    }
