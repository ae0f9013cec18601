"""The training source of plain text, for reconstruction and completion: passages without questions."""

import os
import random
from collections.abc import Iterator
from pathlib import Path

from plume_memory.errors import TrainingError, counted
from plume_memory.segmentation.sentences import segment
from plume_memory.training.samples import Sample
from plume_memory.training.sources.matching import count_words

_SUFFIXES = (".txt", ".md")
_FEWEST_WORDS = 8  # headings and signatures say nothing worth reconstructing


class TextSource:
    """Draws passages from the .txt and .md files of a folder and its subfolders; implements `Source`.

    Args:
        name: Names the source in metrics.
        folder: Where the files are.
        largest_words: Longest passage; cuts are made between sentences where possible.

    Raises:
        TrainingError: The folder is missing, or holds no text.
    """

    def __init__(self, name: str, folder: str | os.PathLike[str], *, largest_words: int = 250) -> None:
        if largest_words < _FEWEST_WORDS:
            raise TrainingError(
                f"Source {name!r}: largest_words must be at least {_FEWEST_WORDS}, got {largest_words}."
            )
        root = Path(folder)
        if not root.is_dir():
            raise TrainingError(f"Source {name!r}: no folder {root}; correct the path or leave the source out.")
        self._name = name
        files = [path for path in sorted(root.rglob("*")) if path.is_file()]
        read = [path for path in files if path.suffix.lower() in _SUFFIXES]
        self._passages = [passage for path in read for passage in _passages(path, largest_words)]
        self.summary = (
            f"{name}: {counted(len(self._passages), 'passage')} of {counted(len(read), 'file')}; "
            f"{counted(len(files) - len(read), 'other file')} left out (not {' or '.join(_SUFFIXES)})"
        )
        if not self._passages:
            raise TrainingError(
                f"Source {name!r}: {root} holds no {' or '.join(_SUFFIXES)} file with a passage of "
                f"{_FEWEST_WORDS} words or more; put text there or leave the source out."
            )

    @property
    def name(self) -> str:
        """Names the source in metrics and in the model card."""
        return self._name

    def __len__(self) -> int:
        """Count the passages."""
        return len(self._passages)

    def draw(self, chance: random.Random, *, largest: int, update: bool) -> Sample:
        """Draw a passage, each with equal chance.

        Raises:
            TrainingError: `update`: plain text has no answers, so no correction of it can be asked about.
        """
        if update:
            raise TrainingError(
                f"Source {self._name!r} is plain text and has no updates; leave it out of the update-aware stage."
            )
        return Sample(chance.choice(self._passages), (), self._name)


def _passages(path: Path, largest_words: int) -> Iterator[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as err:
        raise TrainingError(f"{path} could not be read as UTF-8 text: {err}. Convert it or move it away.") from err
    for span in segment(text, budget_tokens=largest_words, count_tokens=count_words):
        passage = text[span.start : span.end].strip()
        if count_words(passage) >= _FEWEST_WORDS:
            yield passage
