"""Which of the activated units an answer is from, and when it was said. Knows no model: the words tell."""

import math
from collections.abc import Sequence
from itertools import takewhile

from plume_memory.records import ScoredUnit, Unit
from plume_memory.segmentation.lists import label_of
from plume_memory.segmentation.terms import FUNCTION_WORDS, terms_of

_NAMING_NOTHING = frozenset(["am", "mine", "no", "not", "our", "ours", "than", "there", "these", "those", "us", "yes"])
"""Terms beside `FUNCTION_WORDS` that an answer can share with any text."""

_LEAST_SCORE = 1e-9
"""The lexical router gives 0 to what shares no word."""


def log_score(side: Sequence[ScoredUnit]) -> float:
    """Return the log of the best router score in an evidence, in nats; 0 for an empty one."""
    return math.log(max(max(one.score for one in side), _LEAST_SCORE)) if side else 0.0


def source_of(answer: str, question: str, units: Sequence[ScoredUnit]) -> ScoredUnit | None:
    """Return the unit that holds most of what the answer says and the question does not; None of no units.

    Several units answer together, so no one of them is known to be the source. A term counts by its place in the
    answer: a statement ends with what was asked for. Of equals, and where no unit holds any of it, the first.

    Args:
        answer: what was said.
        question: what was asked.
        units: what was activated, in the router's order.
    """
    known = set(terms_of(question)) | FUNCTION_WORDS
    places = {term: place for place, term in enumerate(terms_of(answer), start=1) if term not in known}

    def held(one: ScoredUnit) -> int:
        terms = set(terms_of(one.unit.text))
        return sum(place for term, place in places.items() if term in terms)

    return max(units, key=held, default=None)


def takes_from(answer: str, question: str, units: Sequence[ScoredUnit]) -> bool:
    """Return whether an answer holds a word that some units say and the question does not.

    Words of their headings and labels count only where the units say nothing else that is new. Where they hold none,
    the words cannot tell, and it is True: what is asked for with all the words of a sentence is a yes, and of a text in
    another script nothing is seen.

    Args:
        answer: what was said, or the whole words of its beginning: once True, it stays so.
        question: what was asked.
        units: what it was answered from.
    """
    known = set(terms_of(question)) | FUNCTION_WORDS | _NAMING_NOTHING
    values = {term for one in units for term in _value_terms(one.unit)} - known
    news = values or {term for one in units for term in terms_of(one.unit.text)} - known
    return not news or not news.isdisjoint(terms_of(answer))


def _value_terms(unit: Unit) -> set[str]:
    """Terms of a unit without its headings and its label: what it says, not what of."""
    own = unit.text[unit.own :]
    return set(terms_of(own)) - set(terms_of(label_of(own)))


def last_telling(answer: str, question: str, units: Sequence[ScoredUnit]) -> ScoredUnit | None:
    """Return the latest of some units that say what a whole answer says; None where none does.

    A statement ends with what was asked for, so its last terms up to one of the question or a function word are the
    value: "The depth of the borehole is | 803 metres." A unit says it that holds them in this order, side by side.

    Args:
        answer: what was said, to its end.
        question: what was asked.
        units: what it was answered from.
    """
    known = set(terms_of(question)) | FUNCTION_WORDS
    value = list(takewhile(lambda term: term not in known, reversed(terms_of(answer))))[::-1]
    if not value:
        return None
    wanted = f" {' '.join(value)} "
    telling = [one for one in units if wanted in f" {' '.join(terms_of(one.unit.text))} "]
    return max(telling, key=lambda one: (one.unit.version, one.score), default=None)
