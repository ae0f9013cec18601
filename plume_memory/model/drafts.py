"""Tokens that an answer may go on with, guessed from the texts it is made from: several are then read in one pass.

A pass of a few rows takes about as long as one of a single row: what it waits for is the weights. An answer repeats the
words of its question and its evidence, so what follows its last tokens there is often what it says next (prompt lookup,
as in Saxena 2023; speculative decoding, Leviathan et al. 2023). A guess counts only where it is the very token that is
chosen, so in float32 nothing else is said; in bfloat16 a pass of more tokens rounds in another order.
"""

from collections.abc import Iterable, Sequence
from typing import Any

_ALIKE = 2
"""Tokens that the answer has last, and that stand before the guess."""


class Drafts:
    """What followed the answer's last tokens in some texts.

    Args:
        texts: what the answer is made from; those that come first are looked at first.
        tokenizer: the model's.
    """

    def __init__(self, texts: Iterable[str], tokenizer: Any) -> None:
        self._ids: list[list[int]] = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]

    def after(self, said: Sequence[int], most: int) -> list[int]:
        """Return at most so many tokens; none where the answer's last ones stand in no text."""
        last = list(said[-_ALIKE:])
        if len(last) < _ALIKE:
            return []
        for ids in self._ids:
            for at in range(len(ids) - _ALIKE):
                if ids[at : at + _ALIKE] == last:
                    return ids[at + _ALIKE : at + _ALIKE + most]
        return []
