"""Says a field of a record as a sentence, by rule: the same words for the same record. Knows no form."""

import re
from collections.abc import Sequence

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\s]+|(?<=[^\W\d_])-(?=[^\W\d_])")
_NO_NOUN_LIST = """
    at by for from in into of on per since to until with
    born bought built due made paid sold
"""
_NO_NOUNS = frozenset(_NO_NOUN_LIST.split())
"""Fields that end so are said before their values, as no "the … of"; so are participles."""
_PARTICIPLE = re.compile(r"\w{3,}(?<!e)ed$")
_NAMING = ("name", "full name", "title", "label", "product", "article", "item", "description")
_CODES = ("id", "no", "nr", "key", "code", "number", "sku", "ref", "reference", "slug", "handle")
_CODES_BEHIND = _CODES[:3]
_MOST_PHRASE_CHARS = 160
_LONG_VALUE_WORDS = 4


def words_of(field: str) -> str:
    """A field's name as words in a sentence: "unitPrice", "unit_price" and "Unit price" are all "unit price"."""
    words = [word for word in _WORDS.split(field.strip()) if word]
    return " ".join(word[0].lower() + word[1:] if word[1:].islower() else word.lower() if len(word) == 1 else word
                    for word in words)  # fmt: skip


def said_field(field: str, subject: str, values: Sequence[str]) -> str:
    """Say what a field of something is: "The supplier of Sealing ring is Blomqvist AB." is such a sentence.

    Args:
        field: its name, as the text writes it.
        subject: whose it is; empty where the text names nobody.
        values: one, or those of a list.
    """
    name, whose = words_of(field), f" of {subject}" if subject else ""
    value = _joined(values) if values else "empty"
    last = name.rsplit(" ", maxsplit=1)[-1]
    if last in _NO_NOUNS or _PARTICIPLE.match(last):
        begun = f"{subject}, {name}" if subject else name
        return f"{begun[0].upper()}{begun[1:]}: {value}"
    if len(value.split()) > _LONG_VALUE_WORDS and len(values) < 2:  # a sentence of its own
        return f"The {name or 'value'}{whose}: {value}"
    end = "" if value.endswith((".", "!", "?")) else "."
    verb = "are" if len(values) > 1 or singular(last) != last else "is"
    return f"The {name or 'value'}{whose} {verb} {value}{end}"


def is_naming(field: str) -> bool:
    """Whether a field's value is what people call the thing."""
    words = words_of(field).lower()
    return words in _NAMING or words.endswith(" name")


def is_code(field: str) -> bool:
    """Whether a field's value tells the thing from all others, in a list's own marks."""
    words = words_of(field).lower().rstrip(".")
    return words in _CODES or words.rsplit(" ", maxsplit=1)[-1] in _CODES_BEHIND


def named(parts: Sequence[str]) -> str:
    """Say what is whose, from the inside out: "the address of the office of Ada Holm"; no more than is easily read."""
    found = ""
    for part in parts:
        longer = f"{found} of {part}" if found else part
        if found and len(longer) > _MOST_PHRASE_CHARS:
            break
        found = longer
    return found


def singular(name: str) -> str:
    """One of what a field has several of, as far as English says it by its end."""
    for end, one in (("ies", "y"), ("sses", "ss"), ("xes", "x"), ("s", "")):
        if name.endswith(end) and len(name) > len(end) + 2 and not name.endswith(("ss", "us", "is")):
            return name[: -len(end)] + one
    return name


def _joined(values: Sequence[str]) -> str:
    values = [" ".join(value.split()) for value in values]
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} and {values[-1]}"
