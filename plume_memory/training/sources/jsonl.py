"""The training source of question-answer files: passages as they are, or edited for the update-aware stage."""

import os
import random
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain, islice
from pathlib import Path

from plume_memory.errors import TrainingError, counted
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.sources.edits import Edit, Editor
from plume_memory.training.sources.reading import Question, read_passages
from plume_memory.training.sources.windows import Cut, Windows
from plume_memory.training.statements import as_statement

_TRIES = 200
_PROBED, _KNOWN_EDITABLE = 2000, 16


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
        read = [passage for path in files for passage in read_passages(path, extractive=extractive)]
        passages = [passage for passage in read if passage.questions]
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
        left_out = sum(passage.left_out for passage in read)
        why = "" if not left_out else " (no answer, too long, or not in the text)" if extractive else " (too long)"
        self.summary = (
            f"{name}: {len(self._windows):,} of {counted(len(read), 'context')}, "
            f"{counted(sum(len(passage.questions) for passage in passages), 'question')}; {left_out:,} left out{why}"
        )

    @property
    def name(self) -> str:
        """Names the source in metrics and in the model card."""
        return self._name

    def __len__(self) -> int:
        """Count the contexts that are drawn from."""
        return len(self._windows)

    @cached_property
    def can_update(self) -> bool:
        """Whether any of its passages can be edited, as far as one try on each of up to `_PROBED` tells."""
        return bool(self._editable)

    @cached_property
    def _editable(self) -> list[Windows]:
        """A few passages that could be edited once: where others fail, an update is made of one of these."""
        chance = random.Random(f"editable:{self._name}")
        shuffled = chance.sample(self._windows, len(self._windows))
        some = (windows for windows in shuffled[:_PROBED] if self._edit_of(chance, windows) is not None)
        return list(islice(some, _KNOWN_EDITABLE))

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
        for windows in chain(self._any(chance), self._known_editable(chance)):
            edited = self._edit_of(chance, windows)
            if edited is not None:
                text, edit = edited
                return Sample(text, self._asks_of(chance, edit), self._name, update=edit.update)
        raise TrainingError(
            f"Source {self._name!r}: none of {_TRIES} passages has an answer that can be edited (a number, a date "
            "or a name in the text). Set update.share to 0, or add a source whose answers can."
        )

    def _any(self, chance: random.Random) -> Iterator[Windows]:
        for _ in range(_TRIES):
            yield chance.choice(self._windows)

    def _known_editable(self, chance: random.Random) -> Iterator[Windows]:
        for _ in range(_TRIES if self._editable else 0):
            yield chance.choice(self._editable)

    def _edit_of(self, chance: random.Random, windows: Windows) -> tuple[str, Edit] | None:
        cut = windows.cut(chance)
        edit = self._editor.edit(chance, cut.text, cut.questions) if cut.questions else None
        return None if edit is None else (cut.text, edit)

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
