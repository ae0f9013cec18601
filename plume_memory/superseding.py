"""What each update of a history replaces: judged once by a frozen model, and kept in the cache of what is derived.

A derivation key names all that the verdicts of one update depend on (model, dtype, device, judge, the texts of every
pair), so what is found under it is never stale: a forget or an erasure changes which pairs there are, and so the key.
"""

import hashlib
import json
from collections.abc import Sequence

from plume_memory import blocks
from plume_memory.encoding import Cache
from plume_memory.model.base import BaseModel
from plume_memory.records import Replacement, Unit, Verdict
from plume_memory.retrieval.judge import Judge
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.supersede import by_caller, candidates, replacements
from plume_memory.segmentation.told import Told

_KIND = "verdicts"
_TOGETHER = 16
"""Updates that are judged together; what is judged is kept then."""

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
        verdicts = self._verdicts(told, asked, cache)
        judged = [replacements(pairs, own, self._at) for pairs, own in zip(asked, verdicts, strict=True)]
        return sorted([*chosen, *(one for own in judged for one in own)], key=_in_time)

    def keys(self, told: Sequence[Told], index: UnitIndex) -> list[str]:
        """Return the derivation keys of the verdicts on some updates."""
        keyed: list[tuple[int, str]] = []
        for one in told:
            pairs = candidates(index, one.units, one.transition.overrules) if self._judge else []
            keyed += [(one.transition.version, self._key(pairs))] if pairs else []
            index = index.extended(one.units)
        return [*(key for _, key in keyed), *blocks.keys(keyed)]

    def _verdicts(self, told: Sequence[Told], asked: Sequence[Pairs], cache: Cache) -> list[list[Verdict]]:
        """The verdicts on the pairs of each update: those that are not kept are judged together."""
        judge = self._judge
        if judge is None:
            return [[] for _ in asked]
        some = [i for i, pairs in enumerate(asked) if pairs]
        keyed = [(told[i].transition.version, self._key(asked[i])) for i in some]
        kept = [_read(content, len(asked[i])) for i, content in zip(some, blocks.read(keyed, cache), strict=True)]
        missing = [place for place, own in enumerate(kept) if own is None]
        for at in range(0, len(missing), _TOGETHER):  # who is interrupted goes on from there
            places = missing[at : at + _TOGETHER]
            pairs = [(one.text, other.text) for place in places for one, other in asked[some[place]]]
            judged = iter(judge.verdicts(pairs))
            for place in places:
                kept[place] = [next(judged) for _ in asked[some[place]]]
                cache.put(keyed[place][1], _KIND, _written(kept[place]))
        blocks.write(keyed, [_written(own) for own in kept], cache, _KIND)
        verdicts: list[list[Verdict]] = [[] for _ in asked]
        for i, own in zip(some, kept, strict=True):
            verdicts[i] = own or []
        return verdicts

    def _key(self, pairs: Pairs) -> str:
        assert self._judge is not None, "nothing is judged without a judge"
        own = [self._base.fingerprint, str(self._base.dtype), self._base.device.type, self._judge.sha256]
        texts = [(one.text, other.text) for one, other in pairs]
        return hashlib.sha256(json.dumps(["verdicts-1", *own, texts]).encode()).hexdigest()


def _in_time(one: Replacement) -> tuple[int, int]:
    return one.later.position, one.earlier.position


def _written(verdicts: Sequence[Verdict] | None) -> bytes:
    return json.dumps(verdicts).encode()


def _read(content: bytes | None, count: int) -> list[Verdict] | None:
    """What is kept; None where nothing is, or something else: an archive may bring any bytes."""
    if content is None:
        return None
    try:
        found = [Verdict(*map(float, own)) for own in json.loads(content)]
    except (ValueError, TypeError):
        return None
    return found if len(found) == count else None
