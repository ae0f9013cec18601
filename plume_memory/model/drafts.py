"""Tokens that an answer may go on with, guessed from the texts it is made from: several are then read in one pass.

A pass of a few rows takes about as long as one of a single row: what it waits for is the weights. An answer repeats the
words of its question and its evidence, so what follows its last token there is often what it says next (prompt lookup,
as in Saxena 2023; speculative decoding, Leviathan et al. 2023). A guess counts only where it is the very token that is
chosen, so in float32 nothing else is said; in bfloat16 a pass of more tokens rounds in another order.
"""

from collections.abc import Iterable, Sequence
from typing import Any


class Drafts:
    """What followed the answer's last token in some texts.

    Args:
        texts: what the answer is made from; those that come first are looked at first.
        tokenizer: the model's.
    """

    def __init__(self, texts: Iterable[str], tokenizer: Any) -> None:
        self._ids: list[list[int]] = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]

    def after(self, said: Sequence[int], most: int) -> list[int]:
        """Return at most so many tokens; none where the answer's last one stands before none in any text."""
        for ids in self._ids:
            for at, token in enumerate(ids[:-1]):
                if said and token == said[-1]:
                    return ids[at + 1 : at + 1 + most]
        return []
