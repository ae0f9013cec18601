"""A relation: a kind of fact, and the ways in which people state it, ask for it, and say that it changed.

Knows no names and no values: the kinds it speaks of are those of `names` and `values`.
"""

from dataclasses import dataclass

SELF = "self"
"""The subject kind of facts about the one who speaks: their phrasings have no `{s}`."""


@dataclass(frozen=True, slots=True)
class Relation:
    """One row of a table.

    In the phrasings `{s}` stands for the subject, `{v}` for the value, `{a}` and `{A}` for the value's article.
    Phrasings of a change or an end may name the old value, `{o}`, behind its article, `{b}`.
    """

    label: str
    """Noun phrase that reads behind a possessive: "badge code". Distinct for each subject kind."""
    subject: str
    """Kind of subject: a name in `names.SUBJECTS`, or `SELF`."""
    value: str
    """Kind of value: a name in `values.VALUES`."""
    statements: tuple[str, ...]
    """Whole sentences. `{v}` opens one only where values of the kind open with a capital or a digit."""
    questions: tuple[str, ...]
    """Whole questions, answered by the value as it stands."""
    inverse: tuple[str, ...] = ()
    """Questions answered by the subject's name; empty where several subjects may share a value."""
    topic: str = ""
    """Relations of one topic never stand together about one subject: a question about one could mean the other."""
    changes: tuple[str, ...] = ()
    """Whole sentences that say that `{v}` holds in place of what was said before, some naming it, `{o}`.

    Where a fact cannot change, they correct it. Chat lines may open with a small letter.
    """
    ends: tuple[str, ...] = ()
    """Whole sentences that say that the fact holds no longer, with no new value; empty where that makes no sense."""
    several: bool = False
    """Whether a second value, plainly stated, adds to the first: of allergies, not of birthplaces."""
    more: tuple[str, ...] = ()
    """Whole sentences that add a second value; empty unless `several`."""

    def fill(self, phrasing: str, subject: str, value: str, old: str = "") -> str:
        """Fill in a phrasing of any field; `old` is the value that held before, if the phrasing may name it."""
        return phrasing.format(
            s=subject,
            v=value,
            a=_article(value) if value else "",
            A=_article(value).capitalize() if value else "",
            o=old,
            b=_article(old) if old else "",
        )


def _article(value: str) -> str:
    return "an" if value[0] in "aeiouAEIOU" and not value.startswith(_SAID_WITH_CONSONANT) else "a"


_SAID_WITH_CONSONANT = ("one", "uk", "uni", "eu")
