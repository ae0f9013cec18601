"""What a sentence does: it tells something, asks, orders, or only keeps the talk going. Knows no model of language.

A linear model of its words and their neighbours, hashed (Weinberger et al. 2009), whose weights are trained by
bench/training/acts.py: what was measured is in docs/decisions/0069-what-a-sentence-does.md.
"""

import json
import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import regex

BUCKETS = 2**15
"""Of the hash: rows of the weights."""

SURE = 0.75
"""From this probability on a sentence does nothing else: a question is no evidence, chatter is not kept."""

WEIGHTS = Path(__file__).with_name("acts.bin")
"""A line of JSON with the `scale` of a step, then [BUCKETS, 4] int8."""

_READ_CHARS, _READ_TOKENS = 400, 40
"""Of a longer sentence the beginning is read, and its end mark."""

_TOKEN = regex.compile(r"[\p{L}\p{M}\p{N}]+(?:['\u2019]\p{L}+)?|\p{Extended_Pictographic}|[^\s\p{L}\p{M}\p{N}]")

_LETTER, _LATIN = regex.compile(r"\p{L}"), regex.compile(r"\p{Latin}")
_MARKS = str.maketrans("\uff1f\u061f\u037e\u3002\uff01", "???.!")
"""The end marks of other scripts."""


class Acts(NamedTuple):
    """Probabilities; their sum is 1."""

    says: float
    """Something that can be remembered: a fact, a plan, a wish, a correction, "note that …"."""
    asks: float
    """For what is known or not, with a question mark or without one; it tells nothing."""
    orders: float
    """The assistant to make something: "write me a haiku"; it tells nothing."""
    chats: float
    """Greetings, thanks, laughter, agreement."""


_SAYS, _ASKS = Acts(1.0, 0.0, 0.0, 0.0), Acts(0.0, 1.0, 0.0, 0.0)


def acts_of(sentence: str) -> Acts:
    """Return what one sentence does; of several, a message's only one is judged best.

    Of a script that it has not learnt a sentence with a question mark asks, and any other says.
    """
    if _is_foreign(sentence[:_READ_CHARS]):
        return _ASKS if sentence.rstrip()[-1:].translate(_MARKS) == "?" else _SAYS
    scale, weights = _weights()
    rows = [bucket_of(feature) * len(Acts._fields) for feature in set(features(sentence))]
    step = scale / math.sqrt(len(rows))
    odds = [math.exp(step * sum(weights[row + act] for row in rows)) for act in range(len(Acts._fields))]
    return Acts(*(one / sum(odds) for one in odds))


def _is_foreign(sentence: str) -> bool:
    letters = len(_LETTER.findall(sentence))
    return letters > 0 and 2 * len(_LATIN.findall(sentence)) < letters


def features(sentence: str) -> Iterator[str]:
    """Yield what is seen of a sentence, never nothing: words, where they stand, their neighbours, beginnings, ends."""
    written = _TOKEN.findall(sentence.lstrip()[:_READ_CHARS].translate(_MARKS))[:_READ_TOKENS]
    words = ["0" if token.isdigit() else token.casefold().replace("\u2019", "'") for token in written]
    end = sentence.rstrip()[-1:].translate(_MARKS)
    for at, word in enumerate(words):
        yield f"word {word}"
        if at < 3:
            yield f"at {at} {word}"
        yield f"pair {word} {words[at + 1] if at + 1 < len(words) else ''}"
        if len(word) > 3 and word[0].isalpha():
            yield f"begins {word[:3]}"
            yield f"ends {word[-3:]}"
    yield f"first {' '.join(words[:3])}"
    yield f"last {'' if end.isalnum() else end}"
    yield f"long {min(8, int(2 * math.sqrt(len(words))))}"
    if any(token[0].isupper() for token in written[1:]):
        yield "name"
    if ":" in words[1:-1]:
        yield "label"


def bucket_of(feature: str) -> int:
    """Return the row of a feature's weights."""
    return crc32(feature.encode(errors="surrogatepass")) % BUCKETS


@cache
def _weights() -> tuple[float, memoryview]:
    head, _, rows = WEIGHTS.read_bytes().partition(b"\n")
    return float(json.loads(head)["scale"]), memoryview(rows).cast("b")
