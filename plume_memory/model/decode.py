"""Fused decoding: two rows per query in one batch, both fed the same chosen token.

N queries are at most 2N rows. Greedy: y_t = argmax S_t (model/fusion.py), over the tokens that a
grammar allows where there is one (model/masks.py). No lock and no torch
context is held while the caller looks at a step, so an abandoned stream blocks nobody and an update
meanwhile neither waits for a decode nor changes it. It knows nothing of memories or versions.
"""

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch

from plume_memory.errors import InvalidInput, PromptTooLong
from plume_memory.model.base import BaseModel
from plume_memory.model.copying import Copying
from plume_memory.model.fusion import Fused, fuse, pooled_log_probs
from plume_memory.model.grammar import Grammar
from plume_memory.model.masks import TokenMasks, Vocabulary
from plume_memory.model.repetition import repeated
from plume_memory.model.run_on import RunOn
from plume_memory.model.streams import FixedRows, GrowingRows, Prefilled, Row, Rows, prefill
from plume_memory.model.text import TextAssembler
from plume_memory.records import Candidate, TokenTrace, Usage
from plume_memory.terms import terms_of

FinishReason = Literal["stop", "length"]
"""`stop`: the model or a stop ended the answer, or it ran on (run_on.py). `length`: its budget did, or it went round in
a circle (repetition.py)."""


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """One question: the global stream and, where there is evidence, the evidence stream."""

    global_row: Row
    evidence_row: Row | None = None
    """Without it the answer is the global stream's alone (λ = 0)."""
    sources: tuple[str, ...] | None = None
    """The question and the evidence: a value of theirs, once begun, is copied as it stands (copying.py), and the answer
    ends where it runs on without their words (run_on.py). None: neither. Nor where a grammar says what may follow;
    and with more `min_new_tokens` than one no answer is ended."""

    @property
    def tokens(self) -> int:
        """Cached tokens of the longer stream after the prefill."""
        return max(self.global_row.tokens, self.evidence_row.tokens if self.evidence_row else 0)


@dataclass(frozen=True, slots=True)
class DecodeSettings:
    """How a batch is decoded; the same for all its queries."""

    max_new_tokens: int = 256
    lambda_max: float = 1.0
    tau: float = 0.3
    stop: tuple[str, ...] = ()
    """The answer ends before the first of these texts."""
    stop_ids: frozenset[int] = frozenset()
    """The answer ends at one of these ids, beside the model's own."""
    top_candidates: int = 0
    """Keep this many candidates of both streams per token in the trace."""
    min_new_tokens: int = 0
    """No stop id ends an answer before this many tokens; a stop text or a complete grammar does."""
    stop_loops: bool = True
    """End an answer that says the same over and over; False where the whole budget is to be seen, as in `eval`."""
    grammar: Grammar | None = None
    """What an answer may look like. One that the budget cuts short finishes with "length"; none is cut as a loop."""

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "min_new_tokens", "top_candidates"):
            if type(getattr(self, name)) is not int:
                raise InvalidInput(f"{name} must be a whole number, got {getattr(self, name)!r}.")
        if self.max_new_tokens < 1:
            raise InvalidInput(f"max_new_tokens must be at least 1, got {self.max_new_tokens}.")
        if not 0 <= self.min_new_tokens <= self.max_new_tokens:
            raise InvalidInput(
                f"min_new_tokens must be between 0 and max_new_tokens ({self.max_new_tokens}), got "
                f"{self.min_new_tokens}."
            )
        if self.top_candidates < 0:
            raise InvalidInput(f"top_candidates must be at least 0, got {self.top_candidates}.")
        if any(not text for text in self.stop):
            raise InvalidInput("A stop string must not be empty.")


@dataclass(frozen=True, slots=True)
class Step:
    """One token of one query."""

    query: int
    """Index of the query in the batch."""
    text: str
    """Text that is now certain; empty while it is held back (half a character, a possible stop string)."""
    trace: TokenTrace
    finish_reason: FinishReason | None = None
    """Set on the last step of a query."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A finished answer."""

    text: str
    finish_reason: FinishReason
    usage: Usage
    trace: tuple[TokenTrace, ...]


@dataclass(frozen=True, slots=True)
class _Saying:
    """The text of one answer as it grows: what of it is certain, and whether it runs on."""

    text: TextAssembler
    run_on: RunOn | None
    copying: Copying | None

    @classmethod
    def of(cls, query: Query, tokenizer: Any, settings: DecodeSettings) -> "_Saying":
        text = TextAssembler(tokenizer, settings.stop)
        if query.sources is None or settings.grammar is not None:
            return cls(text, None, None)
        words = frozenset(term for source in query.sources for term in terms_of(source))
        ends = settings.stop_loops and settings.min_new_tokens <= 1
        return cls(text, RunOn(words) if ends else None, Copying(query.sources))

    def add(self, token: int, *, complete: bool, last: bool) -> tuple[str, FinishReason | None]:
        """Take a token; return what may be given now, and why the answer ends with it, if it does."""
        piece = self.text.add(token)
        if self.text.stopped or complete or last:
            rest = "" if self.text.stopped else self.text.finish()
            return self._given(piece + rest, whole=True), "stop" if self.text.stopped or complete else "length"
        given = self._given(piece, whole=False)
        return given, "stop" if self.run_on is not None and self.run_on.ended else None

    def end(self) -> tuple[str, FinishReason]:
        """The model ended the answer: return what was held back."""
        return self._given(self.text.finish(), whole=True), "stop"

    def _given(self, piece: str, *, whole: bool) -> str:
        if self.run_on is None:
            return piece
        given = self.run_on.add(piece)
        return given + self.run_on.finish() if whole else given


class _Host(NamedTuple):
    """One fused step on the CPU, by position among the running queries."""

    tokens: list[int]
    log_probs: list[float]
    js: list[float]
    weight: list[float]
    global_top: list[list[tuple[int, float]]]
    evidence_top: list[list[tuple[int, float]]]


class _Shape(NamedTuple):
    """What buffers of fixed shape were made for."""

    rows: int
    slots: int
    rank: int
    places: frozenset[tuple[int, str]]


_Copied = Callable[[int, int, Callable[[], list[int]]], int]
"""(place among the running queries, likeliest token, gives the likeliest few) -> the token that is taken."""


def _as_scored(at: int, token: int, ranked: Callable[[], list[int]]) -> int:
    return token


BATCH = 16
"""Queries decoded at once where nothing else is said."""

LIKELIEST = 1024
"""Tokens among which one is looked for that goes on with a value the answer has begun."""

IDLE_SHAPES = 4
"""Buffers (and their captured graphs) kept for the next decode of their shape."""


class FusedDecoder:
    """Decodes batches of queries on one base model; safe to use from many threads."""

    def __init__(self, base: BaseModel, *, fixed_shapes: bool | None = None) -> None:
        """Take a model.

        Args:
            base: shared by all streams; one forward pass runs at a time.
            fixed_shapes: decode with buffers of fixed shape (on CUDA with captured graphs); on CUDA
                by default.
        """
        self._base = base
        self._fixed = base.device.type == "cuda" if fixed_shapes is None else fixed_shapes
        self._idle: OrderedDict[_Shape, FixedRows] = OrderedDict()
        self._vocabulary = Vocabulary(base)

    def decode(self, queries: Sequence[Query], settings: DecodeSettings, *, batch: int = BATCH) -> list[Decoded]:
        """Decode any number of queries to their ends, in batches of like length; the answers in the order given.

        In float32 they are those of one query at a time. In bfloat16 a batch adds up in another order, so that two
        candidates within its rounding may change places. See `stream` for the errors.

        Args:
            queries: any number.
            settings: the same for all.
            batch: most queries decoded at once: every row holds a copy of its adapter.
        """
        order = sorted(range(len(queries)), key=lambda i: queries[i].tokens)  # little padding
        answers: dict[int, Decoded] = {}
        for at in range(0, len(order), batch):
            members = order[at : at + batch]
            steps: list[list[Step]] = [[] for _ in members]
            for step in self.stream([queries[i] for i in members], settings):
                steps[step.query].append(step)
            answers.update((i, collect(queries[i], own)) for i, own in zip(members, steps, strict=True))
        return [answers[i] for i in range(len(queries))]

    def stream(self, queries: Sequence[Query], settings: DecodeSettings) -> Generator[Step, None, None]:
        """Decode a batch token by token; steps of different queries are interleaved.

        Raises:
            PromptTooLong: a prompt leaves no room for an answer in the model's context window.
            FactorsError: an adapter does not fit the model.
            InvalidInput: an empty prompt, or a grammar that this model's vocabulary cannot follow.
        """
        if not queries:
            return
        rows, pairs = _rows_of(queries)
        room = self._room(rows, settings)
        running = {i: _Saying.of(query, self._base.tokenizer, settings) for i, query in enumerate(queries)}
        said: list[list[int]] = [[] for _ in queries]
        budgets = {i: min(settings.max_new_tokens, room[g], room[e]) for i, (g, e) in enumerate(pairs)}
        masks = self._masks(settings, len(queries))
        made = 0
        batch: Rows | None = None
        shape: _Shape | None = None
        try:
            with self._base.lock, torch.inference_mode():
                filled = prefill(self._base, rows, rank=_padded_rank(rows) if self._fixed else None)
                fused, batch, shape = self._start(filled, settings, pairs, max(budgets.values()), masks)
            while True:
                made += 1
                finished = set()
                for at, i in enumerate(running):
                    complete = masks.take(i, fused.tokens[at])
                    said[i].append(fused.tokens[at])
                    last = made >= budgets[i] or _is_loop(said[i], settings)
                    step = self._emit(i, at, fused, running[i], settings, complete, last)
                    if step.finish_reason:
                        finished.add(i)
                    yield step
                tokens = dict(zip(running, fused.tokens, strict=True))
                running = {i: text for i, text in running.items() if i not in finished}
                if not running:
                    return
                with self._base.lock, torch.inference_mode():
                    batch.drop({row for i in finished for row in pairs[i]})
                    fused = self._step(batch, pairs, tokens, running, settings, masks)
        finally:
            if shape is not None and isinstance(batch, FixedRows):
                self._idle[shape] = batch
                while len(self._idle) > IDLE_SHAPES:
                    self._idle.popitem(last=False)

    def _masks(self, settings: DecodeSettings, queries: int) -> TokenMasks:
        grammar = settings.grammar
        matchers = [self._vocabulary.matcher(grammar) for _ in range(queries)] if grammar else []
        return TokenMasks(self._base.stop_ids | settings.stop_ids, settings.min_new_tokens, matchers)

    def _room(self, rows: list[Row], settings: DecodeSettings) -> list[int]:
        window = self._base.context_window
        room = [window - row.tokens for row in rows]
        if min(room) < 1:
            longest = max(row.tokens for row in rows)
            raise PromptTooLong(
                f"The prompt has {longest} tokens and {self._base.name!r} reads at most {window}, the answer "
                f"included (asked for up to {settings.max_new_tokens}). Shorten the question."
            )
        return room

    def _start(
        self,
        filled: Prefilled,
        settings: DecodeSettings,
        pairs: list[tuple[int, int]],
        new_tokens: int,
        masks: TokenMasks,
    ) -> tuple[_Host, Rows, _Shape | None]:
        fused = _to_host(_fuse_pairs(filled.logits, pairs, settings), settings, masks, range(len(pairs)))
        if not self._fixed:
            return fused, GrowingRows(self._base, filled), None
        slots = -(-(filled.mask.shape[1] + new_tokens) // 128) * 128  # few shapes, so few graphs
        shape = _Shape(len(filled.logits), slots, *_adapter_shape(filled))
        batch = self._idle.pop(shape, None) or FixedRows(self._base, len(filled.logits), slots, filled.adapters)
        batch.load(filled)
        return fused, batch, shape

    def _step(
        self,
        batch: Rows,
        pairs: list[tuple[int, int]],
        tokens: dict[int, int],
        running: dict[int, _Saying],
        settings: DecodeSettings,
        masks: TokenMasks,
    ) -> _Host:
        """One token further for all present rows; both rows of a query get the same token."""
        owner = {row: i for i, pair in enumerate(pairs) for row in pair}
        logits = batch.step([tokens.get(owner[row], 0) for row in batch.present])
        at = {row: position for position, row in enumerate(batch.present)}
        fused = _fuse_pairs(logits, [(at[pairs[i][0]], at[pairs[i][1]]) for i in running], settings)
        return _to_host(fused, settings, masks, list(running), self._copied(running))

    def _copied(self, running: Mapping[int, _Saying]) -> "_Copied":
        """How each running query's token is chosen where it copies a value."""

        def text_of(token: int) -> str:
            return "" if token in self._base.stop_ids else str(self._base.tokenizer.decode([token]))

        def copied(at: int, token: int, ranked: Callable[[], list[int]]) -> int:
            saying = sayings[at]
            if saying.copying is None:
                return token
            return saying.copying.choose(saying.text.decoded, token, ranked, text_of)

        sayings = list(running.values())
        return copied

    def _emit(
        self,
        query: int,
        at: int,
        fused: _Host,
        saying: "_Saying",
        settings: DecodeSettings,
        complete: bool,
        last: bool,
    ) -> Step:
        token = fused.tokens[at]
        ends = token in self._base.stop_ids or token in settings.stop_ids
        piece, reason = saying.end() if ends else saying.add(token, complete=complete, last=last)
        tokenizer = self._base.tokenizer
        trace = TokenTrace(
            token_id=token,
            text=tokenizer.decode([token]),
            js=fused.js[at],
            weight=fused.weight[at],
            log_prob=fused.log_probs[at],
            global_top=_candidates(fused.global_top[at], tokenizer),
            evidence_top=_candidates(fused.evidence_top[at], tokenizer),
        )
        return Step(query, piece, trace, reason)


def _is_loop(said: Sequence[int], settings: DecodeSettings) -> bool:
    """Whether an answer would go on as it does to the end of its budget; a grammar says itself what may repeat."""
    return (
        settings.stop_loops and settings.grammar is None and len(said) >= settings.min_new_tokens and repeated(said) > 0
    )


def _rows_of(queries: Sequence[Query]) -> tuple[list[Row], list[tuple[int, int]]]:
    """All rows of a batch, and for each query its (global, evidence) rows; the same row twice without evidence."""
    rows: list[Row] = []
    pairs = []
    for query in queries:
        if not query.global_row.prompt_ids:
            raise InvalidInput("A prompt needs at least one token.")
        rows.append(query.global_row)
        if query.evidence_row is not None:
            rows.append(query.evidence_row)
        pairs.append((len(rows) - (2 if query.evidence_row else 1), len(rows) - 1))
    return rows, pairs


def _padded_rank(rows: list[Row]) -> int | None:
    """Round the widest rank up to a multiple of 16: few shapes, so few graphs."""
    widest = max((row.factors.rank for row in rows if row.factors is not None), default=0)
    return -(-widest // 16) * 16 or None


def _fuse_pairs(logits: torch.Tensor, pairs: list[tuple[int, int]], settings: DecodeSettings) -> Fused:
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    if first == second:  # no query has evidence: what fuse() would give, without computing it twice
        log_probs = torch.log_softmax(logits[first].float(), dim=-1)
        nothing = log_probs.new_zeros(len(pairs))
        return Fused(log_probs, nothing, nothing, log_probs, log_probs)
    return fuse(logits[first], logits[second], lambda_max=settings.lambda_max, tau=settings.tau)


def _adapter_shape(filled: Prefilled) -> tuple[int, frozenset[tuple[int, str]]]:
    """Rank and adapted places: buffers of other places would add what an earlier batch left in them."""
    return (filled.adapters.rank, frozenset(filled.adapters.modules)) if filled.adapters else (0, frozenset())


def _to_host(
    fused: Fused, settings: DecodeSettings, masks: TokenMasks, running: Sequence[int], copied: _Copied = _as_scored
) -> _Host:
    """Choose a token per running query, under the masks, and bring the trace to the CPU.

    Under the lock: no later read waits on the device.
    """
    pooled = pooled_log_probs(fused)
    scores = masks.apply(fused.scores, running)
    tokens = [copied(at, token, partial(_likeliest, scores[at])) for at, token in enumerate(scores.argmax(-1).tolist())]
    chosen = torch.tensor(tokens, device=pooled.device)[:, None]
    return _Host(
        tokens=tokens,
        log_probs=pooled.gather(-1, chosen)[:, 0].tolist(),
        js=fused.js.tolist(),
        weight=fused.weight.tolist(),
        global_top=_top(fused.global_log_probs, settings.top_candidates),
        evidence_top=_top(fused.evidence_log_probs, settings.top_candidates),
    )


def _likeliest(scores: torch.Tensor) -> list[int]:
    """The best tokens that are allowed, best first; scores [V]."""
    best = scores.topk(min(LIKELIEST, len(scores)))
    return [int(i) for i in best.indices[best.values > float("-inf")]]


def _top(log_probs: torch.Tensor, count: int) -> list[list[tuple[int, float]]]:
    """The best tokens of each query with their log-probabilities."""
    if count == 0:
        return [[] for _ in log_probs]
    best = log_probs.topk(min(count, log_probs.shape[-1]))
    ids, values = best.indices.tolist(), best.values.tolist()
    return [list(zip(*pair, strict=True)) for pair in zip(ids, values, strict=True)]


def _candidates(top: list[tuple[int, float]], tokenizer: Any) -> tuple[Candidate, ...]:
    return tuple(Candidate(token, tokenizer.decode([token]), log_prob) for token, log_prob in top)


def collect(query: Query, steps: Sequence[Step]) -> Decoded:
    """Put the steps of one query together."""
    reason = steps[-1].finish_reason
    assert reason is not None, "a stream ends with a finish reason"
    usage = Usage(prompt_tokens=len(query.global_row.prompt_ids), completion_tokens=len(steps))
    return Decoded("".join(s.text for s in steps), reason, usage, tuple(s.trace for s in steps))
