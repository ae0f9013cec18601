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
answers .17, .08, .17. Few questions: what is beyond doubt is only the direction.
"""
LOOKED_AT = 4
"""Units looked at per unit activated: a correction may rank lower than what it corrects."""


def newest_of_alike(ranked: Sequence[ScoredUnit], k: int) -> list[ScoredUnit]:
    """Return up to `k` of ranked units, none of which a newer one among those looked at supersedes.

    A newer unit takes the place of the first it supersedes, so the order stays that of relevance.

    Args:
        ranked: in the order of activation; the first `LOOKED_AT`·k are looked at.
        k: most units to return.
    """
    chosen: list[ScoredUnit] = []
    for one in ranked[: LOOKED_AT * k]:
        alike = [other for other in chosen if _are_alike(one, other)]
        if alike and all(one.unit.version > other.unit.version for other in alike):
            chosen[chosen.index(alike[0])] = one
            chosen = [other for other in chosen if other not in alike]
        elif not alike and len(chosen) < k:
            chosen.append(one)
    return chosen


def _are_alike(one: ScoredUnit, other: ScoredUnit) -> bool:
    """Whether two units are of different transitions and share enough terms."""
    if one.unit.version == other.unit.version:
        return False
    terms, others = set(terms_of(one.unit.text)), set(terms_of(other.unit.text))
    fewest = min(len(terms), len(others))
    return fewest > 0 and len(terms & others) >= ALIKE * fewest
