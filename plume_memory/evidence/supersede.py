"""Of activated units that tell of the same thing at different times, keeps the newest. Knows no model and no log.

An update retells what it changes. Ranked by relevance alone the old sentence and its correction stand side by side,
and an adapter of both answers with either. So a unit gives way to a newer one of another transition that shares
`ALIKE` of their terms. Beyond the paper, which activates one unit; there nothing can clash.
"""

from collections.abc import Sequence

from plume_memory.evidence.route import terms_of
from plume_memory.records import ScoredUnit

ALIKE = 0.5
"""Share of the smaller unit's distinct terms that the other must hold.

Measured on SmolLM2-135M (12 records after one update, 72 questions, two units of 48 tokens ranked by likelihood, both
streams): recall on what the update changes .39 without, .48 at 0.5, .49 at 0.65; on the rest .46, .38, .39; stale
answers .17, .08, .17. Few questions, and a first form of the rule, which compared chosen units only: no more than a
direction.
"""
LOOKED_AT = 4
"""Units looked at per unit activated: a correction may rank lower than what it corrects."""


def newest_of_alike(ranked: Sequence[ScoredUnit], k: int) -> list[ScoredUnit]:
    """Return the first `k` of ranked units that no newer one among those looked at supersedes.

    A newer unit that ranks lower takes the place of the first it supersedes: it tells what that one told.

    Args:
        ranked: in the order of activation; the first `LOOKED_AT`·k are looked at.
        k: most units to return.
    """
    looked_at = ranked[: LOOKED_AT * k]
    chosen: list[ScoredUnit] = []
    for one in looked_at:
        newer = [other for other in looked_at if other.unit.version > one.unit.version and _are_alike(one, other)]
        # the newest of all that tell of it is superseded by none: a unit that it supersedes leads to it at once
        last = max(newer, key=lambda other: other.unit.version, default=one)
        stands = last if not _is_superseded(last, looked_at) else None
        if stands is not None and stands not in chosen and len(chosen) < k:
            chosen.append(stands)
    return chosen


def _is_superseded(one: ScoredUnit, among: Sequence[ScoredUnit]) -> bool:
    return any(other.unit.version > one.unit.version and _are_alike(one, other) for other in among)


def _are_alike(one: ScoredUnit, other: ScoredUnit) -> bool:
    """Whether two units are of different transitions and share enough terms."""
    if one.unit.version == other.unit.version:
        return False
    terms, others = set(terms_of(one.unit.text)), set(terms_of(other.unit.text))
    fewest = min(len(terms), len(others))
    return fewest > 0 and len(terms & others) >= ALIKE * fewest
