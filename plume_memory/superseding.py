"""What each update of a history replaces: judged once by a frozen model, and kept in the cache of what is derived.

A derivation key names all that the verdicts of one update depend on (model, dtype, device, judge, the texts of every
pair), so what is found under it is never stale: a forget or an erasure changes which pairs there are, and so the key.
"""

import hashlib
import json
from collections.abc import Sequence

from plume_memory.encoding import Cache
from plume_memory.model.base import BaseModel
from plume_memory.records import Replacement, Unit, Verdict
from plume_memory.retrieval.judge import Judge
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.supersede import by_caller, candidates, replacements
from plume_memory.segmentation.told import Told

Pairs = Sequence[tuple[Unit, Unit]]


class Superseding:
    """Finds what updates replace. Safe to share between threads.

    Args:
        base: the frozen model.
        judge: None for a network without one: then what callers say is all there is.
        at: least probability of a replacement (`AnswerPolicy.supersedes_at`); None: nothing is judged.
    """

    def __init__(self, base: BaseModel, judge: Judge | None, at: float | None) -> None:
        self._base = base
        self._judge = None if at is None else judge
        self._at = at or 1.0

    def found(self, told: Sequence[Told], index: UnitIndex, cache: Cache) -> list[Replacement]:
        """Return what some updates replace, in their order.

        Args:
            told: updates that follow one another.
            index: the units of all updates before them.
            cache: where verdicts are kept.
        """
        if self._judge is None and not any(one.transition.overrules.replaces for one in told):
            return []  # and no index is made of them
        chosen: list[Replacement] = []
        asked: list[Pairs] = []
        for one in told:
            chosen += by_caller(index, one.units, one.transition.overrules)
            asked.append(candidates(index, one.units, one.transition.overrules) if self._judge else [])
            index = index.extended(one.units)
        verdicts = self._verdicts(asked, cache)
        judged = [replacements(pairs, own, self._at) for pairs, own in zip(asked, verdicts, strict=True)]
        return sorted([*chosen, *(one for own in judged for one in own)], key=_in_time)

    def keys(self, told: Sequence[Told], index: UnitIndex) -> list[str]:
        """Return the derivation keys of the verdicts on some updates."""
        found: list[str] = []
        for one in told:
            pairs = candidates(index, one.units, one.transition.overrules) if self._judge else []
            found += [self._key(pairs)] if pairs else []
            index = index.extended(one.units)
        return found

    def _verdicts(self, asked: Sequence[Pairs], cache: Cache) -> list[list[Verdict]]:
        """The verdicts on the pairs of each update: those that are not kept are judged together."""
        judge = self._judge
        if judge is None:
            return [[] for _ in asked]
        keys = [self._key(pairs) if pairs else "" for pairs in asked]
        kept = [_read(cache.get(key)) if key else [] for key in keys]
        missing = [i for i, own in enumerate(kept) if own is None]
        judged = iter(judge.verdicts([(one.text, other.text) for i in missing for one, other in asked[i]]))
        for i in missing:
            own = [next(judged) for _ in asked[i]]
            cache.put(keys[i], "verdicts", json.dumps(own).encode())
            kept[i] = own
        return [own or [] for own in kept]

    def _key(self, pairs: Pairs) -> str:
        assert self._judge is not None, "nothing is judged without a judge"
        own = [self._base.fingerprint, str(self._base.dtype), self._base.device.type, self._judge.sha256]
        texts = [(one.text, other.text) for one, other in pairs]
        return hashlib.sha256(json.dumps(["verdicts-1", *own, texts]).encode()).hexdigest()


def _in_time(one: Replacement) -> tuple[int, int]:
    return one.later.position, one.earlier.position


def _read(content: bytes | None) -> list[Verdict] | None:
    return None if content is None else [Verdict(*own) for own in json.loads(content)]
