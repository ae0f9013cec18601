"""Which of the activated units an answer is from. Knows no model: the words tell."""

from collections.abc import Sequence

from plume_memory.evidence.likeness import FUNCTION_WORDS
from plume_memory.evidence.route import terms_of
from plume_memory.records import ScoredUnit


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
