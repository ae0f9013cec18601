"""What of its evidence an answer says, and which unit it is from. Knows no model: the words tell."""

import re
from collections.abc import Sequence

from plume_memory.records import ScoredUnit, Unit
from plume_memory.segmentation.lists import label_of
from plume_memory.terms import FUNCTION_WORDS, terms_of

_NAMING_NOTHING = frozenset(["am", "mine", "no", "not", "our", "ours", "than", "there", "these", "those", "us", "yes"])
"""Terms beside `FUNCTION_WORDS` that an answer can share with any text."""

_SENTENCE_END = re.compile(r"[.!?]\s")


def source_of(answer: str, question: str, units: Sequence[ScoredUnit]) -> ScoredUnit | None:
    """Return the unit that holds most of what the answer says and the question does not; None of no units.

    Several units answer together, so no one of them is known to be the source. A term counts by its place in the
    answer: a statement ends with what was asked for. Of equals, and where no unit holds any of it, the first.

    Args:
        answer: what was said.
        question: what was asked.
        units: the evidence, the first in rank first.
    """
    known = set(terms_of(question)) | FUNCTION_WORDS
    places = {term: place for place, term in enumerate(terms_of(answer), start=1) if term not in known}

    def held(one: ScoredUnit) -> int:
        terms = set(terms_of(one.unit.text))
        return sum(place for term, place in places.items() if term in terms)

    return max(units, key=held, default=None)


def is_grounded(answer: str, question: str, units: Sequence[ScoredUnit]) -> bool:
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


def is_cut_short(answer: str, units: Sequence[ScoredUnit]) -> bool:
    """Return whether an answer that its budget ended stops inside a word of some units, or between groups of digits.

    "DE89 37" of "DE89 3704 0044" is no value of memory. It may end there where the units have the last word whole, and
    where a sentence was ended before it: what was asked for stands there.
    """
    last = (answer.split() or [""])[-1].lstrip("\"'*_([\u201c\u00ab")
    if not last.isascii() or not last[-1:].isalnum() or _SENTENCE_END.search(answer):
        return False
    begins = re.compile(rf"(?<!\w){re.escape(last)}")
    goes_on = re.compile(r"[-/.:@_,]?\w| \d{2}" if last[-1].isdigit() else r"[-/.:@_]?\w")
    found = [
        goes_on.match(one.unit.text, match.end()) is not None
        for one in units
        for match in begins.finditer(one.unit.text)
    ]
    return bool(found) and all(found)


def _value_terms(unit: Unit) -> set[str]:
    """Terms of a unit without its headings and its label: what it says, not what of; whose words and of which day."""
    own = unit.text[unit.own :]
    stated = f"{unit.speaker or ''} {unit.observed_at:%Y-%m-%d %B}" if unit.observed_at else unit.speaker or ""
    return (set(terms_of(own)) - set(terms_of(label_of(own)))) | set(terms_of(stated))
