"""Reads cases that people wrote down: one JSON object a line, a set of pairs or a set of claims.

{"later": "…", "earlier": [["…", "replaces" | "adds" | "unrelated"], …]}
{"text": "…", "claims": [["question", "answer", true | false], …]}
"""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from plume_memory.errors import TrainingError
from plume_memory.training.cases import ClaimSet, PairSet, Verdict

_STRICT = ConfigDict(extra="forbid", frozen=True)


class _Pairs(BaseModel):
    model_config = _STRICT

    later: str = Field(min_length=1)
    earlier: tuple[tuple[str, Verdict], ...] = Field(min_length=1)


class _Claims(BaseModel):
    model_config = _STRICT

    text: str = Field(min_length=1)
    claims: tuple[tuple[str, str, bool], ...] = Field(min_length=1)


_Line = TypeVar("_Line", _Pairs, _Claims)


class WrittenCases:
    """Sets drawn from files, each as often as any other.

    Args:
        pairs: files of pairs.
        claims: files of claims.
        most: cases of a set; of a larger one some are drawn.

    Raises:
        TrainingError: a file is missing, empty, or a line has another shape; names the line.
    """

    def __init__(self, pairs: Sequence[Path], claims: Sequence[Path], *, most: int) -> None:
        self._pairs = [PairSet(one.later, one.earlier) for path in pairs for one in _read(path, _Pairs)]
        self._claims = [ClaimSet(one.text, one.claims) for path in claims for one in _read(path, _Claims)]
        self._most = most

    def pairs(self, chance: random.Random) -> PairSet:
        """Draw a set of pairs."""
        own = chance.choice(self._pairs)
        return replace(own, earlier=tuple(chance.sample(own.earlier, min(self._most, len(own.earlier)))))

    def claims(self, chance: random.Random) -> ClaimSet:
        """Draw a set of claims."""
        own = chance.choice(self._claims)
        return replace(own, claims=tuple(chance.sample(own.claims, min(self._most, len(own.claims)))))


def _read(path: Path, kind: type[_Line]) -> list[_Line]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise TrainingError(f"Cannot read {path}: {err}. Correct the path or leave it out.") from err
    if not lines:
        raise TrainingError(f"{path} holds no line; leave it out.")
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(kind.model_validate_json(line))
        except ValidationError as err:
            first = err.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            raise TrainingError(f"{path}, line {number}: {where}: {first['msg']}. Correct it.") from err
    return found
