"""The figures to watch: answers that are exactly right on texts never seen, and what else changed.

`exact_8` is the share of answers about unseen texts of 8 facts that greedy decoding would write
exactly; `swapped_8` the same with each text's adapter exchanged for another's, which must fall to
what guessing gives. `prose` figures are token accuracies; `kept` is the perplexity of unrelated
prose with an adapter over without.
"""

import random
from collections.abc import Sequence

import torch

from plume_memory.model.base import BaseModel
from plume_memory.training.build import Built
from plume_memory.training.items import Item
from plume_memory.training.packing import Packed, pack
from plume_memory.training.samples import Sample
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
        for name, samples in self._built.evaluation.items():
            found[f"prose_{name}"] = self._share(samples, swap=False, exact=False)
            found[f"prose_{name}_swapped"] = self._share(samples, swap=True, exact=False)
            found[f"prose_{name}_exact"] = self._share(samples, swap=False, exact=True)
            found[f"kept_{name}"] = self._kept(samples)
        return found

    def _facts(self, count: int, texts: int) -> list[Sample]:
        chance = random.Random(f"{self._settings.evaluation.seed}:{count}")
        source = self._built.facts(count)
        return [source.draw(chance, largest=count, update=False) for _ in range(texts)]

    def _share(self, samples: Sequence[Sample], *, swap: bool, exact: bool) -> float:
        """Share of items exactly right, or of tokens."""
        right = total = 0
        for at in range(0, len(samples), _AT_ONCE):
            some = samples[at : at + _AT_ONCE]
            told = [samples[(at + i + 1) % len(samples)] for i in range(len(some))] if swap else some
            rows = [[self._built.item_writer.answer(ask) for ask in sample.asks] for sample in some]
            packed, logits = self._run(told, rows)
            hits = exact_items(logits, packed) if exact else logits.argmax(-1) == packed.targets
            right, total = right + int(hits.sum()), total + len(hits)
        return right / max(1, total)

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

    def _run(self, samples: Sequence[Sample], rows: Sequence[Sequence[Item]]) -> tuple[Packed, torch.Tensor]:
        """Let each row answer from the text of the sample beside it."""
        limit = self._settings.largest_tokens
        texts: list[tuple[int, ...]] = []
        reads: list[tuple[tuple[int, float], ...]] = []
        for sample in samples:
            ids = tuple(self._base.chat.encode(sample.text.strip()))
            pieces = [ids[at : at + limit] for at in range(0, len(ids), limit)]
            reads.append(tuple((len(texts) + i, 1.0) for i in range(len(pieces))))
            texts += pieces
        base = self._base
        with torch.no_grad(), base.lock:
            written = self._built.writer.write(texts)
            packed = pack(rows, self._head, device=base.device, dtype=base.dtype)
            adapters = rows_of(written, reads, self._built.writer.layers, base.dtype)
            return packed, target_logits(base, packed, adapters)
