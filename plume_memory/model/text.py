"""Token ids to text while they arrive: half characters and possible stop strings are held back."""

from typing import Any


class TextAssembler:
    """Text of one answer, released as soon as no later token can change it.

    Law: the released pieces joined are the decoded answer, cut before the first stop string.
    """

    def __init__(self, tokenizer: Any, stop: tuple[str, ...]) -> None:
        self.stopped = False
        """Whether a stop string was met; no more text follows."""
        self._tokenizer = tokenizer
        self._stop = stop
        self._ids: list[int] = []
        self._text = ""
        self._released = 0

    @property
    def decoded(self) -> str:
        """The whole answer so far, released or not."""
        return self._text

    def add(self, token: int) -> str:
        """Take one token; return the text that became certain."""
        self._ids.append(token)
        # The whole answer is decoded anew: some tokenizers write a token differently at the start.
        self._text = self._tokenizer.decode(self._ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        found = [at for at in (self._text.find(s) for s in self._stop) if at >= 0]
        if found:
            self.stopped = True
            return self._release(min(found))
        certain = len(self._text.rstrip("\ufffd"))  # an unfinished UTF-8 sequence decodes to U+FFFD
        return self._release(certain - self._possible_stop(self._text[:certain]))

    def finish(self) -> str:
        """The answer ended: return what was held back."""
        return self._release(len(self._text))

    def _release(self, end: int) -> str:
        piece = self._text[self._released : end]
        self._released = max(self._released, end)
        return piece

    def _possible_stop(self, text: str) -> int:
        """Length of the longest end of `text` that could begin a stop string."""
        longest = 0
        for stop in self._stop:
            for length in range(min(len(stop) - 1, len(text)), longest, -1):
                if text.endswith(stop[:length]):
                    longest = length
                    break
        return longest
