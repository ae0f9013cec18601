"""The figures to watch: answers that are exactly right on texts never seen, and what else changed.

`exact_8` is the share of answers about unseen texts of 8 facts that greedy decoding would write
exactly, behind the words that lead to them; `swapped_8` the same with each text's adapter exchanged
for another's, which must fall to what guessing gives. `exact_8_both` and `swapped_8_both`, of a run with states, are
the same with the text in front too: the second is what the states say beside an adapter that does not know the text.
`held_out_N` are facts of families that training
never drew. After a correction, read through the composition: `update_current` is the share of current
answers to affected questions, `update_stale` of outdated ones, `update_kept` of right answers to the
others. `prose` figures are token accuracies of answers; `kept` is the perplexity of unrelated prose
with an adapter over without.
"""

import random
from collections.abc import Sequence

import torch

from plume_memory.model.base import BaseModel
from plume_memory.training.build import Built
from plume_memory.training.items import Item
from plume_memory.training.packing import Packed, pack
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.settings import TrainSettings
from plume_memory.training.student import exact_items, target_logits, token_losses
from plume_memory.training.writing import rows_of

_AT_ONCE = 8


class Evaluator:
    """Judges the network as it is; the same weights give the same figures."""

    def __init__(self, base: BaseModel, settings: TrainSettings, built: Built) -> None:
        self._base, self._settings, self._built = base, settings, built
        self._head = base.chat.prefix_ids()

    def figures(self) -> dict[str, float]:
        """Every figure; see the module."""
        chosen = self._settings.evaluation
        found: dict[str, float] = {}
        for count in chosen.facts:
            texts = chosen.texts if count < 8 else max(2, chosen.texts // 2)
            samples = self._facts(count, texts)
            found[f"exact_{count}"] = self._share(samples, swap=False, exact=True)
            found[f"swapped_{count}"] = self._share(samples, swap=True, exact=True)
            if self._settings.curriculum.states_share > 0:
                found[f"exact_{count}_both"] = self._share(samples, swap=False, exact=True, both=True)
                found[f"swapped_{count}_both"] = self._share(samples, swap=True, exact=True, both=True)
            if chosen.families:
                found[f"held_out_{count}"] = self._share(
                    self._facts(count, texts, held_out=True), swap=False, exact=True
                )
        if chosen.updates:
            found |= self._updated()
        for name, samples in self._built.data.evaluation.items():
            found[f"prose_{name}"] = self._share(samples, swap=False, exact=False)
            found[f"prose_{name}_swapped"] = self._share(samples, swap=True, exact=False)
            found[f"prose_{name}_exact"] = self._share(samples, swap=False, exact=True)
            found[f"kept_{name}"] = self._kept(samples)
        return found

    def _facts(self, count: int, texts: int, *, held_out: bool = False) -> list[Sample]:
        chance = random.Random(f"{self._settings.evaluation.seed}:{count}")
        source = self._built.data.facts(count, held_out)
        return [source.draw(chance, largest=count, update=False) for _ in range(texts)]

    def _share(self, samples: Sequence[Sample], *, swap: bool, exact: bool, both: bool = False) -> float:
        """Share of items exactly right, or of tokens; the own text stands in front too with `both`."""
        right = total = 0
        for at in range(0, len(samples), _AT_ONCE):
            some = samples[at : at + _AT_ONCE]
            told = [samples[(at + i + 1) % len(samples)] for i in range(len(some))] if swap else some
            rows = [[self._built.item_writer.answer(ask) for ask in sample.asks] for sample in some]
            packed, logits = self._run(told, rows, states_of=some if both else None)
            hits = exact_items(logits, packed) if exact else (logits.argmax(-1) == packed.targets)[packed.in_answer]
            right, total = right + int(hits.sum()), total + len(hits)
        return right / max(1, total)

    def _updated(self) -> dict[str, float]:
        """What is answered after a correction, by the composed memory alone."""
        stage, chosen = self._settings.update, self._settings.evaluation
        chance = random.Random(f"{chosen.seed}:updates")
        source = self._built.data.facts(4, False)
        right: dict[str, list[bool]] = {"update_current": [], "update_stale": [], "update_kept": []}
        for _ in range(0, chosen.updates, _AT_ONCE):
            some = [source.draw(chance, largest=4, update=True) for _ in range(_AT_ONCE)]
            texts = [tuple(self._base.chat.encode(text)) for s in some for text in (s.text, s.update or "")]
            reads = [((2 * i, stage.alpha), (2 * i + 1, stage.alpha + stage.beta)) for i in range(len(some))]
            rows = [[item for ask in s.asks for item in self._targets(ask)] for s in some]
            packed, logits = self._answered(texts, reads, rows)
            hits = iter(exact_items(logits, packed).tolist())
            for ask in (ask for s in some for ask in s.asks):
                for name in ("update_current", "update_stale") if ask.affected else ("update_kept",):
                    right[name].append(next(hits))
        return {name: sum(own) / max(1, len(own)) for name, own in right.items()}

    def _targets(self, ask: Ask) -> list[Item]:
        """The exchange with the current answer, and where there is a stale one, with that in the same statement."""
        write = self._built.item_writer.answer
        return [write(ask)] if ask.stale is None else [write(ask), write(ask.before())]

    def _kept(self, samples: Sequence[Sample]) -> float:
        """Perplexity of another passage with an adapter attached, over the bare model's."""
        some = list(samples[:_AT_ONCE])
        rows = []
        for i in range(len(some)):
            ids = tuple(self._base.chat.encode(some[(i + 1) % len(some)].text))[:64]
            rows.append([Item(ids[:1], ids[1:], "kept")])
        packed, logits = self._run(some, rows)
        with torch.no_grad():
            bare = target_logits(self._base, packed, None)
        ratio = (token_losses(logits, packed) - token_losses(bare, packed)).mean().exp()
        return float(ratio)

    def _run(
        self,
        samples: Sequence[Sample],
        rows: Sequence[Sequence[Item]],
        *,
        states_of: Sequence[Sample] | None = None,
    ) -> tuple[Packed, torch.Tensor]:
        """Let each row answer from the text of the sample beside it, and the states of another's where given."""
        limit = self._settings.largest_tokens
        texts: list[tuple[int, ...]] = []
        reads: list[tuple[tuple[int, float], ...]] = []
        for sample in samples:
            ids = tuple(self._base.chat.encode(sample.text.strip()))
            pieces = [ids[at : at + limit] for at in range(0, len(ids), limit)]
            reads.append(tuple((len(texts) + i, 1.0) for i in range(len(pieces))))
            texts += pieces
        states = None if states_of is None else [self._built.item_writer.states(one.text) for one in states_of]
        return self._answered(texts, reads, rows, states)

    def _answered(
        self,
        texts: Sequence[tuple[int, ...]],
        reads: Sequence[tuple[tuple[int, float], ...]],
        rows: Sequence[Sequence[Item]],
        states: Sequence[Sequence[int]] | None = None,
    ) -> tuple[Packed, torch.Tensor]:
        base = self._base
        with torch.no_grad(), base.lock:
            written = self._built.writer.write(texts)
            packed = pack(rows, self._head, states=states, device=base.device, dtype=base.dtype)
            adapters = rows_of(written, reads, self._built.writer.layers, base.dtype)
            return packed, target_logits(base, packed, adapters)
