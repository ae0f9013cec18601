"""Which of some units supersede an earlier one, and which say the same of somebody else. Knows no index and no model.

The one place where recency counts at question time. A later unit supersedes an earlier one if it

- is of the same speaker, if both speak of themselves: what Anna says of herself is no news of Bo;
- holds every term of the question that the earlier one holds, `FUNCTION_WORDS` apart, and speaks of me if the question
  and the earlier one do: what was asked about is still what it is about;
- makes the question at most `REACH_NATS` less likely: a sentence about Alice's work does not supersede where she lives;
  and more likely, if it is of somebody of whom the earlier one is not: "my wife's name" is none of mine, but "Alice's
  new job" tells where she works;
- shares `SHARED` of their terms, weighted by their rarity among the units, without function words where the earlier one
  holds no other term of the question: "I prefer trains" is no news of "I am allergic to peanuts". For the only item of
  a list those of its heading count too, if it names one thing: under "Home town:" a new item is a new value, under
  "Allergies:" one more. So do items of one label, by which they differ or agree ("City: Bern"); where it names several
  things it does not count.

It takes the earlier unit's place. And a unit that overlaps much with another (`OVERLAP`), but holds only a part of the
question's terms that the other holds, is about somebody else: it is left out too. What was measured: docs/decisions.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from plume_memory.records import Overrules, Unit
from plume_memory.segmentation.forms.turns import ANSWERS
from plume_memory.segmentation.lists import label_of
from plume_memory.terms import FIRST_PERSON, FUNCTION_WORDS, possessors, speaks_of_me, terms_of

_PLURAL = re.compile(r"\w{2,}[^\W\d_sui]s")

REACH_NATS = 0.6
"""How much less likely a superseding unit may make the question than what it supersedes, in nats a token of the reader
that ships, whose nats are 1.3 times as large as those for which 0.5 was chosen."""

SHARED = 0.05
"""Least share of two units' terms, by weight, that both have, if the later one supersedes the earlier."""

_NOTHING = Overrules()
_SMALL = FUNCTION_WORDS | FIRST_PERSON
_I = frozenset(["i", "me", "mine", "my", "myself"])
_ME = "(me)"  # no term: terms have no brackets

OVERLAP = 0.3
"""Least share of their terms, each counted alike, by which two units say the same of two subjects.

Not by rarity: what is told of six people in the same words makes these words common, and the people all that counts.
"""


class Verdict(NamedTuple):
    """What takes the place of a unit, for one question."""

    newest: int
    """Index of the unit that supersedes it last; most often its own."""
    about: bool
    """Whether that one is about what is asked, not about somebody else."""


def verdicts(
    units: Sequence[Unit], question: str, log_p: Sequence[float], overrules: Mapping[int, Overrules] | None = None
) -> list[Verdict]:
    """Judge some units for a question, in the order given.

    Args:
        units: in temporal order.
        question: what is asked.
        log_p: mean log p of the question's tokens behind each unit, in nats.
        overrules: what callers decided of their updates, by version: what one keeps it does not supersede.
    """
    compared = _Comparison(units, question, overrules or {})
    newest = compared.newest(log_p)
    about = compared.about(newest)
    return [Verdict(j, j in about) for j in newest]


def of_two_speakers(one: Unit, other: Unit) -> bool:
    """Whether each of two speakers says "I" or "my": neither is news of the other. What is ours may be theirs too."""
    whose = [(unit.speaker or "").casefold() for unit in (one, other)]
    return whose[0] != whose[1] and not any(_I.isdisjoint(terms_of(unit.words)) for unit in (one, other))


class _Comparison:
    """How much some units, in temporal order, say the same, and what of the question they hold."""

    def __init__(self, units: Sequence[Unit], question: str, overrules: Mapping[int, Overrules]) -> None:
        self._overrules = overrules
        asked = set(terms_of(question)) - FUNCTION_WORDS
        self._units = units
        self._own = [set(terms_of(unit.text[unit.own :])) for unit in units]  # all items of a list share headings
        self._terms = [set(terms_of(unit.text)) for unit in units]
        self._compared = [self._terms_compared(unit) for unit in units]
        self._asked = [own & asked for own in self._terms]
        if speaks_of_me(question):
            for own, unit in zip(self._asked, units, strict=True):
                own.update([_ME] if unit.speaker is None and speaks_of_me(_told(unit)) else [])  # else it is theirs
        self._whose = [possessors(_told(unit)) for unit in units]
        containing = Counter(term for own in self._terms for term in own)
        self._rarity = {term: math.log(1 + len(units) / n) for term, n in containing.items()}

    def newest(self, log_p: Sequence[float]) -> list[int]:
        """Return for each unit which one supersedes it last, most often itself."""
        versions = [unit.version for unit in self._units]

        def supersedes(j: int, i: int) -> bool:
            return (
                versions[j] > versions[i]
                and not self._overrules.get(versions[j], _NOTHING).keep(versions[i])
                and not of_two_speakers(self._units[i], self._units[j])
                and (log_p[j] >= log_p[i] - REACH_NATS if self._whose[j] <= self._whose[i] else log_p[j] > log_p[i])
                and self._asked[j] >= self._asked[i]
                and self._shared(i, j) >= SHARED
            )

        last = list(range(len(self._units)))
        for i in reversed(last):  # what supersedes a later unit is known before the earlier one's turn
            later = [j for j in range(i + 1, len(last)) if supersedes(j, i)]
            if later:
                last[i] = last[max(later, key=lambda j: (versions[j], log_p[j]))]
        return last

    def about(self, units: Iterable[int]) -> set[int]:
        """Return which of some units say nothing like another that is rather about what is asked."""
        some = set(units)
        return {
            j for j in some if not any(self._asked[j] < self._asked[i] and self._overlap(i, j) >= OVERLAP for i in some)
        }

    def _overlap(self, i: int, j: int) -> float:
        one, other = self._own[i], self._own[j]
        return len(one & other) / max(1, len(one | other))

    def _shared(self, i: int, j: int) -> float:
        one, other = self._compared[i], self._compared[j]
        if self._asked[i] <= {_ME}:
            one, other = one - _SMALL, other - _SMALL
        # sorted: sums round the same way in every process
        whole = sum(self._rarity[term] for term in sorted(one | other))
        return sum(self._rarity[term] for term in sorted(one & other)) / whole if whole else 0.0

    def _terms_compared(self, unit: Unit) -> set[str]:
        """The terms by which a unit supersedes another; see the module's docstring."""
        heading, own = unit.text[: unit.own].strip(), unit.text[unit.own :]
        label = label_of(own)
        if label:
            return set(terms_of(own)) - (set(terms_of(label)) if _names_several(label) else set())
        last = heading.rsplit("\n", maxsplit=1)[-1]
        beside = sum(one.version == unit.version and one.text[: one.own].strip() == heading for one in self._units)
        alone = beside == 1 and not _names_several(last) and not label_of(last)
        return set(terms_of(unit.text if alone else own))


def _told(unit: Unit) -> str:
    """A unit's text without what somebody asked before it: that one's "my" is not the unit's."""
    heading = unit.text[: unit.own].splitlines(keepends=True)
    return "".join(line for line in heading if not line.startswith(ANSWERS)) + unit.text[unit.own :]


def _names_several(heading: str) -> bool:
    """Whether a heading or label is of more than one thing, by its look: a word in the plural.

    A name that ends like one ("Thomas:") is taken for it; then the old item stays beside the new one.
    """
    words = re.sub(r"['\u2019]s\b", "", heading.lower()).split()
    return any(_PLURAL.fullmatch(word.strip(":*_#-")) for word in words)
