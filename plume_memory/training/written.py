"""Reads cases that were written one by one: one JSON object a line, a set of pairs, a history or a set of claims.

{"later": "…", "earlier": [["…", "replaces" | "adds" | "unrelated"], …]}
{"texts": ["…", …], "replaces": [[later, earlier], …], "adds": [[later, earlier], …]}
{"text": "…", "claims": [["question", "answer", true | false], …]}

A history lists its texts in the order they were told, and by their places which of them replaces which; a pair in
neither list is of two that both hold. Each of its later texts is a set: with those it replaces, those it adds to, and
the others most like it by their words: more of them than the judge is asked about (retrieval/supersede.py).
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Discriminator, Field, RootModel, Tag, model_validator

from plume_memory.records import Unit
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.training.cases import ClaimSet, PairSet, Verdict
from plume_memory.training.lines import lines_of

_STRICT = ConfigDict(extra="forbid", frozen=True)
_TAGS = frozenset({"pairs", "history"})
_NEAR = 8
"""Earlier texts of a history that a later one is shown beside those named."""


class _Pairs(BaseModel):
    model_config = _STRICT

    later: str = Field(min_length=1)
    earlier: tuple[tuple[str, Verdict], ...] = Field(min_length=1)


class _Claims(BaseModel):
    model_config = _STRICT

    text: str = Field(min_length=1)
    claims: tuple[tuple[str, str, bool], ...] = Field(min_length=1)


class _History(BaseModel):
    model_config = _STRICT

    texts: tuple[str, ...] = Field(min_length=2)
    replaces: tuple[tuple[int, int], ...]
    adds: tuple[tuple[int, int], ...]

    @model_validator(mode="after")
    def _places_are_its_own(self) -> Self:
        for later, earlier in (*self.replaces, *self.adds):
            if not 0 <= earlier < later < len(self.texts):
                raise ValueError(f"[{later}, {earlier}] are no places of a later and an earlier text")
        return self


def _form(line: object) -> str:
    return "history" if isinstance(line, dict) and "texts" in line else "pairs"


class _Told(
    RootModel[Annotated[Annotated[_Pairs, Tag("pairs")] | Annotated[_History, Tag("history")], Discriminator(_form)],]
):
    pass


class WrittenCases:
    """Sets drawn from files, each as often as any other.

    Args:
        pairs: files of pairs and histories.
        claims: files of claims.
        most: cases of a set; of a larger one some are drawn.

    Raises:
        TrainingError: a file is missing, empty, or a line has another shape; names the line.
    """

    def __init__(self, pairs: Sequence[Path], claims: Sequence[Path], *, most: int) -> None:
        self._pairs = [one for path in pairs for told in lines_of(path, _Told, tags=_TAGS) for one in _sets(told.root)]
        self._claims = [ClaimSet(one.text, one.claims) for path in claims for one in lines_of(path, _Claims)]
        self._most = most

    def pairs(self, chance: random.Random) -> PairSet:
        """Draw a set of pairs."""
        own = chance.choice(self._pairs)
        replaced = [one for one in own.earlier if one[1] == "replaces"]
        some = chance.sample(replaced, min(len(replaced), 2))
        others = [one for one in own.earlier if one[1] != "replaces"]
        some += chance.sample(others, min(self._most - len(some), len(others)))
        return replace(own, earlier=tuple(chance.sample(some, len(some))))

    def claims(self, chance: random.Random) -> ClaimSet:
        """Draw a set of claims."""
        own = chance.choice(self._claims)
        return replace(own, claims=tuple(chance.sample(own.claims, min(self._most, len(own.claims)))))


def _sets(told: _Pairs | _History) -> Iterator[PairSet]:
    if isinstance(told, _Pairs):
        yield PairSet(told.later, told.earlier)
        return
    units = [Unit(place, place + 1, 0, len(text), text) for place, text in enumerate(told.texts)]
    listed: dict[tuple[int, int], Verdict] = {pair: "adds" for pair in told.adds}
    listed |= dict.fromkeys(told.replaces, "replaces")
    for later, unit in enumerate(units[1:], start=1):
        index = UnitIndex(units[:later])
        near = [one.unit.position for one in index.best(unit.text, k=_NEAR, tied=_NEAR)]
        named = [earlier for place, earlier in listed if place == later]
        if named or later >= _NEAR:
            earlier = dict.fromkeys((*named, *near))
            yield PairSet(unit.text, tuple((units[i].text, listed.get((later, i), "not replaces")) for i in earlier))
