"""Which of some units retell an earlier one, and which say the same of somebody else. Knows no index and no model.

A later unit retells an earlier one if it

- holds every term of the question that the earlier one holds, `FUNCTION_WORDS` apart: what was asked about is still
  what it is about;
- makes the question at most `reach_nats` less likely: a sentence about Alice's work does not retell where she lives;
- shares `retold` of their terms, weighted by their rarity among the units; for the only item of a list those of its
  heading too, if it names one thing: under "Home town:" a new item is a new value, under "Allergies:" one more. So do
  items of one label, by which they differ or agree ("City: Bern"); where it names several things it does not count.

It takes the earlier unit's place. And a unit that says much the same as another (`PARALLEL`), but holds only a part of
the question's terms that the other holds, is about somebody else: it is left out too. Share of questions whose
evidence, the first three, holds the current answer, and of those on what the update changed whose evidence holds the
replaced one alone (SmolLM2-135M, development data); and of 30 pairs of notes with a question, written for this, of
which 12 are retellings (tests/evidence/test_likeness.py), how many are taken for retellings wrongly and how many are
missed (terms of parallels here weighted by their rarity, too):

                                one update        ten updates    two facts needed   pairs
                                (72 questions)    (35)           (52)               wrong / missed
    none left out                88 / 12 %        60 %           40 / 29 %            0 / 12
    shares 0.2, reach 1.5 alone  93 /  4 %        60 %           85 /  0 %           15 /  4
    with the question's terms    89 /  8 %        60 %           87 /  4 %            3 /  5
    ... reach 0.3                89 /  8 %        60 %           87 /  4 %            1 /  5
    ... shares 0.1               89 /  4 %        60 %           88 /  4 %            1 /  4
    ... without parallels        90 /  8 %        60 %           88 /  4 %            1 /  4
    ... function words apart     92 /  4 %        60 %           88 /  0 %            1 /  3    <- chosen

A trained reranker (training/reranking.py) tells more, and other rules are right for it: `TRAINED`. Share of questions
whose first sentence / one of whose first three holds the current answer, and in the first column of those on what the
update changed whose first one says the replaced one; in the last, wrong / missed of the 40 pairs of bench/pairs.jsonl.
It was trained on none of these texts (but see its card on six shared passages); SQUAD is SQuAD's development set with
updates:

                              one update      ten updates    two facts   background   SQUAD     pairs
                              (216 questions) (35)           (52)        (69)         (120)
    bare model, its rules     70 / 90,  8 %   40 / 60 %       2 / 89 %   65 / 75 %    81 / 87   2 / 3
    trained, the same rules   79 / 94, 18     46 / 69        50 / 98     68 / 80      83 / 88   0 / 2
    ... no lexical score      80 / 95, 21     46 / 71        60 / 98     72 / 80      83 / 88   0 / 2
    ... reach 0.5             83 / 95, 13     46 / 71        60 / 98     72 / 80      84 / 88   1 / 1
    ... shares 0.05           83 / 94, 11     51 / 77        60 / 98     74 / 80      84 / 88   1 / 1    <- chosen
    ... shares 0.1, reach 0.7 84 / 95,  7     46 / 71        60 / 98     72 / 80      84 / 88   3 / 1
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from plume_memory.records import Unit
from plume_memory.segmentation.lists import label_of
from plume_memory.segmentation.terms import FUNCTION_WORDS, terms_of

_PLURAL = re.compile(r"\w{2,}[^\W\d_sui]s")


class Rules(NamedTuple):
    """How what is read of the units is judged; another reader needs other rules."""

    lexical_weight: float
    """Nats that a full lexical score is worth beside the likelihood."""
    reach_nats: float
    """How much less likely a retelling may make the question than what it retells, in nats a token."""
    retold: float
    """Least share of two units' terms, by weight, that both have, if the later one retells the earlier."""


BARE = Rules(lexical_weight=1.0, reach_nats=0.3, retold=0.1)
"""For the base model as it is."""

TRAINED = Rules(lexical_weight=0.0, reach_nats=0.5, retold=0.05)
"""For the base model with a reranker, which was taught what words tell, too."""

PARALLEL = 0.3
"""Least share of their terms, each counted alike, by which two units say the same of two subjects.

Not by rarity: what is told of six people in the same words makes these words common, and the people all that counts. Of
48 questions about six people each (bench/people.py) the evidence then is 1.5 units for 2.5, and as good elsewhere.
"""


class Likeness:
    """How much some units, in temporal order, say the same, and what of the question they hold."""

    def __init__(self, units: Sequence[Unit], question: str, rules: Rules = BARE) -> None:
        """Take units in temporal order, the question they are to answer, and the rules of who reads them."""
        self._rules = rules
        asked = set(terms_of(question)) - FUNCTION_WORDS
        self._units = units
        self._own = [set(terms_of(unit.text[unit.own :])) for unit in units]  # all items of a list share headings
        self._told = [set(terms_of(unit.text)) for unit in units]
        self._compared = [self._terms_compared(unit) for unit in units]
        self._asked = [told & asked for told in self._told]
        containing = Counter(term for told in self._told for term in told)
        self._rarity = {term: math.log(1 + len(units) / n) for term, n in containing.items()}

    def retellings(self, log_p: NDArray[np.float64]) -> list[int]:
        """Return for each unit which one tells it last, most often itself.

        Args:
            log_p: mean log p of the question's tokens behind each unit, in nats, float64 [units].
        """
        versions = [unit.version for unit in self._units]

        def retells(j: int, i: int) -> bool:
            return (
                versions[j] > versions[i]
                and log_p[j] >= log_p[i] - self._rules.reach_nats
                and self._asked[j] >= self._asked[i]
                and self._shared(i, j) >= self._rules.retold
            )

        last = list(range(len(self._units)))
        for i in reversed(last):  # what tells a later unit last is known before the earlier one's turn
            later = [j for j in range(i + 1, len(last)) if retells(j, i)]
            if later:
                last[i] = last[max(later, key=lambda j: (versions[j], log_p[j]))]
        return last

    def about(self, units: Iterable[int]) -> set[int]:
        """Return which of some units say nothing like another that is rather about what is asked."""
        some = set(units)
        return {
            j for j in some if not any(self._asked[j] < self._asked[i] and self._alike(i, j) >= PARALLEL for i in some)
        }

    def _alike(self, i: int, j: int) -> float:
        one, other = self._own[i], self._own[j]
        return len(one & other) / max(1, len(one | other))

    def _shared(self, i: int, j: int) -> float:
        one, other = self._compared[i], self._compared[j]
        # sorted: sums round the same way in every process
        whole = sum(self._rarity[term] for term in sorted(one | other))
        return sum(self._rarity[term] for term in sorted(one & other)) / whole if whole else 0.0

    def _terms_compared(self, unit: Unit) -> set[str]:
        """The terms by which a unit retells another; see the module's docstring."""
        heading, own = unit.text[: unit.own].strip(), unit.text[unit.own :]
        label = label_of(own)
        if label:
            return set(terms_of(own)) - (set(terms_of(label)) if _names_several(label) else set())
        last = heading.rsplit("\n", maxsplit=1)[-1]
        beside = sum(one.version == unit.version and one.text[: one.own].strip() == heading for one in self._units)
        alone = beside == 1 and not _names_several(last) and not label_of(last)
        return set(terms_of(unit.text if alone else own))


def _names_several(heading: str) -> bool:
    """Whether a heading or label is of more than one thing, by its look: a word in the plural.

    A name that ends like one ("Thomas:") is taken for it; then the old item stays beside the new one.
    """
    words = re.sub(r"['\u2019]s\b", "", heading.lower()).split()
    return any(_PLURAL.fullmatch(word.strip(":*_#-")) for word in words)
