"""CD and the CD oracle: a history distilled into a fresh LoRA by gradient descent.

CD lets a model write an exam about C(t) without seeing the questions of the evaluation, lets the base model
answer it with C(t) in its prompt, and trains a LoRA to answer likewise without. The oracle trains on the
test question alone. BASELINES §2.1; the training itself is `plume_memory.distill` with the paper's settings.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from eval.methods.decoding import Answerer, replies, reply
from eval.methods.protocol import Reply
from eval.records import MuseQuestion, MuseTransition
from plume_memory.distill.examples import Example, teacher_answers
from plume_memory.distill.settings import DistillSettings
from plume_memory.distill.train import Progress, train_factors
from plume_memory.errors import InvalidInput
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.base import BaseModel
from plume_memory.model.prompt import Message
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler

_PROMPTS = Path(__file__).parent / "prompts"
_FOCUS = (
    "Where you can, turn a fact of the list around: ask for the other side of it.",
    "Make them harder: ask for what a reader must put together from two places.",
)
"""The wish of the second round, and of all later ones."""
_QUESTION = re.compile(r"^\W*Question\s*\d+\s*:", re.MULTILINE | re.IGNORECASE)
_ANSWER = re.compile(r"^\W*Answer\s*\d+\s*:", re.MULTILINE | re.IGNORECASE)
_NOT_OURS = ("target", "written_questions", "keyword_questions", "replay")
"""Settings of the library's own distillation that the baseline has no use for."""


class Pair(NamedTuple):
    """A question about a text, with the answer its writer gave; only shown to later rounds, never a target."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class ExamSettings:
    """How the exam is written. Defaults: 20 pairs in 4 rounds of 5.

    Raises:
        InvalidInput: a number below 1.
    """

    rounds: int = 4
    per_round: int = 5
    """Pairs asked for in a round, and at most kept."""
    round_tokens: int = 1024
    """Longest output of a round; a pair that it cuts off is dropped."""

    def __post_init__(self) -> None:
        if min(self.rounds, self.per_round, self.round_tokens) < 1:
            raise InvalidInput(f"An exam needs at least one round, pair and token; got {self}.")


@dataclass(frozen=True, slots=True)
class Exam:
    """A written exam."""

    pairs: tuple[Pair, ...]
    """As written, repetitions included."""
    per_round: tuple[int, ...]
    """Pairs parsed in each round; a first round without any is the last one."""

    @property
    def detail(self) -> dict[str, Any]:
        """For `Reply.detail`."""
        distinct = len({pair.question for pair in self.pairs})
        return {"pairs": len(self.pairs), "distinct_questions": distinct, "pairs_per_round": list(self.per_round)}


def write_exam(base: BaseModel, context: str, settings: ExamSettings) -> Exam:
    """Let a model write question-answer pairs about a text, greedily, round after round.

    Raises:
        PromptTooLong: the text and the pairs so far leave no room in the model's context window.
    """
    decoder = Scheduler(base, fixed_shapes=False)  # every round has a shape of its own
    pairs: list[Pair] = []
    counts = []
    for number in range(settings.rounds):
        query = Query(Row(_exam_prompt(base, context, pairs, number, settings.per_round)))
        found = parse_pairs(*_round(decoder, query, settings))[: settings.per_round]
        pairs.extend(found)
        counts.append(len(found))
        if not pairs:  # greedy: the same prompt would be answered with the same nothing
            break
    return Exam(tuple(pairs), tuple(counts))


def parse_pairs(text: str, complete: bool) -> list[Pair]:
    """Read `Question i: …` / `Answer i: …` lines.

    What lacks a side is skipped. Where the text was cut off (not `complete`) its last question is dropped.
    """
    blocks = _QUESTION.split(text)[1:]
    halves = [_ANSWER.split(block) for block in (blocks if complete else blocks[:-1])]
    pairs = [Pair(half[0].strip(), half[1].strip()) for half in halves if len(half) == 2]
    return [pair for pair in pairs if pair.question and pair.answer]


def _round(decoder: Scheduler, query: Query, settings: ExamSettings) -> tuple[str, bool]:
    """What a round wrote, and whether it came to an end.

    One question more than asked for is an end too: a small model starts over until its tokens are used up.
    """
    text = ""
    for step in decoder.stream([query], DecodeSettings(max_new_tokens=settings.round_tokens)):
        text += step.text
        if step.finish_reason:
            return text, step.finish_reason == "stop"
        if len(_QUESTION.findall(text)) > settings.per_round:
            break
    return text, True


def _exam_prompt(base: BaseModel, context: str, pairs: Sequence[Pair], number: int, count: int) -> tuple[int, ...]:
    """Ids of a round's prompt, behind a worked example; the first round's until there is a pair to show."""
    example = _prompt("example_pairs")
    shown = _filled("first", context=_prompt("example_text"), count=str(len(_QUESTION.findall(example))))
    if pairs:
        asked = [f"Question {i}: {p.question}\nAnswer {i}: {p.answer}" for i, p in enumerate(pairs, start=1)]
        focus = _FOCUS[min(number, len(_FOCUS)) - 1]
        wanted = _filled("next", context=context.strip(), count=str(count), asked="\n".join(asked), focus=focus)
    else:
        wanted = _filled("first", context=context.strip(), count=str(count))
    messages: list[Message] = [
        {"role": "system", "content": _prompt("system")},
        {"role": "user", "content": shown},
        {"role": "assistant", "content": example},
        {"role": "user", "content": wanted},
    ]
    return tuple(base.chat.framed(messages).prompt_ids())


def _prompt(name: str) -> str:
    return (_PROMPTS / f"exam_{name}.txt").read_text(encoding="utf-8").strip()


def _filled(name: str, **values: str) -> str:
    """A prompt with its placeholders filled in one pass: a brace in the text is never taken for one."""
    return re.sub(r"\{(\w+)\}", lambda m: values[m[1]], _prompt(name))


class _Distiller:
    """What CD and its oracle share: the teacher, the training, and what settings they accept."""

    def __init__(
        self, base: BaseModel, answerer: Answerer, settings: DistillSettings, progress: Progress | None
    ) -> None:
        if settings.target != "teacher" or settings.keyword_questions or settings.replay:
            raise InvalidInput(
                f"CD learns from the teacher's answers to an exam alone; the settings say target={settings.target!r}, "
                f"keyword_questions={settings.keyword_questions}, replay={settings.replay}. Start from "
                "DistillSettings.paper() and change what you need with model_copy(update=…)."
            )
        self.base = base
        self.answerer = answerer
        self.settings = settings
        self._progress = progress

    def teach(self, context: str, questions: Sequence[str]) -> list[Example]:
        """The base model's answers with the context in its prompt, `answerer.batch` at a time.

        One example per question, in order; a repeated question is answered once and trained on as often.

        Raises:
            PromptTooLong: the context does not fit the model's window.
        """
        distinct = list(dict.fromkeys(questions))
        examples: list[Example] = []
        for start in range(0, len(distinct), self.answerer.batch):
            asked = distinct[start : start + self.answerer.batch]
            prompts = [f"{context.strip()}\n\n{question}" for question in asked]
            chosen = self.settings
            examples += teacher_answers(self.base, prompts, asked, max_tokens=chosen.teacher_tokens, top_k=chosen.top_k)
        found = dict(zip(distinct, examples, strict=True))
        return [found[question] for question in questions]

    def train(self, examples: Sequence[Example]) -> LoraFactors:
        return train_factors(self.base, examples, self.settings, progress=self._progress)

    def ask(self, question: str, factors: LoraFactors | None) -> Query:
        """The bare question, as asked in training."""
        return Query(Row(tuple(self.base.chat.prompt_ids(question)), factors))

    def described(self) -> dict[str, Any]:
        return {**self.settings.model_dump(mode="json", exclude=set(_NOT_OURS)), **self.answerer.described}


class CD:
    """CD: C(t) through an exam of generated questions."""

    def __init__(
        self,
        base: BaseModel,
        answerer: Answerer,
        settings: DistillSettings | None = None,
        *,
        exam: ExamSettings | None = None,
        examiner: BaseModel | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Put the method together.

        Args:
            base: teacher and student.
            answerer: decodes the answers; its `batch` is the teacher's too.
            settings: `DistillSettings.paper()` by default; on a CPU cut `epochs` and raise `learning_rate`.
            exam: how many questions; 4 rounds of 5 by default.
            examiner: writes the questions (the paper's run has a larger model for it); `base` by default.
            progress: called after every training step.

        Raises:
            InvalidInput: settings that ask for more than the teacher's answers to an exam.
        """
        self._distiller = _Distiller(base, answerer, settings or DistillSettings.paper(), progress)
        self._exam = exam or ExamSettings()
        self._examiner = examiner or base

    @property
    def settings(self) -> Mapping[str, Any]:
        """Training, exam and its writer, and how answers are decoded."""
        exam = self._exam
        return {
            **self._distiller.described(),
            "rounds": exam.rounds,
            "per_round": exam.per_round,
            "round_tokens": exam.round_tokens,
            "examiner": self._examiner.name,
            "examiner_fingerprint": self._examiner.fingerprint,
        }

    def prepare(self, transition: MuseTransition) -> "DistilledHistory":
        """Write the exam, let the teacher answer it, train. Without a single pair nothing is trained.

        Raises:
            PromptTooLong: C(t) does not fit the window of the teacher or of the examiner.
        """
        exam = write_exam(self._examiner, transition.full, self._exam)
        detail = {**exam.detail, "distilled": bool(exam.pairs)}
        if not exam.pairs:
            return DistilledHistory(self._distiller, None, detail)
        examples = self._distiller.teach(transition.full, [pair.question for pair in exam.pairs])
        return DistilledHistory(self._distiller, self._distiller.train(examples), detail)


@dataclass(frozen=True, slots=True, eq=False)
class DistilledHistory:
    """A history as a trained LoRA."""

    distiller: _Distiller
    factors: LoraFactors | None
    """None where no exam came about: answers are the bare model's."""
    detail: Mapping[str, Any]
    """Pairs of the exam, in all and per round; whether anything was distilled."""

    def answer(self, questions: Sequence[MuseQuestion]) -> list[Reply]:
        """Ask each question bare, with the LoRA attached."""
        queries = [self.distiller.ask(question.question, self.factors) for question in questions]
        return replies(self.distiller.answerer.answer(queries), self.detail)


class CDOracle:
    """CD on the test question alone: what distillation reaches when the question is known."""

    def __init__(
        self,
        base: BaseModel,
        answerer: Answerer,
        settings: DistillSettings | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        """Put the method together.

        Args:
            base: teacher and student.
            answerer: decodes the answers; its `batch` is the teacher's too.
            settings: `DistillSettings.paper()` by default: one example, so 300 steps per question.
            progress: called after every training step.

        Raises:
            InvalidInput: settings that ask for more than the teacher's answer.
        """
        self._distiller = _Distiller(base, answerer, settings or DistillSettings.paper(), progress)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Training, and how answers are decoded."""
        return self._distiller.described()

    def prepare(self, transition: MuseTransition) -> "OracleHistory":
        """Keep the text; the work is done per question."""
        return OracleHistory(self._distiller, transition.full)


@dataclass(frozen=True, slots=True, eq=False)
class OracleHistory:
    """A history that is distilled once per question."""

    distiller: _Distiller
    context: str

    def answer(self, questions: Sequence[MuseQuestion]) -> list[Reply]:
        """Teacher's in-context answer → a LoRA of its own → the bare question, for each question.

        Raises:
            PromptTooLong: the context does not fit the model's window.
        """
        own = self.distiller
        examples = own.teach(self.context, [question.question for question in questions])
        trained = [own.train([example]) for example in examples]
        asked = [own.ask(question.question, factors) for question, factors in zip(questions, trained, strict=True)]
        tokenizer = own.base.tokenizer
        return [
            reply(decoded, {"teacher": tokenizer.decode(example.answer_ids, skip_special_tokens=True)})
            for decoded, example in zip(own.answerer.answer(asked), examples, strict=True)
        ]
