"""Evolving memory in model parameters.

    from plume_memory import ParametricMemory

    with ParametricMemory.open("alice") as memory:
        memory.update("Alice moved from Bern to Zurich.")
        print(memory.ask("Where does Alice live?").text)

Importing this package imports nothing else: a name below imports its module when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plume_memory.engine import Engine
    from plume_memory.errors import PlumeError
    from plume_memory.memory import ParametricMemory
    from plume_memory.policy import AnswerPolicy
    from plume_memory.pool import MemoryPool
    from plume_memory.recalling.notes import Note, Recall
    from plume_memory.records import Answer, Version
    from plume_memory.scopes import enclosing, scope

__version__ = "0.1.0"
__all__ = [
    "Answer",
    "AnswerPolicy",
    "Engine",
    "MemoryPool",
    "Note",
    "ParametricMemory",
    "PlumeError",
    "Recall",
    "Version",
    "__version__",
    "enclosing",
    "scope",
]


_MODULES = {
    "Answer": "records",
    "AnswerPolicy": "policy",
    "Engine": "engine",
    "MemoryPool": "pool",
    "Note": "recalling.notes",
    "ParametricMemory": "memory",
    "PlumeError": "errors",
    "Recall": "recalling.notes",
    "Version": "records",
    "enclosing": "scopes",
    "scope": "scopes",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
