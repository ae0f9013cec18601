"""The text of one answer as it grows: what of it is certain, how a value is copied, if it runs on, what may come."""

from dataclasses import dataclass
from typing import Any

from plume_memory.model.copying import Copying
from plume_memory.model.drafts import Drafts
from plume_memory.model.queries import DecodeSettings, FinishReason, Query
from plume_memory.model.run_on import RunOn
from plume_memory.model.text import TextAssembler
from plume_memory.terms import terms_of


@dataclass(frozen=True, slots=True, eq=False)
class Saying:
    """The text of one answer as it grows."""

    text: TextAssembler
    run_on: RunOn | None
    copying: Copying | None
    drafts: Drafts | None

    @classmethod
    def of(cls, query: Query, tokenizer: Any, settings: DecodeSettings) -> "Saying":
        """Nothing said yet."""
        text = TextAssembler(tokenizer, settings.stop)
        if query.sources is None or settings.grammar is not None:
            return cls(text, None, None, None)
        words = frozenset(term for source in query.sources for term in terms_of(source))
        ends = settings.stop_loops and settings.min_new_tokens <= 1
        drafts = Drafts([*query.sources[1:], *query.sources[:1]], tokenizer)
        return cls(text, RunOn(words) if ends else None, Copying(query.sources), drafts)

    def add(self, token: int, *, complete: bool, last: bool) -> tuple[str, FinishReason | None]:
        """Take a token; return what may be given now, and why the answer ends with it, if it does."""
        piece = self.text.add(token)
        if self.text.stopped or complete or last:
            rest = "" if self.text.stopped else self.text.finish()
            return self._given(piece + rest, whole=True), "stop" if self.text.stopped or complete else "length"
        given = self._given(piece, whole=False)
        return given, "stop" if self.run_on is not None and self.run_on.ended else None

    def end(self) -> tuple[str, FinishReason]:
        """The model ended the answer: return what was held back."""
        return self._given(self.text.finish(), whole=True), "stop"

    def _given(self, piece: str, *, whole: bool) -> str:
        if self.run_on is None:
            return piece
        given = self.run_on.add(piece)
        return given + self.run_on.finish() if whole else given
