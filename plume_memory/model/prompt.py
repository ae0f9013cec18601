"""Text to prompt ids: a chat model's frame around a user's words.

The frame is what the tokenizer's own template puts around one user turn, with an empty system turn
where the template has a system role (D2L: text to ids). It is found by templating a sentinel.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import jinja2

from plume_memory.errors import InvalidInput, MissingChatTemplate

_SENTINEL = "plume-sentinel-7f3a"


class Message(TypedDict):
    """One turn of a conversation."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """Frame of one user turn, and the tokenizer that reads it."""

    tokenizer: Any
    prefix: str
    """Everything before the user's words, the beginning-of-text token included."""
    suffix: str
    """Everything after them, up to where the answer starts."""

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
        framed = _render(tokenizer, [{"role": "user", "content": _SENTINEL}])
        prefix, found, suffix = framed.partition(_SENTINEL)
        if not found:
            raise MissingChatTemplate(f"The chat template of {name!r} does not keep the user's words as they are.")
        return cls(tokenizer, prefix, suffix)

    def prompt_ids(self, question: str) -> list[int]:
        """Ids of one user turn, ready for the answer. The text is stripped, as the reference does."""
        return self.encode(self.prefix + question.strip() + self.suffix)

    def prefix_ids(self) -> list[int]:
        """Ids in front of a user's words."""
        return self.encode(self.prefix)

    def suffix_ids(self) -> list[int]:
        """Ids behind a user's words."""
        return self.encode(self.suffix)

    def framed(self, messages: Sequence[Message]) -> "Framed":
        """Split a conversation that ends with a user turn around its first user turn.

        Raises:
            InvalidInput: there is no user turn, the last turn is not the user's, or the model's
                template refuses this order of roles.
        """
        first = next((i for i, m in enumerate(messages) if m["role"] == "user"), None)
        if first is None or messages[-1]["role"] != "user":
            raise InvalidInput("A conversation needs a user turn at its end; add {'role': 'user', ...}.")
        marked: list[Message] = [dict(m) for m in messages]  # type: ignore[misc]
        marked[first] = {"role": "user", "content": _SENTINEL}
        try:
            head, _, tail = _render(self.tokenizer, marked).partition(_SENTINEL)
        except jinja2.TemplateError as err:
            roles = ", ".join(m["role"] for m in messages)
            raise InvalidInput(f"The model's chat template refuses the turns [{roles}]: {err}") from err
        return Framed(self, head, messages[first]["content"].strip(), tail)

    def encode(self, text: str) -> list[int]:
        """Ids of a text as it stands: nothing is added around it."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def count(self, text: str) -> int:
        """Number of tokens of a text as it stands."""
        return len(self.encode(text))


@dataclass(frozen=True, slots=True)
class Framed:
    """A conversation as the model reads it, split around its first user turn."""

    chat: ChatFormat
    head: str
    first: str
    """The first user turn's words, stripped as the reference does."""
    tail: str

    def prompt_ids(self) -> list[int]:
        """Ids of the whole conversation, ready for the answer."""
        return self.chat.encode(self.head + self.first + self.tail)

    def evidence_ids(self, evidence: str) -> list[int]:
        """Ids of a compiled evidence prefix: the head, the evidence and a blank line."""
        return self.chat.encode(self.head) + self.chat.encode(evidence.strip() + "\n\n")

    def continuation_ids(self) -> list[int]:
        """Ids that follow `evidence_ids`: everything from the first user turn's words on."""
        return self.chat.encode(self.first + self.tail)


def _render(tokenizer: Any, messages: list[Message]) -> str:
    """Apply the template with an explicit empty system turn; fold it away where there is no such role.

    Without it SmolLM2's template inserts a default system text. Gemma's has no system role: the
    reference puts the system text and two line breaks before the first user text, also when empty.
    """
    if messages and messages[0]["role"] == "system":
        system, turns = messages[0]["content"], messages[1:]
    else:
        system, turns = "", messages
    with_system: list[Message] = [{"role": "system", "content": system}, *turns]
    try:
        return _bare_qwen3(tokenizer, with_system) or _template(tokenizer, with_system)
    except jinja2.TemplateError:
        if not turns or turns[0]["role"] != "user":
            raise
    folded: Message = {"role": "user", "content": f"{system}\n\n{turns[0]['content']}"}
    return _template(tokenizer, [folded, *turns[1:]])


def _template(tokenizer: Any, messages: list[Message]) -> str:
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def _bare_qwen3(tokenizer: Any, messages: list[Message]) -> str | None:
    """The reference's override for Qwen3: every turn in the same frame, also the empty system turn."""
    if "<tool_response>" not in tokenizer.chat_template or "<|im_start|>" not in tokenizer.get_vocab():
        return None
    turns = "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in messages)
    return f"{turns}<|im_start|>assistant\n"
