r"""Methods that leave the parameters alone: what they know of a history stands in the prompt.

Base without context, base with context (the paper's oracle row), and what a user would pick instead of a
memory: BM25 retrieval, and a prompt with the last update only. The prompt is "{text}\n\n{question}".
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from eval.methods.decoding import Answerer, reply
from eval.methods.protocol import Prepared, Reply
from eval.records import MuseQuestion, MuseTransition
from plume_memory.model.base import BaseModel
from plume_memory.model.queries import Query
from plume_memory.model.streams import Row
from plume_memory.records import NOTICE
from plume_memory.segmentation.sentences import segment

Shown = Literal["nothing", "everything", "last update", "gold evidence"]


@dataclass(frozen=True, slots=True)
class Prompted:
    """The bare model with nothing, the whole history, the last update or the gold evidence in its prompt.

    The gold evidence in the prompt is to `d2l oracle` what the whole history in it is to `d2l`: the same sentences,
    read. Where a question has none, the whole history stands in, as there.
    """

    base: BaseModel
    answerer: Answerer
    shown: Shown

    @property
    def settings(self) -> Mapping[str, Any]:
        """What stands in the prompt."""
        return {"shown": self.shown}

    def prepare(self, transition: MuseTransition) -> Prepared:
        """Nothing is derived; the text is put in front of each question."""
        if self.shown == "gold evidence":
            return _Prompts(self.base, self.answerer, lambda question: question.gold_evidence or transition.full)
        text = {"nothing": "", "everything": transition.full, "last update": transition.texts[-1]}[self.shown]
        return _Prompts(self.base, self.answerer, lambda _question: text)


@dataclass(frozen=True, slots=True)
class Retrieved:
    """BM25 over passages of the history; the best few stand in the prompt, in the order of the history."""

    base: BaseModel
    answerer: Answerer
    count_tokens: Callable[[str], int]
    passages: int = 3
    passage_tokens: int = 64

    @property
    def settings(self) -> Mapping[str, Any]:
        """How passages are cut and how many are shown."""
        return {"passages": self.passages, "passage_tokens": self.passage_tokens, "retriever": "BM25Okapi"}

    def prepare(self, transition: MuseTransition) -> Prepared:
        """Cut the history into passages and index them; the notice stands before passages of a later text."""
        from rank_bm25 import BM25Okapi  # noqa: PLC0415 - of the extra `eval`

        cut = [(number, text) for number, part in enumerate(transition.texts) for text in self._cut(part)]
        passages = [text for _, text in cut]
        index = BM25Okapi([terms(passage) for passage in passages])

        def shown(asked: MuseQuestion) -> str:
            scores = index.get_scores(terms(asked.question))
            # equal scores: the later passage, the one that may have replaced the other
            best = sorted(range(len(passages)), key=lambda i: (-scores[i], -i))[: self.passages]
            lines: list[str] = []
            shown_of = 0
            for number, passage in (cut[at] for at in sorted(best)):
                if number > shown_of:
                    lines.append(NOTICE)  # as in the history: where a later text begins
                    shown_of = number
                lines.append(passage)
            return "\n".join(lines)

        return _Prompts(self.base, self.answerer, shown)

    def _cut(self, text: str) -> list[str]:
        spans = segment(text, budget_tokens=self.passage_tokens, count_tokens=self.count_tokens)
        return [text[start:end].strip() for start, end in spans if text[start:end].strip()]


@dataclass(frozen=True, slots=True)
class _Prompts:
    """Questions behind a text that may depend on the question."""

    base: BaseModel
    answerer: Answerer
    shown: Callable[[MuseQuestion], str]

    def answer(self, questions: Sequence[MuseQuestion]) -> list[Reply]:
        """One prompt per question."""
        prompts = [self._prompt(self.shown(question), question.question) for question in questions]
        fitted = [self._fitted(ids) for ids in prompts]
        decoded = self.answerer.answer([Query(Row(tuple(ids))) for ids in fitted])
        cut = [len(ids) - len(kept) for ids, kept in zip(prompts, fitted, strict=True)]
        return [reply(one, {"tokens_cut": n} if n else None) for one, n in zip(decoded, cut, strict=True)]

    def _prompt(self, text: str, question: str) -> list[int]:
        return self.base.chat.prompt_ids(f"{text}\n\n{question}" if text else question)

    def _fitted(self, ids: list[int]) -> list[int]:
        """A prompt too long for the window keeps its first and last half, as in Doc-to-LoRA's runs."""
        room = self.base.context_window - self.answerer.settings.max_new_tokens
        return ids if len(ids) <= room else ids[: room // 2] + ids[len(ids) - (room - room // 2) :]


def terms(text: str) -> list[str]:
    """Lower-cased words without punctuation at their ends."""
    return [word for word in (raw.strip(".,;:!?()[]\"'").lower() for raw in text.split()) if word]
