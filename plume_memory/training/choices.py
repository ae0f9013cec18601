"""Samples to choices: the sentences of a history, questions about it, and which sentence answers which.

Knows no tokens, models or losses.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from plume_memory.segmentation.statements import statements_of
from plume_memory.terms import FUNCTION_WORDS, terms_of
from plume_memory.training.samples import Ask, Sample
from plume_memory.training.sources.matching import holds


@dataclass(frozen=True, slots=True)
class Choice:
    """Sentences and questions; for every question some sentences answer it and some do not."""

    sentences: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[tuple[bool | None, ...], ...]
    """By question, of every sentence: whether it answers; None where it says what no longer holds."""
    source: str
    """Which source the sample is from."""


def choice_of(sample: Sample, chance: random.Random, *, asks: int, sentences: int) -> Choice | None:
    """Make a choice of a sample; None where no question tells its sentences apart.

    Which of two tellings is the newer one is not to be learnt here: that is the router's own rule
    (retrieval/supersede.py), so a sentence that gives an outdated answer is neither right nor wrong.

    Args:
        sample: a text, and what corrects it if it has an update.
        chance: draws the questions, and the sentences that are left out.
        asks: most questions.
        sentences: most sentences; of those that answer none the ones with most terms of a question are kept, for
            they are the ones that are mistaken for the answer.
    """
    texts = [sample.text] if sample.update is None else [sample.text, sample.update]
    told = list(dict.fromkeys(statement for text in texts for statement in statements_of(text)))
    asked = chance.sample(sample.asks, min(asks, len(sample.asks)))
    judged = [(ask.question, [_answers(sentence, ask) for sentence in told]) for ask in asked]
    right = [i for i in range(len(told)) if any(own[i] for _, own in judged)]
    others = [i for i in range(len(told)) if i not in right]
    if len(told) > sentences:
        right = chance.sample(right, min(len(right), sentences - 1))
        wanted = [set(terms_of(question)) - FUNCTION_WORDS for question, _ in judged]
        shuffled = chance.sample(others, len(others))  # of equals any
        others = sorted(shuffled, key=lambda i: -_shared(told[i], wanted))[: sentences - len(right)]
    kept = sorted(right + others)
    rows = [(question, tuple(own[i] for i in kept)) for question, own in judged]
    telling = [(question, own) for question, own in rows if True in own and False in own]
    if not telling:
        return None
    return Choice(
        tuple(told[i] for i in kept),
        tuple(question for question, _ in telling),
        tuple(own for _, own in telling),
        sample.source,
    )


def _shared(sentence: str, wanted: Sequence[set[str]]) -> float:
    """Largest share of a question's terms that a sentence holds."""
    terms = set(terms_of(sentence))
    return max(len(own & terms) / max(1, len(own)) for own in wanted)


def _answers(sentence: str, ask: Ask) -> bool | None:
    if holds(sentence, ask.answer):
        return True
    return None if ask.stale is not None and holds(sentence, ask.stale) else False
