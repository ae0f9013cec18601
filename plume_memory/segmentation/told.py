"""The units of a history, by the update they are of."""

from collections.abc import Sequence
from dataclasses import dataclass

from plume_memory.records import Transition, Unit


@dataclass(frozen=True, slots=True)
class Told:
    """One update of a history, cut into units."""

    transition: Transition
    units: tuple[Unit, ...]


def told_of(transitions: Sequence[Transition], units: Sequence[Unit]) -> list[Told]:
    """Put the units of a history to the updates they are of."""
    by_version: dict[int, list[Unit]] = {}
    for unit in units:
        by_version.setdefault(unit.version, []).append(unit)
    return [Told(one, tuple(by_version.get(one.version, ()))) for one in transitions]
