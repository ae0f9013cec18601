"""The training source of question-answer files: passages as they are, or edited for the update-aware stage."""

import os
import random
from collections.abc import Sequence
from pathlib import Path

from plume_memory.errors import TrainingError
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.sources.edits import Edit, Editor
from plume_memory.training.sources.reading import Question, read_passages
from plume_memory.training.sources.windows import Cut, Windows
from plume_memory.training.statements import as_statement

_TRIES = 200


class JsonlSource:
    """Draws a context uniformly, then some of its questions; implements `Source`.

    Args:
        name: Names the source in metrics.
        paths: Files in the common shape (see `reading`), plain or gzip.
        largest_words: Longer contexts are cut to whole sentences of at most so many words.
        most_asks: Most questions of one sample.
        extractive: Keep only questions whose answer stands in the context; with False, free-form answers
            (FairytaleQA, BoolQ's yes and no) are kept too.

    Raises:
        TrainingError: A file is missing, damaged, empty, or has another shape; no question is usable.
    """

    def __init__(
        self,
        name: str,
        paths: Sequence[str | os.PathLike[str]] | str | os.PathLike[str],
        *,
        largest_words: int = 250,
        most_asks: int = 8,
        extractive: bool = True,
    ) -> None:
        if largest_words < 1 or most_asks < 1:
            raise TrainingError(
                f"Source {name!r}: largest_words and most_asks must be at least 1; "
                f"got largest_words={largest_words}, most_asks={most_asks}."
            )
        files = [Path(paths)] if isinstance(paths, str | os.PathLike) else [Path(path) for path in paths]
        passages = [passage for path in files for passage in read_passages(path, extractive=extractive)]
        self._name = name
        self._most_asks = most_asks
        self._windows = [
            windows for passage in passages if (windows := Windows(passage, largest_words=largest_words)).is_usable
        ]
        self._editor = Editor(question for passage in passages for question in passage.questions)
        if not self._windows:
            kind = "whose answer stands in the text" if extractive else "with an answer"
            raise TrainingError(
                f"Source {name!r}: no question {kind} within {largest_words} words was found in "
                f"{', '.join(map(str, files)) or 'no file at all'}; name other files or raise largest_words."
            )

    @property
    def name(self) -> str:
        """Names the source in metrics and in the model card."""
        return self._name

    def __len__(self) -> int:
        """Count the contexts that are drawn from."""
        return len(self._windows)

    def draw(self, chance: random.Random, *, largest: int, update: bool) -> Sample:
        """Draw a passage; with `update`, one answer of it is changed and the changed passage is the update.

        Raises:
            TrainingError: An update was asked for and no passage drawn could be edited.
        """
        if update:
            return self._edited(chance)
        cut = self._cut(chance)
        asks = [_ask(question) for question in self._sampled(chance, cut.questions)]
        return Sample(cut.text, tuple(asks), self._name)

    def _edited(self, chance: random.Random) -> Sample:
        for _ in range(_TRIES):
            cut = self._cut(chance)
            edit = self._editor.edit(chance, cut.text, cut.questions)
            if edit is not None:
                return Sample(cut.text, self._asks_of(chance, edit), self._name, update=edit.update)
        raise TrainingError(
            f"Source {self._name!r}: none of {_TRIES} passages has an answer that can be edited (a number, a date "
            "or a name in the text); leave this source out of the update-aware stage."
        )

    def _asks_of(self, chance: random.Random, edit: Edit) -> tuple[Ask, ...]:
        changed = [
            Ask(q.text, edit.value, affected=True, stale=edit.stale, reply=as_statement(q.text, edit.value))
            for q in edit.affected
        ]
        kept = [_ask(question) for question in edit.unaffected]
        changed = chance.sample(changed, min(len(changed), self._most_asks))
        asks = changed + chance.sample(kept, min(len(kept), self._most_asks - len(changed)))
        chance.shuffle(asks)
        return tuple(asks)

    def _cut(self, chance: random.Random) -> Cut:
        for _ in range(_TRIES):
            cut = chance.choice(self._windows).cut(chance)
            if cut.questions:
                return cut
        raise TrainingError(f"Source {self._name!r}: no window with a question in {_TRIES} tries; raise largest_words.")

    def _sampled(self, chance: random.Random, questions: tuple[Question, ...]) -> list[Question]:
        return chance.sample(questions, min(len(questions), self._most_asks))


def _ask(question: Question) -> Ask:
    return Ask(question.text, question.answer, reply=as_statement(question.text, question.answer))
