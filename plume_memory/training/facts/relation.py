"""A relation: a kind of fact, and the ways in which people state it and ask for it.

Knows no names and no values: the kinds it speaks of are those of `names` and `values`.
"""

from dataclasses import dataclass

SELF = "self"
"""The subject kind of facts about the one who speaks: their phrasings have no `{s}`."""


@dataclass(frozen=True, slots=True)
class Relation:
    """One row of a table.

    In the phrasings `{s}` stands for the subject, `{v}` for the value, `{a}` and `{A}` for the value's article.
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

    def fill(self, phrasing: str, subject: str, value: str) -> str:
        """Fill in a phrasing: a statement, a question or an inverse question."""
        return phrasing.format(s=subject, v=value, a=_article(value), A=_article(value).capitalize())


def _article(value: str) -> str:
    return "an" if value[0] in "aeiouAEIOU" and not value.startswith(_SAID_WITH_CONSONANT) else "a"


_SAID_WITH_CONSONANT = ("one", "uk", "uni", "eu")
