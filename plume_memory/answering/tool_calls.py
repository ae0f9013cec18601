r"""Tools: from what is bound to the grammar of an answer, and from an answer's text back to calls.

A call is text of the form `<tool_call>\n{"name": …, "arguments": …}\n</tool_call>`
(plume_memory/model/tool_turns.py). A forced choice makes the grammar exactly one call; with "auto" the
model may speak, and once it opens a call the grammar sees it through.
"""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plume_memory.errors import InvalidInput
from plume_memory.model.tool_turns import CALL_CLOSE, CALL_OPEN, Message

if TYPE_CHECKING:
    from plume_memory.model.grammar import Grammar, Limits

TOOL_ROUNDS = 1
"""Rounds of calls behind a user's message, where nothing else is said; then the answer is made of what the tools said.
A larger model may need more than one; a small one calls the same tool again."""

Tool = Mapping[str, Any]
"""OpenAI's shape: {"type": "function", "function": {"name", "description", "parameters"}}."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that an answer makes."""

    id: str
    name: str | None
    """None where it cannot be read."""
    arguments: str
    """A JSON object; of one that cannot be read its text."""


def checked_choice(tools: Sequence[Tool], choice: Any) -> str | None:
    """Return a tool choice as "auto", "none", "required" or a tool's name; None when nothing was said.

    Raises:
        InvalidInput: not a choice, the name of no bound tool, a forced call without a tool, or a tool that is no
            function.
    """
    for tool in tools:
        if not isinstance(tool.get("function"), Mapping) or "name" not in tool["function"]:
            raise InvalidInput(
                f"A tool has the shape {{'type': 'function', 'function': {{'name': ...}}}}; got {tool!r}, which only "
                "the service of its provider can call."
            )
    if isinstance(choice, Mapping):
        choice = choice.get("function", choice).get("name")
        if choice is None:
            raise InvalidInput("A tool_choice given as a dictionary names a function: {'function': {'name': ...}}.")
    if choice is None or choice is False:
        return None
    if choice in (True, "any", "required"):
        if not tools:
            raise InvalidInput("tool_choice asks for a call, and no tool is bound.")
        return "required"
    names = [tool["function"]["name"] for tool in tools]
    if choice not in ("auto", "none", *names):
        raise InvalidInput(
            f"tool_choice is auto, none, any, required, a dictionary or the name of a bound tool ({', '.join(names)}); "
            f"got {choice!r}."
        )
    return str(choice)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """What one answer may be."""

    tools: tuple[Tool, ...]
    """Shown to the model; empty where it may call none."""
    grammar: "Grammar | None"

    @classmethod
    def of(cls, tools: Sequence[Tool], choice: Any, response_format: Any, limits: "Limits") -> "AnswerForm":
        """Put tools, their choice and a response format together.

        Args:
            tools: the bound tools.
            choice: see `checked_choice`.
            response_format: OpenAI's shape: {"type": "json_schema", "json_schema": {"name", "schema"}},
                {"type": "json_object"} or {"type": "text"}.
            limits: bounds for what the schemas leave open.

        Raises:
            InvalidInput: an unknown choice or format, or a schema that cannot be enforced.
        """
        from plume_memory.model.grammar import Grammar  # noqa: PLC0415 — only an answer needs it

        chosen = checked_choice(tools, choice)
        schema = _schema_of(response_format)
        if not tools or chosen == "none":
            return cls((), None if schema is None else Grammar.json_schema(schema, limits=limits))
        callable_ = [t for t in tools if chosen in (None, "auto", "required", t["function"]["name"])]
        forced = chosen not in (None, "auto")
        return cls(tuple(tools), Grammar.lark(_lark(callable_, forced, schema, limits)))


def _schema_of(response_format: Any) -> Mapping[str, Any] | None:
    kind = response_format.get("type") if isinstance(response_format, Mapping) else response_format
    if kind in (None, "text"):
        return None
    if kind == "json_object":
        return {"type": "object"}
    schema = response_format.get("json_schema", {}).get("schema") if kind == "json_schema" else None
    if schema is None:
        raise InvalidInput(
            "response_format is {'type': 'json_schema', 'json_schema': {'name': ..., 'schema': ...}}, "
            f"{{'type': 'json_object'}} or {{'type': 'text'}}; got {response_format!r}."
        )
    own: Mapping[str, Any] = schema
    return own


def _lark(tools: Sequence[Tool], forced: bool, schema: Mapping[str, Any] | None, limits: "Limits") -> str:
    """A grammar of one forced call; or of calls between words; or of calls, or else JSON."""
    from plume_memory.model.grammar import json_rule  # noqa: PLC0415 — as above

    rules = []
    for i, tool in enumerate(tools):
        function = tool["function"]
        before = f'\n{{"name": {json.dumps(function["name"], ensure_ascii=False)}, "arguments": '
        rules.append(f"call_{i}: {_text(before)} args_{i} {_text('}' + chr(10) + CALL_CLOSE)}")
        parameters = function.get("parameters") or {"type": "object", "properties": {}}
        rules.append(f"args_{i}: {json_rule(parameters, limits)}")
    rules.append(f"call: {' | '.join(f'call_{i}' for i in range(len(tools)))}")
    opened = _text(CALL_OPEN)
    if forced:
        rules.append(f"start: {opened} call")
    elif schema is not None:
        rules += [f"start: {opened} call | answer", f"answer: {json_rule(schema, limits)}"]
    else:  # lazy: the words end where a call first opens
        rules += ["start: (opening call)* WORDS", f"opening[lazy]: WORDS {opened}", r"WORDS: /(.|\n)*/"]
    return "\n".join(rules)


def _text(literal: str) -> str:
    return json.dumps(literal, ensure_ascii=False)


class CallReader:
    """Takes an answer piece by piece: lets its words through and keeps its calls.

    Law: what `add` and `finish` return, with the calls' text put back in its places, is the answer, up
    to white space around calls.
    """

    def __init__(self) -> None:
        self._held = ""
        self._spoke = False
        self._in_call = False

    def add(self, piece: str) -> str:
        """Take a piece; return the words that are certain to be no call."""
        self._held += piece
        if self._in_call:
            return ""
        at = self._held.find(CALL_OPEN)
        self._in_call = at >= 0
        if not self._in_call:
            at = len(self._held) - _possible_opening(self._held)
        words = self._held[:at].rstrip()  # white space is held back too: it may stand before a call
        self._held = self._held[len(words) :]
        self._spoke = self._spoke or bool(words)
        return words

    def finish(self) -> tuple[str, list[Call]]:
        """Return the words left, and the calls; one that cannot be read has no name and its text as arguments."""
        if not self._in_call:
            return self._held, []
        words: list[str] = []
        calls: list[Call] = []
        rest = self._held
        while CALL_OPEN in rest:
            before, _, behind = rest.partition(CALL_OPEN)
            body, closed, rest = behind.partition(CALL_CLOSE)
            words.append(before.strip())
            calls.append(_call(body, closed))
        words.append(rest.strip())
        said = "\n".join(w for w in words if w)
        return (f"\n{said}" if self._spoke and said else said), calls


_ESCAPED = re.compile(r"\\+u([0-9a-fA-F]{4})")
_COINED = re.compile(r"_|[a-z][A-Z]")
"""In a name that is no word: it stands in no sentence by chance."""


def is_quoted(name: str, evidence: Sequence[str]) -> bool:
    """Whether a call of that name stands in what an answer is made from.

    What a memory was told is a quotation: a call that it holds was somebody's words and is not made. An argument that
    the evidence holds is what it is for. A name like `send_money` need only stand there, in whatever form; one that is
    a word ("search") must stand as a program, JSON or markup writes a call.
    """
    escaped, quote = re.escape(name), r"""\\*["']"""
    key = r"(?:name|function|tool|invoke|call)"
    said = rf"{key}(?:{quote})?\s*[:=>]\s*(?:{quote})?{escaped}(?!\w)|(?<!\w){escaped}[({{]"
    written = re.compile(rf"(?<!\w){escaped}(?!\w)" if _COINED.search(name) else said)
    return any(written.search(_ESCAPED.sub(lambda m: chr(int(m.group(1), 16)), text)) for text in evidence)


def refusal(names: Sequence[str]) -> str:
    """What is said in place of calls that were not made."""
    return f"A call of {', '.join(names)} stands in memory; what memory was told is not carried out."


def calls_since_user(turns: Sequence[Message]) -> int:
    """Return how many turns behind the user's last one called tools, where a result is the last turn; else 0."""
    if not turns or turns[-1]["role"] != "tool":
        return 0
    behind = max((i for i, turn in enumerate(turns) if turn["role"] == "user"), default=-1) + 1
    return sum(bool(turn.get("tool_calls")) for turn in turns[behind:])


def _call(body: str, closed: str) -> Call:
    name, written = None, f"{CALL_OPEN}{body}{closed}"
    try:
        call = json.loads(body)
    except json.JSONDecodeError:
        call = None
    if closed and isinstance(call, dict) and isinstance(call.get("name"), str):
        arguments = call.get("arguments", {})
        if isinstance(arguments, dict):
            name, written = call["name"], json.dumps(arguments, ensure_ascii=False)
    # Clients repair half-written arguments; the tag in front keeps an unreadable call an invalid one.
    return Call(f"call_{uuid.uuid4().hex}", name, written)


def _possible_opening(text: str) -> int:
    """Length of the longest end of a text that could begin a call."""
    return next((n for n in range(len(CALL_OPEN) - 1, 0, -1) if text.endswith(CALL_OPEN[:n])), 0)
