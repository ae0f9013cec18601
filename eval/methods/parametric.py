"""Methods whose memory is an adapter a hypernetwork wrote: D2L, its oracle, PLUME and its ablations.

All share one engine, so model, network and cache are the same for every row of a table. PLUME here takes the
steps of the library itself (answering/answer.py) and gives the same answers (a test compares them).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any, Literal

from eval.methods.decoding import Answerer, replies, reply
from eval.methods.protocol import Prepared, Reply
from eval.records import MuseQuestion, MuseTransition
from plume_memory.answering.answer import PreparedQuestion, decode_all, evidence_of, prepare
from plume_memory.answering.embedded import Embedded
from plume_memory.answering.grounding import source_of
from plume_memory.answering.replaced import Replaced
from plume_memory.encoding import Cache
from plume_memory.engine import Engine
from plume_memory.errors import InvalidInput
from plume_memory.lora.algebra import compose_global, frobenius_norm, scaled, weighted_sum
from plume_memory.lora.factors import LoraFactors
from plume_memory.model.queries import Decoded, Query
from plume_memory.model.streams import Row
from plume_memory.records import History, ScoredUnit, Transition, join_transitions, join_units
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.supersede import Retired
from plume_memory.segmentation.told import told_of

Streams = Literal["fused", "memory only", "global only"]
GlobalForm = Literal["difference", "scaled full", "whole texts"]
Evidence = Literal["routed", "gold"]


@dataclass(frozen=True, slots=True)
class D2L:
    """H(C_full) alone: one pass over the whole history, one adapter, one stream."""

    engine: Engine
    cache: Cache
    answerer: Answerer

    @property
    def settings(self) -> Mapping[str, Any]:
        """The network; it has no others."""
        return {"parameterizer": _network(self.engine)}

    def prepare(self, transition: MuseTransition) -> Prepared:
        """Write C_full as one text."""
        return _Plain(self.engine, self.answerer, _with_bias(self.engine, transition.full, self.cache))


@dataclass(frozen=True, slots=True)
class _Plain:
    """One adapter for all questions."""

    engine: Engine
    answerer: Answerer
    factors: LoraFactors | None

    def answer(self, questions: Sequence[MuseQuestion]) -> list[Reply]:
        """One row per question."""
        return replies(self.answerer.answer([Query(_row(self.engine, q.question, self.factors)) for q in questions]))


@dataclass(frozen=True, slots=True)
class D2LOracle:
    """H of the gold evidence: what the network makes of the right sentences alone."""

    engine: Engine
    cache: Cache
    answerer: Answerer

    @property
    def settings(self) -> Mapping[str, Any]:
        """The network; it has no others."""
        return {"parameterizer": _network(self.engine)}

    def prepare(self, transition: MuseTransition) -> Prepared:
        """Nothing: the evidence comes with each question. Without any, C_full stands in."""
        return _GoldEvidence(self.engine, self.cache, self.answerer, transition.full)


@dataclass(frozen=True, slots=True)
class _GoldEvidence:
    engine: Engine
    cache: Cache
    answerer: Answerer
    full: str

    def answer(self, questions: Sequence[MuseQuestion]) -> list[Reply]:
        """One adapter per question."""
        texts = [question.gold_evidence or self.full for question in questions]
        rows = [
            _row(self.engine, question.question, _with_bias(self.engine, text, self.cache))
            for question, text in zip(questions, texts, strict=True)
        ]
        return replies(self.answerer.answer([Query(row) for row in rows]))


@dataclass(frozen=True, slots=True)
class Plume:
    """The method, whole or with one stream taken away.

    The other forms answer questions about it. `scaled full`: s·full of the same Frobenius norm (over all layers)
    in place of α·full + β·(full − old); is it the difference that matters, or the amplitude? `whole texts`: full
    and old written in one pass each, also by a network that otherwise adds up units; does adding up cost? The
    evidence `gold` is the unit that holds the gold evidence, whatever the router says; what would a perfect one give?
    """

    engine: Engine
    cache: Cache
    answerer: Answerer
    streams: Streams = "fused"
    global_form: GlobalForm = "difference"
    evidence: Evidence = "routed"

    @property
    def settings(self) -> Mapping[str, Any]:
        """The engine's settings and what differs from the method."""
        own = {"streams": self.streams, "global_form": self.global_form, "evidence_unit": self.evidence}
        return {"parameterizer": _network(self.engine), **own, **self.engine.policy.model_dump()}

    def prepare(self, transition: MuseTransition) -> "PreparedPlume":
        """Units, their index, and the global adapter."""
        transitions = tuple(Transition(number, text) for number, text in enumerate(transition.texts, start=1))
        history = History(transition.id, len(transitions), transitions)
        units = self.engine.segmenter.units(transitions)
        told = told_of(transitions, units)
        retired = Replaced(self.engine, self.cache, told).retired
        embedded = Embedded(self.engine.embedding, self.cache, told)
        global_adapter = None if self.streams == "memory only" else self._global(history)
        return PreparedPlume(self, self.engine.index(units), embedded, retired, global_adapter)

    def _global(self, history: History) -> LoraFactors | None:
        if self.global_form == "whole texts":
            return self._of_whole_texts(history)
        difference = self.engine.global_adapter(history, self.cache)
        if self.global_form == "difference" or difference is None:
            return difference
        texts = self.engine.segmenter.windows(history.transitions)
        bias = self.engine.parameterizer.bias if self.engine.parameterizer else None
        own = [(1.0, bias)] if bias is not None else []
        full = weighted_sum([*((1.0, self.engine.encoder.factors(text, self.cache)) for text in texts), *own])
        return scaled(full, _norm(difference) / _norm(full))

    def _of_whole_texts(self, history: History) -> LoraFactors:
        full = self.engine.encoder.factors(history.text, self.cache)
        bias = self.engine.parameterizer.bias if self.engine.parameterizer else None
        old = join_transitions([t.text for t in history.predecessor])
        settings = self.engine.policy
        return compose_global(
            full,
            self.engine.encoder.factors(old, self.cache) if old else None,
            alpha=settings.alpha,
            beta=settings.beta,
            bias=bias,
        )


@dataclass(frozen=True, slots=True)
class PreparedPlume:
    """A pinned history."""

    method: Plume
    index: UnitIndex
    embedded: Embedded
    retired: Retired
    """The units that no longer hold."""
    global_adapter: LoraFactors | None

    def answer(self, questions: Sequence[MuseQuestion]) -> list[Reply]:
        """Take the library's own steps, with one stream taken away where the method says so."""
        method = self.method
        prepared = [self.prepared(question) for question in questions]
        decoded = decode_all(method.engine.scheduler, prepared, method.answerer.settings, batch=method.answerer.batch)
        return [self._reply(one, own) for one, own in zip(prepared, decoded, strict=True)]

    def evidence(self, question: MuseQuestion) -> tuple[ScoredUnit, ...]:
        """What a question is answered from, the first in rank first."""
        method = self.method
        if method.evidence == "routed":
            return evidence_of(
                method.engine,
                self.index,
                question.question,
                method.cache,
                near=self.embedded,
                retired=self.retired,
            )
        # the latest unit that shares the longest piece of the evidence: it may run over a unit's end
        gold = max(self.index, key=lambda unit: (_shared(unit.text, question.gold_evidence), unit.position))
        return (ScoredUnit(gold, 0.0),)

    def prepared(self, question: MuseQuestion) -> PreparedQuestion:
        """The rows of one question."""
        method = self.method
        engine = method.engine
        framed = engine.base.chat.framed([{"role": "user", "content": question.question}])
        evidence = self.evidence(question)
        if method.streams == "global only":
            return PreparedQuestion(question.question, evidence, engine.query(framed, self.global_adapter, None))
        whole = prepare(engine, question.question, framed, evidence, self.global_adapter, method.cache)
        if method.streams == "fused":
            return whole
        return replace(whole, query=_evidence_alone(whole.query), retry=whole.retry and _evidence_alone(whole.retry))

    def _reply(self, prepared: PreparedQuestion, decoded: Decoded) -> Reply:
        steps = len(decoded.trace)
        detail: dict[str, Any] = {
            "evidence": "",
            "evidence_from": None,
            "score": None,
            "mean_weight": math.fsum(t.weight for t in decoded.trace) / steps,
            "mean_js": math.fsum(t.js for t in decoded.trace) / steps,
        }
        units = prepared.evidence
        if units:
            source = source_of(decoded.text, prepared.question, units) or units[0]
            text = join_units([one.unit for one in units])
            detail |= {"evidence": text, "evidence_from": source.unit.version, "score": source.score}
        return reply(decoded, detail)


def _evidence_alone(query: Query) -> Query:
    """The evidence row as the only one; the global row where there is none."""
    return query if query.evidence_row is None else replace(query, global_row=query.evidence_row, evidence_row=None)


def _row(engine: Engine, question: str, factors: LoraFactors | None) -> Row:
    return Row(tuple(engine.base.chat.prompt_ids(question)), factors)


def _with_bias(engine: Engine, text: str, cache: Cache) -> LoraFactors:
    """H(text) as one text, with the bias block where the network has one.

    Raises:
        InvalidInput: the engine has no parameterizer.
    """
    if engine.parameterizer is None:
        raise InvalidInput("D2L needs a hypernetwork, and this engine has none; pass --hypernetwork.")
    factors, bias = engine.encoder.factors(text, cache), engine.parameterizer.bias
    return factors if bias is None else weighted_sum([(1.0, factors), (1.0, bias)])


def _network(engine: Engine) -> str:
    return engine.parameterizer.fingerprint if engine.parameterizer else "none"


def _shared(unit: str, evidence: str) -> int:
    """Characters of the longest stretch of the evidence that a unit holds."""
    return SequenceMatcher(None, unit, evidence, autojunk=False).find_longest_match().size


def _norm(factors: LoraFactors) -> float:
    """‖ΔW‖_F over all layers and modules."""
    return math.sqrt(math.fsum(float((norms**2).sum()) for norms in frobenius_norm(factors).values()))
