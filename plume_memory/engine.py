"""The engine: one frozen model and its parameterizer, shared by any number of memories.

It turns a history into the global adapter, a unit into the evidence stream, and both with a
question into a decode. It keeps no state of any memory but what it lately made of texts, factors and what was
read of units, bounded and by place; it knows nothing of databases.

    ΔW_g = α ΔW_full + β (ΔW_full − ΔW_old)          (METHOD: global update representation)
"""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from operator import attrgetter
from pathlib import Path

from plume_memory.answering.evidence import Activation
from plume_memory.answering.grounding import last_telling, log_score, takes_from
from plume_memory.distill import DistillationParameterizer
from plume_memory.encoding import Cache, TextEncoder
from plume_memory.errors import InvalidInput
from plume_memory.hypernet.loading import load_hypernetwork
from plume_memory.hypernet.parameterizer import Parameterizer
from plume_memory.hypernet.shipped import chosen_network
from plume_memory.lora.algebra import KeyedChunk, compose_chunks, scaled, weighted_sum
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import to_bytes
from plume_memory.lru import LRUCache
from plume_memory.model.adapters import shared_rows
from plume_memory.model.base import BaseModel
from plume_memory.model.decode import DecodeSettings, FusedDecoder, Query
from plume_memory.model.grammar import Grammar
from plume_memory.model.prompt import Framed
from plume_memory.model.rivals import Contest, Insistence, Telling
from plume_memory.model.states import States
from plume_memory.model.streams import Row
from plume_memory.policy import AnswerPolicy
from plume_memory.records import History, ScoredUnit, Unit, best_gain, join_units
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.reader import ReadText, Rows, question_log_probs
from plume_memory.retrieval.supersede import BARE, TRAINED
from plume_memory.segmentation.windows import Segmenter

Progress = Callable[[str, int, int], None]
"""Called with (what is being done, steps done, steps in all)."""

READ_BYTES = 256 * 2**20
"""What the model keeps of the units it has read for questions: some 300 sentences of SmolLM2-135M, 50 of Qwen3-4B."""

DISTILLED_SETTINGS = AnswerPolicy(alpha=0.5, beta=0.5, lambda_max=10.0, tau=0.05, delta=0.4, unit_tokens=192)
"""Defaults for a model without a hypernetwork, where every unit is an adapter trained alone at full strength.

Measured on SmolLM2-135M (bench/compose.py, 6 records, 36 questions; recall fused): the paper's α = 1,
β = 0.75, λ_max = 1, τ = 0.3 overshoot, 0.39; 0.5/0.5 gives 0.45, and 0.57 with λ_max = 10, τ = 0.05, where the
evidence, trained on its unit alone, leads. δ = 0.4 routes a third better than 0.5 on chains of short
updates and nearly as well on full rewrites (bench/routing_sweep.py).
"""

PREFIX_SETTINGS = AnswerPolicy(evidence="kv", lambda_max=10.0, tau=0.05, delta=0.4)
"""Defaults for a model without any parameterizer: p_g has no memory, so the evidence stream must lead.

Measured on SmolLM2-135M (bench/prefix.py, 8 records, 48 questions; recall): λ_max = 1, τ = 0.3 gives 0.18,
5 and 0.3 0.24, 10 and 0.05 0.35, and 0.37 with δ = 0.4.
"""


class Engine:
    """A base model, a parameterizer and the method's settings.

    Safe to share between threads: one forward pass runs at a time, and a decode holds its factors
    by value, so an update meanwhile changes nothing for it.
    """

    def __init__(
        self,
        base: BaseModel,
        parameterizer: Parameterizer | None,
        settings: AnswerPolicy | None = None,
        *,
        reranker: LoraFactors | None = None,
    ) -> None:
        """Put an engine together.

        Args:
            base: the frozen model.
            parameterizer: text → factors; None for a model without one (`evidence="kv"` only).
            settings: the method's settings; by default the paper's, `DISTILLED_SETTINGS` for a
                parameterizer that writes one adapter per unit, `PREFIX_SETTINGS` without one.
            reranker: attached while the model reads units for a question, by the routers that have it read; the
                bare model reads without.

        Raises:
            InvalidInput: `evidence="lora"` without a parameterizer.
        """
        distilled = isinstance(parameterizer, DistillationParameterizer)
        own_default = DISTILLED_SETTINGS if distilled else AnswerPolicy()
        self.policy = settings or (PREFIX_SETTINGS if parameterizer is None else own_default)
        if parameterizer is None and self.policy.evidence == "lora":
            raise InvalidInput(
                "evidence='lora' needs a parameterizer, and this engine has none; use evidence='kv' or load "
                "a hypernetwork."
            )
        self.base = base
        self.parameterizer = parameterizer
        self.decoder = FusedDecoder(base)
        self._reranker = reranker
        shared = None if reranker is None else shared_rows(reranker, device=base.device, dtype=base.dtype)
        self._ranking_log_probs = partial(question_log_probs, base, adapter=shared)
        self._activation = Activation(
            self.policy,
            read=self._ranking_log_probs,
            rules=BARE if reranker is None else TRAINED,
        )
        self.segmenter = Segmenter(base, parameterizer, self.policy)
        self.encoder = TextEncoder(base, parameterizer)
        self._read = LRUCache(READ_BYTES, size=attrgetter("nbytes"))

    @classmethod
    def load(
        cls,
        model: str = "smollm2-135m",
        *,
        hypernetwork: str = "auto",
        settings: AnswerPolicy | None = None,
        device: str | None = None,
        dtype: str | None = None,
        cache: Path | None = None,
        progress: Progress | None = None,
    ) -> "Engine":
        """Load a model by name and the parameterizer that belongs to it.

        Args:
            model: a name of `plume models`, a local folder, or a Hugging Face id.
            hypernetwork: a folder written by `plume train` or `plume models convert`; "distill" for
                context distillation; "none" for evidence states only; "shipped" for the network this
                package carries for the model; "auto" for the published one where there is one, else the
                carried one, else distillation.
            settings: the method's settings. What is set in them overrides what the hypernetwork was measured with
                (`Engine.settings` shows the result); `AnswerPolicy.paper()` sets everything.
            device: "cpu", "cuda", …; CUDA where there is one.
            dtype: "bfloat16", "float32" or "float16"; bfloat16 where it is native.
            cache: folder of prepared models.
            progress: called during long work.

        Raises:
            ModelError: the model or its hypernetwork cannot be had; the subclass says why.
            CheckpointError: the hypernetwork's folder cannot be read.
            ParameterizerError: the hypernetwork was made for a model of other sizes.
        """
        network = chosen_network(model, hypernetwork)
        base = BaseModel.load(model, device=device, dtype=dtype, cache=cache)
        if hypernetwork == "none":
            return cls(base, None, settings.over(PREFIX_SETTINGS) if settings else None)
        if network is None:
            distilled = settings.over(DISTILLED_SETTINGS) if settings else None
            return cls(base, DistillationParameterizer(base, progress=progress), distilled)
        loaded = load_hypernetwork(base, network, settings, cache=cache)
        return cls(base, loaded.parameterizer, loaded.settings, reranker=loaded.reranker)

    def composed_with(self, settings: AnswerPolicy) -> "Engine":
        """Return an engine of the same model, parameterizer and reranker with other settings."""
        return Engine(self.base, self.parameterizer, settings, reranker=self._reranker)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 over model, parameterizer, settings and reranker: with a log prefix it determines every answer."""
        own = self.parameterizer.fingerprint if self.parameterizer else "none"
        parts = [self.base.fingerprint, str(self.base.dtype), own, self.policy.canonical()]
        if self._reranker is not None:
            parts.append(hashlib.sha256(to_bytes(self._reranker)).hexdigest())
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()

    # --- history → factors ----------------------------------------------------------------------

    def global_adapter(self, history: History, cache: Cache) -> LoraFactors | None:
        """ΔW_g of a history, exact: every window once, at the sum of its weights.

        A window that old and full share gets α, one of the full history alone α + β, one of the old
        alone −β; `global_windows="mean"` divides these by the number of windows of the full history. The
        parameterizer's bias, which is no window's, enters once at α either way. None without parameterizer
        or history.
        """
        if self.parameterizer is None:
            return None
        texts = [self.segmenter.windows(transitions) for transitions in (history.transitions, history.predecessor)]
        if not texts[0]:
            return None
        factors = {text: self.encoder.factors(text, cache) for text in dict.fromkeys([*texts[0], *texts[1]])}
        full, old = ([KeyedChunk(text, factors[text]) for text in side] for side in texts)
        share = 1 / len(full) if self.policy.global_windows == "mean" else 1.0
        alpha, bias = self.policy.alpha, self.parameterizer.bias
        composed = compose_chunks(full, old, alpha=share * alpha, beta=share * self.policy.beta)
        return composed if bias is None else weighted_sum([(1.0, composed), (alpha, bias)])

    def evidence(
        self, units: Unit | Sequence[Unit], framed: Framed, cache: Cache, *, scale: float | None = None
    ) -> LoraFactors | States:
        """The evidence stream's adapter, H(m*) with the bias block, or its compiled prefix.

        Several units are written together (`TextEncoder.factors_together`). What they became stays in this process, and so
        does what a single sentence became: it is sooner written again than read, and would fill the artifacts with as
        many adapters as sentences.

        Args:
            units: one, or several in any order.
            framed: the conversation, for a prefix.
            cache: where a single unit's factors or prefix are kept.
            scale: weight of the factors; None: that of the settings, `alone_scale` of one unit and 1 of several.

        Raises:
            InvalidInput: no units.
        """
        chosen = (units,) if isinstance(units, Unit) else tuple(units)
        if not chosen:
            raise InvalidInput("Evidence is made of at least one unit; got none.")
        kept = len(chosen) == 1 and self.policy.router != "sentences"
        if self.policy.evidence == "kv":
            return self.encoder.prefix(framed.evidence_ids(join_units(chosen)), cache, joined=not kept)
        factors = self.encoder.factors(chosen[0].text, cache) if kept else self.encoder.factors_together(chosen, cache)
        if scale is None:
            scale = self.policy.alone_scale if len(chosen) == 1 else 1.0
        if scale != 1:
            factors = scaled(factors, scale)
        bias = self.parameterizer.bias if self.parameterizer else None
        return factors if bias is None else weighted_sum([(1.0, factors), (1.0, bias)])

    def discard(self, history: History, cache: Cache) -> int:
        """Delete what was derived for a history, from the cache and this process; returns the number of texts.

        What joined units became, and what was read of units, goes for every history of the cache's place: it does
        not say whose it was.
        """
        units = [unit.text for unit in self.segmenter.units(history.transitions)]
        windows = [*self.segmenter.windows(history.transitions), *self.segmenter.windows(history.predecessor)]
        texts = list(dict.fromkeys([*windows, *units]))
        plain = self.base.chat.framed([{"role": "user", "content": "?"}])
        prefixes = [self.encoder.prefix_key(plain.evidence_ids(text)) for text in texts]
        self.encoder.discard([*map(self.encoder.factors_key, texts), *prefixes], cache)
        self._read.discard_all(cache.place, "")
        return len(texts)

    def release(self, place: str) -> None:
        """Let go of everything this process keeps of a cache's place, and of every text it has counted.

        What is being derived meanwhile is given to who asked for it, and not kept.
        """
        self.encoder.release(place)
        self._read.release(place)
        self.segmenter.forget_counted()

    # --- question → units → decode --------------------------------------------------------------

    def rank(self, index: UnitIndex, question: str, cache: Cache | None = None, *, k: int) -> list[ScoredUnit]:
        """Return up to `k` units in the order of activation; see `Activation.rank` and, for `cache`, `activate`."""
        return self._activation_of(cache).rank(index, question, k=k)

    def activate(self, index: UnitIndex, question: str, cache: Cache | None = None) -> list[ScoredUnit]:
        """Return the evidence of a question, none where memory does not bear on it; see `Activation.activate`.

        Args:
            index: the units of a history.
            question: what is asked.
            cache: whose history it is: what was read for one of its questions is not read again for the next, as
                long as it is among the last `READ_BYTES`. None: nothing is kept.
        """
        return self._activation_of(cache).activate(index, question)

    def _activation_of(self, cache: Cache | None) -> Activation:
        if cache is None:
            return self._activation

        def keep(texts: Rows, read: Callable[[Rows], Sequence[ReadText]]) -> Sequence[ReadText]:
            keys = [self.encoder.key("read", list(ids)) for ids in texts]
            return self._read.fetch_all(cache, keys, lambda places: read([texts[at] for at in places]))

        return replace(self._activation, read=partial(self._ranking_log_probs, keep=keep))

    def query(self, framed: Framed, global_adapter: LoraFactors | None, evidence: LoraFactors | States | None) -> Query:
        """Two rows for one question: the prompt holds the conversation only, memory is in the rows."""
        prompt = tuple(framed.prompt_ids())
        first = Row(prompt, global_adapter)
        if evidence is None:
            return Query(first)
        if isinstance(evidence, States):
            return Query(first, Row(tuple(framed.continuation_ids()), prefix=evidence))
        return Query(first, Row(prompt, evidence))

    def sides(self, routed: Sequence[ScoredUnit]) -> list[list[ScoredUnit]]:
        """Return the evidences that may answer a question, the favourite first; see `Activation.sides`."""
        return self._activation.sides(routed)

    def contest(
        self,
        asked: str,
        framed: Framed,
        global_adapter: LoraFactors | None,
        sides: Sequence[Sequence[ScoredUnit]],
        cache: Cache,
    ) -> Contest:
        """What answers one question: a rival for each of its `sides`.

        Args:
            asked: the question in it.
            framed: the conversation.
            global_adapter: ΔW_g; takes no part in a side without units.
            sides: what each rival takes its evidence from.
            cache: see `evidence`.
        """

        def rival(side: Sequence[ScoredUnit], scale: float | None) -> Query:
            if not side:
                return self.query(framed, None, None)
            evidence = self.evidence([one.unit for one in side], framed, cache, scale=scale)
            return self.query(framed, global_adapter, evidence)

        return self.contest_between(rival, asked, sides)

    def contest_between(
        self,
        rival: Callable[[Sequence[ScoredUnit], float | None], Query],
        asked: str,
        sides: Sequence[Sequence[ScoredUnit]],
    ) -> Contest:
        """Set rivals, one for each side, against each other by the settings.

        Args:
            rival: (units, scale) -> the question answered from these units; for `scale` see `evidence`.
            asked: the question in it.
            sides: what each rival takes its evidence from.
        """
        chosen = self.policy
        counts = chosen.recency_margin is not None or chosen.told_weight > 0

        def told(at: int, answer: str) -> Telling | None:
            found = last_telling(answer, asked, sides[at])
            return None if found is None else Telling(found.unit.version, found.score)

        def takes(at: int, answer: str) -> bool:
            gain = best_gain(sides[at])
            bears = gain is None or gain >= chosen.insist_gain
            return not bears or takes_from(answer, asked, sides[at])

        insists = chosen.insist_scale is not None and chosen.evidence == "lora"
        return Contest(
            tuple(rival(side, None) for side in sides),
            chosen.alone_margin or 0.0,
            told if counts else None,
            recency_margin=chosen.recency_margin,
            told_weight=chosen.told_weight,
            head_starts=tuple(chosen.score_weight * log_score(side) for side in sides),
            insistence=Insistence(takes, lambda at: rival(sides[at], chosen.insist_scale)) if insists else None,
        )

    def decode_settings(
        self,
        *,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        stop: Sequence[str] = (),
        top_candidates: int = 0,
        grammar: Grammar | None = None,
    ) -> DecodeSettings:
        """The engine's settings for one decode."""
        return DecodeSettings(
            max_new_tokens=self.policy.max_new_tokens if max_new_tokens is None else max_new_tokens,
            lambda_max=self.policy.lambda_max,
            tau=self.policy.tau,
            stop=tuple(stop),
            top_candidates=top_candidates,
            min_new_tokens=min_new_tokens,
            grammar=grammar,
        )
