"""Rows, scored: the questions of a run by method and dataset, grouped by record for the statistics."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from eval.metrics.confidence import Comparison, Estimate, compare, estimate
from eval.metrics.overlap import Overlap
from eval.metrics.verdicts import Verdicts
from eval.rows import Answered, ItemRow

Which = Literal["all", "affected", "kept"]
Metric = Callable[["Scored"], float | None]
"""The score of an answered question; None leaves it out of the mean."""


@dataclass(frozen=True, slots=True)
class Scored:
    """An answered question with its scores."""

    answer: Answered
    overlap: Overlap
    judged: bool | None
    """LLM as a judge: D2 and D3 both yes; None where nobody was asked."""


def recall(scored: Scored) -> float:
    """D1, ROUGE-L recall."""
    return scored.overlap.recall


def precision(scored: Scored) -> float:
    """ROUGE-L precision."""
    return scored.overlap.precision


def rouge_f1(scored: Scored) -> float:
    """ROUGE-L F1."""
    return scored.overlap.f1


def exact_match(scored: Scored) -> float:
    """SQuAD v1.1 EM."""
    return scored.overlap.exact_match


def token_f1(scored: Scored) -> float:
    """SQuAD v1.1 F1."""
    return scored.overlap.token_f1


def stale(scored: Scored) -> float | None:
    """1 for a replaced answer without the current one; questions whose answer never changed are left out."""
    changed = scored.answer.references != scored.answer.old_references
    return float(scored.answer.stale) if changed else None


def judged(scored: Scored) -> float | None:
    """LLM as a judge."""
    return None if scored.judged is None else float(scored.judged)


Place = tuple[str, str]
"""(dataset, transition): record ids may repeat between datasets."""


def place(row: ItemRow) -> Place:
    """Where a row belongs."""
    return row.dataset, row.transition


class Results:
    """The rows of one experiment."""

    def __init__(self, rows: Iterable[ItemRow], verdicts: Verdicts | None = None) -> None:
        self._rows = list(rows)
        self._verdicts = verdicts

    @property
    def rows(self) -> Sequence[ItemRow]:
        """As they were written."""
        return self._rows

    @cached_property
    def methods(self) -> list[str]:
        """In the order first met."""
        return list(dict.fromkeys(row.method for row in self._rows))

    @cached_property
    def datasets(self) -> list[str]:
        """In the order first met."""
        return list(dict.fromkeys(row.dataset for row in self._rows))

    @property
    def has_judge(self) -> bool:
        """Whether a judge was asked about any of these answers."""
        return any(one.judged is not None for group in self._scored.values() for one in group)

    def kind(self, method: str) -> str:
        """The kind of a method."""
        return next(row.kind for row in self._rows if row.method == method)

    def clusters(
        self,
        method: str,
        dataset: str | None,
        metric: Metric,
        *,
        which: Which = "all",
        step: int | None = None,
        among: Container[Place] | None = None,
    ) -> dict[str, list[float]]:
        """Scores by history, of one dataset or of all: the steps of a chain share a text, so they are one cluster.

        Args:
            method: whose answers.
            dataset: one, or all.
            metric: the score.
            which: questions.
            step: only after so many updates.
            among: only these transitions.
        """
        found: dict[str, list[float]] = {}
        for row in self._of(method):
            if dataset not in (None, row.dataset) or step not in (None, row.step):
                continue
            if among is not None and place(row) not in among:
                continue
            scores = [metric(one) for one in self._scored[row.key] if _chosen(one.answer, which)]
            known = [score for score in scores if score is not None]
            if known:
                found.setdefault(f"{row.dataset}/{row.transition.split('@')[0]}", []).extend(known)
        return found

    def estimate(
        self, method: str, dataset: str | None, metric: Metric, *, which: Which = "all", step: int | None = None
    ) -> Estimate | None:
        """Mean with interval; None where the method was not run there."""
        return estimate(self.clusters(method, dataset, metric, which=which, step=step))

    def compare(self, first: str, second: str, metric: Metric, *, which: Which = "all") -> Comparison | None:
        """Paired test over all transitions both methods answered."""
        common = {place(row) for row in self._of(first)} & {place(row) for row in self._of(second)}
        sides = [self.clusters(method, None, metric, which=which, among=common) for method in (first, second)]
        return compare(sides[0], sides[1])

    def complete(self, method: str) -> bool:
        """Whether a method answered on every transition any other method was run on."""
        return {place(row) for row in self._of(method) if not row.error} == {place(row) for row in self._rows}

    def _of(self, method: str) -> list[ItemRow]:
        """A method's rows, one per transition: where it was run in several modes (batch, fresh), the first."""
        rows: dict[Place, ItemRow] = {}
        for row in self._rows:
            if row.method == method and not row.error:
                rows.setdefault(place(row), row)
        return list(rows.values())

    @cached_property
    def _scored(self) -> Mapping[str, list[Scored]]:
        return {row.key: [self._score(row, answer) for answer in row.answers] for row in self._rows}

    def _score(self, row: ItemRow, answer: Answered) -> Scored:
        verdict = self._verdicts.of(answer) if self._verdicts else None
        comparable = (*place(row), answer.question_id) in self._judged_for_all
        return Scored(answer, answer.overlap, verdict if comparable else None)

    @cached_property
    def _judged_for_all(self) -> set[tuple[str, str, str]]:
        """Questions on which every method with an answer has a verdict: which ones fail is no matter of chance."""
        judged: dict[tuple[str, str, str], list[bool]] = {}
        for row in self._rows:
            for answer in row.answers:
                verdict = self._verdicts.of(answer) if self._verdicts else None
                judged.setdefault((*place(row), answer.question_id), []).append(verdict is not None)
        return {question for question, given in judged.items() if all(given)}


def _chosen(answer: Answered, which: Which) -> bool:
    return which == "all" or answer.affected == (which == "affected")
