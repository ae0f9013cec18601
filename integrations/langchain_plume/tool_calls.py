"""An answer's calls in LangChain's shape; what they are is plume_memory/answering/tool_calls.py."""

from collections.abc import Sequence

from langchain_core.messages import ToolCallChunk
from langchain_core.messages.tool import tool_call_chunk

from plume_memory.answering import tool_calls
from plume_memory.answering.tool_calls import AnswerForm, checked_choice, is_quoted

__all__ = ["AnswerForm", "CallReader", "checked_choice", "refused"]


class CallReader:
    """Takes an answer piece by piece: lets its words through and keeps its calls, as chunks."""

    def __init__(self) -> None:
        self._reader = tool_calls.CallReader()

    def add(self, piece: str) -> str:
        """Take a piece; return the words that are certain to be no call."""
        return self._reader.add(piece)

    def finish(self) -> tuple[str, list[ToolCallChunk]]:
        """Return the words left, and the calls; one that cannot be read has no name and its text as arguments."""
        words, calls = self._reader.finish()
        chunks = [
            tool_call_chunk(name=call.name, args=call.arguments, id=call.id, index=at) for at, call in enumerate(calls)
        ]
        return words, chunks


def refused(calls: list[ToolCallChunk], evidence: Sequence[str]) -> tuple[list[ToolCallChunk], list[str]]:
    """Return the calls that an answer may make, and the names of those that stand in its evidence (`is_quoted`)."""
    quoted = [call["name"] is not None and is_quoted(str(call["name"]), evidence) for call in calls]
    kept = [call for call, is_one in zip(calls, quoted, strict=True) if not is_one]
    return kept, [str(call["name"]) for call, is_one in zip(calls, quoted, strict=True) if is_one]
