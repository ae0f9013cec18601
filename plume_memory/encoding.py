"""What texts become for one frozen model: factors H(text) and compiled states, each made once.

A derivation key names all that a value depends on (model, dtype, device, parameterizer, text), so what is found under
it is never stale. What belongs to a single text lives in the caller's cache, beyond this process; what several texts
became together stays in this process only.
"""

import hashlib
import json
import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import torch

from plume_memory.hypernet.parameterizer import Parameterizer
from plume_memory.lora.algebra import weighted_sum
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import from_bytes, to_bytes
from plume_memory.lora.sums import RunningSum
from plume_memory.lru import LRUCache
from plume_memory.model.base import BaseModel
from plume_memory.model.reading import compile_states
from plume_memory.model.states import States
from plume_memory.records import Unit, join_units
from plume_memory.scheduling.together import Together

_JOINED = "joined:"
"""Marks what several units together, or one sentence, became: kept in this process only."""
RECENT_BYTES = 256 * 2**20
"""What a process keeps of all that it derived, in bytes: factors, states, sums and global adapters together."""
_TOGETHER = 32
"""Texts that are written in one call: their factors, 2.9 MB each of the shipped network, are there at once."""


class Cache(Protocol):
    """Where derived bytes live between processes."""

    @property
    def place(self) -> str:
        """Where it is kept: an erasure lets go of all of a place."""

    @property
    def owner(self) -> str:
        """Whose it is: two caches of one place and owner hold the same."""

    def get(self, key: str) -> bytes | None:
        """Return the bytes under `key`; None when they are not there."""

    def put(self, key: str, kind: str, content: bytes) -> None:
        """Keep bytes under `key`."""

    def discard(self, key: str) -> None:
        """Delete the bytes under `key`, if there are any."""

    def keys(self, kind: str) -> list[str]:
        """Return the keys of everything of a kind that is kept for the owner."""

    def retire(self, key: str) -> None:
        """Delete the bytes under `key`, as others took their place; what another owner shares may stay."""

    def is_current(self) -> bool:
        """Whether no text that its reader holds was erased since it was read; else nothing of it may be kept."""


class TextEncoder:
    """Encodes texts into factors or states. Safe to share between threads.

    Args:
        base: the frozen model.
        parameterizer: text → factors; None for a model without one, which compiles states only.
    """

    def __init__(self, base: BaseModel, parameterizer: Parameterizer | None) -> None:
        self._base = base
        self._parameterizer = parameterizer
        self.recent = LRUCache(RECENT_BYTES, size=self._nbytes)
        """What this process keeps, in bytes."""
        self._compile: Together[list[int], States] = Together(lambda rows: compile_states(base, rows))
        self._write: Together[str, LoraFactors] = Together(lambda texts: self._required().parameterize(texts))

    def work(self) -> tuple[int, float]:
        """Passes in which texts were encoded so far, and their seconds."""
        both = (self._compile, self._write)
        return sum(one.calls for one in both), sum(one.seconds for one in both)

    @property
    def dtype(self) -> torch.dtype:
        """Of the model, and of what is written for it."""
        return self._base.dtype

    def factors(self, text: str, cache: Cache) -> LoraFactors:
        """H(text) without the bias block, from the cache or the parameterizer."""
        key = self.factors_key(text)
        factors: LoraFactors | None = self.recent.get(cache, key)
        if factors is None:
            epoch = self.recent.epoch(cache)
            content = cache.get(key)
            if content is None:
                content = self._factor_bytes(text)
                cache.put(key, "factors", content)
            factors = self._factors_of(content)
            self.recent.put(cache, key, factors, epoch=epoch)
        return factors

    def factors_of_many(self, texts: Sequence[str], cache: Cache | None) -> Iterator[tuple[str, LoraFactors]]:
        """H of each text without the bias block, written a few at a time; not kept, as they go into a sum.

        Args:
            texts: different ones, in any order.
            cache: where an earlier release may have kept some of them; None: all are made anew.
        """
        lacking = []
        for text in texts:
            content = None if cache is None else cache.get(self.factors_key(text))
            if content is None:
                lacking.append(text)
            else:
                yield text, self._factors_of(content)
        for start in range(0, len(lacking), _TOGETHER):
            some = lacking[start : start + _TOGETHER]
            yield from zip(some, self._required().parameterize(some), strict=True)

    def factors_together(self, units: Sequence[Unit], cache: Cache) -> LoraFactors:
        """H of units without the bias block: of one text that joins them, in temporal order (`join_units`).

        A parameterizer that trains on each text does not write a joined one: the units' own factors, which the global
        adapter needs anyway, are added at weight 1/k. What a joined text became stays in this process: no unit bears
        its name, so `discard` could not find it in the cache once a text of it is forgotten.

        Args:
            units: at least one, in any order.
            cache: whose they are.
        """
        parameterizer = self._required()
        if parameterizer.additive and parameterizer.shared_a is None:
            ordered = sorted(units, key=lambda unit: (unit.position, unit.start))
            return weighted_sum([(1 / len(ordered), self.factors(unit.text, cache)) for unit in ordered])
        text = join_units(units)
        key = _JOINED + self.factors_key(text)
        factors: LoraFactors | None = self.recent.get(cache, key)
        if factors is None:
            epoch = self.recent.epoch(cache)
            factors = self._made(text)
            self.recent.put(cache, key, factors, epoch=epoch)
        return factors

    def states(self, ids: list[int], cache: Cache, *, joined: bool) -> States:
        """Key/value states of token ids; of `joined` texts they stay in this process."""
        key = self.states_key(ids)
        kept_as = _JOINED + key if joined else key
        states: States | None = self.recent.get(cache, kept_as)
        if states is None:
            epoch = self.recent.epoch(cache)
            content = None if joined else cache.get(key)
            states = self._compile([ids])[0] if content is None else States.from_bytes(content)
            if content is None and not joined:
                cache.put(key, "states", states.to_bytes())
            self.recent.put(cache, kept_as, states, epoch=epoch)
        return states

    def difference(self, text: str, cache: Cache) -> float | None:
        """How far what the cache keeps as H(text) lies from H(text) derived anew; None where it keeps nothing.

        Relative to the latter, over all factors: 0 the same, rounding below 0.01, another text's about 1.
        """
        content = cache.get(self.factors_key(text))
        if content is None:
            return None
        kept, anew = self._factors_of(content), self._factors_of(self._factor_bytes(text))
        pairs = [(kept.modules[name].B.float(), pair.B.float()) for name, pair in anew.modules.items()]
        gap = sum(float((a - b).square().sum()) for a, b in pairs)
        whole = sum(float(b.square().sum()) for _, b in pairs)
        return math.sqrt(gap / max(whole, 1e-30))

    def discard(self, keys: Sequence[str], cache: Cache) -> None:
        """Delete what is kept under keys, in the cache and this process, and all that joined texts became.

        What joined texts became does not say of which: it goes for every history of the cache's owner.
        """
        for key in keys:
            cache.discard(key)
            self.recent.discard(cache, key)
        self.recent.discard_all(cache, _JOINED)

    def release(self, place: str) -> None:
        """Let go of everything this process keeps of a cache's place."""
        self.recent.release(place)

    def factors_key(self, text: str) -> str:
        """Derivation key of H(text)."""
        own = self._parameterizer.fingerprint if self._parameterizer else "none"
        # Gradient steps and hypernetwork passes round differently per dtype and kind of device.
        return self._key("factors-1", str(self._base.dtype), self._base.device.type, own, text)

    def states_key(self, ids: list[int]) -> str:
        """Derivation key of compiled states."""
        return self._key("kv-1", str(self._base.dtype), self._base.device.type, ids)

    def sum_key(self, digest: bytes) -> str:
        """Derivation key of the sum over a chain of texts (sums.py); "sum-4" changes when texts are cut otherwise."""
        parameterizer = self._required()
        own = (parameterizer.fingerprint, parameterizer.max_tokens)
        return self._key("sum-4", str(self._base.dtype), self._base.device.type, *own, digest.hex())

    def _key(self, kind: str, *parts: object) -> str:
        return hashlib.sha256(json.dumps([kind, self._base.fingerprint, *parts]).encode()).hexdigest()

    def _made(self, text: str) -> LoraFactors:
        parameterizer = self._required()
        if parameterizer.additive and parameterizer.shared_a is None:  # it trains: nobody is kept waiting for another
            return parameterizer.parameterize([text])[0]
        return self._write([text])[0]

    def _factor_bytes(self, text: str) -> bytes:
        return to_bytes(self._made(text), without_A=self._required().shared_a is not None)

    def _factors_of(self, content: bytes) -> LoraFactors:
        return from_bytes(content, A=self._required().shared_a)

    def _nbytes(self, made: LoraFactors | States | RunningSum) -> int:
        """Bytes of what is kept; an A that all texts share is there anyway."""
        if isinstance(made, RunningSum):
            return made.nbytes
        if isinstance(made, States):
            return made.keys.nbytes + made.values.nbytes
        shared = (self._parameterizer.shared_a if self._parameterizer else None) or {}
        own_a = sum(pair.A.nbytes for name, pair in made.modules.items() if shared.get(name) is not pair.A)
        return own_a + sum(pair.B.nbytes for pair in made.modules.values())

    def _required(self) -> Parameterizer:
        assert self._parameterizer is not None, "the engine refuses an adapter as evidence without a parameterizer"
        return self._parameterizer
