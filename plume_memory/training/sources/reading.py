"""Reads question-answer files: one JSON object a line, plain or gzip.

The shape is `{"context", "qas": [{"question", "answers": [...]}]}`, with `"answer"` allowed for `"answers"`;
`"paragraphs"` and `"supporting_facts"` (HotpotQA) are used where a context has to be cut. Anything else is
refused with the file, the line and what was found there.
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plume_memory.errors import TrainingError
from plume_memory.training.sources.matching import count_words, occurrences

LONGEST_ANSWER_WORDS = 30
"""Longer answers are passages, not answers: such questions are left out."""
LONGEST_QUESTION_WORDS = 200
"""Longer questions are documents: one of them would set the width of its whole batch."""
_SHORT_ANSWER_WORDS = 12
_FREE_FORM = frozenset({"yes", "no", "maybe", "true", "false", "unanswerable"})


@dataclass(frozen=True, slots=True)
class Question:
    """A question and its answer, as the context has it or, when free-form, as the file has it."""

    text: str
    answer: str
    is_verbatim: bool
    """Whether the answer stands in the context."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One context with its questions."""

    text: str
    questions: tuple[Question, ...]
    left_out: int = 0
    """Questions of it that cannot be used: no answer, an overlong one, one that the context does not hold."""
    paragraphs: tuple[str, ...] = ()
    """The parts of the context, where the file gives them."""
    supporting: tuple[int, ...] = ()
    """Which paragraphs the answers rest on."""


def read_passages(path: Path, *, extractive: bool) -> list[Passage]:
    """Read every context, those without a usable question too; contexts that repeat are read as one.

    Raises:
        TrainingError: The file is missing, damaged, empty, or a line does not have the shape.
    """
    by_context: dict[str, Passage] = {}
    for line, row in _rows(path):
        passage = _passage(row, f"{path}, line {line}", extractive=extractive)
        known = by_context.get(passage.text)
        if known is not None:
            asked = {question.text for question in known.questions}
            more = tuple(question for question in passage.questions if question.text not in asked)
            passage = Passage(
                known.text,
                known.questions + more,
                known.left_out + passage.left_out,
                known.paragraphs,
                known.supporting + passage.supporting,
            )
        by_context[passage.text] = passage
    if not by_context:
        raise TrainingError(f"{path} holds no line; name a file with question-answer records or leave it out.")
    return list(by_context.values())


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if not path.is_file():
        raise TrainingError(f"No data file {path}; correct the path or leave it out.")
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    yield number, _object(line, f"{path}, line {number}")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as err:
        raise TrainingError(f"{path} could not be read as {path.suffix} text: {err}. Fetch the file again.") from err


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as err:
        raise TrainingError(f"{where} is not JSON ({err}); write one object a line.") from err
    if not isinstance(row, dict):
        raise TrainingError(f"{where} holds a {type(row).__name__}; write one object a line.")
    return row


def _passage(row: dict[str, Any], where: str, *, extractive: bool) -> Passage:
    context, asked = row.get("context"), row.get("qas")
    if not isinstance(context, str) or not context.strip() or not isinstance(asked, list):
        raise TrainingError(
            f'{where} should hold a "context" of text and a list "qas"; found the keys '
            f"{', '.join(sorted(row)) or 'none'}. Convert the file to that shape or leave it out."
        )
    questions: dict[str, Question] = {}
    left_out = 0
    for entry in asked:
        question = _question(entry, context, where)
        if question is not None and (question.is_verbatim or not extractive):
            questions.setdefault(question.text, question)
        else:
            left_out += 1
    paragraphs, supporting = _paragraphs(row, where)
    return Passage(context, tuple(questions.values()), left_out, paragraphs, supporting)


def _question(entry: Any, context: str, where: str) -> Question | None:
    """Read one question; None if it is overlong, or has no answer or only overlong ones."""
    found = entry.get("answers", entry.get("answer")) if isinstance(entry, dict) else None
    answers = [found] if isinstance(found, str) else found
    if not isinstance(entry, dict) or not isinstance(entry.get("question"), str) or not _are_texts(answers):
        raise TrainingError(
            f'{where}: each of "qas" should hold a "question" and "answers", a list of texts; found '
            f"{json.dumps(entry, ensure_ascii=False)[:200]}."
        )
    assert answers is not None  # _are_texts refuses None
    usable = [text for text in map(_trimmed, answers) if text and count_words(text) <= LONGEST_ANSWER_WORDS]
    spoken = entry["question"].strip()
    if not usable or not spoken or count_words(spoken) > LONGEST_QUESTION_WORDS:
        return None
    if usable[0].lower() not in _FREE_FORM:
        # The first of the file's answers that is short; annotators' later ones are alternatives.
        for answer in sorted(usable, key=lambda text: count_words(text) > _SHORT_ANSWER_WORDS):
            for span in occurrences(context, answer):
                return Question(spoken, context[span.start : span.end], is_verbatim=True)
    return Question(spoken, usable[0], is_verbatim=False)


def _are_texts(answers: Any) -> bool:
    return isinstance(answers, list) and all(isinstance(answer, str) for answer in answers)


def _trimmed(answer: str) -> str:
    """Leave out white space at the ends and the full stop of a sentence, not that of an abbreviation."""
    text = answer.strip()
    last = text.rsplit(None, 1)[-1] if text else ""
    ends_sentence = last.endswith(".") and len(last) > 5 and "." not in last[:-1]
    return text[:-1].rstrip() if ends_sentence else text


def _paragraphs(row: dict[str, Any], where: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    titled, facts = row.get("paragraphs"), row.get("supporting_facts")
    if titled is None or facts is None:
        return (), ()
    try:
        order = {title: index for index, (title, _) in enumerate(titled)}
        supporting = sorted({order[title] for title, _ in facts if title in order})
        return tuple(f"{title}\n{body}" for title, body in titled), tuple(supporting)
    except (TypeError, ValueError) as err:
        raise TrainingError(
            f'{where}: "paragraphs" should be pairs of title and text and "supporting_facts" pairs of title and '
            f"number, as in HotpotQA; found {json.dumps(titled)[:100]} and {json.dumps(facts)[:100]}."
        ) from err
