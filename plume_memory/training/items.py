"""Samples to items: what the student is asked, token by token, and what it should answer.

Knows tokens and the chat frame; knows no tensors, models or losses.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from plume_memory.model.prompt import ChatFormat
from plume_memory.segmentation.sentences import sentence_spans
from plume_memory.training.samples import Ask

Kind = Literal["answer", "reconstruction", "completion", "kept"]
"""`kept`: the answer is what the model says without any memory; it must stay."""

RECONSTRUCT = ("Repeat the text.", "Write down what you were told.", "What does the text say?", "Recall the text.")
COMPLETE = ("Continue the text: ", "Go on from here: ", "What comes next? ", "Complete this: ")


@dataclass(frozen=True, slots=True)
class Item:
    """One exchange of a row."""

    prompt_ids: tuple[int, ...]
    """What follows the chat frame's head: the user's words and the frame's tail."""
    target_ids: tuple[int, ...]
    kind: Kind
    stale_ids: tuple[int, ...] = ()
    """The outdated answer to the same prompt, where there is one."""
    affected: bool = False
    answer: tuple[int, int] | None = None
    """Where the answer stands among the target's tokens: [start, end); None where all of it is the answer."""


@dataclass(frozen=True, slots=True)
class ItemWriter:
    """Frames questions and texts for one base model."""

    chat: ChatFormat
    end_id: int
    """Ends an answer."""
    span_tokens: int
    """Longest target of reconstruction and completion."""
    statements: bool = False
    """Whether questions are answered in statements, where a sample has one."""

    def answer(self, ask: Ask) -> Item:
        """A question and its answer, alone or in a statement."""
        place = ask.reply.rfind(ask.answer) if self.statements and ask.reply is not None else -1
        if place < 0 or ask.reply is None:
            stale = () if ask.stale is None else self._target(ask.stale)
            return Item(self._prompt(ask.question), self._target(ask.answer), "answer", stale, ask.affected)
        lead, tail = ask.reply[:place], ask.reply[place + len(ask.answer) :]
        target = self._target(ask.reply)
        stale = () if ask.stale is None else self._target(f"{lead}{ask.stale}{tail}")
        # the white space before a word belongs to its token
        start = _common(target, self._target(lead.rstrip()))
        end = _common(target, self._target(lead + ask.answer))
        return Item(self._prompt(ask.question), target, "answer", stale, ask.affected, (start, max(end, start + 1)))

    def reconstruction(self, text: str, chance: random.Random) -> Item:
        """Ask for the text itself, cut after `span_tokens`; the end is part of it where it fits."""
        target = self._target(text)[: self.span_tokens]
        return Item(self._prompt(chance.choice(RECONSTRUCT)), target, "reconstruction")

    def completion(self, text: str, chance: random.Random) -> Item:
        """Give a few words of some sentence, ask for what follows."""
        spans = list(sentence_spans(text))
        start, _ = spans[chance.randrange(len(spans))]
        words = text[start:].split()
        shown = chance.randint(1, min(8, len(words)))
        cut, rest = " ".join(words[:shown]), " ".join(words[shown:])
        target = (*self.chat.encode(rest), self.end_id)[: self.span_tokens]
        return Item(self._prompt(chance.choice(COMPLETE) + cut), target, "completion")

    def states(self, text: str) -> tuple[int, ...]:
        """A text that stands compiled in front, behind the chat frame's head; ids as `Framed.evidence_ids` has them."""
        return tuple(self.chat.encode(text.strip() + "\n\n"))

    def _prompt(self, words: str) -> tuple[int, ...]:
        return tuple(self.chat.ids(self.chat.asked(words)))

    def _target(self, text: str) -> tuple[int, ...]:
        return (*self.chat.encode(text.strip()), self.end_id)


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the common beginning."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def tokens_of(items: Sequence[Item]) -> int:
    """Tokens a row of items takes behind the shared head."""
    return sum(len(item.prompt_ids) + len(item.target_ids) - 1 for item in items)
