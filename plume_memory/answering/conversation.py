"""What is asked in a conversation: its turns checked, the words that are routed, and what tools said behind them."""

from collections.abc import Sequence

from plume_memory.errors import InvalidInput
from plume_memory.model.prompt import Message
from plume_memory.records import ScoredUnit, Unit
from plume_memory.segmentation.calls import without_calls


def turns_of(question: str | Sequence[Message]) -> list[Message]:
    """Check a question or a conversation and return it as turns.

    Raises:
        InvalidInput: not a text or turns of text, an empty last user turn, or characters no tokenizer
            can read.
    """
    if not isinstance(question, Sequence):
        raise InvalidInput(f"Ask a text or a list of turns; got {type(question).__name__}.")
    turns: list[Message] = [{"role": "user", "content": question}] if isinstance(question, str) else list(question)
    for turn in turns:
        if not isinstance(turn, dict) or not all(isinstance(turn.get(key), str) for key in ("role", "content")):
            raise InvalidInput(f"A turn is {{'role': text, 'content': text}}; got {turn!r}.")
        try:
            turn["content"].encode()
        except UnicodeEncodeError as err:
            raise InvalidInput(f"The question holds half a character (a lone surrogate): {err}") from err
    if not turns or not asked_in(turns).strip():
        raise InvalidInput("An empty question was asked; pass at least one character.")
    return turns


def asked_in(turns: Sequence[Message]) -> str:
    """What is routed: the words of the last user turn, not a tool's output behind it."""
    return next((turn["content"] for turn in reversed(turns) if turn["role"] == "user"), turns[-1]["content"])


def last_user(turns: Sequence[Message]) -> int:
    """The place of the user's last turn; -1 without one."""
    return max((i for i, turn in enumerate(turns) if turn["role"] == "user"), default=-1)


def results_in(turns: Sequence[Message]) -> list[ScoredUnit]:
    """What tools said behind the user's last turn, as units of no version; none where nobody waits for an answer."""
    if turns[-1]["role"] != "tool":
        return []
    behind = turns[last_user(turns) + 1 :]
    said = [turn["content"].strip() for turn in behind if turn["role"] == "tool"]
    told = [text for text in said if not _is_nothing(text)] or [""]
    return [ScoredUnit(Unit(i, 0, 0, len(text), _sentence(text)), 1.0) for i, text in enumerate(told)]


def _is_nothing(result: str) -> bool:
    """Whether a tool gave nothing back: no text, or JSON's or Python's word for it."""
    return "".join(result.split()) in ("", "null", "None", "[]", "{}", '""')


def _sentence(result: str) -> str:
    """A tool's result as a small model can read it: a value alone says of nothing that it is the answer."""
    if not result:
        return "The answer is that there is nothing."
    is_bare = result.isascii() and len(result.split()) == 1 and result[0] not in "[{" and result[-1] not in ".!?"
    return f"The answer is {without_calls(result)}." if is_bare else without_calls(result)
