"""Queries that are decoded now: they come and go at any step, each with settings of its own.

Greedy: y_t = argmax S_t (model/fusion.py), over the tokens that a grammar allows where there is one (model/masks.py).
A query's tokens do not depend on who is decoded beside it, in float32 exactly; in bfloat16 a batch adds up in another
order, so that two candidates within its rounding may change places.

Legend: N queries, V vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from plume_memory.errors import InvalidInput, PlumeError, PromptTooLong
from plume_memory.model.base import BaseModel
from plume_memory.model.fusion import Fused, fuse, pooled_log_probs
from plume_memory.model.masks import TokenMask, Vocabulary
from plume_memory.model.queries import DecodeSettings, Query, Step
from plume_memory.model.repetition import repeated
from plume_memory.model.saying import Saying
from plume_memory.model.streams import RunningRows
from plume_memory.model.weights import has_fixed_turns
from plume_memory.records import Candidate, TokenTrace

GUESSED = 8
"""Most tokens of a pass with guesses, those of all its rows: as many cost little more than one a row, and no more are
multiplied by eight-bit weights as they are (`linear.INT8_ROWS`)."""

LIKELIEST = 1024
"""Tokens among which one is looked for that goes on with a value the answer has begun."""


@dataclass(slots=True, eq=False)
class _Running:
    """One query, between two of its tokens."""

    number: int
    settings: DecodeSettings
    budget: int
    saying: Saying
    mask: TokenMask
    rows: tuple[int, ...] = ()
    """Numbers of its rows; the last one is the evidence stream, if there is one."""
    said: list[int] = field(default_factory=list)

    def is_last(self) -> bool:
        """Whether the budget is spent, or the answer would go on to its end as it does."""
        if len(self.said) >= self.budget:
            return True
        settings = self.settings  # a grammar says itself what may repeat
        may_loop = not settings.stop_loops or settings.grammar is not None or len(self.said) < settings.min_new_tokens
        return not may_loop and repeated(self.said) > 0


class RunningQueries:
    """A batch that is decoded step by step. For one thread at a time, which holds the model's lock.

    Args:
        base: the model.
        vocabulary: its own, for grammars.
        fixed: see `RunningRows`.
    """

    def __init__(self, base: BaseModel, vocabulary: Vocabulary, *, fixed: bool) -> None:
        self._base = base
        self._vocabulary = vocabulary
        self._rows = RunningRows(base, fixed=fixed)
        # where frequencies depend on the longest position of a pass, a guess would change what is said
        self._guesses = not fixed and has_fixed_turns(base.config)
        self._running: dict[int, _Running] = {}
        self.failed: dict[int, PlumeError] = {}
        """Queries that ended with an error of their own, until somebody takes it."""

    def __len__(self) -> int:
        return len(self._running)

    @property
    def numbers(self) -> set[int]:
        """Of the queries that are decoded."""
        return set(self._running)

    @property
    def rows(self) -> int:
        """Rows of the queries that are decoded."""
        return len(self._rows.present)

    def check(self, query: Query, settings: DecodeSettings) -> int:
        """Return how many tokens a query may be answered with.

        Raises:
            PromptTooLong: a prompt leaves no room for an answer in the model's context window.
            InvalidInput: an empty prompt.
        """
        if not query.global_row.prompt_ids:
            raise InvalidInput("A prompt needs at least one token.")
        room = self._base.context_window - query.tokens
        if room < 1:
            raise PromptTooLong(
                f"The prompt has {query.tokens} tokens and {self._base.name!r} reads at most "
                f"{self._base.context_window}, the answer included (asked for up to {settings.max_new_tokens}). "
                "Shorten the question."
            )
        return min(settings.max_new_tokens, room)

    def admit(self, queries: Mapping[int, tuple[Query, DecodeSettings]]) -> list[Step]:
        """Read the prompts of new queries in one pass; returns the first step of each.

        Args:
            queries: by a number that none of the running ones has.

        Raises:
            PromptTooLong, InvalidInput: see `check`; InvalidInput too: a grammar this vocabulary cannot follow.
            FactorsError: an adapter does not fit the model.
        """
        new = [self._begun(number, *asked) for number, asked in queries.items()]
        streams = [query.rows for query, _ in queries.values()]
        numbers, logits = self._rows.admit([row for rows in streams for row in rows])
        at = 0
        for one, rows in zip(new, streams, strict=True):
            one.rows = tuple(numbers[at : at + len(rows)])
            at += len(rows)
        self._running.update({one.number: one for one in new})
        places = {number: place for place, number in enumerate(numbers)}
        return self._steps(new, logits, places)

    def advance(self) -> list[Step]:
        """At least one token further for every query; both rows of one get the same tokens."""
        running = list(self._running.values())
        drafts = self._drafts(running)
        places = {number: place for place, number in enumerate(self._rows.present)}
        if not any(drafts.values()):
            logits = self._rows.step({number: one.said[-1] for one in running for number in one.rows})
            return self._steps(running, logits, places)
        read = {number: [one.said[-1], *drafts[one.number]] for one in running for number in one.rows}
        logits = self._rows.ahead(read)
        steps: list[Step] = []
        guessed, at = running, 0
        while guessed:
            self._rows.took({row for one in guessed for row in one.rows})
            steps += self._steps(guessed, logits[:, at], places)
            still = (one for one in guessed if one.number in self._running)
            guessed = [one for one in still if drafts[one.number][at : at + 1] == one.said[-1:]]
            at += 1
        return steps

    def _drafts(self, running: list[_Running]) -> dict[int, list[int]]:
        """By query, the tokens that it may say behind its next one, as many as the pass has room for."""
        most = GUESSED // self.rows - 1 if self._guesses else 0
        found: dict[int, list[int]] = {}
        for one in running:
            drafts, room = one.saying.drafts, min(most, one.budget - len(one.said) - 1)
            found[one.number] = drafts.after(one.said, room) if drafts and room > 0 else []
        return found

    def leave(self, number: int) -> None:
        """A query that is not to go on; nothing where it has ended."""
        one = self._running.pop(number, None)
        if one is not None:
            self._rows.leave(one.rows)

    def _begun(self, number: int, query: Query, settings: DecodeSettings) -> _Running:
        budget = self.check(query, settings)
        matcher = self._vocabulary.matcher(settings.grammar) if settings.grammar else None
        mask = TokenMask(self._base.stop_ids | settings.stop_ids, settings.min_new_tokens, matcher)
        return _Running(number, settings, budget, Saying.of(query, self._base.tokenizer, settings), mask)

    def _steps(self, running: list[_Running], logits: Tensor, places: Mapping[int, int]) -> list[Step]:
        """Choose the next token of each query by the logits of its rows."""
        fused = self._fused(running, logits, places)
        masked = fused.scores
        for at, one in enumerate(running):
            try:
                allowed = one.mask.allowed(masked.shape[-1])
            except PlumeError as err:  # a grammar that can be followed no further is its own query's affair
                self.failed[one.number] = err
                continue
            if allowed is not None:
                masked = masked.clone() if masked is fused.scores else masked
                masked[at].masked_fill_(~allowed.to(masked.device), float("-inf"))
        tokens = [self._copied(one, token, masked[at]) for at, (one, token) in enumerate(_best(running, masked))]
        traces = _traces(fused, tokens, [one.settings.top_candidates for one in running], self._base.tokenizer)
        steps = []
        for one, trace in zip(running, traces, strict=True):
            if one.number in self.failed:
                continue
            complete = one.mask.take(trace.token_id)
            one.said.append(trace.token_id)
            ends = trace.token_id in self._base.stop_ids or trace.token_id in one.settings.stop_ids
            last = one.is_last()
            piece, reason = one.saying.end() if ends else one.saying.add(trace.token_id, complete=complete, last=last)
            steps.append(Step(one.number, piece, trace, reason))
        for number in [*(step.query for step in steps if step.finish_reason), *self.failed]:
            self.leave(number)
        return steps

    def _fused(self, running: list[_Running], logits: Tensor, places: Mapping[int, int]) -> Fused:
        first, second = ([places[one.rows[side]] for one in running] for side in (0, -1))
        if first == second:  # no query has evidence: what fuse() would give, without computing it twice
            log_probs = torch.log_softmax(logits[first].float(), dim=-1)
            nothing = log_probs.new_zeros(len(running))
            return Fused(log_probs, nothing, nothing, log_probs, log_probs)
        lambda_max, tau = (
            torch.tensor([getattr(one.settings, name) for one in running], device=logits.device)
            for name in ("lambda_max", "tau")
        )
        return fuse(logits[first], logits[second], lambda_max=lambda_max, tau=tau)

    def _copied(self, one: _Running, token: int, scores: Tensor) -> int:
        """The likeliest token, or the one that goes on with a value the answer has begun."""
        if one.saying.copying is None:
            return token

        def text_of(token: int) -> str:
            return "" if token in self._base.stop_ids else str(self._base.tokenizer.decode([token]))

        return one.saying.copying.choose(one.saying.text.decoded, token, partial(_likeliest, scores), text_of)


def _best(running: list[_Running], scores: Tensor) -> list[tuple[_Running, int]]:
    return list(zip(running, scores.argmax(-1).tolist(), strict=True))


def _likeliest(scores: Tensor) -> list[int]:
    """The best tokens that are allowed, best first; scores [V]."""
    best = scores.topk(min(LIKELIEST, len(scores)))
    return [int(i) for i in best.indices[best.values > float("-inf")]]


def _traces(fused: Fused, tokens: list[int], tops: list[int], tokenizer: Any) -> list[TokenTrace]:
    """What each query's token was made of, on the CPU: no later read waits on the device."""
    chosen = torch.tensor(tokens, device=fused.scores.device)[:, None]
    pooled = pooled_log_probs(fused)
    log_probs = pooled.gather(-1, chosen)[:, 0].tolist()
    js, weights = fused.js.tolist(), fused.weight.tolist()
    return [
        TokenTrace(
            token_id=token,
            text=tokenizer.decode([token]),
            js=js[at],
            weight=weights[at],
            log_prob=log_probs[at],
            global_top=_candidates(fused.global_log_probs[at], tops[at], tokenizer),
            evidence_top=_candidates(fused.evidence_log_probs[at], tops[at], tokenizer),
            top=_candidates(pooled[at], tops[at], tokenizer),
        )
        for at, token in enumerate(tokens)
    ]


def _candidates(log_probs: Tensor, count: int, tokenizer: Any) -> tuple[Candidate, ...]:
    """The best tokens of one distribution [V] with their log-probabilities."""
    if count == 0:
        return ()
    best = log_probs.topk(min(count, len(log_probs)))
    pairs = zip(best.indices.tolist(), best.values.tolist(), strict=True)
    return tuple(Candidate(token, tokenizer.decode([token]), log_prob) for token, log_prob in pairs)
