"""The engine: one frozen model, its parameterizer and its reader, shared by any number of memories.

It turns a history into the global adapter, units into the evidence of a row, and both with a question into a query. It
keeps no state of any memory but what it lately made of texts, bounded and by place; it knows nothing of databases.

    ΔW_g = α ΔW_full + β (ΔW_full − ΔW_old)          (METHOD: global update representation)
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import Tensor

from plume_memory.distill import DistillationParameterizer
from plume_memory.embedding import Embedding
from plume_memory.encoding import Cache, TextEncoder
from plume_memory.errors import InvalidInput, cannot_be_copied
from plume_memory.hypernet.embedding import EmbeddingWeights
from plume_memory.hypernet.judge import JudgeWeights
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.hypernet.parameterizer import Parameterizer
from plume_memory.hypernet.shipped import chosen_network
from plume_memory.lora.algebra import KeyedChunk, compose_chunks, scaled, weighted_sum
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import to_bytes
from plume_memory.lru import LRUCache
from plume_memory.model.base import BaseModel
from plume_memory.model.linear import WeightFormat
from plume_memory.model.prompt import Framed
from plume_memory.model.queries import Query
from plume_memory.model.states import States
from plume_memory.model.streams import Row
from plume_memory.policy import AnswerPolicy, Calibration
from plume_memory.records import History, Unit, join_units
from plume_memory.retrieval.judge import Judge
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.reader import Reader
from plume_memory.scheduling import Scheduler
from plume_memory.segmentation.tokens import counter_of
from plume_memory.segmentation.told import told_of
from plume_memory.segmentation.windows import Segmenter, WindowRule
from plume_memory.sums import Lineage, Sums
from plume_memory.superseding import Superseding
from plume_memory.terms import method_terms, stem_of, terms_of

_GLOBAL = "global:"
"""Marks global adapters among what a process keeps."""

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""

DISTILLED_POLICY = AnswerPolicy(alpha=0.5, beta=0.5, lambda_max=10.0, tau=0.05, delta=0.4, unit_tokens=192)
"""For a model without a hypernetwork, whose units are adapters trained alone at full strength (docs/decisions)."""

STATES_POLICY = AnswerPolicy(evidence="states", lambda_max=10.0, tau=0.05, delta=0.4)
"""For a model without any parameterizer: p_g has no memory, so the evidence stream must lead (docs/decisions)."""


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What the evidence row carries of some units: an adapter, states, or both."""

    factors: LoraFactors | None
    """H of them with the bias block."""
    states: States | None
    """Behind the head of the conversation."""


class Engine:
    """A base model, a parameterizer, a reader, and the policy of its answers.

    Safe to share between threads: one forward pass runs at a time, and a decode holds its factors
    by value, so an update meanwhile changes nothing for it.
    """

    def __init__(
        self,
        base: BaseModel,
        parameterizer: Parameterizer | None,
        policy: AnswerPolicy | None = None,
        *,
        reranker: LoraFactors | None = None,
        judge: JudgeWeights | None = None,
        embedding: EmbeddingWeights | None = None,
        calibration: Calibration | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        """Put an engine together.

        Args:
            base: the frozen model.
            parameterizer: text → factors; None for a model without one (`evidence="states"` only).
            policy: of its answers; by default the paper's, `DISTILLED_POLICY` for a parameterizer that writes one
                adapter per unit, `STATES_POLICY` without one.
            reranker: attached while the model reads units for a question, with `retrieval="reader"`; the bare model
                reads without.
            judge: says what a text replaces and whether an answer is supported; without one nothing is replaced but by
                the caller's word, and confidence rests on fewer signals.
            embedding: finds units that share no word with a question; without one words alone propose what is read.
            calibration: of `Answer.confidence`, fitted for the parameterizer; by default none.
            scheduler: of the model's decoding, shared with its other engines; by default its own.

        Raises:
            InvalidInput: an adapter as evidence without a parameterizer, or a value of the policy that does nothing.
        """
        distilled = isinstance(parameterizer, DistillationParameterizer)
        own_default = DISTILLED_POLICY if distilled else AnswerPolicy()
        self.policy = (policy or (STATES_POLICY if parameterizer is None else own_default)).checked()
        if parameterizer is None and self.policy.evidence != "states":
            raise InvalidInput(
                f"evidence={self.policy.evidence!r} needs a parameterizer, and this engine has none; use "
                "evidence='states' or load a hypernetwork."
            )
        self.base = base
        self.parameterizer = parameterizer
        self.calibration = calibration or Calibration()
        self.scheduler = scheduler or Scheduler(base)
        self.reader = Reader(base, reranker)
        self.encoder = TextEncoder(base, parameterizer)
        self.segmenter = Segmenter(
            counter_of(base.tokenizer, base.name),
            unit_tokens=self.policy.unit_tokens,
            single_sentences=self.policy.retrieval == "reader",
            windows=_window_rule(parameterizer, self.policy),
        )
        self._sums = Sums(self.encoder, self.segmenter)
        self._reranker = reranker
        self._judge_weights = judge
        self.judge = None if judge is None else Judge(base, judge)
        self.superseding = Superseding(base, self.judge, self.policy.supersedes_at)
        self._embedding_weights = embedding
        self.embedding = self._embedding(embedding)

    def __reduce_ex__(self, _: object) -> str:
        raise cannot_be_copied(self, "Share it between memories and threads; in another process load it again.")

    @classmethod
    def load(
        cls,
        model: str = "smollm2-135m",
        *,
        hypernetwork: str = "auto",
        policy: AnswerPolicy | None = None,
        device: str | None = None,
        dtype: str | None = None,
        weights: WeightFormat = "full",
        cache: Path | None = None,
        progress: Progress | None = None,
    ) -> "Engine":
        """Load a model by name and the parameterizer that belongs to it.

        Args:
            model: a name of `plume models`, a local folder, or a Hugging Face id ("owner/name@revision" pins one).
            hypernetwork: a folder written by `plume train` or `plume models convert`; "distill" for
                context distillation; "none" for evidence states only; "shipped" for the network this
                package carries for the model; "auto" for the published one where there is one, else the
                carried one, else distillation.
            policy: of the answers. What is set in it overrides what the hypernetwork was measured with
                (`Engine.policy` shows the result); `AnswerPolicy.paper()` sets everything.
            device: "cpu", "cuda", …; CUDA where there is one.
            dtype: "bfloat16", "float32" or "float16"; bfloat16 where it is native.
            weights: "int8" keeps linear weights as eight-bit numbers, on a CPU (docs/performance.md has what it gains
                and loses).
            cache: folder of prepared models.
            progress: called during long work.

        Raises:
            ModelError: the model or its hypernetwork cannot be had; the subclass says why.
            CheckpointError: the hypernetwork's folder cannot be read.
            ParameterizerError: the hypernetwork was made for a model of other sizes.
        """
        network = chosen_network(model, hypernetwork)
        base = BaseModel.load(model, device=device, dtype=dtype, weights=weights, cache=cache)
        if hypernetwork == "none":
            return cls(base, None, policy.over(STATES_POLICY) if policy else None)
        if network is None:
            distilled = policy.over(DISTILLED_POLICY) if policy else None
            return cls(base, DistillationParameterizer(base, progress=progress), distilled)
        loaded = load_hypernetwork(base, network, policy, cache=cache)
        return cls(
            base,
            loaded.parameterizer,
            loaded.policy,
            reranker=loaded.reranker,
            judge=loaded.judge,
            embedding=loaded.embedding,
            calibration=loaded.calibration,
        )

    def composed_with(self, policy: AnswerPolicy) -> "Engine":
        """Return an engine of the same model, parameterizer, reranker, judge and embedding with another policy."""
        return Engine(
            self.base,
            self.parameterizer,
            policy,
            reranker=self._reranker,
            judge=self._judge_weights,
            embedding=self._embedding_weights,
            calibration=self.calibration,
            scheduler=self.scheduler,
        )

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over all that, with a log prefix, settles an answer: model, parameterizer, policy and what reads."""
        own = self.parameterizer.fingerprint if self.parameterizer else "none"
        parts = [self.base.fingerprint, str(self.base.dtype), own, self.policy.model_dump(), self._reading]
        if self.judge is not None:
            parts.append(self.judge.sha256)
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    @cached_property
    def _reading(self) -> list[str]:
        """What identifies the reader and the embedding."""
        reranker = [] if self._reranker is None else [hashlib.sha256(to_bytes(self._reranker)).hexdigest()]
        weights = None if self.policy.retrieval == "lexical" else self._embedding_weights
        return [*reranker, *([] if weights is None else [weights.sha256])]

    def _embedding(self, weights: EmbeddingWeights | None) -> Embedding | None:
        if weights is None or self.policy.retrieval == "lexical":
            return None
        return Embedding(self.base, self.reader, weights, ":".join(self._reading))

    def work(self) -> dict[str, tuple[int, float]]:
        """Passes of each kind so far, and their seconds: read, encode, prefill, decode.

        Those of reading and encoding hold the wait for the model too.
        """
        counters = self.scheduler.counters()
        decoding = counters.seconds - counters.prompt_seconds
        return {
            "read": self.reader.work(),
            "encode": self.encoder.work(),
            "prefill": (counters.prompts, counters.prompt_seconds),
            "decode": (counters.steps, decoding),
        }

    def caches(self) -> dict[str, LRUCache]:
        """What this process keeps of what it made, by what it is."""
        return {"encoded": self.encoder.recent, "read": self.reader.kept}

    # --- history → factors ----------------------------------------------------------------------

    def global_adapter(self, history: History, cache: Cache, lineage: Lineage | None = None) -> LoraFactors | None:
        """ΔW_g of a history, exact: every window once, at the sum of its weights.

        A window that old and full share gets α, one of the full history alone α + β, one of the old
        alone −β; `global_windows="mean"` divides these by the number of windows of the full history. The
        parameterizer's bias, which is no window's, enters once at α either way. Of a parameterizer that gives all
        texts one A it is made of the history's running sum (sums.py), and costs what the newest text does.

        Args:
            history: the texts.
            cache: where what is derived is kept.
            lineage: what else is known of the history.

        Returns:
            Factors in the model's dtype; None without parameterizer or windows.
        """
        if self.parameterizer is None or not history.transitions:
            return None
        lineage = lineage or Lineage.of(history)
        key = _GLOBAL + lineage.digests[-1].hex()
        recent = self.encoder.recent
        composed: LoraFactors | None = recent.get(cache, key)
        if composed is None:
            epoch = recent.epoch(cache)
            summed = self._shared_a is not None
            composed = self._summed(history, cache, lineage) if summed else self._concatenated(history, cache)
            if composed is not None:
                recent.put(cache, key, composed, epoch=epoch)
        return composed

    def _summed(self, history: History, cache: Cache, lineage: Lineage) -> LoraFactors | None:
        shared_a, policy = self._shared_a, self.policy
        assert shared_a is not None, "only what shares its A is summed"
        total = self._sums.of(history, cache, lineage)
        if not total.windows:
            return None
        mean = policy.global_windows == "mean"
        composed = total.composed(shared_a, alpha=policy.alpha, beta=policy.beta, mean=mean, dtype=self.base.dtype)
        return self._with_bias(composed)

    def _concatenated(self, history: History, cache: Cache) -> LoraFactors | None:
        texts = [self.segmenter.windows(transitions) for transitions in (history.transitions, history.predecessor)]
        if not texts[0]:
            return None
        factors = {text: self.encoder.factors(text, cache) for text in dict.fromkeys([*texts[0], *texts[1]])}
        full, old = ([KeyedChunk(text, factors[text]) for text in side] for side in texts)
        share = 1 / len(full) if self.policy.global_windows == "mean" else 1.0
        composed = compose_chunks(full, old, alpha=share * self.policy.alpha, beta=share * self.policy.beta)
        return self._with_bias(composed)

    @property
    def _shared_a(self) -> Mapping[str, Tensor] | None:
        """The A of all texts; None where each has its own, and no history is a sum."""
        return self.parameterizer.shared_a if self.parameterizer else None

    def _with_bias(self, composed: LoraFactors) -> LoraFactors:
        bias = self.parameterizer.bias if self.parameterizer else None
        return composed if bias is None else weighted_sum([(1.0, composed), (self.policy.alpha, bias)])

    # --- units and a question → rows ------------------------------------------------------------

    def evidence(self, units: Sequence[Unit], framed: Framed, cache: Cache, *, scale: float = 1.0) -> Evidence:
        """What the evidence row carries: H(units) with the bias block, their compiled states, or both.

        Several units are encoded together (`TextEncoder.factors_together`). What they became stays in this process, and
        so does what a single sentence became: it is sooner encoded again than read, and would fill the artifacts with
        as many adapters as sentences.

        Args:
            units: one, or several in any order.
            framed: the conversation, for the states.
            cache: where what a single unit became is kept.
            scale: weight of the factors.

        Raises:
            InvalidInput: no units.
        """
        if not units:
            raise InvalidInput("Evidence is made of at least one unit; got none.")
        policy = self.policy
        kept = len(units) == 1 and policy.retrieval == "lexical"
        factors = states = None
        if policy.evidence != "states":
            plain = self.encoder.factors(units[0].text, cache) if kept else self.encoder.factors_together(units, cache)
            bias = self.parameterizer.bias if self.parameterizer else None
            factors = plain if scale == 1 else scaled(plain, scale)
            factors = factors if bias is None else weighted_sum([(1.0, factors), (1.0, bias)])
        if policy.evidence != "adapter":
            states = self.encoder.states(framed.evidence_ids(join_units(units)), cache, joined=not kept)
        return Evidence(factors, states)

    def query(
        self,
        framed: Framed,
        global_adapter: LoraFactors | None,
        evidence: Evidence | None,
        *,
        sources: tuple[str, ...] | None = None,
    ) -> Query:
        """Two rows for one question: the prompt holds the conversation only, memory is in the rows.

        Beside an adapter, states are left out where the conversation is so long that they would leave no room for an
        answer of `AnswerPolicy.max_new_tokens` in the model's context window.
        """
        prompt = tuple(framed.prompt_ids())
        first = Row(prompt, global_adapter)
        if evidence is None:
            return Query(first)
        if evidence.states is not None:
            second = Row(tuple(framed.continuation_ids()), evidence.factors, evidence.states)
            room = self.base.context_window - second.tokens
            if evidence.factors is None or room >= self.policy.max_new_tokens:
                return Query(first, second, sources)
        return Query(first, Row(prompt, evidence.factors), sources)

    def index(self, units: Sequence[Unit]) -> UnitIndex:
        """Units ready for retrieval: by METHOD's terms where words alone rank them, as `paper()` says."""
        if self.policy.retrieval == "lexical":
            return UnitIndex(units, terms=method_terms)
        return UnitIndex(units, terms=terms_of, stem=stem_of)

    # --- upkeep ---------------------------------------------------------------------------------

    def discard(self, history: History, cache: Cache) -> int:
        """Delete what was derived for a history, from the cache and this process; returns the number of texts.

        What joined units became, what was read of units, and sums go for every history of the cache's owner: they do
        not say of which they were, or could be made of each other.
        """
        units = self.segmenter.units(history.transitions)
        windows = [*self.segmenter.windows(history.transitions), *self.segmenter.windows(history.predecessor)]
        texts = list(dict.fromkeys([*windows, *(unit.text for unit in units)]))
        plain = self.base.chat.framed([{"role": "user", "content": "?"}])
        states = [self.encoder.states_key(plain.evidence_ids(text)) for text in texts]
        self.encoder.discard([*map(self.encoder.factors_key, texts), *states], cache)
        told = told_of(history.transitions, units)
        vectors = [] if self.embedding is None else self.embedding.keys(told)
        for key in (*self.superseding.keys(told, self.index(())), *vectors):
            cache.discard(key)
        if self._shared_a is not None:
            self._sums.discard(Lineage.of(history), cache)
        self.encoder.recent.discard_all(cache, _GLOBAL)
        self.reader.discard(cache)
        return len(texts)

    def differences(self, history: History, cache: Cache, drawn: Sequence[str]) -> list[float]:
        """How far what is kept of a history's windows lies from what they give now, for each that was compared.

        A running sum is compared as a whole where all of its windows are drawn; else what its newest text brought is.

        Args:
            history: the texts.
            cache: where what is derived is kept.
            drawn: some of its windows.

        Returns:
            Relative differences: 0 the same, rounding below 0.01, another text's about 1.
        """
        found = [gap for text in drawn if (gap := self.encoder.difference(text, cache)) is not None]
        if drawn and self._shared_a is not None:
            whole = len(drawn) == len(self.segmenter.windows(history.transitions))
            found += self._sums.gaps(history, cache, Lineage.of(history), whole=whole)
        return found

    def release(self, place: str) -> None:
        """Let go of everything this process keeps of a cache's place, and of every text it has counted.

        What is being derived meanwhile is given to who asked for it, and not kept.
        """
        self.encoder.release(place)
        self.reader.release(place)
        self.segmenter.forget_counted()


def _window_rule(parameterizer: Parameterizer | None, policy: AnswerPolicy) -> WindowRule:
    if parameterizer is None:
        return WindowRule("none")
    if parameterizer.additive:
        return WindowRule("units") if parameterizer.shared_a is None else WindowRule("pieces", parameterizer.max_tokens)
    if policy.chunking == "near_equal":
        return WindowRule("whole")
    return WindowRule("packed", parameterizer.max_tokens)
