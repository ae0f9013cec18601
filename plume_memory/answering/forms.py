"""An answer in a form: found in words first, then written down under the schema with the words in view.

Asked for JSON at once a small model fills the form with what often stands in such forms. Found in words, a string that
the schema leaves free is a piece of them; null wins where nothing in memory bears on the question.
"""

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from plume_memory.model.grammar import Grammar, mapped
from plume_memory.terms import FUNCTION_WORDS, terms_of

WORDS_TOKENS = 64
"""Longest answer in words, before it is put into its form."""

_LONGEST = 12
"""Words of a piece; the whole of what was said is one too."""
_SETTLED = ("enum", "const", "pattern", "format", "minLength")
_BOUNDED = frozenset(("enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
_NUMBER = re.compile(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\w.]*\d)|(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\d)")


def request(grammar: Grammar) -> str:
    """Return what is asked for behind the answer in words."""
    names = json.loads(grammar.schema or "{}").get("properties", {})
    listed = ", ".join(f'"{name}"' for name in names)
    keys = f" with the key{'s' * (len(names) > 1)} {listed}" if names else ""
    return f"Write this answer as JSON{keys}."


def filled_from(grammar: Grammar, said: str, question: str) -> Grammar:
    """Return the grammar whose free strings are pieces of what was said, and numbers the numbers of it.

    Args:
        grammar: of a JSON schema.
        said: the answer in words.
        question: pieces that hold nothing but its words are none.
    """
    pieces, numbers = _pieces(said, question), _numbers(said)

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        kinds = _kinds(schema)
        fitting = [piece for piece in pieces if len(piece) <= schema.get("maxLength", len(piece))]
        if "string" in kinds and fitting and not any(key in schema for key in _SETTLED):
            return _one_of(schema, kinds, "string", fitting)
        whole = [number for number in numbers if isinstance(number, int)]
        for kind, values in (("integer", whole), ("number", numbers)):
            if kind in kinds and values and _BOUNDED.isdisjoint(schema):
                return _one_of(schema, kinds, kind, values)
        return schema

    return _changed(grammar, change)


def with_nothing(grammar: Grammar) -> Grammar:
    """Return the grammar in which whatever may be null is null."""

    def change(schema: dict[str, Any]) -> dict[str, Any]:
        if "null" in _kinds(schema):
            return {"type": "null"}
        others = [one for key in ("anyOf", "oneOf") for one in schema.get(key, ())]
        if any(isinstance(one, Mapping) and "null" in _kinds(one) for one in others):
            return {"type": "null"}
        return schema

    return _changed(grammar, change)


def _changed(grammar: Grammar, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Grammar:
    assert grammar.schema is not None, "callers come here with the grammar of a schema"
    found = mapped(json.loads(grammar.schema), change)
    return grammar if json.dumps(found) == grammar.schema else Grammar.json_schema(found, limits=grammar.limits)


def _kinds(schema: Mapping[str, Any]) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _one_of(schema: dict[str, Any], kinds: list[str], kind: str, values: list[Any]) -> dict[str, Any]:
    rest = [{**schema, "type": other} for other in kinds if other != kind]
    return {"anyOf": [{"enum": values}, *rest]} if rest else {"enum": values}


def _pieces(said: str, question: str) -> list[str]:
    """The runs of words that say something the question does not, without small words at their ends."""
    words, asked = said.split(), set(terms_of(question)) | FUNCTION_WORDS
    found: dict[str, None] = {}
    for start in range(len(words)):
        for end in range(start + 1, min(len(words), start + _LONGEST) + 1):
            piece = " ".join(words[start:end]).strip(".,;:!?\"'()")
            terms = terms_of(piece)
            ends = {terms[0], terms[-1]} if terms else {""}
            if terms and not asked.issuperset(terms) and not ends & FUNCTION_WORDS:
                found[piece] = None
    return list(found) and [*found, *([said.strip()] if len(words) > _LONGEST else [])]


def _numbers(said: str) -> list[int | float]:
    found = (one.group().replace(",", "") for one in _NUMBER.finditer(said))
    return list(dict.fromkeys(float(one) if "." in one else int(one) for one in found))
