"""One memory at one version: everything that reads.

A snapshot holds its history and routing index by value; its global adapter the engine keeps, bounded in bytes, and the
memory must be open. An update meanwhile makes the next version; it neither blocks nor changes an answer that is being
decoded.
"""

import copy
import random
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, Unpack

from plume_memory.answering.answer import (
    PreparedQuestion,
    abstained,
    decode_all,
    decode_stream,
    evidence_of,
    finish,
    prepare,
    unknown_answer,
)
from plume_memory.answering.conversation import asked_in, last_user, results_in, turns_of
from plume_memory.answering.current import Current
from plume_memory.answering.embedded import Embedded
from plume_memory.answering.forms import WORDS_TOKENS, filled_from, request, with_nothing
from plume_memory.answering.options import AskOptions, DecodeOptions, abstains, settings_of
from plume_memory.answering.recalled import Recallable, profile_of, recall_from
from plume_memory.answering.replaced import Replaced
from plume_memory.encoding import Cache
from plume_memory.engine import Engine
from plume_memory.errors import ArtifactDamaged, InvalidInput
from plume_memory.forks import Lock
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import export_peft, save_factors
from plume_memory.lora.vllm import export_vllm
from plume_memory.model.hub import LoadedByOthers
from plume_memory.model.prompt import Message
from plume_memory.model.queries import DecodeSettings, Step, collect
from plume_memory.recalling.notes import PROFILE_TOKENS, Recall, RecallOptions
from plume_memory.records import Answer, AnswerChunk, History, Replacement, ScoredUnit, Unit
from plume_memory.retrieval.lexical import UnitIndex
from plume_memory.retrieval.retrieve import SHORTLIST, retrieve
from plume_memory.retrieval.supersede import Retired
from plume_memory.segmentation.calls import without_calls
from plume_memory.stages import stage
from plume_memory.sums import Lineage

ROUNDING = 0.02
"""Relative difference by which factors of one text may differ between two machines of a kind."""


class Snapshot:
    """A memory pinned to one version. Made by `ParametricMemory.at`; read-only."""

    def __init__(
        self,
        history: History,
        index: UnitIndex,
        replaced: Replaced,
        embedded: Embedded,
        engine: Engine,
        cache: Cache,
        lineage: Lineage | None = None,
    ) -> None:
        self._history = history
        self._overrules = history.overrules
        self._index = index
        self._replaced = replaced
        self._embedded = embedded
        self._engine = engine
        self._cache = cache
        self._lineage = lineage or Lineage.of(history)
        self._current = Current(history, index, replaced)
        self._moment: datetime | None = None
        self._deriving = Lock()
        self._own: LoraFactors | None = None
        self.is_derived = False
        """Whether its global adapter was made since it was pinned."""

    @classmethod
    def of_nothing(cls, engine: Engine) -> "Snapshot":
        """An empty history that belongs to no memory: the bare model answers, in the same frame."""
        cache = _NoCache()
        empty = History(memory="", version=0, transitions=())
        return cls(empty, UnitIndex(()), Replaced(engine, cache), Embedded(None, cache), engine, cache)

    @property
    def memory(self) -> str:
        """Name of the memory; empty for `of_nothing`."""
        return self._history.memory

    @property
    def version(self) -> int:
        """The pinned version; 0 before the first update."""
        return self._history.version

    @property
    def text(self) -> str:
        """C(t), the history as one text."""
        return self._history.text

    def as_of(self, moment: datetime) -> "Snapshot":
        """Return the same version as it is read at a moment; else it is now: what has expired by then is left out.

        Args:
            moment: aware.
        """
        other = copy.copy(self)
        other._moment = moment
        return other

    @property
    def global_adapter(self) -> LoraFactors | None:
        """ΔW_g of this version; derived the first time it is needed, and kept by the engine, bounded in bytes."""
        with self._deriving:  # a lock of its own: another memory's long derivation is no reason to wait
            if self._own is not None:
                return self._own
            found = self._engine.global_adapter(self._history, self._cache, self._lineage)
            self.is_derived = True
            if found is not None and not self._cache.is_current():
                self._own = found  # nobody else keeps what may hold an erased text: it goes with this object
            return found

    @property
    def replacements(self) -> tuple[Replacement, ...]:
        """Every unit that no longer holds at this version, and what took its place; in the order of that.

        Judged and kept the first time it is needed (retrieval/judge.py): docs/decisions/0023 says how often it errs.
        """
        return self._replaced.found

    def derive(self) -> None:
        """Compute and keep the global adapter, what was replaced and, of a long history, the vectors of its units.

        Evidence is made when a question needs it.
        """
        _ = self.global_adapter
        _ = self._replaced.found
        if len(self._index) > SHORTLIST:
            self._embedded.make()

    def check_derived(self, sample: int, *, seed: int = 0) -> int:
        """Derive some texts of this version anew and compare them with what is kept; returns how many were compared.

        Args:
            sample: texts, drawn at random; all where there are fewer. Of texts that are kept as one running sum
                either all are compared, as one, or those of the newest update alone.
            seed: of the draw.

        Raises:
            ArtifactDamaged: one differs by more than rounding: it was derived wrongly, though its bytes are whole.
        """
        if sample < 0:
            raise InvalidInput(f"At least 0 texts are compared; got {sample}.")
        texts = self._engine.segmenter.windows(self._history.transitions)
        drawn = random.Random(seed).sample(texts, min(sample, len(texts)))
        found = self._engine.differences(self._history, self._cache, drawn)
        wrong = [gap for gap in found if not gap <= ROUNDING]  # NaN too
        if wrong:
            raise ArtifactDamaged(
                f"Memory {self.memory!r}, version {self.version}: {len(wrong)} of {len(found)} texts compared gave "
                f"other factors than are kept, the worst by {max(wrong):.0%}: they were derived wrongly. Build "
                "all of them anew: `plume rebuild`, or memory.rebuild()."
            )
        return len(found)

    def discard(self) -> int:
        """Delete everything derived for this version; returns the number of texts.

        It is built again from the log when it is next needed. Prefixes compiled behind a system text
        of the caller's own are left: they are keyed by that text.
        """
        with self._deriving:
            self._own, self.is_derived = None, False
        return self._engine.discard(self._history, self._cache)

    def route(self, query: str, *, k: int = 1) -> list[ScoredUnit]:
        """Return the best `k` units for a question, fewer only where the history has fewer; see `retrieve`.

        Which of them an answer is from is for the answer to say: a question that the memory is not relevant to has a
        ranking too, and a unit whose `superseded` is set is never evidence.

        Raises:
            InvalidInput: k is below 1, or half a character is asked and read.
        """
        now = self._now
        with stage("search") as said:
            found = self._routed(query, k, retired=self._current.retired(now), without=self._current.expired(now))
            said.update(query=query, records=[(one.unit.version, one.unit.text) for one in found])
        return found

    def recall(self, question: str | Sequence[Message], **options: Unpack[RecallOptions]) -> Recall:
        """Return what bears on a question, for a model that has no memory in its weights; often nothing.

        Args:
            question: a question, or a conversation that ends with a user or tool turn: its last user turn is looked up,
                with those before it where it cannot be understood alone.
            **options: see `RecallOptions`.

        Raises:
            InvalidInput: an empty question, a conversation as of `ask`, or `k` or `max_tokens` below 1.
        """
        with stage("search") as said:
            found = recall_from([self.recallable], question, **options)
            said.update(query=found.question, records=[(note.version, note.text) for note in found.notes])
        return found

    def profile(self, *, max_tokens: int = PROFILE_TOKENS) -> Recall:
        """Return what says most about whom the memory is of, as far as it holds: the most central first.

        By the words alone (recalling/profile.py); the same memory gives the same notes.

        Raises:
            InvalidInput: `max_tokens` is below 1.
        """
        return profile_of(self.recallable, max_tokens=max_tokens)

    @property
    def recallable(self) -> Recallable:
        """What a recall from several memories needs of this one (answering/recalled.py)."""
        return Recallable(self.memory, self._engine, self._index, self._current, self._now, self._routed)

    @property
    def _now(self) -> datetime:
        return self._moment or datetime.now(UTC)

    def _routed(self, query: str, k: int, *, retired: Retired, without: frozenset[int]) -> list[ScoredUnit]:
        if k < 1:
            raise InvalidInput(f"k must be at least 1, got {k}.")
        engine = self._engine
        reader = engine.reader.of(self._cache)
        found = retrieve(
            *(self._index, query, reader, engine.policy),
            k=k,
            near=self._embedded,
            judge=engine.judge,
            retired=retired,
            without=without,
            overrules=self._overrules,
        )
        return found[:k]

    def ask(self, question: str | Sequence[Message], **options: Unpack[AskOptions]) -> Answer:
        """Answer from the weights: the prompt holds the question only.

        Args:
            question: a question, or a conversation that ends with a user or tool turn (its last user
                turn is routed).
            **options: see `AskOptions`.

        Raises:
            InvalidInput: an empty question, a conversation that does not end with a user or tool
                turn, or as `DecodeOptions`.
            PromptTooLong: the prompt leaves no room in the model's context window.
        """
        abstain, tools = abstains(options), options.pop("tools", None)
        settings, known_at = settings_of(self._engine.policy, options), options.get("known_at")
        return self._answers([question], settings, tools, abstain=abstain, known_at=known_at)[0]

    def ask_many(self, questions: Sequence[str], **options: Unpack[DecodeOptions]) -> list[Answer]:
        """Answer several questions in batches; see `ask`.

        In float32 the answers are those of one at a time. In bfloat16 a batch rounds otherwise, and of two candidates
        within that rounding the other one may be chosen.
        """
        if isinstance(questions, str):
            raise InvalidInput(f"`questions` is a list of questions; write [{questions!r}], or ask({questions!r}).")
        settings = settings_of(self._engine.policy, options)
        return self._answers(questions, settings, None, abstain=abstains(options), known_at=options.get("known_at"))

    def stream(
        self, question: str | Sequence[Message], **options: Unpack[AskOptions]
    ) -> Generator[AnswerChunk, None, None]:
        """Answer piece by piece; the last chunk carries the whole `Answer`. See `ask`.

        With `AnswerPolicy.retry_scale` the first piece comes with the first word of the evidence; an answer without
        one is decoded again before anything is given. What may turn out to run on is held back (model/run_on.py).
        Whether an answer is sure enough is known at its end: with `unknown="abstain"` and a `known_at` nothing is given
        before.
        """
        abstain, tools = abstains(options), options.pop("tools", None)
        settings, known_at = settings_of(self._engine.policy, options), options.get("known_at")
        words = None
        if self._is_form(settings, tools):
            words, prepared, settings = self._in_form(question, settings, known_at)
        else:
            prepared = self._prepared([question], tools)[0]
        settings = _never_empty(settings, [prepared])
        abstain = abstain and not prepared.after_tool
        if abstain and (not prepared.evidence or known_at or self._engine.policy.known_at):
            answer = self._answers([question], settings, tools, abstain=True, known_at=known_at)[0]
            yield AnswerChunk(answer.text, answer)
            return
        steps: list[Step] = []
        decoding = decode_stream(self._engine.scheduler, prepared, settings, owner=self._cache.owner)
        with stage("decode"), closing(decoding):
            for step in decoding:
                steps.append(step)
                if step.finish_reason is None and step.text:
                    yield AnswerChunk(step.text)
        decoded = collect(prepared.query, steps)
        (answer,) = finish(
            self._engine, [prepared], [decoded], memory=self.memory, version=self.version, known_at=known_at
        )
        yield AnswerChunk(steps[-1].text, answer if words is None else _formed(words, answer))

    def export_adapter(self, directory: str | Path, *, format: Literal["peft", "safetensors", "vllm"] = "peft") -> Path:
        """Write the global adapter for other programs, which alone answers far less than `ask`.

        It names the base model that it is for: the embedded default is a four-bit copy, so that is its folder on this
        disk, not the hub's model of that name, which has other weights.

        Args:
            directory: made if it does not exist.
            format: `peft` for `PeftModel.from_pretrained` and friends; `vllm` for a folder of its own in the
                directory, see `plume_memory.lora.vllm`; `safetensors` for `plume_memory.lora.files.load_factors`.

        Raises:
            InvalidInput: nothing to export (empty memory, or an engine without a parameterizer), an
                unknown format, a rank that vLLM does not serve, or a directory that cannot be written.
        """
        if format not in ("peft", "safetensors", "vllm"):
            raise InvalidInput(f"Unknown format {format!r}; write peft, safetensors or vllm.")
        factors = self.global_adapter
        if factors is None:
            raise InvalidInput(
                f"Memory {self.memory!r} has no global adapter at version {self.version}: "
                + ("it is empty." if not self._history.transitions else "its engine has no parameterizer.")
            )
        folder = Path(directory).expanduser()
        base = self._engine.base
        try:
            folder.mkdir(parents=True, exist_ok=True)
            name, revision = base.loaded_by_others or LoadedByOthers(base.name)
            if format == "vllm":
                return export_vllm(
                    factors, folder, base_model=name, base_fingerprint=base.fingerprint, revision=revision
                )
            if format == "peft":
                export_peft(factors, folder, base_model=name, base_fingerprint=base.fingerprint, revision=revision)
            else:
                save_factors(factors, folder / "factors.safetensors", fingerprints={"model": base.fingerprint})
        except OSError as err:
            raise InvalidInput(f"Cannot write the adapter to {folder}: {err}") from err
        return folder

    def _answers(
        self,
        questions: Sequence[str | Sequence[Message]],
        settings: DecodeSettings,
        tools: Sequence[Mapping[str, Any]] | None,
        *,
        abstain: bool,
        known_at: float | None,
    ) -> list[Answer]:
        if self._is_form(settings, tools):
            return [self._answer_in_form(question, settings, known_at) for question in questions]
        prepared = self._prepared(questions, tools)
        answered = [bool(one.evidence) or one.after_tool or not abstain for one in prepared]
        asked = [one for one, is_answered in zip(prepared, answered, strict=True) if is_answered]
        owner, settings = self._cache.owner, _never_empty(settings, asked)
        decoded = decode_all(self._engine.scheduler, asked, settings, owner=owner) if asked else []
        finished = iter(
            finish(self._engine, asked, decoded, memory=self.memory, version=self.version, known_at=known_at)
        )
        answers = []
        for one, is_answered in zip(prepared, answered, strict=True):
            answer = next(finished) if is_answered else unknown_answer(self.memory, self.version)
            answers.append(abstained(answer) if abstain and not answer.known and not one.after_tool else answer)
        return answers

    # --- forms ----------------------------------------------------------------------------------

    def _is_form(self, settings: DecodeSettings, tools: Sequence[Mapping[str, Any]] | None) -> bool:
        """Whether an answer is found in words first: beyond the paper, as all that units are read for."""
        grammar = settings.grammar
        return bool(grammar and grammar.schema and not tools and self._engine.policy.retrieval == "reader")

    def _in_form(
        self, question: str | Sequence[Message], settings: DecodeSettings, known_at: float | None
    ) -> tuple[Answer, PreparedQuestion, DecodeSettings]:
        """The answer in words, and what its form is decoded from and by."""
        assert settings.grammar is not None
        plain = replace(
            settings, grammar=None, stop=(), min_new_tokens=0, max_new_tokens=min(settings.max_new_tokens, WORDS_TOKENS)
        )
        (words,) = self._answers([question], plain, None, abstain=False, known_at=known_at)
        after_tool = turns_of(question)[-1]["role"] == "tool"
        least = (self._engine.policy.known_at or 0.0) if known_at is None else known_at
        is_told = words.evidence is not None and words.confidence >= least  # cut or not: its pieces fill the form
        if not words.text.strip() or not (is_told or after_tool):
            grammar = with_nothing(settings.grammar)
            return words, self._prepared([question], None)[0], replace(settings, grammar=grammar)
        turns = turns_of(question)
        turns = turns[: last_user(turns) + 1]
        asked, said = asked_in(turns), without_calls(words.text)
        behind: list[Message] = [
            {"role": "assistant", "content": said},
            {"role": "user", "content": request(settings.grammar)},
        ]
        framed = self._engine.base.chat.framed([*turns, *behind])
        found = [ScoredUnit(Unit(0, 0, 0, len(said), said), 1.0)]
        prepared = prepare(self._engine, asked, framed, found, None, _NoCache())
        return words, prepared, replace(settings, grammar=filled_from(settings.grammar, said, asked))

    def _answer_in_form(
        self, question: str | Sequence[Message], settings: DecodeSettings, known_at: float | None
    ) -> Answer:
        words, prepared, settings = self._in_form(question, settings, known_at)
        decoded = decode_all(self._engine.scheduler, [prepared], settings, owner=self._cache.owner)
        (answer,) = finish(self._engine, [prepared], decoded, memory=self.memory, version=self.version)
        return _formed(words, answer)

    def _prepared(
        self, questions: Sequence[str | Sequence[Message]], tools: Sequence[Mapping[str, Any]] | None
    ) -> list[PreparedQuestion]:
        """The questions with their evidence and rows."""
        engine, prepared = self._engine, []
        for question in questions:
            messages = turns_of(question)
            asked = asked_in(messages)
            results = results_in(messages)
            # they are read as evidence is; what may call again sees what was called
            turns = messages if tools or not results else messages[: last_user(messages) + 1]
            framed = engine.base.chat.framed(turns, tools)
            if results:
                told = prepare(engine, asked, framed, results, None, _NoCache(), tools=bool(tools))
                prepared.append(replace(told, after_tool=True))
                continue
            now = self._now
            with stage("search") as said:
                evidence = evidence_of(
                    *(engine, self._index, asked, self._cache),
                    near=self._embedded,
                    retired=self._current.retired(now),
                    without=self._current.expired(now),
                    overrules=self._overrules,
                )
                said.update(query=asked, records=[(one.unit.version, one.unit.text) for one in evidence])
            with stage("write"):
                # an empty memory, or one that is not relevant to the question, needs no global adapter
                adapter = self.global_adapter if evidence else None
                prepared.append(prepare(engine, asked, framed, evidence, adapter, self._cache, tools=bool(tools)))
        return prepared


def _formed(words: Answer, form: Answer) -> Answer:
    """The answer in its form: what it is from and how sure it is was found with the words."""
    tokens = words.usage.completion_tokens + form.usage.completion_tokens
    usage = replace(words.usage, completion_tokens=tokens)
    return replace(words, text=form.text, finish_reason=form.finish_reason, trace=form.trace, usage=usage)


def _never_empty(settings: DecodeSettings, prepared: Sequence[PreparedQuestion]) -> DecodeSettings:
    """Behind a tool's result a model may think that all is said."""
    if settings.min_new_tokens == 0 and any(one.after_tool for one in prepared):
        return replace(settings, min_new_tokens=1)
    return settings


class _NoCache:
    """Of an empty history, and of what a tool said, nothing is kept."""

    place = ""
    owner = ""

    def get(self, key: str) -> bytes | None:
        return None

    def put(self, key: str, kind: str, content: bytes) -> None:
        return None

    def discard(self, key: str) -> None:
        return None

    def keys(self, kind: str) -> list[str]:
        return []

    def retire(self, key: str) -> None:
        return None

    def is_current(self) -> bool:
        return False
