"""Tables of what methods did on a benchmark's conversations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from eval.conversations.records import IDLE_KIND
from eval.conversations.scores import AT, Scores, recall_at
from eval.experiments.cells import NOTHING, interval, percent
from eval.metrics.confidence import Estimate, estimate
from eval.report.view import Table, View

FEWEST_CONVERSATIONS = 10
"""Of an interval over conversations; below, questions are resampled."""
Value = Callable[[Scores], float | None]
"""Of one question; None leaves it out."""


def view(scores: Sequence[Scores], judged: Mapping[tuple[str, str, str], bool], *, seed: int, has_gold: bool) -> View:
    """Recall of gold turns, then answers, abstention and cost.

    Args:
        scores: of all methods.
        judged: verdicts by (method, conversation, question); empty where nobody judged.
        seed: of the bootstrap.
        has_gold: whether the benchmark names gold turns.
    """
    shared, left_out = _shared(scores)
    by_method: dict[str, list[Scores]] = {}
    for one in shared:
        by_method.setdefault(one.method, []).append(one)
    tables = [_recall(by_method, seed), _by_kind(by_method, seed)] if has_gold else []
    answers = _answers(by_method, judged, seed, has_gold=has_gold)
    said = f"{left_out} rows of questions that not every method here was asked yet are left out of these tables."
    return View([*tables, replace(answers, notes=(*answers.notes, said)) if left_out else answers])


def _shared(scores: Sequence[Scores]) -> tuple[list[Scores], int]:
    """Scores of the questions that every method was asked, and how many others there are."""
    asked: dict[tuple[str, str], set[str]] = {}
    for one in scores:
        asked.setdefault((one.conversation, one.question), set()).add(one.method)
    methods = {one.method for one in scores}
    kept = [one for one in scores if asked[one.conversation, one.question] == methods]
    return kept, len(scores) - len(kept)


def mean_of(scores: Sequence[Scores], value: Value, seed: int) -> Estimate | None:
    """Mean over questions with a 95 % interval over conversations, or over questions of too few conversations."""
    many = len({one.conversation for one in scores}) >= FEWEST_CONVERSATIONS
    groups: dict[str, list[float]] = {}
    for one in scores:
        found = value(one)
        if found is not None:
            groups.setdefault(one.conversation if many else f"{one.conversation}/{one.question}", []).append(found)
    return estimate(groups, seed=seed)


def _recall(by_method: Mapping[str, Sequence[Scores]], seed: int) -> Table:
    rows = []
    for name, own in by_method.items():
        found = [mean_of(own, _recall_value(k), seed) for k in AT]
        if any(found):
            rows.append((name, str(found[0].count if found[0] else 0), *(interval(one) for one in found)))
    notes = (
        "Share of a question's gold turns among the first k turns of the ranking, mean over answerable questions with "
        f"gold turns, in %. {_of_intervals(by_method)}",
    )
    return Table("Recall of gold turns", ("method", "questions", *(f"@{k}" for k in AT)), tuple(rows), notes)


def _by_kind(by_method: Mapping[str, Sequence[Scores]], seed: int) -> Table:
    kinds = {one.kind: None for own in by_method.values() for one in own if one.gold_ranks}
    rows = []
    for name, own in by_method.items():
        found = [mean_of([one for one in own if one.kind == kind], _recall_value(10), seed) for kind in kinds]
        if any(found):
            rows.append((name, *(f"{interval(one)} ({one.count})" if one else NOTHING for one in found)))
    return Table("Recall of gold turns @10, by kind of question", ("method", *kinds), tuple(rows))


def _answers(
    by_method: Mapping[str, Sequence[Scores]],
    judged: Mapping[tuple[str, str, str], bool],
    seed: int,
    *,
    has_gold: bool,
) -> Table:
    judge = ("judged right",) if judged else ()
    rows = []
    for name, own in by_method.items():
        verdicts = [judged.get((one.method, one.conversation, one.question)) for one in own]
        right = {id(one): verdict for one, verdict in zip(own, verdicts, strict=True)}
        said = (interval(mean_of(own, lambda one: _share(right[id(one)]), seed)),) if judged else ()  # noqa: B023
        silent = [
            percent(_mean([one.abstained for one in own if one.answerable == answerable and one.kind != IDLE_KIND]))
            for answerable in (True, False)
        ]
        idle = percent(_mean([one.abstained for one in own if one.kind == IDLE_KIND]))
        cost = [f"{_mean([one.tokens for one in own]) or 0:.0f}", f"{_mean([one.seconds for one in own]) or 0:.2f}"]
        told = {one.conversation: 0.0 for one in own}
        for one in own:  # a run that was killed finds most of it derived
            told[one.conversation] = max(told[one.conversation], one.remember_seconds)
        f1 = interval(mean_of(own, lambda one: one.f1, seed))
        rows.append((name, f1, *said, *silent, idle, *cost, f"{_mean(list(told.values())) or 0:.0f}"))
    header = (
        *("method", "token F1", *judge, "abstains: answerable", "unanswerable", "idle"),
        *("tokens shown", "seconds a question", "seconds to tell"),
    )
    notes = [
        "Abstains: gave nothing at all or, where answers were asked for, said that it does not know; in % of the "
        "questions that can be answered, that cannot, and of messages that ask nothing of a memory (`--idle`). "
        "Tokens shown: of what a reader is given, by the run's model; what answers by itself shows none.",
    ]
    if not has_gold:
        notes.append("This benchmark names no gold turns: no recall is reported.")
    return Table("Answers, abstention, cost", header, tuple(rows), tuple(notes))


def _recall_value(k: int) -> Value:
    return lambda one: recall_at(one.gold_ranks, k) if one.gold_ranks else None


def _share(verdict: bool | None) -> float | None:
    return None if verdict is None else float(verdict)


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _of_intervals(by_method: Mapping[str, Sequence[Scores]]) -> str:
    count = len({one.conversation for own in by_method.values() for one in own})
    over = "conversations" if count >= FEWEST_CONVERSATIONS else f"questions ({count} conversations: too few)"
    return f"In brackets: 95 % bootstrap intervals over {over}."
