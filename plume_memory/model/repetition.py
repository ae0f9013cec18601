"""Tells an answer that only repeats itself: greedy decoding that has come round once comes round for ever.

Knows tokens by their ids, nothing else.
"""

from collections.abc import Sequence

LONGEST_SPAN = 64
"""Tokens of the longest span that is looked for."""


def repeated(ids: Sequence[int]) -> int:
    """Return how many tokens at the end say again what stands before them; 0 if they are no loop.

    A loop is a span of tokens at the end that stands there three times or more without anything between, over at
    least 24 tokens, or twice if it has 16 tokens or more. All but its first occurrence is repeated.
    """
    for span in range(1, min(LONGEST_SPAN, len(ids) // 2) + 1):
        times = 1
        while ids[-span:] == ids[len(ids) - span * (times + 1) : len(ids) - span * times]:
            times += 1
        if (times >= 3 and span * times >= 24) or (times >= 2 and span >= 16):
            return span * (times - 1)
    return 0
