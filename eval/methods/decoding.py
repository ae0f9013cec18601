"""Answering many questions in batches of one size.

It knows nothing of methods: a method brings queries (prompts with their adapters) and gets `Decoded`s.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eval.methods.protocol import Reply
from plume_memory.errors import InvalidInput
from plume_memory.model.queries import Decoded, DecodeSettings, Query
from plume_memory.scheduling import Scheduler


@dataclass(frozen=True, slots=True)
class Answerer:
    """Decodes queries in batches; what is said to one does not depend on its neighbours.

    In float32 the answers are those of one query at a time. In bfloat16 a batch adds up in another order,
    so that two candidates within its rounding may change places; compare methods at one batch size.

    Raises:
        InvalidInput: `batch` is below 1.
    """

    decoder: Scheduler
    """Of the engine, so that its captured graphs are shared."""
    settings: DecodeSettings
    """The same for all queries; part of what a method reports as its settings."""
    batch: int = 8
    """Queries of one decode, each of one or two rows; 1 for the paper's latency protocol."""

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise InvalidInput(f"A batch needs at least one query; got batch={self.batch}.")

    @property
    def described(self) -> dict[str, Any]:
        """What answers depend on, for a method's settings."""
        return {"max_new_tokens": self.settings.max_new_tokens, "answer_batch": self.batch}

    def answer(self, queries: Sequence[Query]) -> list[Decoded]:
        """Decode the queries and return their answers in the order given; see `Scheduler.stream` for the errors."""
        return self.decoder.decode(queries, self.settings, batch=self.batch)


def reply(decoded: Decoded, detail: Mapping[str, Any] | None = None) -> Reply:
    """A decoded answer as a method's reply, with what only the method knows."""
    return Reply(decoded.text, decoded.usage.completion_tokens, decoded.finish_reason, detail)


def replies(decoded: Sequence[Decoded], detail: Mapping[str, Any] | None = None) -> list[Reply]:
    """Many answers that share one detail; see `reply`."""
    return [reply(one, detail) for one in decoded]
