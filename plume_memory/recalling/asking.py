"""What of a conversation is looked up: its last question, with what was said before where it cannot stand alone."""

from collections.abc import Mapping, Sequence
from typing import Any

from plume_memory.segmentation.said import is_small_talk
from plume_memory.terms import FUNCTION_WORDS, terms_of

_PERSONS_WORDS = """
    he her hers him his she their theirs them these they those
"""
_PERSONS = frozenset(_PERSONS_WORDS.split())
"""Words that stand for somebody or something named before."""
_LEANS_WORDS = """
    about also and but else it its one ones or same so that then there this too
"""
_LEANS = _PERSONS | frozenset(_LEANS_WORDS.split())
"""These, and words with which a short question takes up what was said before."""
_TURNS = 3
"""Most of a user's turns that are looked up together."""
_REPLY_CHARS = 200
"""Of a reply between them its beginning: whom "she" means stands there."""


def routed_of(turns: Sequence[Mapping[str, Any]]) -> str:
    """Return the words that are looked up for a conversation; none where its last turn is small talk.

    "And what about the frontend?" goes with the turn before it, and with the reply between them.

    Args:
        turns: of `role` and `content`; the user's last one asks.
    """
    said: list[str] = []
    count = 0
    spoken = [one for one in turns if one["role"] in ("user", "assistant")]
    for turn in reversed(spoken):
        if turn["role"] == "assistant":
            said += [turn["content"][:_REPLY_CHARS]] if count else []
            continue
        if not count and is_small_talk(turn["content"]):
            return ""
        said.append(turn["content"])
        count += 1
        if count == _TURNS or not leans(turn["content"]):
            break
    return "\n".join(reversed(said)).strip()


def leans(question: str) -> bool:
    """Whether a question cannot be understood alone, by its words."""
    terms = terms_of(question)
    named = set(terms) - FUNCTION_WORDS - _LEANS
    return not _PERSONS.isdisjoint(terms) or not named or (len(named) == 1 and not _LEANS.isdisjoint(terms))
