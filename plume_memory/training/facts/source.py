"""The training source of invented facts: a text that states them, a question for each, and corrections."""

import random
from collections.abc import Collection, Iterable

from plume_memory.errors import TrainingError
from plume_memory.training.facts.draw import Fact, draw_facts, most_of_self, new_value
from plume_memory.training.facts.relation import SELF, Relation
from plume_memory.training.facts.relations import FAMILIES
from plume_memory.training.facts.render import Teller
from plume_memory.training.facts.replies import subject_reply, value_reply
from plume_memory.training.samples import Ask, Sample

_TRIES = 60
_MOST_CHANGED = 3
_INVERSE_SHARE = 0.15


class FactSource:
    """Draws texts of invented facts, each asked for once; implements `Source`.

    Laws, each held by a test: an unaffected answer stands in the text, an affected one in the update; a stale
    answer does not stand in the update; no subject has a relation twice.

    Args:
        name: Names the source in metrics.
        exclude_families: Families of relations that are held out.
        only_families: The families to draw from; all when None.
        smallest: Fewest facts of a text.
        distractors: Chance, before each sentence of a text, of a sentence that nothing asks for.

    Raises:
        TrainingError: A family does not exist, none is left, or a number is out of range.
    """

    def __init__(
        self,
        name: str,
        *,
        exclude_families: Collection[str] = (),
        only_families: Collection[str] | None = None,
        smallest: int = 1,
        distractors: float = 0.1,
    ) -> None:
        if smallest < 1 or not 0 <= distractors <= 1:
            raise TrainingError(
                f"Source {name!r}: smallest must be at least 1 and distractors a chance from 0 to 1; "
                f"got smallest={smallest}, distractors={distractors}."
            )
        self._name = name
        self._relations = _relations_of(name, _chosen(name, exclude_families, only_families))
        self._smallest = smallest
        self._distractors = distractors

    @property
    def name(self) -> str:
        """Names the source in metrics and in the model card."""
        return self._name

    def draw(self, chance: random.Random, *, largest: int, update: bool) -> Sample:
        """Draw a text of `smallest` to `largest` facts; with `update`, a second text that changes 1-3 of them."""
        if largest < 1:
            raise TrainingError(f"Source {self._name!r}: largest must be at least 1 fact, got {largest}.")
        for _ in range(_TRIES):
            count = chance.randint(min(self._smallest, largest), largest)
            if all(relation.subject == SELF for relation in self._relations):
                count = min(count, most_of_self(self._relations))
            facts = draw_facts(chance, self._relations, count)
            teller = Teller(chance, distractors=self._distractors)
            text = teller.tell(facts)
            if not update:
                return Sample(text, _asks(chance, facts, {}), self._name, facts=count)
            changed = _changes(chance, facts)
            told = _update(chance, teller, facts, changed)
            if changed and not any(fact.value.lower() in told.lower() for fact in changed):
                return Sample(text, _asks(chance, facts, changed), self._name, facts=count, update=told)
        raise TrainingError(
            f"Source {self._name!r}: no text with a correction was found in {_TRIES} tries; widen the families."
        )


def _chosen(name: str, exclude: Iterable[str], only: Iterable[str] | None) -> list[str]:
    excluded, wanted = set(exclude), set(FAMILIES if only is None else only)
    unknown = sorted((excluded | wanted) - set(FAMILIES))
    if unknown:
        raise TrainingError(f"Source {name!r}: no family {', '.join(unknown)}; choose from {', '.join(FAMILIES)}.")
    return [family for family in FAMILIES if family in wanted - excluded]


def _relations_of(name: str, families: list[str]) -> tuple[Relation, ...]:
    relations = tuple(relation for family in families for relation in FAMILIES[family])
    if not relations:
        raise TrainingError(f"Source {name!r}: every family is excluded; leave at least one of {', '.join(FAMILIES)}.")
    return relations


def _changes(chance: random.Random, facts: list[Fact]) -> dict[Fact, str]:
    """Draw which facts change, and to what: a value that no fact has, and that does not hold the old one."""
    wanted = chance.randint(1, min(_MOST_CHANGED, len(facts)))
    taken = {fact.value for fact in facts}
    changed: dict[Fact, str] = {}
    for fact in chance.sample(facts, len(facts)):
        value = new_value(chance, fact.relation, facts)
        is_fresh = value not in taken and fact.value.lower() not in f"{fact.subject} {value}".lower()
        if is_fresh:
            changed[fact] = value
            taken.add(value)
        if len(changed) == wanted:
            break
    return changed


def _update(chance: random.Random, teller: Teller, facts: list[Fact], changed: dict[Fact, str]) -> str:
    """Write the update: short corrections alone in a third of cases, else an account that restates more."""
    news = [fact._replace(value=value) for fact, value in changed.items()]
    if chance.random() < 1 / 3:
        return teller.correct(news)
    share = chance.random()
    restated = [
        fact._replace(value=changed.get(fact, fact.value))
        for fact in facts
        if fact in changed or (chance.random() < share and not _holds_stale(fact, changed))
    ]
    return teller.tell(restated)


def _holds_stale(fact: Fact, changed: dict[Fact, str]) -> bool:
    stated = f"{fact.subject} {fact.value}".lower()
    return any(stale.value.lower() in stated for stale in changed)


def _asks(chance: random.Random, facts: list[Fact], changed: dict[Fact, str]) -> tuple[Ask, ...]:
    asks = []
    for fact in facts:
        if fact in changed:
            question = _question(chance, fact)
            now = fact._replace(value=changed[fact])
            asks.append(Ask(question, now.value, affected=True, stale=fact.value, reply=value_reply(question, now)))
        else:
            asks.append(_ask(chance, fact, facts))
    chance.shuffle(asks)
    return tuple(asks)


def _ask(chance: random.Random, fact: Fact, facts: list[Fact]) -> Ask:
    """Ask for the value, or at times for the subject where the value is its alone."""
    inverse = fact.relation.inverse
    if inverse and chance.random() < _INVERSE_SHARE:
        holders = sum(other.relation is fact.relation and other.value == fact.value for other in facts)
        if holders == 1:
            question = fact.relation.fill(chance.choice(inverse), "", fact.value)
            return Ask(question, fact.subject, reply=subject_reply(question, fact))
    question = _question(chance, fact)
    return Ask(question, fact.value, reply=value_reply(question, fact))


def _question(chance: random.Random, fact: Fact) -> str:
    return fact.relation.fill(chance.choice(fact.relation.questions), fact.subject, fact.value)
