"""Says a field of a record as a sentence, by rule: the same words for the same record. Knows no form."""

import re
from collections.abc import Sequence

_WORDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\s]+|(?<=[^\W\d_])-(?=[^\W\d_])")
_LEADS_ON = frozenset(["at", "by", "for", "from", "in", "into", "of", "on", "per", "since", "to", "until", "with"])
_NAMING = ("name", "full name", "title", "label", "product", "article", "item", "description")
_CODES = ("id", "key", "code", "no", "number", "nr", "sku", "ref", "reference", "slug", "handle")
_MOST_PHRASE_CHARS = 160
_LONG_VALUE_WORDS = 12


def words_of(field: str) -> str:
    """A field's name as words in a sentence: "unitPrice", "unit_price" and "Unit price" are all "unit price"."""
    words = [word for word in _WORDS.split(field.strip()) if word]
    return " ".join(word[0].lower() + word[1:] if word[1:].islower() else word.lower() if len(word) == 1 else word
                    for word in words)  # fmt: skip


def said_field(field: str, subject: str, values: Sequence[str]) -> str:
    """Say what a field of something is: "The supplier of Sealing ring is Blomqvist AB."

    Args:
        field: its name, as the text writes it.
        subject: whose it is; empty where the text names nobody.
        values: one, or those of a list.
    """
    name, whose = words_of(field), f" of {subject}" if subject else ""
    value = _joined(values) if values else "empty"
    if name.rsplit(" ", maxsplit=1)[-1] in _LEADS_ON or len(value.split()) > _LONG_VALUE_WORDS:
        begun = f"{subject}, {name}" if subject else name
        return f"{begun[0].upper()}{begun[1:]}: {value}" if begun else value
    end = "" if value.endswith((".", "!", "?")) else "."
    return f"The {name or 'value'}{whose} {'are' if len(values) > 1 else 'is'} {value}{end}"


def is_naming(field: str) -> bool:
    """Whether a field's value is what people call the thing."""
    words = words_of(field).lower()
    return words in _NAMING or words.endswith(" name")


def is_code(field: str) -> bool:
    """Whether a field's value tells the thing from all others, in a list's own marks."""
    words = words_of(field).lower().rstrip(".")
    return words in _CODES or words.rsplit(" ", maxsplit=1)[-1] in _CODES[:-2]


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
