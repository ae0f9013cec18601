"""What of a user's message is worth a memory: a list of words, no model.

Two policies, of what a program writes that hears a conversation: the whole of a message that says something
(`everything_said`), or the sentences that correct (`corrections_in`).
"""

import re

from plume_memory.segmentation.sentences import sentence_spans
from plume_memory.terms import asks, terms_of

_CORRECTS = re.compile(
    r"\b(actually|correction|update|instead|no longer|not any ?more|from now on|as of|moved|changed|renamed|replaced|"
    r"new|now|remember|please note|i meant|sorry|used to|anymore)\b|^\s*no\b",
    re.IGNORECASE,
)

_SMALL_TALK_WORDS = """
    a ah all and are bye cool day dear doing evening fine for good goodbye got great hello help helpful helps here hey
    hi how i it lot many me morning much my night nice no now oh ok okay perfect please right see so super sure thank
    thanks that then there to today understood very welcome well wow yeah yep yes you your
"""
_SMALL_TALK = frozenset(_SMALL_TALK_WORDS.split())
"""A sentence of these words alone is none to keep."""

_REQUESTS_WORDS = """
    calculate compare compose compute convert create describe draft draw explain generate give improve make
    outline recommend rewrite shorten show sing solve suggest summarise summarize tell translate write
"""
_REQUESTS = frozenset(_REQUESTS_WORDS.split())
"""Verbs that ask the assistant for something; one that asks it to keep something ("note", "remember") is none."""

_NAMES = re.compile(r"\d|(?<=\s)[^\W\d_a-z]")
"""A number, or a capital inside: a request with one may tell something."""

_SPEAKERS_WORDS = """
    i im my mine our ours we us her his their is are was were has have
"""
_SPEAKERS = frozenset(_SPEAKERS_WORDS.split())
"""Words with which a request tells something too: "write to my landlord, he is called Ott"."""


def everything_said(text: str) -> str | None:
    """The `turns` policy: the message as it stands; None when no sentence of it says anything to keep.

    A question says nothing, with its mark or without; nor does small talk ("Hi!", "ok, thanks"), nor a request that
    is about nobody ("write me a haiku about rain"). "Remember that Ada is vegan." does.
    """
    return text.strip() if any(_says_something(sentence) for sentence in _sentences(text)) else None


def is_small_talk(text: str) -> bool:
    """Whether a message only greets, thanks or agrees ("Hi!", "ok, thanks"): nothing in memory bears on it."""
    return _SMALL_TALK.issuperset(terms_of(text))


def _asks(sentence: str) -> bool:
    return sentence.endswith("?") or asks(sentence)


def _says_something(sentence: str) -> bool:
    terms = terms_of(sentence)
    if _asks(sentence) or is_small_talk(sentence):
        return False
    if _CORRECTS.search(sentence) or _NAMES.search(sentence):
        return True
    return not (terms[0] in _REQUESTS and _SPEAKERS.isdisjoint(terms[1:]))


def corrections_in(text: str) -> str | None:
    """The `corrections` policy: the sentences that say that something has changed; None without any.

    A sentence counts when it is no question and has one of a few words: actually, correction, update,
    instead, no longer, from now on, moved, changed, now, new, remember, …; or begins with "no".
    """
    told = [sentence for sentence in _sentences(text) if not _asks(sentence) and _CORRECTS.search(sentence)]
    return " ".join(told) or None


def _sentences(text: str) -> list[str]:
    return [stripped for start, end in sentence_spans(text) if (stripped := text[start:end].strip())]
