"""Tools in a conversation, for a model whose chat template knows none: folded into plain turns.

One form for all models, the one that Qwen and Hermes templates write natively:

    <tool_call>
    {"name": "weather", "arguments": {"city": "Bern"}}
    </tool_call>

Tools stand in the system text, a call in the assistant's words, a result in a user turn. It knows no
tokenizer and no torch.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

CALL_OPEN, CALL_CLOSE = "<tool_call>", "</tool_call>"
_RESULT_OPEN, _RESULT_CLOSE = "<tool_response>", "</tool_response>"
_MARK = re.compile(r"<\s*/?\s*tool_(?:response|call)\s*>", re.IGNORECASE)
"""In a result it would end the result, or begin a call."""


class CalledFunction(TypedDict):
    """The function of a tool call."""

    name: str
    arguments: dict[str, Any]


class ToolCall(TypedDict):
    """A tool call of an assistant turn, in the shape chat templates read."""

    id: str
    type: str
    """Always "function"."""
    function: CalledFunction


class _Turn(TypedDict):
    role: str
    """system, user, assistant or tool."""
    content: str


class Message(_Turn, total=False):
    """One turn of a conversation."""

    name: str
    """Who speaks; of a tool turn, the tool."""
    tool_calls: list[ToolCall]
    """Of an assistant turn."""
    tool_call_id: str
    """Of a tool turn: the call it answers."""


def uses_tools(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None) -> bool:
    """Whether a prompt has to show tools, calls or results."""
    return bool(tools) or any(m["role"] == "tool" or m.get("tool_calls") for m in messages)


def writes_tools(chat_template: str) -> bool:
    """Whether a chat template itself writes tools and calls in the form above."""
    return all(part in chat_template for part in ("tools", "tool_calls", CALL_OPEN)) and (
        "<function=" not in chat_template  # a later form: parameters as XML
    )


def folded(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] | None) -> list[Message]:
    """Return the same conversation in system, user and assistant turns of text only."""
    turns: list[Message] = []
    after_result = False
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            role, content = "user", f"{_RESULT_OPEN}\n{content}\n{_RESULT_CLOSE}"
        elif message.get("tool_calls"):
            content = "\n".join([content] * bool(content) + [call_text(c["function"]) for c in message["tool_calls"]])
        if role == "user" and after_result:  # many templates refuse two user turns in a row
            turns[-1] = {"role": "user", "content": f"{turns[-1]['content']}\n{content}"}
        else:
            turns.append({"role": role, "content": content})
        after_result = message["role"] == "tool" or (after_result and role == "user")
    return _with_tools(turns, tools) if tools else turns


def harmless_results(messages: Sequence[Message]) -> list[Message]:
    """The same conversation, with marks that tools' results hold broken by a zero-width space."""
    return [{**m, "content": _MARK.sub(_broken, m["content"])} if m["role"] == "tool" else m for m in messages]


def _broken(mark: re.Match[str]) -> str:
    return f"<\u200b{mark[0][1:]}"


def call_text(function: CalledFunction) -> str:
    """Return a call as the model writes it."""
    written = json.dumps({"name": function["name"], "arguments": function["arguments"]}, ensure_ascii=False)
    return f"{CALL_OPEN}\n{written}\n{CALL_CLOSE}"


def _with_tools(turns: list[Message], tools: Sequence[Mapping[str, Any]]) -> list[Message]:
    listed = "\n".join(json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in tools)
    instruction = (
        "You can call functions. Each line between the tags is the JSON signature of one:\n"
        f"<tools>\n{listed}\n</tools>\n"
        "To call a function, write its name and its arguments as JSON and nothing else:\n"
        f'{CALL_OPEN}\n{{"name": "...", "arguments": {{...}}}}\n{CALL_CLOSE}\n'
        f"What it returns follows between {_RESULT_OPEN} and {_RESULT_CLOSE}."
    )
    if turns and turns[0]["role"] == "system":
        before = turns[0]["content"]
        return [{"role": "system", "content": f"{before}\n\n{instruction}" if before else instruction}, *turns[1:]]
    return [{"role": "system", "content": instruction}, *turns]
