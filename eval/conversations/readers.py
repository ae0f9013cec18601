"""Who answers from what a method found: the run's own model, or any LangChain chat model. One prompt for all of them.

The prompt asks for a few words, and for one sentence where the notes do not say: so an abstention can be told from an
answer without a judge.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from langchain_core.language_models import BaseChatModel

from eval.chat_models import open_chat_model, without_secrets
from eval.conversations.methods import Given, Reply
from eval.conversations.records import Question
from eval.methods.decoding import Answerer
from eval.metrics.overlap import normalized
from plume_memory.answering.options import settings_of
from plume_memory.engine import Engine
from plume_memory.errors import PlumeError
from plume_memory.model.queries import Query
from plume_memory.model.streams import Row

OWN = "base"
"""Name of the run's own model as a reader."""
UNKNOWN = "I don't know."
_PROMPT = (
    "{notes}\n\nAnswer the question from the notes above, in a few words. "
    'If they do not say, answer "{unknown}"{today}\nQuestion: {question}'
)
_NOTHING = "(There are no notes.)"
_REFUSALS = (
    "i dont know",
    "i do not know",
    "not mentioned",
    "no information available",
    "not enough information",
    "cannot be answered",
    "cant be answered",
    "notes do not say",
    "notes dont say",
    "unanswerable",
)
"""As `normalized` leaves them; the two that LoCoMo's own script counts are among them."""
ReaderSettings = Mapping[str, Any]


class ReaderUnavailable(PlumeError):
    """The chat model that reads did not answer."""


class Reader(Protocol):
    """Answers a question from notes."""

    @property
    def name(self) -> str:
        """As on the command line."""

    def answer(self, question: Question, given: Given) -> Reply:
        """Answer."""


@dataclass(frozen=True, slots=True)
class OwnModel:
    """The run's model, greedy; a prompt that is too long keeps its first and last half."""

    engine: Callable[[], Engine]
    max_new_tokens: int
    name: str = OWN

    def answer(self, question: Question, given: Given) -> Reply:
        """Read and answer."""
        engine = self.engine()
        settings = settings_of(engine.policy, {"max_new_tokens": self.max_new_tokens})
        ids = engine.base.chat.prompt_ids(prompt(question, given.shown))
        room = engine.base.context_window - settings.max_new_tokens
        kept = ids if len(ids) <= room else ids[: room // 2] + ids[len(ids) - (room - room // 2) :]
        (said,) = Answerer(engine.scheduler, settings, 1).answer([Query(Row(tuple(kept)))])
        return Reply(said.text, not abstains(said.text), said.usage.completion_tokens, said.finish_reason)


@dataclass(frozen=True, slots=True)
class ChatReader:
    """A LangChain chat model."""

    name: str
    model: BaseChatModel

    def answer(self, question: Question, given: Given) -> Reply:
        """Send the prompt as one message.

        Raises:
            ReaderUnavailable: the provider failed; LangChain's own retries are over by then.
        """
        # providers raise errors of their own making; LangChain hands them back as values here
        (said,) = self.model.batch([prompt(question, given.shown)], return_exceptions=True)
        if isinstance(said, Exception):
            raise ReaderUnavailable(
                f"--reader {self.name} did not answer: {type(said).__name__}: {said}. The rows so far are kept; run "
                "again when it does."
            ) from said
        text = str(said.text)
        used = said.usage_metadata["output_tokens"] if said.usage_metadata else 0
        return Reply(text, not abstains(text), used)


def open_reader(
    name: str | None, url: str | None, *, engine: Callable[[], Engine], max_new_tokens: int
) -> Reader | None:
    """Make the reader of a run.

    Args:
        name: `base`, or `provider:model` as LangChain names chat models; None for none.
        url: of an OpenAI-compatible server; see `open_chat_model`.
        engine: of the run.
        max_new_tokens: longest answer.

    Raises:
        MissingExtra: LangChain or the provider's package is not installed.
        InvalidInput: no such provider, or its client does not start as configured.
    """
    if name is None:
        return None
    if name == OWN and url is None:
        return OwnModel(engine, max_new_tokens)
    shown = name if url is None else f"{name} at {without_secrets(url)}"
    return ChatReader(shown, open_chat_model(name, url, option="--reader", max_tokens=max_new_tokens))


def prompt(question: Question, notes: str) -> str:
    """What a reader is asked."""
    today = f" The question was asked on {question.asked_at:%Y-%m-%d}." if question.asked_at else ""
    return _PROMPT.format(notes=notes or _NOTHING, unknown=UNKNOWN, today=today, question=question.question)


def abstains(output: str) -> bool:
    """Whether a reader said that it does not know; by a list of phrases, so a few are missed."""
    said = normalized(output)
    return not said or any(phrase in said for phrase in _REFUSALS)
