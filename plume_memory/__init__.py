"""Evolving memory in model parameters.

    from plume_memory import ParametricMemory

    with ParametricMemory.open("alice") as memory:
        memory.update("Alice moved from Bern to Zurich.")
        print(memory.ask("Where does Alice live?").text)

Importing this package imports neither torch nor SQLAlchemy; the names below do when first used.
"""

from typing import TYPE_CHECKING, Any

from plume_memory.errors import PlumeError
from plume_memory.policy import AnswerPolicy
from plume_memory.records import Answer, Version

if TYPE_CHECKING:
    from plume_memory.engine import Engine
    from plume_memory.memory import ParametricMemory
    from plume_memory.pool import MemoryPool

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "AnswerPolicy",
    "Engine",
    "MemoryPool",
    "ParametricMemory",
    "PlumeError",
    "Version",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name == "Engine":
        from plume_memory.engine import Engine  # noqa: PLC0415 — torch: seconds, and only when asked

        return Engine
    if name == "ParametricMemory":
        from plume_memory.memory import ParametricMemory  # noqa: PLC0415 — SQLAlchemy, likewise

        return ParametricMemory
    if name == "MemoryPool":
        from plume_memory.pool import MemoryPool  # noqa: PLC0415 — likewise

        return MemoryPool
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
