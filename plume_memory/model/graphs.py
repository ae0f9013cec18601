"""One decode step at a fixed shape: buffers of fixed address, on CUDA captured as a graph and replayed.

Legend: R rows of the shape, n rows that are present, V vocabulary.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from plume_memory.model.adapters import AdapterRows
from plume_memory.model.base import BaseModel
from plume_memory.model.key_values import KeyValues

WARM_UP = 3
"""Steps on a side stream before a capture, as CUDA graphs require. A step writes what the replay writes again."""


class GraphedStep:
    """A step of R rows, of which the first n are present; the others compute on their own free slots in vain.

    Args:
        base: the model; its lock is held by the caller.
        cache: R rows, at the addresses they keep.
        adapters: of n rows; their places, rank and sharing are the shape's.
    """

    def __init__(self, base: BaseModel, cache: KeyValues, adapters: AdapterRows | None) -> None:
        self._base = base
        self._cache = cache
        self._ids = torch.zeros(cache.rows, 1, dtype=torch.long, device=base.device)
        self._positions = torch.zeros(cache.rows, 1, dtype=torch.long, device=base.device)
        self._adapters = None if adapters is None else adapters.room(cache.rows)
        self._held: AdapterRows | None = None
        self._graph: torch.cuda.CUDAGraph | None = None
        self._logits: Tensor | None = None

    def run(self, ids: Sequence[int], lengths: Sequence[int], adapters: AdapterRows | None) -> Tensor:
        """Append one token to each present row; returns next-token logits [n, V]."""
        count = len(ids)
        self._ids[:count, 0] = torch.tensor(ids, device=self._base.device)
        self._positions[:count, 0] = torch.tensor(lengths, device=self._base.device)
        self._positions[count:] = 0
        if adapters is not None and adapters is not self._held and self._adapters is not None:
            self._adapters.load(adapters)
            self._held = adapters
        if self._base.device.type != "cuda":
            return self._step()[:count]
        with torch.cuda.device(self._base.device):  # streams and graphs belong to the current device
            if self._graph is None:
                self._graph = self._captured()
            self._graph.replay()
        assert self._logits is not None
        return self._logits[:count].clone()

    def release(self) -> None:
        """Hold nothing of the adapters that were loaded last."""
        self._held = None
        for pair in self._adapters.modules.values() if self._adapters is not None else ():
            for factors in pair:
                factors.zero_()

    def _step(self) -> Tensor:
        hidden = self._base.passes.run(self._ids, self._positions, self._cache, adapters=self._adapters)
        return self._base.passes.logits(hidden[:, -1])

    def _captured(self) -> torch.cuda.CUDAGraph:
        side = torch.cuda.Stream(self._base.device)  # type: ignore[no-untyped-call]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        # thread_local: other threads may touch the device meanwhile; only this one is recorded
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            self._logits = self._step()
        return graph
