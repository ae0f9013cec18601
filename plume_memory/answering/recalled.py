"""What some memories, each pinned to a version, hold that bears on a question; and who they are of.

1 what is looked up    recalling/asking.py
2 retrieve             retrieval/retrieve.py, of what holds and lies in the period
3 what bears on it     evidence.py
4 notes                noted.py
5 choose and quote     recalling/choosing.py, recalling/rendering.py
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Protocol, Unpack

from plume_memory.answering.conversation import turns_of
from plume_memory.answering.current import Current
from plume_memory.answering.evidence import choose_relevant, is_replaced
from plume_memory.answering.noted import found_note
from plume_memory.engine import Engine
from plume_memory.model.prompt import Message
from plume_memory.recalling.asking import routed_of
from plume_memory.recalling.choosing import Found, chosen, first_that_fit
from plume_memory.recalling.notes import MAX_TOKENS, NOTES, Recall, RecallOptions
from plume_memory.recalling.profile import central
from plume_memory.records import ScoredUnit
from plume_memory.retrieval.asking import only_asks
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.retrieve import NOTHING_RETIRED
from plume_memory.retrieval.supersede import Retired


class Ranks(Protocol):
    """Retrieves from one memory."""

    def __call__(self, query: str, k: int, *, retired: Retired, without: frozenset[int]) -> Sequence[ScoredUnit]:
        """Return the best units; see `retrieve`."""


@dataclass(frozen=True, slots=True)
class Recallable:
    """One memory at one version, at a moment."""

    memory: str
    engine: Engine
    index: UnitIndex
    current: Current
    now: datetime
    rank: Ranks

    def bearing(
        self,
        asked: str,
        k: int,
        *,
        history: bool = False,
        since: datetime | date | None = None,
        until: datetime | date | None = None,
    ) -> list[Found]:
        """Return the notes that bear on the words of a question, the best first; see `RecallOptions`.

        More than `k`, to choose from: what was replaced takes no place, nor does what is said twice.
        """
        wanted = 2 * k
        retired, expired = self.current.retired(self.now), self.current.expired(self.now)
        outside = self.current.outside(since, until)
        if outside:  # what took a unit's place may lie there, and is not read
            retired = dict.fromkeys(retired, frozenset())
        if history:
            ranked = self.rank(asked, wanted, retired=NOTHING_RETIRED, without=outside)
        else:
            ranked = self.rank(asked, wanted, retired=retired, without=outside | expired)
        gone = expired | {at for at, by in retired.items() if history or not by}
        gone |= {one.unit.position for one in ranked if one.superseded and one.unit.position in retired}
        return [
            found_note(
                one.unit,
                self.index,
                self.current,
                memory=self.memory,
                score=one.score,
                is_current=one.unit.position not in gone and not is_replaced(one, ranked),
                without=outside if history else outside.union(expired, retired),
            )
            for one in choose_relevant(ranked, asked, self.engine.policy, history=history)
            if history or one.unit.position not in gone
        ]


def recall_from(
    memories: Sequence[Recallable], question: str | Sequence[Message], **options: Unpack[RecallOptions]
) -> Recall:
    """Return what bears on a question in memories of one engine; see `Snapshot.recall`.

    Raises:
        InvalidInput: as there.
        TypeError: an option that there is not.
    """
    if unknown := options.keys() - RecallOptions.__annotations__.keys():
        raise TypeError(f"There is no option {min(unknown)!r} here; have {', '.join(RecallOptions.__annotations__)}.")
    asked = routed_of(turns_of(question))
    if not memories:
        return Recall(asked, ())
    k, history = options.get("k", NOTES), options.get("history", False)
    since, until = options.get("since"), options.get("until")
    found = [
        one
        for memory in (memories if asked else ())
        for one in memory.bearing(asked, k, history=history, since=since, until=until)
    ]
    return chosen(
        asked,
        [one.memory for one in memories],
        found,
        count_tokens=options.get("count_tokens") or memories[0].engine.segmenter.count_tokens,
        k=k,
        max_tokens=options.get("max_tokens", MAX_TOKENS),
    )


def profile_of(memory: Recallable, *, max_tokens: int) -> Recall:
    """Return what says most about whom a memory is of; see `Snapshot.profile`."""
    gone = memory.current.expired(memory.now).union(memory.current.retired(memory.now))
    units = [unit for unit in memory.index if unit.position not in gone]
    saying = (unit for unit in central(units) if not only_asks(unit))
    notes = (found_note(unit, memory.index, memory.current, memory=memory.memory).note for unit in saying)
    return first_that_fit(
        memory.memory, notes, count_tokens=memory.engine.segmenter.count_tokens, max_tokens=max_tokens
    )
