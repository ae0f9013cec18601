"""What of a user's message is worth a memory.

Two policies, of what a program writes that hears a conversation: the whole of a message that says something
(`everything_said`), or the sentences that correct (`corrections_in`).
"""

import re

from plume_memory.segmentation.acts import SURE, acts_of
from plume_memory.segmentation.sentences import sentence_spans
from plume_memory.terms import terms_of

_CORRECTS = re.compile(
    r"\b(actually|correction|update|instead|no longer|not any ?more|from now on|as of|moved|changed|renamed|replaced|"
    r"new|now|remember|please note|i meant|sorry|used to|anymore)\b|^\s*no\b",
    re.IGNORECASE,
)


def everything_said(text: str) -> str | None:
    """The `turns` policy: the message as it stands; None when no sentence of it says anything to keep.

    A question says nothing, nor does small talk ("Hi!", "ok, thanks"), nor a request that is about nobody ("write me a
    haiku about rain"). "Remember that Ada is vegan." does. It is a learnt judgement, and in doubt a message is kept.
    """
    return text.strip() if any(acts_of(sentence).says > 1 - SURE for sentence in _sentences(text)) else None


def is_small_talk(text: str) -> bool:
    """Whether a message only greets, thanks or agrees ("Hi!", "ok, thanks"): nothing in memory bears on it."""
    return all(acts_of(one).chats >= SURE or not terms_of(one) for one in _sentences(text))


def corrections_in(text: str) -> str | None:
    """The `corrections` policy: the sentences that say that something has changed; None without any.

    A sentence counts when it is no question and has one of a few words: actually, correction, update,
    instead, no longer, from now on, moved, changed, now, new, remember, …; or begins with "no".
    """
    told = [one for one in _sentences(text) if acts_of(one).asks < SURE and _CORRECTS.search(one)]
    return " ".join(told) or None


def _sentences(text: str) -> list[str]:
    return [stripped for start, end in sentence_spans(text) if (stripped := text[start:end].strip())]
