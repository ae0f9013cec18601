"""LangChain integration of plume_memory: a chat model that answers from memory in its weights.

Importing this package does not import torch; the memory's model is loaded at the first call. Each
name below imports its module when it is first used, so that one costs nothing to who needs another.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from plume_memory.errors import MissingExtra

if TYPE_CHECKING:
    from langchain_plume.chat_model import ChatPlume
    from langchain_plume.middleware import PlumeMemoryMiddleware
    from langchain_plume.retriever import PlumeRetriever
    from langchain_plume.store import PlumeStore
    from langchain_plume.tools import ForgetTool, HistoryTool, RecallTool, RememberTool, memory_tools

_HOMES = {
    "ChatPlume": "langchain_plume.chat_model",
    "PlumeMemoryMiddleware": "langchain_plume.middleware",
    "PlumeRetriever": "langchain_plume.retriever",
    "PlumeStore": "langchain_plume.store",
    "ForgetTool": "langchain_plume.tools",
    "HistoryTool": "langchain_plume.tools",
    "RecallTool": "langchain_plume.tools",
    "RememberTool": "langchain_plume.tools",
    "memory_tools": "langchain_plume.tools",
}
__all__ = [
    "ChatPlume",
    "ForgetTool",
    "HistoryTool",
    "PlumeMemoryMiddleware",
    "PlumeRetriever",
    "PlumeStore",
    "RecallTool",
    "RememberTool",
    "memory_tools",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(_HOMES[name]), name)
    except ModuleNotFoundError as err:
        if (err.name or "").partition(".")[0] not in ("langchain", "langgraph"):
            raise
        raise MissingExtra(f"{name} needs {err.name}: pip install 'plume-memory[langchain]'.") from err
