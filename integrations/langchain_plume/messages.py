"""LangChain messages to the turns that plume_memory reads, and its answers to messages. Knows no tools' schemas."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolCallChunk,
    ToolMessage,
    merge_message_runs,
)
from langchain_core.messages.ai import UsageMetadata

from langchain_plume.tool_calls import refused
from plume_memory.answering.tool_calls import refusal
from plume_memory.errors import InvalidInput, PromptTooLong

if TYPE_CHECKING:
    from plume_memory.model.tool_turns import Message, ToolCall
    from plume_memory.records import Answer

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "tool": "tool",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
    "ToolMessageChunk": "tool",
}
_REPEATED = ("tool_use", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call")
"""Blocks of a reply that say again what stands in its `tool_calls`."""
_THOUGHTS = ("reasoning", "thinking", "redacted_thinking")
"""Blocks of a reply that are not sent back to a model, here as elsewhere."""


class ConversationTooLong(PromptTooLong, ContextOverflowError):
    """The prompt and the answer do not fit the model's context window; LangChain's middlewares know it by its name."""


@contextmanager
def as_context_overflow() -> Iterator[None]:
    """Raise a prompt that is too long as LangChain's error too: its summarization then shortens it."""
    try:
        yield
    except PromptTooLong as err:
        raise ConversationTooLong(str(err)) from err


def conversation(messages: Sequence[BaseMessage]) -> "list[Message]":
    """Return the turns of a conversation; neighbours of one role become one turn, results of tools stay apart.

    Content that is not text is left out: `unread` says what.

    Raises:
        InvalidInput: a message of another role.
    """
    return [_turn(message) for message in merge_message_runs([_as_told(message) for message in messages])]


def _as_told(message: BaseMessage) -> BaseMessage:
    """A summary that LangChain puts in the user's mouth becomes a system message: it is no question to route by."""
    if isinstance(message, HumanMessage) and message.additional_kwargs.get("lc_source") == "summarization":
        return SystemMessage(message.content)
    return message


def _turn(message: BaseMessage) -> "Message":
    role = _ROLES.get(message.type)
    if role is None:
        raise InvalidInput(f"ChatPlume reads system, human, ai and tool messages; got a {message.type!r} message.")
    turn: Message = {"role": role, "content": message.text}
    if message.name:
        turn["name"] = message.name
    if isinstance(message, ToolMessage):
        turn["tool_call_id"] = message.tool_call_id
    if isinstance(message, AIMessage):
        # A call that could not be parsed is kept as the text it was.
        turn["content"] += "".join(call["args"] or "" for call in message.invalid_tool_calls)
        if message.tool_calls:
            turn["tool_calls"] = _calls(message)
    return turn


def unread(messages: Sequence[BaseMessage]) -> dict[str, int]:
    """Return how many content blocks of each type are no text: images, audio, files."""
    found: Counter[str] = Counter()
    for message in messages:
        readable = ("text", *_REPEATED, *_THOUGHTS) if isinstance(message, AIMessage) else ("text",)
        for block in message.content if isinstance(message.content, list) else []:
            if not isinstance(block, str) and block.get("type") not in readable:
                found[str(block.get("type"))] += 1
    return dict(found)


def _calls(message: AIMessage) -> "list[ToolCall]":
    return [
        {"id": call["id"] or "", "type": "function", "function": {"name": call["name"], "arguments": call["args"]}}
        for call in message.tool_calls
    ]


def last_chunk(
    text: str,
    calls: list[ToolCallChunk],
    answer: "Answer",
    model_name: str,
    *,
    trace: bool,
    left_out: Mapping[str, int],
) -> AIMessageChunk:
    """Return the chunk that ends an answer, with everything that must not be merged over chunks."""
    evidence = answer.evidence
    calls, quoted = refused(calls, [one.unit.text for one in answer.evidence_units])
    if quoted and not text and not calls:
        text = refusal(quoted)
    plume: dict[str, Any] = {
        "memory": answer.memory or None,
        "version": answer.version if answer.memory else None,
        "known": answer.known,
        "confidence": answer.confidence,
        "evidence": None if evidence is None else asdict(evidence),
    }
    if left_out:
        plume["left_out"] = dict(left_out)
    if quoted:
        plume["refused_calls"] = quoted
    if trace:
        plume["trace"] = [asdict(token) for token in answer.trace]
    called = any(call["name"] for call in calls)
    return AIMessageChunk(
        content=text,
        tool_call_chunks=calls,
        chunk_position="last",
        response_metadata={
            "model_name": model_name,
            "model_provider": "plume",
            "finish_reason": "tool_calls" if called else answer.finish_reason,
            "plume": plume,
        },
        usage_metadata=UsageMetadata(
            input_tokens=answer.usage.prompt_tokens,
            output_tokens=answer.usage.completion_tokens,
            total_tokens=answer.usage.total_tokens,
        ),
    )
