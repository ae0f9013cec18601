"""Which earlier units a new one is judged against, and which of a history no longer hold. Knows no model and no log.

What replaces what is judged once, when a text is written, pair by pair (retrieval/judge.py), and only what is sure
counts. Like statements in like words are told apart at question time (recency.py), where the question says of what.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from plume_memory.records import Overrules, Replacement, ScoredUnit, Unit, Verdict
from plume_memory.retrieval.asking import only_asks
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.recency import of_two_speakers

CANDIDATES = 3
"""Earlier units that a new one is judged against: those most like it by their words. It bounds what an update costs."""


_SPEAKERS = 4
"""So many people may have said the like before one's own words are no longer found."""


def candidates(index: UnitIndex, later: Sequence[Unit], overrules: Overrules) -> list[tuple[Unit, Unit]]:
    """Return the pairs (earlier, later) to be judged of one update.

    Args:
        index: the units of the updates before it.
        later: its own units.
        overrules: what its caller decided, which is not judged.
    """
    if overrules.keeps_all or len(index) == 0:
        return []
    return [
        (one.unit, unit)
        for unit in later
        if not only_asks(unit)
        for one in islice(_like(index, unit), CANDIDATES)
        if one.unit.version not in overrules.replaces and not overrules.keep(one.unit.version)
    ]


def _like(index: UnitIndex, unit: Unit) -> Iterator[ScoredUnit]:
    """Yield earlier units, those most like one by their words first, without those of another speaker of himself."""
    found = index.best(unit.text, k=_SPEAKERS * CANDIDATES, tied=_SPEAKERS * CANDIDATES)
    return (one for one in found if not of_two_speakers(one.unit, unit))


def replacements(pairs: Sequence[tuple[Unit, Unit]], verdicts: Sequence[Verdict], at: float) -> list[Replacement]:
    """Return the pairs whose later unit replaces the earlier one with a probability of at least `at`."""
    judged = zip(pairs, verdicts, strict=True)
    return [Replacement(one, other, found.replaces) for (one, other), found in judged if found.replaces >= at]


def by_caller(index: UnitIndex, later: Sequence[Unit], overrules: Overrules) -> list[Replacement]:
    """Return what the caller of an update said that it replaces: every unit of the versions named."""
    if not overrules.replaces or not later:
        return []
    named = frozenset(overrules.replaces)
    return [Replacement(unit, later[0], 1.0, by_caller=True) for unit in index if unit.version in named]


Retired = Mapping[int, frozenset[int]]
"""Position of a unit that no longer holds → of those that took its place by the judge, and of what took theirs.

None: a caller said so, of it or of one of those.
"""


def retired(found: Iterable[Replacement]) -> Retired:
    """Return the units that no longer hold."""
    heirs: dict[int, set[int]] = {}
    said: set[int] = set()
    for one in found:
        heirs.setdefault(one.earlier.position, set()).add(one.later.position)
        said |= {one.earlier.position} if one.by_caller else set()
    whole: dict[int, frozenset[int]] = {}
    for at in sorted(heirs, reverse=True):  # what took a unit's place is later than it
        if at in said or any(whole.get(later) == frozenset() for later in heirs[at]):
            whole[at] = frozenset()
        else:
            whole[at] = frozenset(heirs[at]).union(*(whole.get(later, frozenset()) for later in heirs[at]))
    return whole
