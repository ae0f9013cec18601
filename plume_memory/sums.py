"""ΔW_full of histories as running sums: each made of the nearest one that is kept, so an update costs its own text.

A sum belongs to an exact chain of texts and is kept under the hash of that chain, so it is never stale: after a
rollback, a forget or an erasure the history has another hash. It is then made of the sum at hand by adding what is
missing and taking away what is too much, or anew where that is less to encode. An erasure deletes the sums themselves,
as all that its memory's texts became, and what is made after it is made of the texts that are left.

One sum is kept for each memory, of its newest version, and no factors of a window: those are 2.9 MB of the shipped
network, however short a text is, and are derived again when a text is to be taken away.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, fields, replace

import torch

from plume_memory.encoding import Cache, TextEncoder
from plume_memory.lora.sums import Adder, RunningSum, from_bytes, relative_gap, to_bytes
from plume_memory.records import Context, History, Overrules, Transition
from plume_memory.segmentation.windows import Segmenter

KIND = "sum"
_NEAR = 128
"""How many texts back a sum is looked for in this process before the artifacts are asked."""


def digests_of(transitions: Sequence[Transition], behind: tuple[bytes, ...] = ()) -> tuple[bytes, ...]:
    """Return the sha256 of the chain of texts up to each transition, behind those of the transitions before them."""
    found = list(behind)
    for transition in transitions:
        own = hashlib.sha256(transition.text.encode("utf-8", "surrogatepass"))
        if transition.context != Context():
            stated = [(one.name, getattr(transition.context, one.name)) for one in fields(Context)]
            own.update(b"\0" + repr([pair for pair in stated if pair[1] is not None]).encode())
        found.append(hashlib.sha256((found[-1] if found else b"") + own.digest()).digest())
    return tuple(found)


@dataclass(frozen=True, slots=True, eq=False)
class Lineage:
    """What is known of a history beside its texts."""

    digests: tuple[bytes, ...]
    """Of the chain up to each text (`digests_of`)."""
    is_newest: bool = True
    """Whether it is of the memory's newest version: the sums of older ones are not kept beyond this process."""
    earlier: Callable[[int], History] | None = None
    """Reads the history of another version: what a sum at hand was made of."""
    lock: AbstractContextManager[object] = field(default_factory=nullcontext)
    """Held while a sum is made: who waits for it goes on from there."""

    @classmethod
    def of(cls, history: History) -> "Lineage":
        """Of a history of which nothing else is known."""
        return cls(digests_of(history.transitions))


@dataclass(frozen=True, slots=True, eq=False)
class _Base:
    """A sum to begin with."""

    sum: RunningSum
    texts: tuple[Transition, ...]
    is_predecessor: bool


class Sums:
    """Makes and keeps running sums. Safe to share between threads.

    Args:
        encoder: of a parameterizer that gives all texts one A.
        segmenter: cuts each text into windows on its own.
    """

    def __init__(self, encoder: TextEncoder, segmenter: Segmenter) -> None:
        self._encoder = encoder
        self._segmenter = segmenter

    def of(self, history: History, cache: Cache, lineage: Lineage) -> RunningSum:
        """Return the sum of a history of at least one text, from this process, the cache, or what is near it."""
        key = self._encoder.sum_key(lineage.digests[-1])
        found = self._found(key, cache)
        if found is None:
            with lineage.lock:
                found = self._found(key, cache)
                if found is None:
                    found = self._made(history, cache, lineage, key)
        return found

    def discard(self, lineage: Lineage, cache: Cache) -> None:
        """Delete the sum of a history, and every other that is kept for the cache's owner: the next is made anew."""
        own = [self._encoder.sum_key(lineage.digests[-1])] if lineage.digests else []
        for key in dict.fromkeys([*own, *cache.keys(KIND)]):
            cache.discard(key)
        self._encoder.recent.discard_all(cache, KIND)

    def gaps(self, history: History, cache: Cache, lineage: Lineage, *, whole: bool) -> list[float]:
        """How far the kept sum lies from one derived anew, once for each window compared; none where none is kept.

        Args:
            history: of at least one text.
            cache: where it is kept.
            lineage: of the history.
            whole: compare the whole sum; else what the newest text brought alone.
        """
        content = cache.get(self._encoder.sum_key(lineage.digests[-1]))
        if content is None:
            return []
        kept = from_bytes(content)
        last = Counter(self._windows(history.transitions[-1]))
        weights = Counter[str]()
        for transition in history.transitions if whole else ():
            weights.update(self._windows(transition))
        total, part = self._added(Adder(), weights, last, None)
        gaps = [relative_gap(kept.last, part.total())] * last.total() if last else []
        return gaps + [relative_gap(kept.total, total.total())] * (weights.total() - last.total()) if weights else gaps

    # --- inside ---------------------------------------------------------------------------------

    def _found(self, key: str, cache: Cache) -> RunningSum | None:
        recent = self._encoder.recent
        found: RunningSum | None = recent.get(cache, KIND + key)
        if found is None:
            epoch = recent.epoch(cache)
            content = cache.get(key)
            if content is not None:
                found = from_bytes(content)
                recent.put(cache, KIND + key, found, epoch=epoch)
        return found

    def _made(self, history: History, cache: Cache, lineage: Lineage, key: str) -> RunningSum:
        epoch = self._encoder.recent.epoch(cache)
        base = self._base(history, cache, lineage)
        made = self._extended(history, cache, base)
        if lineage.is_newest and made.windows:
            made = self._keep(made, base, cache, lineage)
        self._encoder.recent.put(cache, KIND + key, made, epoch=epoch)
        return made

    def _keep(self, made: RunningSum, base: _Base | None, cache: Cache, lineage: Lineage) -> RunningSum:
        """Put the sum in the place of the one before."""
        goes_on = base is not None and base.is_predecessor and base.sum.is_kept
        replaced = [self._encoder.sum_key(lineage.digests[-2])] if goes_on else cache.keys(KIND)
        key = self._encoder.sum_key(lineage.digests[-1])
        cache.put(key, KIND, to_bytes(made, narrow=self._encoder.dtype))
        for other in replaced:
            if other != key:
                cache.retire(other)
        return replace(made, is_kept=True)

    def _base(self, history: History, cache: Cache, lineage: Lineage) -> _Base | None:
        """The sum to begin with: a recent one of this process, the kept one, or none where it saves nothing."""
        count = len(history.transitions)
        for texts in range(count - 1, max(0, count - 1 - _NEAR), -1):
            key = self._encoder.sum_key(lineage.digests[texts - 1])
            is_predecessor = texts == count - 1
            near = self._found(key, cache) if is_predecessor else self._encoder.recent.get(cache, KIND + key)
            if near is not None:
                return _Base(near, history.transitions[:texts], is_predecessor)
        found = [base for key in cache.keys(KIND) if (base := self._kept(key, history, cache, lineage)) is not None]
        best = min(found, key=lambda base: _cost(history, base), default=None)
        return best if best is not None and _cost(history, best) < _cost(history, None) else None

    def _kept(self, key: str, history: History, cache: Cache, lineage: Lineage) -> _Base | None:
        """The sum under a key with the texts that it is the sum of; None where they are not known."""
        found = self._found(key, cache)
        if found is None:
            return None
        for texts, digest in enumerate(lineage.digests, start=1):
            if self._encoder.sum_key(digest) == key:
                return _Base(found, history.transitions[:texts], is_predecessor=False)
        if lineage.earlier is not None:
            told = lineage.earlier(found.version).transitions
            if told and self._encoder.sum_key(digests_of(told)[-1]) == key:
                return _Base(found, told, is_predecessor=False)
        return None

    def _extended(self, history: History, cache: Cache, base: _Base | None) -> RunningSum:
        """The sum of a history: the base's, and the windows of the texts that it lacks or has too many."""
        missing, surplus = _difference(history, base)
        total, windows = Adder(base.sum.total if base else None), base.sum.windows if base else 0
        if base is not None:
            newest = _told(base.texts[-1])
            if surplus[newest]:  # of a text that is taken away its own part is at hand
                total.subtract(base.sum.last)
                windows -= base.sum.last_windows
                surplus[newest] -= 1
        weights = Counter[str]()
        for told, times in [*missing.items(), *((told, -times) for told, times in surplus.items() if times)]:
            for window in self._windows(told):
                weights[window] += times
        last = Counter(self._windows(history.transitions[-1]))
        total, part = self._added(total, weights, last, cache)
        whole, brought = total.total(), part.total()
        return RunningSum(
            whole,
            {name: brought.get(name, torch.zeros_like(tensor)) for name, tensor in whole.items()},
            total.layers or part.layers or (base.sum.layers if base else ()),
            history.version,
            windows + weights.total(),
            last.total(),
        )

    def _added(
        self, total: Adder, weights: Counter[str], last: Counter[str], cache: Cache | None
    ) -> tuple[Adder, Adder]:
        """Add windows to a sum, and to one of the newest text alone."""
        part = Adder()
        wanted = [window for window in {**weights, **last} if weights[window] or last[window]]
        for window, factors in self._encoder.factors_of_many(wanted, cache):
            for adder, times in ((total, weights[window]), (part, last[window])):
                if times:
                    adder.add(factors, times)
        return total, part

    def _windows(self, told: Transition) -> list[str]:
        return self._segmenter.windows([told])


def _difference(history: History, base: _Base | None) -> tuple[Counter[Transition], Counter[Transition]]:
    """Texts that a base lacks, and those that it has too many."""
    held, known = history.transitions, base.texts if base else ()
    if held[: len(known)] == known:
        held, known = held[len(known) :], ()
    wanted, there = Counter(map(_told, held)), Counter(map(_told, known))
    return wanted - there, there - wanted


def _cost(history: History, base: _Base | None) -> int:
    """Characters to encode."""
    missing, surplus = _difference(history, base)
    return sum(len(told.text) * times for told, times in [*missing.items(), *surplus.items()])


def _told(transition: Transition) -> Transition:
    """What of an update its windows depend on."""
    return replace(transition, version=0, overrules=Overrules())
