"""The strip under an answer: its tokens as words, each with two bars, the divergence (JS) and the weight (λ). Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from plume_memory.records import TokenTrace

HEIGHT = 30.0
_BAR, _STEP = 5.0, 13.0
"""Width of a bar, and from one token's bars to the next one's."""
_LEAST = 0.75
"""A bar of nothing is a line still: it says that there is a value."""


@dataclass(frozen=True, slots=True)
class Bars:
    """The two bars of a token, in the strip's own units, hanging from its upper edge."""

    x: float
    divergence: float
    """Height of the bar of JS; ln 2 fills the strip."""
    weight: float
    """Height of the bar of λ; the answer's largest fills the strip."""
    width: float = _BAR

    @property
    def weight_x(self) -> float:
        """Where the second bar stands."""
        return self.x + self.width + 1


@dataclass(frozen=True, slots=True)
class Word:
    """A word of an answer."""

    text: str
    """With the white space before it."""
    bars: tuple[Bars, ...]
    """One per token."""
    width: float
    says: str
    """Its numbers, in words."""


def spoken(trace: Sequence[TokenTrace], text: str) -> list[TokenTrace]:
    """Return the tokens that an answer's text is made of: not those that ended it, none where it was withheld."""
    found: list[TokenTrace] = []
    said = ""
    for token in trace:
        if said.strip() == text.strip():
            break
        found.append(token)
        said += token.text
    return found if said.strip().startswith(text.strip()) else []


def strip_of(trace: Sequence[TokenTrace]) -> list[Word]:
    """Return an answer's tokens as words: a token that begins with white space begins one."""
    largest = largest_weight(trace)
    groups: list[list[TokenTrace]] = []
    for token in trace:
        if not groups or token.text[:1].isspace():
            groups.append([])
        groups[-1].append(token)
    return [_word(group, largest) for group in groups]


def largest_weight(trace: Sequence[TokenTrace]) -> float:
    """Return the λ that fills the strip."""
    return max((token.weight for token in trace), default=0.0)


def _word(tokens: Sequence[TokenTrace], largest: float) -> Word:
    bars = tuple(
        Bars(
            x=place * _STEP,
            divergence=max(_LEAST, HEIGHT * min(1.0, token.js / math.log(2))),
            weight=max(_LEAST, HEIGHT * (token.weight / largest if largest > 0 else 0.0)),
        )
        for place, token in enumerate(tokens)
    )
    js, weight = (max(getattr(token, name) for token in tokens) for name in ("js", "weight"))
    says = f"JS {js:.3f} nats, λ {weight:.2f}"
    return Word("".join(token.text for token in tokens), bars, len(bars) * _STEP - 2, says)
