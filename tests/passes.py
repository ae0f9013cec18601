"""Watch a model's forward passes, or change what they say."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from plume_memory.model.base import BaseModel

Look = Callable[[Tensor, Tensor], None]
"""Called with the ids and positions [R, T] of a pass before it runs."""


class _Watched:
    def __init__(self, passes: Any, before: Look | None, says: Callable[[Tensor], Tensor] | None) -> None:
        self._passes, self._before, self._says = passes, before, says

    def __getattr__(self, name: str) -> Any:
        return getattr(self._passes, name)

    def run(self, ids: Tensor, positions: Tensor, *rest: Any, **named: Any) -> Tensor:
        if self._before is not None:
            self._before(ids, positions)
        return self._passes.run(ids, positions, *rest, **named)

    def logits(self, hidden: Tensor) -> Tensor:
        logits = self._passes.logits(hidden)
        return logits if self._says is None else self._says(logits)


@contextmanager
def watched(base: BaseModel, before: Look | None = None, *, says: Callable[[Tensor], Tensor] | None = None) -> Iterator:
    """Have every pass of a model seen by `before`, and its logits [..., V] go through `says`."""
    own = base.passes
    base.__dict__["passes"] = _Watched(own, before, says)
    try:
        yield
    finally:
        base.__dict__["passes"] = own
