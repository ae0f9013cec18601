"""Which tokens may come next: grammars and the shortest answer, applied to the fused scores.

Legend: N running queries, V vocabulary.

Masks act on S_t, after the fusion: a mask on one stream would leave the other free to bring a
forbidden token back, and would change JS and λ_t. The trace therefore shows the streams unmasked.
"""

from collections import OrderedDict

import torch
from llguidance import LLMatcher, LLTokenizer
from torch import Tensor

from plume_memory.errors import InvalidInput, ModelError
from plume_memory.forks import Lock
from plume_memory.model.base import BaseModel
from plume_memory.model.grammar import Grammar

KEPT = 32
"""Compiled grammars kept per vocabulary."""


class Vocabulary:
    """A model's vocabulary as llguidance reads it, with the grammars compiled for it. Safe to share."""

    def __init__(self, base: BaseModel) -> None:
        """Remember the model; nothing is built before the first grammar (that takes up to a second)."""
        self._base = base
        self._lock = Lock()
        self._tokens: LLTokenizer | None = None
        self._compiled: OrderedDict[Grammar, LLMatcher] = OrderedDict()

    def matcher(self, grammar: Grammar) -> LLMatcher:
        """Return a matcher at the grammar's start, the caller's own.

        Raises:
            InvalidInput: the grammar is too large, or refers to a token the vocabulary lacks.
            ModelError: the tokenizer is not one of the `tokenizers` library.
        """
        with self._lock:
            if grammar not in self._compiled:
                self._compiled[grammar] = self._compile(grammar)
                while len(self._compiled) > KEPT:
                    self._compiled.popitem(last=False)
            self._compiled.move_to_end(grammar)
            return self._compiled[grammar].deep_copy()

    def _compile(self, grammar: Grammar) -> LLMatcher:
        from llguidance.hf import from_tokenizer  # noqa: PLC0415 — imports transformers, which is loaded by now

        if self._tokens is None:
            stops = sorted(self._base.stop_ids)
            width = int(self._base.config.vocab_size)  # logits may be wider than the tokenizer: padded
            try:
                self._tokens = from_tokenizer(self._base.tokenizer, n_vocab=width, eos_token=stops)
            except ValueError as err:
                raise ModelError(f"The tokenizer of {self._base.name!r} cannot follow a grammar: {err}") from err
        matcher = LLMatcher(self._tokens, grammar.source)
        if matcher.is_error():
            raise InvalidInput(f"The grammar cannot be compiled for {self._base.name!r}: {matcher.get_error()}")
        return matcher


class TokenMask:
    """What one query may say next."""

    def __init__(self, stop_ids: frozenset[int], min_new_tokens: int, matcher: LLMatcher | None) -> None:
        """Start before the first token.

        Args:
            stop_ids: ids that end an answer; allowed only where the grammar accepts.
            min_new_tokens: they are forbidden before this many tokens, unless nothing else is allowed.
            matcher: the query's own; None without a grammar.
        """
        self._stop_ids = stop_ids
        self._min = min_new_tokens
        self._matcher = matcher
        self._made = 0

    def allowed(self, width: int) -> Tensor | None:
        """Which tokens may come next, bool [V]; None where all may. To be asked once for each token.

        Raises:
            InvalidInput: the grammar has become too complex to follow.
        """
        self._made += 1
        early = self._made <= self._min
        if self._matcher is None and not early:
            return None
        accepts = True
        row = torch.ones(width, dtype=torch.bool)
        if self._matcher is not None:
            row = _next_tokens(self._matcher, width)
            accepts = self._matcher.is_accepting()
        stops = torch.tensor([i for i in sorted(self._stop_ids) if i < width])
        row[stops] = False
        row[stops] = bool(accepts and not (early and row.any()))
        return row

    def take(self, token: int) -> bool:
        """Advance by a token; returns whether nothing can follow it."""
        if self._matcher is None or token in self._stop_ids:
            return False
        self._matcher.consume_token(token)
        return bool(self._matcher.is_stopped()) and not self._matcher.is_error()


def _next_tokens(matcher: LLMatcher, width: int) -> Tensor:
    """One bit per token, unpacked: bool [V]. Plain torch: the kernel that ships needs a compiler."""
    packed = torch.frombuffer(bytearray(matcher.compute_bitmask()), dtype=torch.int32)
    if matcher.is_error():
        raise InvalidInput(f"The grammar can be followed no further: {matcher.get_error()}. Make it simpler.")
    bits = (packed[:, None] >> torch.arange(32, dtype=torch.int32)) & 1
    return bits.flatten()[:width].bool()
