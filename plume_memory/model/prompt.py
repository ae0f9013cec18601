"""Text to prompt ids: a chat model's frame around a user's words.

The frame is what the tokenizer's own template puts around one user turn, with an empty system turn
where the template has a system role (D2L: text to ids). It is found by templating a sentinel, which is
drawn anew each time. Tools are written by the template where it knows them, else folded into plain turns
(model/tool_turns.py).

What somebody said is never read as a control token: "<|im_end|>" in a question, a tool's output or a
memory is ten characters, whatever it would mean in the frame.
"""

import json
import secrets
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any
from unicodedata import normalize

import jinja2

from plume_memory.errors import InvalidInput, MissingChatTemplate
from plume_memory.model.tool_turns import Message, folded, harmless_results, uses_tools, writes_tools

__all__ = ["ChatFormat", "Framed", "Message"]

_THOUGHT = "</think>"
"""Ends what a model thought before an answer; templates drop it from earlier turns."""

Tools = Sequence[Mapping[str, Any]]
"""Tools in OpenAI's shape: {"type": "function", "function": {"name", "description", "parameters"}}."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prompt."""

    text: str
    said: bool
    """Whether somebody said it; else it is the frame, whose control tokens count."""


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """Frame of one user turn, and the tokenizer that reads it."""

    tokenizer: Any
    prefix: str
    """Everything before the user's words, the beginning-of-text token included."""
    suffix: str
    """Everything after them, up to where the answer starts."""
    control: frozenset[str]
    """What the tokenizer reads as one control token each: its special tokens, and others that the template writes, as
    Qwen's `<tool_call>`."""
    plain: Any
    """Reads control tokens as the characters they are written with."""

    @classmethod
    def of(cls, tokenizer: Any, name: str) -> "ChatFormat":
        """Find the frame of a tokenizer's chat template.

        Raises:
            MissingChatTemplate: the tokenizer has none, or it does not keep the user's words.
        """
        if not getattr(tokenizer, "chat_template", None):
            raise MissingChatTemplate(
                f"The tokenizer of {name!r} has no chat template. Use an instruction-tuned model, or set "
                "`chat_template` in its tokenizer_config.json."
            )
        sentinel = _sentinel()
        framed = _render(tokenizer, [{"role": "user", "content": sentinel}])
        prefix, found, suffix = framed.partition(sentinel)
        if not found:
            raise MissingChatTemplate(f"The chat template of {name!r} does not keep the user's words as they are.")
        control = frozenset(
            token.content
            for token in tokenizer.added_tokens_decoder.values()
            if token.special or (token.content.strip() and token.content in str(tokenizer.chat_template))
        )
        return cls(tokenizer, prefix, suffix, control, _plain(tokenizer, control))

    def prompt_ids(self, question: str) -> list[int]:
        """Ids of one user turn, ready for the answer. The text is stripped, as the reference does."""
        return self.ids((Piece(self.prefix, False), *self.asked(question)))

    def asked(self, words: str) -> tuple[Piece, ...]:
        """What follows the prefix: a user's words, stripped, and the frame behind them."""
        return Piece(words.strip(), True), Piece(self.suffix, False)

    def prefix_ids(self) -> list[int]:
        """Ids in front of a user's words."""
        return self.ids((Piece(self.prefix, False),))

    def suffix_ids(self) -> list[int]:
        """Ids behind a user's words."""
        return self.ids((Piece(self.suffix, False),))

    def framed(self, messages: Sequence[Message], tools: Tools | None = None) -> "Framed":
        """Split a conversation that ends with a user or tool turn around its first user turn.

        Args:
            messages: the turns; assistant turns may carry tool calls.
            tools: what the model may call.

        Raises:
            InvalidInput: there is no user turn, the last turn is neither the user's nor a tool's, or
                the model's template refuses this order of roles.
        """
        if not any(m["role"] == "user" for m in messages) or messages[-1]["role"] not in ("user", "tool"):
            raise InvalidInput("A conversation needs a user turn at its end; add {'role': 'user', ...}.")
        with_tools = uses_tools(messages, tools)
        native = with_tools and writes_tools(str(self.tokenizer.chat_template))
        messages = harmless_results(messages)
        turns = folded(messages, tools) if with_tools and not native else list(messages)
        first = next(i for i, m in enumerate(turns) if m["role"] == "user")
        words, said = turns[first]["content"].strip(), {}
        turns[first] = {"role": "user", "content": (mark := _sentinel())}
        for i, turn in enumerate(turns):  # of the rest only what the frame must not hold: most templates look into it
            if turn["role"] == "assistant" and _THOUGHT in self.control:  # as the template does, that would not see it
                turns[i] = turn = {**turn, "content": turn["content"].rpartition(_THOUGHT)[2].lstrip("\n")}
            if i != first and self._has_control(turn["content"]):
                said[_sentinel()] = turn["content"]
                turns[i] = {**turn, "content": list(said)[-1]}
            if calls := turn.get("tool_calls"):
                turns[i] = {**turns[i], "tool_calls": self._harmless(calls)}
        try:
            written = _render(self.tokenizer, turns, self._harmless(tools or ()) if native else None)
        except jinja2.TemplateError as err:
            roles = ", ".join(m["role"] for m in messages)
            raise InvalidInput(f"The model's chat template refuses the turns [{roles}]: {err}") from err
        head, _, tail = written.partition(mark)
        return Framed(self, _cut(head, said), words, _cut(tail, said))

    def encode(self, text: str) -> list[int]:
        """Ids of what somebody said, as it stands: nothing is added around it, and nothing in it is a control token."""
        return self.ids((Piece(text, True),))

    def ids(self, pieces: Sequence[Piece]) -> list[int]:
        """Ids of the pieces of a prompt, read as one text where no control token was said in it.

        A letter and its accent are read as one character (NFC), however they were written: what says the same is the
        same, and the model knows the composed one.
        """
        pieces = [Piece(normalize("NFC", piece.text), piece.said) for piece in pieces]
        if not any(piece.said and self._has_control(piece.text) for piece in pieces):
            whole = "".join(piece.text for piece in pieces)
            return list(self.tokenizer(whole, add_special_tokens=False)["input_ids"])
        return [i for piece in pieces for i in self._piece_ids(piece)]

    def _piece_ids(self, piece: Piece) -> list[int]:
        if piece.said and self._has_control(piece.text):
            return list(self.plain.encode(piece.text, add_special_tokens=False).ids)
        return list(self.tokenizer(piece.text, add_special_tokens=False)["input_ids"])

    def _has_control(self, text: str) -> bool:
        return any(token in text for token in self.control)

    def _harmless(self, said: Sequence[Any]) -> list[Any]:
        """Tools or calls, with control tokens in their words broken by a zero-width space: the template writes them."""
        written = json.dumps(list(said))
        for token in self.control:
            inner = json.dumps(token)[1:-1]
            written = written.replace(inner, f"{inner[0]}\\u200b{inner[1:]}")
        found: list[Any] = json.loads(written)
        return found

    def count(self, text: str) -> int:
        """Number of tokens of a text as it stands."""
        return len(self.encode(text))


@dataclass(frozen=True, slots=True)
class Framed:
    """A conversation as the model reads it, split around its first user turn."""

    chat: ChatFormat
    head: tuple[Piece, ...]
    first: str
    """The first user turn's words, stripped as the reference does."""
    tail: tuple[Piece, ...]

    @property
    def text(self) -> str:
        """The whole conversation as it is written down."""
        return "".join(piece.text for piece in (*self.head, Piece(self.first, True), *self.tail))

    def prompt_ids(self) -> list[int]:
        """Ids of the whole conversation, ready for the answer."""
        return self.chat.ids((*self.head, Piece(self.first, True), *self.tail))

    def evidence_ids(self, evidence: str) -> list[int]:
        """Ids of a compiled evidence prefix: the head, the evidence and a blank line."""
        return self.chat.ids(self.head) + self.chat.encode(evidence.strip() + "\n\n")

    def continuation_ids(self) -> list[int]:
        """Ids that follow `evidence_ids`: everything from the first user turn's words on."""
        return self.chat.ids((Piece(self.first, True), *self.tail))


def _sentinel() -> str:
    """A word that nobody said."""
    return f"plume{secrets.token_hex(12)}"


def _plain(tokenizer: Any, control: Set[str]) -> Any:
    """A tokenizer of its own that reads control tokens as characters; each token keeps its id."""
    own = json.loads(tokenizer.backend_tokenizer.to_str())
    own["added_tokens"] = [token | {"special": token["content"] in control} for token in own["added_tokens"]]
    plain = type(tokenizer.backend_tokenizer).from_str(json.dumps(own))
    plain.encode_special_tokens = True
    return plain


def _cut(written: str, said: Mapping[str, str]) -> tuple[Piece, ...]:
    """A frame, cut at the marks that stand for what was said."""
    pieces = [Piece(written, False)]
    for mark, words in said.items():
        for i, piece in enumerate(pieces):
            before, found, after = piece.text.partition(mark)
            if found:
                pieces[i : i + 1] = [Piece(before, False), Piece(words, True), Piece(after, False)]
                break
    return tuple(piece for piece in pieces if piece.text)


def _render(tokenizer: Any, messages: list[Message], tools: Tools | None = None) -> str:
    """Apply the template with an explicit empty system turn; fold it away where there is no such role.

    Without it SmolLM2's template inserts a default system text. Gemma's has no system role: the
    reference puts the system text and two line breaks before the first user text, also when empty.
    """
    if messages and messages[0]["role"] == "system":
        system, turns = messages[0]["content"], messages[1:]
    else:
        system, turns = "", messages
    with_system: list[Message] = [{"role": "system", "content": system}, *turns]
    if uses_tools(messages, tools):  # only for a template that writes them itself
        return _template(tokenizer, with_system, tools)
    try:
        return _bare_qwen3(tokenizer, with_system) or _template(tokenizer, with_system)
    except jinja2.TemplateError:
        if not turns or turns[0]["role"] != "user":
            raise
    without: Message = {"role": "user", "content": f"{system}\n\n{turns[0]['content']}"}
    return _template(tokenizer, [without, *turns[1:]])


def _template(tokenizer: Any, messages: list[Message], tools: Tools | None = None) -> str:
    written = tokenizer.apply_chat_template(
        messages, tools=list(tools) if tools else None, tokenize=False, add_generation_prompt=True
    )
    return str(written)


def _bare_qwen3(tokenizer: Any, messages: list[Message]) -> str | None:
    """The reference's override for Qwen3: every turn in the same frame, also the empty system turn."""
    if "<tool_response>" not in tokenizer.chat_template or "<|im_start|>" not in tokenizer.get_vocab():
        return None
    turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return f"{turns}<|im_start|>assistant\n"
