"""Questions about a text, made without any model but the base model itself.

Two sources per sentence: questions the base model writes after an example, one for each way to
begin; and keyword questions, a question word with a few words drawn from the sentence. A written
question stays only if all its content words occur in the text and point to its own sentence:
a 135M model invents a good part of what it asks.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from plume_memory.model.base import BaseModel
from plume_memory.model.prompt import Message
from plume_memory.model.queries import DecodeSettings, Query
from plume_memory.model.streams import Row
from plume_memory.scheduling import Scheduler

_EXAMPLE = "In 1952 the bridge at Carn was rebuilt by Ola Venn, at a cost of 40,000 crowns."
_EXAMPLE_QUESTIONS = {
    "What": "What was rebuilt in 1952?",
    "Who": "Who rebuilt the bridge at Carn?",
    "When": "When was the bridge at Carn rebuilt?",
    "Where": "Where was a bridge rebuilt in 1952?",
    "How": "How much did rebuilding the bridge at Carn cost?",
    "Which": "Which bridge did Ola Venn rebuild?",
    "How many": "How many crowns did the bridge at Carn cost?",
    "In what year": "In what year was the bridge at Carn rebuilt?",
}
_ASK = "Write a question that this sentence answers: "
_KEYWORD_FRAMES = ("What about", "Tell me about", "What is", "Who", "How", "When", "Where", "Which")
_STOP_WORDS = frozenset(
    [
        "what",
        "who",
        "when",
        "where",
        "how",
        "which",
        "why",
        "many",
        "much",
        "long",
        "often",
        "in",
        "on",
        "at",
        "by",
        "for",
        "from",
        "to",
        "of",
        "and",
        "or",
        "the",
        "a",
        "an",
        "is",
        "was",
        "were",
        "are",
        "did",
        "do",
        "does",
        "be",
        "been",
        "has",
        "had",
        "have",
        "it",
        "its",
        "he",
        "she",
        "they",
        "his",
        "her",
        "their",
        "this",
        "that",
        "there",
        "with",
        "as",
        "year",
    ]
)
_WORD = re.compile(r"\w+", re.UNICODE)
_KEYWORD = re.compile(r"\w(?:[\w.,'-]*\w)?", re.UNICODE)


@dataclass(frozen=True, slots=True)
class Question:
    """A question and the sentence that answers it."""

    text: str
    sentence: str


def write_questions(base: BaseModel, sentences: Sequence[str], *, per_sentence: int) -> list[Question]:
    """Let the base model write questions, greedily; keep those that point to their own sentence."""
    openings = list(_EXAMPLE_QUESTIONS)[:per_sentence]
    asked = [(sentence, opening) for sentence in sentences for opening in openings]
    if not asked:
        return []
    rows = [Row(tuple(_prompt(base, sentence, opening))) for sentence, opening in asked]
    settings = DecodeSettings(max_new_tokens=24, stop=("?", "\n"))
    answers = Scheduler(base, fixed_shapes=False).decode([Query(row) for row in rows], settings)
    written = [
        Question(f"{opening} {answer.text.strip()}?", sentence)
        for (sentence, opening), answer in zip(asked, answers, strict=True)
    ]
    return [q for q in dict.fromkeys(written) if _points_home(q, sentences)]


def keyword_questions(sentences: Sequence[str], *, per_sentence: int, seed: int) -> list[Question]:
    """Make questions from one to four content words of a sentence, in their order."""
    draw = random.Random(seed)
    made = []
    for sentence in sentences:
        words = [w for w in _KEYWORD.findall(sentence) if w.lower() not in _STOP_WORDS]
        for _ in range(per_sentence if words else 0):
            chosen = sorted(draw.sample(range(len(words)), draw.randint(1, min(4, len(words)))))
            frame = draw.choice(_KEYWORD_FRAMES)
            made.append(Question(f"{frame} {' '.join(words[i] for i in chosen)}?", sentence))
    return list(dict.fromkeys(made))


def _prompt(base: BaseModel, sentence: str, opening: str) -> list[int]:
    example: list[Message] = [
        {"role": "user", "content": _ASK + _EXAMPLE},
        {"role": "assistant", "content": _EXAMPLE_QUESTIONS[opening]},
        {"role": "user", "content": _ASK + sentence},
    ]
    return base.chat.framed(example).prompt_ids() + base.chat.encode(opening)


def _points_home(question: Question, sentences: Sequence[str]) -> bool:
    """Whether the question's content words all occur in the text, and most of them in its own sentence alone."""
    asked = _stems(question.text) - _STOP_WORDS
    holdings = [_stems(sentence) for sentence in sentences]
    if not asked or not asked <= set().union(*holdings):
        return False
    overlaps = [len(asked & held) for held in holdings]
    best = max(overlaps)
    return overlaps.count(best) == 1 and sentences[overlaps.index(best)] == question.sentence


def _stems(text: str) -> set[str]:
    """Words cut to five letters: enough to match `built` with `building`, without a stemmer per language."""
    return {word if word in _STOP_WORDS else word[:5] for word in _WORD.findall(text.lower())}
