"""Context distillation behind the parameterizer's interface: text in, LoRA factors out, slowly.

Two uses. As the fallback for a model that has no hypernetwork (`DistillSettings()`), and as the
paper's CD baseline (`DistillSettings.paper()`). H(text) depends on the text, the model and the
settings alone, so results are cached by content hash like a hypernetwork's.
"""

import hashlib
from collections.abc import Callable, Sequence

from plume_memory.distill.examples import UNRELATED_PROMPTS, Example, fixed_answer, teacher_answers
from plume_memory.distill.questions import Question, keyword_questions, write_questions
from plume_memory.distill.settings import DistillSettings
from plume_memory.distill.train import Progress, train_factors
from plume_memory.errors import ParameterizerError
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.base import BaseModel
from plume_memory.segmentation.sentences import sentence_spans

_WHOLE = "What does the account say?"
"""Asked for every text: its answer is the text."""

QuestionWriter = Callable[[BaseModel, Sequence[str]], list[Question]]


class DistillationParameterizer:
    """H(text) by training a LoRA to answer questions about the text without it."""

    additive = True
    """One adapter per evidence unit; the adapter of a history is the sum over its units."""

    def __init__(
        self,
        base: BaseModel,
        settings: DistillSettings | None = None,
        *,
        questions: QuestionWriter | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Take a model.

        Args:
            base: teacher and student.
            settings: ours by default; `DistillSettings.paper()` is the CD baseline.
            questions: makes the questions about a text's sentences (the CD oracle passes the test
                query); by default they are written by the base model and drawn from keywords.
            progress: called after every step.
        """
        self.settings = settings or DistillSettings()
        self.progress = progress
        self._base = base
        self._questions = questions
        self._replay: list[Example] | None = None

    @property
    def fingerprint(self) -> str:
        """sha256 over the method's name and its settings; the model's own fingerprint is kept apart."""
        own = "" if self._questions is None else f":{self._questions!r}"
        return hashlib.sha256(f"distill-1:{self.settings.canonical()}{own}".encode()).hexdigest()

    @property
    def max_tokens(self) -> int:
        """Longest text that can be trained on: it is also an answer, so it must fit the model's window."""
        return self._base.context_window - len(self._base.chat.prompt_ids(_WHOLE)) - 1

    @property
    def bias(self) -> None:
        """Distilled factors have no shared bias block."""
        return None

    @property
    def shared_a(self) -> None:
        """Every text has an A of its own."""
        return None

    def parameterize(self, texts: Sequence[str]) -> list[LoraFactors]:
        """Distil each text into factors of its own.

        Raises:
            ParameterizerError: a text is empty or white space.
        """
        return [self._distil(text) for text in texts]

    def _distil(self, text: str) -> LoraFactors:
        if not text.strip():
            raise ParameterizerError("An empty text cannot be written into weights; pass at least one character.")
        examples = [*self._examples(text), *self._unrelated()]
        return train_factors(self._base, examples, self.settings, progress=self.progress)

    def _examples(self, text: str) -> list[Example]:
        sentences = [text[start:end].strip() for start, end in sentence_spans(text) if text[start:end].strip()]
        questions = self._ask(sentences)
        if self.settings.target == "teacher":
            asked = [q.text for q in questions] or ["What does the text say?"]
            return teacher_answers(
                self._base,
                [f"{text.strip()}\n\n{question}" for question in asked],
                asked,
                max_tokens=self.settings.teacher_tokens,
                top_k=self.settings.top_k,
            )
        # The whole text is always an answer too: a text without any usable question is still learnt.
        whole = fixed_answer(self._base, _WHOLE, text.strip())
        return [*(fixed_answer(self._base, q.text, q.sentence) for q in questions), whole]

    def _ask(self, sentences: list[str]) -> list[Question]:
        if self._questions is not None:
            return self._questions(self._base, sentences)
        chosen = self.settings
        if self.progress:
            self.progress("writing questions", 0, 1)
        written = write_questions(self._base, sentences, per_sentence=chosen.written_questions)
        drawn = keyword_questions(sentences, per_sentence=chosen.keyword_questions, seed=chosen.seed)
        return list(dict.fromkeys([*written, *drawn]))

    def _unrelated(self) -> list[Example]:
        """Replayed prompts with the bare model's own answers; computed once per process."""
        if self._replay is None:
            prompts = UNRELATED_PROMPTS[: self.settings.replay]
            self._replay = (
                teacher_answers(self._base, prompts, prompts, max_tokens=24, top_k=self.settings.top_k)
                if prompts
                else []
            )
        return self._replay
