"""Fused decoding of queries to their ends, or token by token. It knows nothing of memories or versions.

No lock and no torch context is held while the caller looks at a step, so an abandoned stream blocks nobody and an
update meanwhile neither waits for a decode nor changes it.
"""

from collections.abc import Generator, Sequence

import torch

from plume_memory.forks import Lock
from plume_memory.model.base import BaseModel
from plume_memory.model.masks import Vocabulary
from plume_memory.model.queries import Decoded, DecodeSettings, Query, Step, collect
from plume_memory.model.running import RunningQueries

BATCH = 16
"""Queries decoded at once where nothing else is said."""

IDLE = 2
"""Batches whose buffers (and captured graphs) are kept for the next decode."""


class FusedDecoder:
    """Decodes batches of queries on one base model; safe to use from many threads."""

    def __init__(self, base: BaseModel, *, fixed_shapes: bool | None = None) -> None:
        """Take a model.

        Args:
            base: shared by all streams; one forward pass runs at a time.
            fixed_shapes: decode with buffers of fixed shape (on CUDA with captured graphs); on CUDA
                by default.
        """
        self._base = base
        self._fixed = base.device.type == "cuda" if fixed_shapes is None else fixed_shapes
        self._vocabulary = Vocabulary(base)
        self._lock = Lock()
        self._idle: list[RunningQueries] = []

    def decode(self, queries: Sequence[Query], settings: DecodeSettings, *, batch: int = BATCH) -> list[Decoded]:
        """Decode any number of queries to their ends; the answers in the order given. See `stream` for the errors.

        Args:
            queries: any number.
            settings: the same for all.
            batch: most queries decoded at once: every row holds a copy of its adapter.
        """
        order = sorted(range(len(queries)), key=lambda i: queries[i].tokens)  # little padding
        answers: dict[int, Decoded] = {}
        for at in range(0, len(order), batch):
            members = order[at : at + batch]
            steps: list[list[Step]] = [[] for _ in members]
            for step in self.stream([queries[i] for i in members], settings):
                steps[step.query].append(step)
            answers.update((i, collect(queries[i], own)) for i, own in zip(members, steps, strict=True))
        return [answers[i] for i in range(len(queries))]

    def stream(self, queries: Sequence[Query], settings: DecodeSettings) -> Generator[Step, None, None]:
        """Decode a batch token by token; steps of different queries are interleaved.

        Raises:
            PromptTooLong: a prompt leaves no room for an answer in the model's context window.
            FactorsError: an adapter does not fit the model.
            InvalidInput: an empty prompt, or a grammar that this model's vocabulary cannot follow.
        """
        if not queries:
            return
        running = self.batch()
        try:
            with self._base.lock, torch.inference_mode():
                steps = running.admit({number: (query, settings) for number, query in enumerate(queries)})
            while True:
                yield from steps
                if not len(running):
                    return
                with self._base.lock, torch.inference_mode():
                    steps = running.advance()
        finally:
            if not len(running):  # one that was abandoned midway goes as it is
                with self._lock:
                    self._idle = [*self._idle, running][:IDLE]

    def batch(self) -> RunningQueries:
        """An empty batch of queries."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return RunningQueries(self._base, self._vocabulary, fixed=self._fixed)
