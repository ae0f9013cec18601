"""Scores of one question, and the rows that hold them without a word of the benchmark's."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from eval.conversations.methods import DEEPEST
from eval.rows import ItemRow

AT = (1, 3, 5, 10, DEEPEST)


@dataclass(frozen=True, slots=True)
class Scores:
    """What one method did on one question; no text. Written to `figures.jsonl`, a line each."""

    method: str
    conversation: str
    question: str
    """Its id."""
    kind: str
    answerable: bool
    gold_ranks: tuple[int | None, ...] | None
    """Place of every gold turn in the ranking, from 1, None beyond the last; None where there are no gold turns or no
    ranking."""
    f1: float | None
    """SQuAD's token F1 of an answerable question that was answered; 0 where the method abstained."""
    abstained: bool
    """Gave nothing at all, or said that it does not know."""
    answered: bool
    """Whether anybody was asked for an answer."""
    seconds: float
    """To find what bears on it, and to answer."""
    tokens: int
    """Of what was found, as a reader is given it."""
    remember_seconds: float
    """To tell the whole conversation."""


def recall_at(gold_ranks: Sequence[int | None], k: int) -> float:
    """Share of gold turns among the first k turns of a ranking.

    Raises:
        ValueError: there are no gold turns.
    """
    if not gold_ranks:
        raise ValueError("recall of no gold turn is nothing")
    return sum(rank is not None and rank <= k for rank in gold_ranks) / len(gold_ranks)


def ranks_of(gold: Sequence[str], ranked: Sequence[str] | None) -> tuple[int | None, ...] | None:
    """Where each gold turn stands, from 1."""
    if ranked is None or not gold:
        return None
    places = {turn: place for place, turn in enumerate(ranked, start=1)}
    return tuple(places.get(turn) for turn in gold)


def scores_of(row: ItemRow) -> Scores:
    """The scores of a finished row."""
    (answer,) = row.answers
    detail: dict[str, Any] = answer.detail
    ranks = detail["gold_ranks"]
    scored = detail["answered"] and answer.references
    return Scores(
        method=row.method,
        conversation=row.transition,
        question=answer.question_id,
        kind=detail["kind"],
        answerable=detail["answerable"],
        gold_ranks=None if ranks is None else tuple(ranks),
        f1=(0.0 if detail["abstained"] else round(answer.overlap.token_f1, 4)) if scored else None,
        abstained=detail["abstained"],
        answered=detail["answered"],
        seconds=round(answer.seconds, 3),
        tokens=detail["tokens"],
        remember_seconds=round(row.update_seconds, 2),
    )
