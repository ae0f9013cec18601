"""What a text's words are to everything that compares texts by them: METHOD's `[a-z0-9]+` of the lowercased text."""

import re

_FUNCTION_WORD_LIST = """
    a an and are as at be been by can could did do does for from had has have he her him his how i in is it its many
    me much my of on or she that the their them they this to was we were what when where which who whom whose why
    will with would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORD_LIST.split())
"""Terms of a question that name nothing it could be about: a superseding unit may lack them."""

_TERM = re.compile(r"[a-z0-9]+")


def terms_of(text: str) -> list[str]:
    """Return the terms of a text in order, repeated as they occur."""
    return _TERM.findall(text.lower())


_ASKING = frozenset(["who", "whom", "whose", "what", "which", "when", "where", "why", "how"])
_INVERTED = frozenset(
    (
        *("am", "are", "is", "was", "were", "do", "does", "did", "have", "has", "had"),
        *("can", "could", "may", "might", "must", "shall", "should", "will", "would"),
    )
)
_REQUESTS = frozenset((verb, "you") for verb in ("can", "could", "will", "would"))


def asks(text: str) -> bool:
    """Whether a sentence is a question, with its mark or without: "Where do I live?", "what is my name".

    A question says nothing that could answer one. A request may: "Can you note that I live in Bern?" is none.
    """
    terms = terms_of(text)
    if text.rstrip().endswith(("?", "\uff1f", "\u061f")):
        return tuple(terms[:2]) not in _REQUESTS
    return len(terms) > 2 and terms[0] in _ASKING and terms[1] in _INVERTED and not text.rstrip().endswith((".", "!"))
