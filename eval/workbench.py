"""Live objects of a run: one model, its network, and the methods built on them; runs single items.

One workbench per process. The model is loaded with the first item that needs it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError

from eval.caches import CountingCache
from eval.methods.anyedit import AnyEdit, AnyEditSettings
from eval.methods.decoding import Answerer
from eval.methods.distilled import CD, CDOracle, ExamSettings
from eval.methods.parametric import D2L, D2LOracle, Evidence, GlobalForm, Plume, PreparedPlume, Streams
from eval.methods.prompted import Prompted, Retrieved, Shown
from eval.methods.protocol import Method, Prepared, Reply
from eval.metrics.phases import measured
from eval.ranks import candidate_ranks
from eval.rows import Answered, ItemRow
from eval.specs import REPRODUCTION, Item, MethodSpec, RunSettings
from plume_memory.answering.options import settings_of
from plume_memory.distill.settings import DistillSettings
from plume_memory.engine import Engine
from plume_memory.errors import InvalidInput, PromptTooLong
from plume_memory.model.queries import DecodeSettings
from plume_memory.policy import AnswerPolicy

PROMPTED: Mapping[str, Shown] = {
    "base": "nothing",
    "base with context": "everything",
    "last update": "last update",
    "evidence in prompt": "gold evidence",
}
FORMS: Mapping[str, tuple[Streams, GlobalForm, Evidence]] = {
    "plume": ("fused", "difference", "routed"),
    "memory only": ("memory only", "difference", "routed"),
    "global only": ("global only", "difference", "routed"),
    "scaled full": ("fused", "scaled full", "routed"),
    "scaled full global only": ("global only", "scaled full", "routed"),
    "whole texts": ("fused", "whole texts", "routed"),
    "whole texts global only": ("global only", "whole texts", "routed"),
    "gold evidence": ("fused", "difference", "gold"),
    "gold evidence memory only": ("memory only", "difference", "gold"),
}


@dataclass
class Workbench:
    """Runs items under one run's settings."""

    settings: RunSettings
    folder: Path | None = None
    """Where costly factors are kept between processes; nowhere when None."""
    given: Engine | None = None
    """An engine that is already loaded; by default the one the settings name."""
    _met: set[str] = field(default_factory=set)
    _engines: dict[AnswerPolicy, Engine] = field(default_factory=dict)
    _edits: dict[AnyEditSettings, AnyEdit] = field(default_factory=dict)

    def run(self, item: Item) -> ItemRow:
        """Prepare, ask, and return the row.

        Raises:
            PlumeError: the model, the network or a method's settings are not usable.
        """
        cache = CountingCache() if item.fresh else self._cache
        batch = item.batch or self.settings.batch
        method = self.method(item.method, cache, batch)
        before, error = cache.derived, ""
        answers: list[Answered] = []
        with measured(self.engine.base.device) as update:
            try:
                prepared = method.prepare(item.transition)
            except PromptTooLong as err:
                error = str(err)
        derived = cache.derived - before
        if not error:
            try:
                ask = self._ranks if item.probe == "ranks" else partial(self._answers, batch=batch, cache=cache)
                answers = ask(item, prepared)
            except PromptTooLong as err:
                error = str(err)
        first = item.method.name not in self._met
        self._met.add(item.method.name)
        return ItemRow(
            key=item.key(self.settings),
            method=item.method.name,
            kind=item.method.kind,
            dataset=item.transition.dataset,
            transition=item.transition.id,
            step=item.transition.step,
            settings=dict(method.settings) | {"max_new_tokens": self.settings.max_new_tokens},
            seed=self.settings.seed,
            probe=item.probe,
            batch=batch,
            fresh=item.fresh,
            update_seconds=update.seconds,
            update_peak_bytes=update.peak_bytes,
            update_derived=derived,
            made_on=self._made_on,
            first_in_process=first,
            answers=tuple(answers),
            error=error,
        )

    def _answers(self, item: Item, prepared: Prepared, *, batch: int, cache: CountingCache) -> list[Answered]:
        """Ask all questions of an item, `batch` at a time.

        In a fresh item every question pays for its own evidence adapter, as METHOD counts it: what the update or
        an earlier question derived is forgotten; the prepared global adapter is held by value and stays.
        """
        questions, made = item.transition.questions, []
        for at in range(0, len(questions), batch):
            some = questions[at : at + batch]
            if item.fresh:
                cache.forget()
            with measured(self.engine.base.device) as phase:
                replies = prepared.answer(some)
            for question, reply in zip(some, replies, strict=True):
                made.append(_answered(question, reply, phase.seconds / len(some), phase.peak_bytes))
        return made

    def _ranks(self, item: Item, prepared: Prepared) -> list[Answered]:
        """Teacher-forced ranks of each question's canonical reference, in `detail["ranks"]`."""
        if not isinstance(prepared, PreparedPlume):
            raise InvalidInput(f"Candidate ranks are measured for PLUME and its ablations, not {item.method.kind!r}.")
        made = []
        for question in item.transition.questions:
            with measured(self.engine.base.device) as phase:
                found = candidate_ranks(prepared, question)
            reply = Reply(
                found.forced, len(found.ranks), "length", {"ranks": found.ranks, "token_ids": found.token_ids}
            )
            made.append(_answered(question, reply, phase.seconds, phase.peak_bytes))
        return made

    def method(self, spec: MethodSpec, cache: CountingCache, batch: int) -> Method:
        """Build a method.

        Raises:
            InvalidInput: an override that its kind does not have.
        """
        engine, kind = self.engine, spec.kind
        answerer = Answerer(engine.scheduler, self._decoding(engine), batch)
        if kind in FORMS:
            own = self._composed_with(spec)
            answerer = Answerer(own.scheduler, self._decoding(own), batch)
            return Plume(own, cache, answerer, *FORMS[kind])
        if kind == "anyedit":
            return self._anyedit(spec, answerer)
        if kind == "bm25":
            return self._retrieved(spec, answerer)
        if spec.settings or spec.shipped:
            raise InvalidInput(f"Method {spec.name!r} ({kind}) takes no settings; got {dict(spec.settings)}.")
        if kind in PROMPTED:
            return Prompted(engine.base, answerer, PROMPTED[kind])
        if kind == "d2l":
            return D2L(engine, cache, answerer)
        if kind == "d2l oracle":
            return D2LOracle(engine, cache, answerer)
        if kind == "cd":
            exam = ExamSettings(rounds=self.settings.exam_rounds)
            return CD(engine.base, answerer, self._distillation(), exam=exam)
        return CDOracle(engine.base, answerer, self._distillation())

    def _decoding(self, engine: Engine) -> DecodeSettings:
        """METHOD's, to the end of the sequence or the last token, loops and all; where units are read, a user's."""
        own = settings_of(engine.policy, {"max_new_tokens": self.settings.max_new_tokens})
        return replace(own, stop_loops=engine.policy.retrieval == "reader")

    @cached_property
    def engine(self) -> Engine:
        """Model and network with the settings the network was measured with."""
        asked = self.settings
        return self.given or Engine.load(
            asked.model, hypernetwork=asked.hypernetwork, device=asked.device, dtype=asked.dtype
        )

    @cached_property
    def _made_on(self) -> str:
        base = self.engine.base
        model = f"{base.name} ({base.fingerprint[:12]})"
        packages = ", ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "plume-memory"))
        return f"{model}, {base.device}, {base.dtype}, {torch.get_num_threads()} threads, {packages}"

    @cached_property
    def _cache(self) -> CountingCache:
        dear = self.settings.hypernetwork == "distill" and self.folder is not None
        return CountingCache(self.folder / "factors" if dear and self.folder else None)

    def _composed_with(self, spec: MethodSpec) -> Engine:
        """The engine under a spec's settings; the same model, network and cache."""
        start = self.engine.policy if spec.shipped else REPRODUCTION
        if self.engine.parameterizer is None:
            start = self.engine.policy  # evidence as a prefix: the method's adapters cannot be had
        merged = start.model_dump() | spec.settings
        try:
            chosen = AnswerPolicy(**merged)
        except ValidationError as err:
            raise InvalidInput(f"Method {spec.name!r} has settings PLUME does not know or take: {err}") from err
        # one per settings: a new engine reads its tokenizer anew, which is no part of an update
        if chosen not in self._engines:
            own = self.engine.composed_with(chosen)
            own.segmenter.count_tokens("a word")
            self._engines[chosen] = own
        return self._engines[chosen]

    def _retrieved(self, spec: MethodSpec, answerer: Answerer) -> Retrieved:
        own: dict[str, Any] = {key: value for key, value in spec.settings.items() if isinstance(value, int)}
        if not own.keys() <= {"passages", "passage_tokens"} or own.keys() != spec.settings.keys():
            raise InvalidInput(
                f"Method {spec.name!r} takes whole numbers for passages and passage_tokens; got {spec.settings}."
            )
        return Retrieved(self.engine.base, answerer, self.engine.segmenter.count_tokens, **own)

    def _distillation(self) -> DistillSettings:
        chosen = self.settings
        return DistillSettings.paper().model_copy(
            update={"epochs": chosen.distill_epochs, "learning_rate": chosen.distill_rate, "seed": chosen.seed}
        )

    def _anyedit(self, spec: MethodSpec, answerer: Answerer) -> Method:
        """AnyEdit with its null space, which is measured once per model, and kept in the run folder if there is one."""
        try:
            chosen = AnyEditSettings.model_validate(spec.settings)
        except ValidationError as err:
            raise InvalidInput(f"Method {spec.name!r} has settings AnyEdit does not know or take: {err}") from err
        if chosen not in self._edits:
            kept = self.folder / "null-space" if self.folder else None
            self._edits[chosen] = AnyEdit.build(self.engine.base, answerer, chosen, cache=kept)
        return AnyEdit(self.engine.base, answerer, self._edits[chosen].null_space, chosen)


def _answered(question: Any, reply: Reply, seconds: float, peak_bytes: int | None) -> Answered:
    return Answered(
        question_id=question.id,
        question=question.question,
        references=question.answers,
        old_references=question.old_answers,
        affected=question.affected,
        output=reply.text,
        tokens=reply.tokens,
        finish_reason=reply.finish_reason,
        seconds=seconds,
        peak_bytes=peak_bytes,
        detail=dict(reply.detail or {}),
    )
