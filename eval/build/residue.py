"""Old values that are left in an update: the one fault that makes a stale answer look right.

An old answer is looked for in all its spellings (`quantities`), as its initials, and by its last word alone, where that
is nobody else's name (`Tislava Renquist`, later just `Renquist`). Not known: fractions in words (`a quarter` for 25 %).
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from eval.build.quantities import Term, terms
from eval.build.words import listed
from plume_memory.terms import FUNCTION_WORDS

_SMALL = 100
"""A bare number below this stands for too many things: it counts only beside the word it stood beside before."""
_VERDICTS = frozenset({"yes", "no", "true", "false", "none"})
_LINKS = frozenset(listed("of in at on to and or by for from with as is was were are per"))
_SENTENCE_END = re.compile(r"[.!?;:](?=\s|$)")
_OPENERS = FUNCTION_WORDS | frozenset(
    listed(
        "then while after before but so later now since because if today there under over without within during "
        "until through between against behind beyond beside despite like only even also still yet once soon again "
        "both either neither nor all some most no not yesterday tomorrow although though unless"
    )
)
"""A capital that begins a sentence, not a name."""
_TITLES = frozenset(
    listed(
        "mr mrs ms miss dr prof professor sir lady lord captain doctor mayor king queen prince princess duke sister "
        "brother father mother uncle aunt saint commander chief director president general colonel major sergeant "
        "lieutenant admiral judge justice senator governor minister secretary chancellor ambassador bishop pope "
        "coach inspector detective officer chairman nurse architect engineer"
    )
)
_ARTICLES = frozenset(listed("a an the this that these those another each every"))
_PLACES = frozenset(
    listed(
        "new old north south east west upper lower great little saint st san santa los las el la lake "
        "mount mt port fort cape river bay isle"
    )
)
"""Such first words make a name of their own: New York is no York."""


def same_value(one: str, other: str) -> bool:
    """Whether two answers are spellings of one value: `7` and `seven`, `3 km` and `3,000 m`."""
    a, b = terms(one), terms(other)
    if not a or not b:
        return one.strip().casefold() == other.strip().casefold()
    return _match(a, b) or _match(b, a)


def states(text: str, value: str) -> bool:
    """Whether a text holds the value, in whatever spelling."""
    return bool(_occurrences(terms(value), terms(text)))


def residues(old_answers: Sequence[str], new_answers: Sequence[str], context_old: str, update: str) -> list[str]:
    """The places of an update that still give an old answer, as they are spelled there.

    Not counted: a place inside an occurrence of a new answer; yes and no; a bare small number that does not stand
    beside the word it stood beside in the old text (`14 people` and `14 boats` are two facts).
    """
    text, before = terms(update), terms(context_old)
    new = [terms(answer) for answer in new_answers]
    allowed = [place for value in new for place in _occurrences(value, text)]
    found: dict[str, None] = {}
    for answer in old_answers:
        value = terms(answer)
        if not value or (len(value) == 1 and value[0].word in _VERDICTS):
            continue
        places = _occurrences(value, text)
        if _is_small(value):
            counted = {_beside(place, before, context_old) for place in _occurrences(value, before)}
            places = [place for place in places if _beside(place, text, update) in counted]
        found.update((_spelled(place, text, update), None) for place in places if not _inside(place, allowed))
    for alias in _initials(old_answers, new_answers):
        found.update((match[0], None) for match in re.finditer(rf"\b{re.escape(alias)}\b", update))
    for head, tail in _short_names(old_answers, new_answers):
        shortened = re.search(rf"(?<!{re.escape(head)} ){_alone(tail)}", context_old) is not None
        for match in re.finditer(_alone(tail), update):
            if _of_nobody_else(match, head, update) and (shortened or not _of_a_kind(match, head, update)):
                found[tail] = None
    return list(found)


@dataclass(frozen=True, slots=True)
class _Place:
    """Terms `first` up to but not including `last` of a text."""

    first: int
    last: int


def _match(value: Sequence[Term], found: Sequence[Term]) -> bool:
    return len(value) == len(found) and all(v.matches(f) for v, f in zip(value, found, strict=True))


def _occurrences(value: Sequence[Term], text: Sequence[Term]) -> list[_Place]:
    size = len(value)
    if not size:
        return []
    return [_Place(at, at + size) for at in range(len(text) - size + 1) if _match(value, text[at : at + size])]


def _inside(place: _Place, others: Iterable[_Place]) -> bool:
    return any(other.first <= place.first and place.last <= other.last for other in others)


def _is_small(value: Sequence[Term]) -> bool:
    number = value[0].number
    return len(value) == 1 and number is not None and value[0].unit is None and abs(number) < _SMALL


def _beside(place: _Place, text: Sequence[Term], spelled: str) -> str:
    """What a number counts: its unit's dimension, the word behind it (`14 of the cooks`), or the one before it.

    In the same sentence; empty where there is neither.
    """
    unit = text[place.last - 1].unit
    if unit is not None:
        return unit.dimension
    at = place.last
    while at < len(text) and not _parted(text[at - 1], text[at], spelled):
        word = text[at].word
        if word and word not in _LINKS | _ARTICLES:
            return word
        if text[place.last].word != "of":
            break
        at += 1
    at = place.first
    while at > 0 and not _parted(text[at - 1], text[at], spelled):
        at -= 1
        if text[at].word and text[at].word not in _LINKS:
            return f"{text[at].word} …"
    return ""


def _parted(one: Term, other: Term, spelled: str) -> bool:
    """Whether a sentence ends between two neighbouring terms."""
    return bool(_SENTENCE_END.search(spelled, one.end, other.start + 1))


def _spelled(place: _Place, text: Sequence[Term], update: str) -> str:
    part = text[place.first : place.last]
    return update[min(t.start for t in part) : max(t.end for t in part)]


_NAME = re.compile(r"\b[A-Z][\w’'-]+")
_FEWEST_INITIALS = 3


def _alone(name: str) -> str:
    """The name where it is not the beginning of a longer one: `Lidell`, not `Lidell Gallery`."""
    return rf"\b{re.escape(name)}\b(?! [A-Z])"


def _initials(old_answers: Sequence[str], new_answers: Sequence[str]) -> list[str]:
    """Of names of three words or more; never those that a new answer has too."""

    def of(answer: str) -> str:
        names = _NAME.findall(answer)
        return "".join(name[0] for name in names) if len(names) >= _FEWEST_INITIALS else ""

    kept = {of(answer) for answer in new_answers} | {word for one in new_answers for word in re.findall(r"\w+", one)}
    return [form for form in dict.fromkeys(map(of, old_answers)) if form and form not in kept]


def _short_names(old_answers: Sequence[str], new_answers: Sequence[str]) -> list[tuple[str, str]]:
    """(the words before it, last word) of names of two or three words; never a word that a new answer has too."""
    kept = {word for answer in new_answers for word in re.findall(r"\w+", answer)}
    found = []
    for answer in old_answers:
        names = _NAME.findall(answer)
        whole = 2 <= len(names) <= 3 and len(answer.split()) == len(names) and "," not in answer
        if whole and names[-1] not in kept and names[0].casefold() not in _PLACES:
            found.append((" ".join(names[:-1]), names[-1]))
    return found


def _of_nobody_else(match: re.Match[str], head: str, update: str) -> bool:
    """Whether a last word stands without another first name before it: `Then Renquist`, not `Jan Renquist`."""
    before = re.search(r"(\w+)(\.?)[\s]+$", update[: match.start()])
    if before is None or not before[1][0].isupper():
        return True
    word, dotted = before[1], bool(before[2])
    if dotted and len(word) > 1 and word.casefold() not in _TITLES:
        return True  # the end of a sentence
    if len(word) == 1:
        return word == head[0]
    return word.casefold() in _OPENERS | _TITLES or head.endswith(word)


def _of_a_kind(match: re.Match[str], head: str, update: str) -> bool:
    """Whether a last word is said of a kind of thing, not of one person: `the University`, `Foreign Service Medal`."""
    before = re.findall(r"\w+", update[: match.start()])
    own = head.split()
    while own and before and before[-1] == own[-1]:
        own, before = own[:-1], before[:-1]
    if not before:
        return False
    partly = len(own) < len(head.split())
    return before[-1].casefold() in _ARTICLES or (partly and bool(own) and before[-1][0].isupper())
