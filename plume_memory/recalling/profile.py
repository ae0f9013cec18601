"""Which units say most about whom a memory is of: words alone, nothing is generated.

SumBasic (Nenkova & Vanderwende 2005): a unit is as central as its words are common in the memory, on the mean; once
chosen, its words count less (their probability is squared), so that what comes next says something else. The first
person is one word, and function words are none. The same memory gives the same order.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from plume_memory.records import Unit
from plume_memory.terms import FIRST_PERSON, FUNCTION_WORDS, stem_of, terms_of

_ME = "(me)"  # no term: terms have no brackets
_LEAST_WORDS = 2
"""Fewer name nothing: "Sure!"."""


def central(units: Sequence[Unit]) -> Iterator[Unit]:
    """Yield units, the most central first; of equals the later."""
    words = {unit.position: _words(unit) for unit in units}
    left = {unit.position: unit for unit in units if len(words[unit.position]) >= _LEAST_WORDS}
    counts = Counter(word for position in left for word in words[position])
    weight = {word: count / counts.total() for word, count in counts.items()}

    def centrality(position: int) -> tuple[float, int]:
        own = words[position]
        return sum(weight[word] for word in sorted(own)) / len(own), position  # sorted: sums round the same way

    while left:
        best = max(left, key=centrality)
        yield left.pop(best)
        for word in words[best]:
            weight[word] **= 2


def _words(unit: Unit) -> frozenset[str]:
    terms = [_ME if term in FIRST_PERSON else term for term in terms_of(unit.text)]
    return frozenset(stem_of(term) for term in terms if term not in FUNCTION_WORDS)
