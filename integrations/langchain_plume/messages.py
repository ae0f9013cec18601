"""LangChain messages to the turns that plume_memory reads. It knows no tools' schemas and no decoding."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage, merge_message_runs

from plume_memory.errors import InvalidInput

if TYPE_CHECKING:
    from plume_memory.model.tool_turns import Message, ToolCall

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


def conversation(messages: Sequence[BaseMessage]) -> "list[Message]":
    """Return the turns of a conversation; neighbours of one role become one turn, results of tools stay apart.

    Raises:
        InvalidInput: a message of another role, or content that is not text.
    """
    return [_turn(message) for message in merge_message_runs(list(messages))]


def _turn(message: BaseMessage) -> "Message":
    role = _ROLES.get(message.type)
    if role is None:
        raise InvalidInput(f"ChatPlume reads system, human, ai and tool messages; got a {message.type!r} message.")
    _check_text(message, role)
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


def _check_text(message: BaseMessage, role: str) -> None:
    readable = ("text", *_REPEATED, *_THOUGHTS) if role == "assistant" else ("text",)
    for block in message.content if isinstance(message.content, list) else []:
        if not isinstance(block, str) and block.get("type") not in readable:
            raise InvalidInput(
                f"ChatPlume reads text; the {message.type} message holds a content block of type "
                f"{block.get('type')!r}. Send its text, or a description of it."
            )


def _calls(message: AIMessage) -> "list[ToolCall]":
    return [
        {"id": call["id"] or "", "type": "function", "function": {"name": call["name"], "arguments": call["args"]}}
        for call in message.tool_calls
    ]
