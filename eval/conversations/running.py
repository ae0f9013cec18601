"""Asks what has no row yet, a row a question; killed at any moment, a run goes on where it was."""

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from eval.conversations.benchmarks import Benchmark
from eval.conversations.methods import Given, Method, Reply
from eval.conversations.ours import Ours
from eval.conversations.readers import OWN, Reader
from eval.conversations.records import Conversation, Question
from eval.conversations.scores import ranks_of
from eval.rows import Answered, ItemRow, RowFolder
from eval.specs import RunSettings, model_read, network_digest
from plume_memory.errors import PlumeError

EPOCH = 1
"""Raised when code, not settings, changes what a method gives: rows of before are then run again."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command asks for."""

    benchmark: Benchmark
    conversations: tuple[Conversation, ...]
    methods: tuple[Method, ...]
    reader: Reader | None
    """Asked wherever a method does not answer by itself; None: nobody."""
    settings: RunSettings

    def label(self, method: Method) -> str:
        """What rows and tables call a method here."""
        return f"{method.name}, read by {self.reader.name}" if self._is_read(method) and self.reader else method.name

    def wanted(self) -> dict[str, None]:
        """Keys of every row that there should be, in order."""
        return {
            self.key(method, conversation, question): None
            for conversation in self.conversations
            for method in self.methods
            for question in conversation.questions
        }

    def key(self, method: Method, conversation: Conversation, question: Question) -> str:
        """What a row is found by: all that it depends on."""
        is_read = self._is_read(method)
        is_answered = is_read or not _ranks(method)
        by_engine = isinstance(method, Ours) or (is_read and self._reads_with_base())
        parts = [
            EPOCH,
            self.benchmark.name,
            [conversation.id, conversation.digest, asdict(question)],
            [self.label(method), dict(method.settings)],
            model_read(self.settings),
            [self.settings.device, self.settings.dtype, self.settings.hypernetwork] if by_engine else None,
            network_digest(self.settings, shipped=True) if by_engine else None,
            self.settings.max_new_tokens if is_answered else None,
        ]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:24]

    def _is_read(self, method: Method) -> bool:
        return self.reader is not None and _ranks(method)

    def _reads_with_base(self) -> bool:
        return self.reader is not None and self.reader.name == OWN


def run(plan: Plan, folder: RowFolder, console: Console) -> None:
    """Remember each conversation by each method and ask what has no row yet; a row is on disk when it is finished.

    Raises:
        PlumeError: a method or the reader failed; says where, and the rows before it are kept.
    """
    done = {row.key for row in folder.read()}
    left = sum(key not in done for key in plan.wanted())
    if not left:
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with (
        folder.writer(f"conversations-{plan.benchmark.name}") as writer,
        Progress(*columns, "eta", TimeRemainingColumn(), console=console) as progress,
    ):
        task = progress.add_task("", total=left)
        for conversation in plan.conversations:
            for method in plan.methods:
                name = f"{plan.label(method)} · {conversation.id}"
                progress.update(task, description=name)
                try:
                    for row in _rows(plan, method, conversation, done):
                        writer.write(row)
                        progress.advance(task)
                except PlumeError as err:
                    raise type(err)(f"{name}: {err}") from err
                if not console.is_terminal:  # a log shows no bar
                    console.print(name, highlight=False)


def _rows(plan: Plan, method: Method, conversation: Conversation, done: set[str]) -> Iterator[ItemRow]:
    asked = {plan.key(method, conversation, question): question for question in conversation.questions}
    missing = {key: question for key, question in asked.items() if key not in done}
    if not missing:
        return
    begun = time.perf_counter()
    with closing(method.remember(conversation)) as told:
        seconds = time.perf_counter() - begun
        for number, (key, question) in enumerate(missing.items()):
            given = told.ask(question)
            reply, read_seconds = _answer(plan.reader, question, given)
            yield ItemRow(
                key=key,
                method=plan.label(method),
                kind=method.name,
                dataset=plan.benchmark.name,
                transition=conversation.id,
                step=0,
                settings=dict(method.settings) | {"max_new_tokens": plan.settings.max_new_tokens},
                seed=plan.settings.seed,
                probe="answers" if reply and question.answers else "recall",
                batch=1,
                fresh=False,
                update_seconds=seconds,
                update_peak_bytes=None,
                update_derived=0,
                made_on="",
                first_in_process=number == 0,
                answers=(_answered(question, given, reply, given.seconds + read_seconds),),
            )


def _answer(reader: Reader | None, question: Question, given: Given) -> tuple[Reply | None, float]:
    """The method's own answer, or the reader's, with the seconds that reading took."""
    if given.answer is not None or reader is None:
        return given.answer, 0.0
    begun = time.perf_counter()
    reply = reader.answer(question, given)
    return reply, time.perf_counter() - begun


def _answered(question: Question, given: Given, reply: Reply | None, seconds: float) -> Answered:
    return Answered(
        question_id=question.id,
        question=question.question,
        references=question.answers,
        old_references=question.answers,
        affected=False,
        output=reply.text if reply else "",
        tokens=reply.tokens if reply else 0,
        finish_reason=reply.finish_reason if reply else "",
        seconds=seconds,
        peak_bytes=None,
        detail={
            "kind": question.kind,
            "answerable": question.answerable,
            "gold_ranks": ranks_of(question.gold, given.ranked),
            "tokens": given.tokens,
            "answered": reply is not None,
            "abstained": not reply.is_known if reply else not given.shown,
        },
    )


def _ranks(method: Method) -> bool:
    """Whether it finds something for a reader, rather than answering."""
    return not (isinstance(method, Ours) and method.how == "answers")
