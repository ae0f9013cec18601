"""What of a history is read at a moment: what has not expired, was not replaced, and was said within a period."""

from datetime import UTC, date, datetime
from functools import cached_property

from plume_memory.answering.replaced import Replaced
from plume_memory.records import History, Unit
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.supersede import Retired, retired


class Current:
    """Of one history; threads may share it.

    Args:
        history: with the times of its texts.
        index: its units.
        replaced: what its updates replace.
    """

    def __init__(self, history: History, index: UnitIndex, replaced: Replaced) -> None:
        self._history, self._index, self._replaced = history, index, replaced

    def expired(self, now: datetime) -> frozenset[int]:
        """Return the positions of the units that have expired."""
        return frozenset(position for position, end in self._ends.items() if end <= now)

    def retired(self, now: datetime) -> Retired:
        """Return the units that something replaced which has not expired itself."""
        expired = self.expired(now)
        if not expired:
            return self._replaced.retired
        return retired(one for one in self._replaced.found if one.later.position not in expired)

    def outside(self, since: datetime | date | None, until: datetime | date | None) -> frozenset[int]:
        """Return the positions of the units that were said before `since` or after `until`; see `RecallOptions`."""
        if since is None and until is None:
            return frozenset()
        said = {unit.position: self.said_at(unit) for unit in self._index}
        return frozenset(
            at
            for at, when in said.items()
            if (since is not None and _is_earlier(when, since)) or (until is not None and _is_later(when, until))
        )

    def said_at(self, unit: Unit) -> datetime:
        """Return when a unit was said, as far as anything says, else when it was written; aware."""
        return _aware(unit.observed_at or self._written[unit.version])

    @cached_property
    def _written(self) -> dict[int, datetime]:
        unknown = datetime.min.replace(tzinfo=UTC)
        return {one.version: one.written_at or unknown for one in self._history.transitions}

    @cached_property
    def _ends(self) -> dict[int, datetime]:
        """Position of a unit → when it expires."""
        ends = {one.version: one.expires_at for one in self._history.transitions if one.expires_at is not None}
        return {unit.position: ends[unit.version] for unit in self._index if unit.version in ends} if ends else {}


def _is_earlier(when: datetime, bound: datetime | date) -> bool:
    """Than a moment; or on an earlier day, by the clock of whoever said it."""
    return when < _aware(bound) if isinstance(bound, datetime) else when.date() < bound


def _is_later(when: datetime, bound: datetime | date) -> bool:
    return when > _aware(bound) if isinstance(bound, datetime) else when.date() > bound


def _aware(moment: datetime) -> datetime:
    """A moment with its zone, UTC where it names none."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
