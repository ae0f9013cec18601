"""OpenAI's messages and items to the turns that the library reads, and to what of them may be written."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from plume_memory.server.problems import Refused, invalid

if TYPE_CHECKING:
    from plume_memory.model.tool_turns import Message, ToolCall

_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
}
_TEXTS = ("text", "input_text", "output_text", "refusal")
_SKIPPED_ITEMS = ("reasoning", "item_reference")

Sent = Mapping[str, Any]
"""A message in the shape of chat completions."""


class SaidNow(NamedTuple):
    """A message that the user says now, not one that was answered before."""

    at: int
    """Its place among the call's messages."""
    text: str


def turns_of(messages: Sequence[Sent]) -> "list[Message]":
    """Return the turns of a conversation; neighbours of one role become one turn, results of tools stay apart.

    Raises:
        Refused: 400; a message of another role or shape, or one that holds what is no text.
    """
    turns: list[Message] = []
    for at, message in enumerate(messages):
        turn = _turn(message, at)
        if turns and turn["role"] == turns[-1]["role"] != "tool":
            before = turns[-1]
            before["content"] = "\n".join(filter(None, (before["content"], turn["content"])))
            if calls := [*before.get("tool_calls", []), *turn.get("tool_calls", [])]:
                before["tool_calls"] = calls
        else:
            turns.append(turn)
    return turns


def said_now(messages: Sequence[Sent]) -> list[SaidNow]:
    """Return the user's messages behind the last of anybody else, oldest first."""
    begin = next((at for at in range(len(messages), 0, -1) if messages[at - 1].get("role") != "user"), 0)
    return [SaidNow(at, text_of(messages[at], at)) for at in range(begin, len(messages))]


def messages_of(items: str | Sequence[Mapping[str, Any]], instructions: str | None) -> list[Sent]:
    """Return the input of a response as messages.

    Raises:
        Refused: 400; an item of a kind that is not read here.
    """
    found: list[Sent] = [] if instructions is None else [{"role": "system", "content": instructions}]
    if isinstance(items, str):
        return [*found, {"role": "user", "content": items}]
    for at, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "message":
            found.append(item)
        elif kind == "function_call":
            function = {"name": item.get("name"), "arguments": item.get("arguments")}
            call = {"id": item.get("call_id", ""), "type": "function", "function": function}
            found.append({"role": "assistant", "content": None, "tool_calls": [call]})
        elif kind == "function_call_output":
            found.append({"role": "tool", "tool_call_id": item.get("call_id", ""), "content": item.get("output")})
        elif kind not in _SKIPPED_ITEMS:
            raise _unsupported(f"input[{at}]", f"items of type {kind!r}")
    return found


def text_of(message: Sent, at: int) -> str:
    """Return the words of a message.

    Raises:
        Refused: 400; its content is neither text nor parts of text.
    """
    content = message.get("content")
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise invalid(f"messages[{at}].content is text or parts of text.", param=f"messages[{at}].content")
    words = []
    for part in content:
        if not isinstance(part, dict) or part.get("type") not in _TEXTS:
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise _unsupported(f"messages[{at}].content", f"content of type {kind!r}")
        text = part.get("refusal" if part["type"] == "refusal" else "text")
        if not isinstance(text, str):
            raise invalid(f"messages[{at}].content has a part without text.", param=f"messages[{at}].content")
        words.append(text)
    return "".join(words)


def _turn(message: Sent, at: int) -> "Message":
    role = _ROLES.get(str(message.get("role")))
    if role is None:
        raise invalid(
            f"messages[{at}].role is one of {', '.join(_ROLES)}; got {message.get('role')!r}.", param=f"messages[{at}]"
        )
    turn: Message = {"role": role, "content": text_of(message, at)}
    if isinstance(name := message.get("name"), str):
        turn["name"] = name
    if role == "tool":
        turn["tool_call_id"] = str(message.get("tool_call_id", ""))
    if role == "assistant" and (calls := message.get("tool_calls")):
        turn["tool_calls"] = [_called(call, at) for call in calls]
    return turn


def _called(call: Any, at: int) -> "ToolCall":
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise invalid(f"messages[{at}].tool_calls holds what is no call of a function.", param=f"messages[{at}]")
    try:
        arguments = json.loads(function.get("arguments") or "{}")
    except (TypeError, json.JSONDecodeError) as err:
        raise invalid(
            f"messages[{at}]: the arguments of {function['name']!r} are no JSON: {err}.", param=f"messages[{at}]"
        ) from err
    if not isinstance(arguments, dict):
        raise invalid(f"messages[{at}]: the arguments of {function['name']!r} are no JSON object.")
    return {
        "id": str(call.get("id", "")),
        "type": "function",
        "function": {"name": function["name"], "arguments": arguments},
    }


def _unsupported(place: str, what: str) -> Refused:
    return invalid(f"{place}: {what} cannot be read here; send text.", param=place, code="unsupported-value")
