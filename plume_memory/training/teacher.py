"""The in-context teacher: the bare base model reading the text, its most likely tokens kept on disk.

Legend: n target tokens, k kept tokens.
"""

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from plume_memory.errors import TrainingError
from plume_memory.model.base import BaseModel
from plume_memory.training.items import Item
from plume_memory.training.packing import pack
from plume_memory.training.student import target_logits


@dataclass(frozen=True, slots=True, eq=False)
class TopK:
    """The teacher's distribution at each target token, cut to its k most likely tokens; not renormalised."""

    ids: Tensor
    """[n, k] int64."""
    probabilities: Tensor
    """[n, k] float32."""


class Teacher:
    """Reads text and question in one prompt and says what it expects of each token of the answer.

    Results are a function of (model, text, question, answer, k) and are computed once per cache file.
    """

    def __init__(self, base: BaseModel, top_k: int, cache: Path) -> None:
        """Open the cache.

        Args:
            base: the frozen model.
            top_k: k.
            cache: an SQLite file; made if it is missing.

        Raises:
            TrainingError: the file is no such cache, or cannot be written.
        """
        self._base, self._top_k = base, top_k
        self._cache = cache
        try:
            cache.parent.mkdir(parents=True, exist_ok=True)
            self._rows = sqlite3.connect(cache, timeout=60, isolation_level=None)
            self._rows.execute("PRAGMA journal_mode=WAL")
            self._rows.execute("CREATE TABLE IF NOT EXISTS teacher (key TEXT PRIMARY KEY, tensors BLOB NOT NULL)")
        except (sqlite3.Error, OSError) as err:
            raise self._unusable(err) from err

    def top(self, asked: Sequence[tuple[tuple[int, ...], Item]]) -> list[TopK]:
        """Return the teacher's expectations, from the cache where they are there.

        Args:
            asked: the text's ids and the exchange about it.

        Raises:
            TrainingError: the cache is damaged, or cannot be written.
        """
        keys = [self._key(text, item) for text, item in asked]
        found = {key: self._fetch(key) for key in keys}
        missing = [i for i, key in enumerate(keys) if found[key] is None]
        for at in range(0, len(missing), 16):
            some = missing[at : at + 16]
            for i, made in zip(some, self._compute([asked[i] for i in some]), strict=True):
                found[keys[i]] = made
                self._keep(keys[i], made)
        return [top for key in keys if (top := found[key]) is not None]

    def _fetch(self, key: str) -> TopK | None:
        try:
            row = self._rows.execute("SELECT tensors FROM teacher WHERE key = ?", (key,)).fetchone()
            if row is None:
                return None
            tensors = load(row[0])
            return TopK(tensors["ids"].long(), tensors["probabilities"].float())
        except (sqlite3.Error, SafetensorError, KeyError, TypeError) as err:
            raise self._unusable(err) from err

    def _keep(self, key: str, made: TopK) -> None:
        tensors = {"ids": made.ids.int(), "probabilities": made.probabilities.half()}
        try:
            self._rows.execute("INSERT OR IGNORE INTO teacher VALUES (?, ?)", (key, save(tensors)))
        except sqlite3.Error as err:
            raise self._unusable(err) from err

    def _unusable(self, err: Exception) -> TrainingError:
        return TrainingError(f"The teacher's cache {self._cache} cannot be used: {err}. Delete it, or name another.")

    def _compute(self, asked: Sequence[tuple[tuple[int, ...], Item]]) -> list[TopK]:
        base = self._base
        gap = tuple(base.chat.encode("\n\n"))
        rows = [[Item((*text, *gap, *item.prompt_ids), item.target_ids, item.kind)] for text, item in asked]
        packed = pack(rows, base.chat.prefix_ids(), device=base.device, dtype=base.dtype)
        with torch.no_grad(), base.lock:
            likely = torch.softmax(target_logits(base, packed, None).float(), dim=-1).topk(self._top_k)
        # through half precision here too: a cached result must equal a fresh one
        made = zip(likely.indices.cpu(), likely.values.half().float().cpu(), strict=True)
        tokens = list(made)
        lengths = [len(item.target_ids) for _, item in asked]
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        return [
            TopK(
                torch.stack([ids for ids, _ in tokens[at : at + n]]),
                torch.stack([probabilities for _, probabilities in tokens[at : at + n]]),
            )
            for at, n in zip(starts, lengths, strict=True)
        ]

    def _key(self, text: tuple[int, ...], item: Item) -> str:
        parts = [self._base.fingerprint, str(self._base.dtype), self._top_k, text, item.prompt_ids, item.target_ids]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()
