"""One memory at one version: everything that reads.

A snapshot holds its history, routing index and global adapter by value. An update meanwhile makes
the next version; it neither blocks nor changes an answer that is being decoded.
"""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict

from plume_memory.answering.grounding import source_of
from plume_memory.encoding import Cache
from plume_memory.engine import Engine
from plume_memory.errors import InvalidInput
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import export_peft, save_factors
from plume_memory.model.decode import Decoded, DecodeSettings, Query, Step, collect
from plume_memory.model.grammar import Grammar
from plume_memory.model.hub import named_source
from plume_memory.model.prompt import Message
from plume_memory.model.rivals import Contest, decode_contests, stream_contest
from plume_memory.records import Answer, History, ScoredUnit
from plume_memory.retrieval.lexical import UnitIndex

BATCH = 16
"""Queries decoded at once: every row of a batch holds a copy of its adapter."""


@dataclass(frozen=True, slots=True)
class AnswerChunk:
    """A piece of a streamed answer."""

    text: str
    answer: Answer | None = None
    """The whole answer, on the last chunk only."""


class DecodeOptions(TypedDict, total=False):
    """How answers are decoded; see `Snapshot.ask`."""

    max_new_tokens: int | None
    min_new_tokens: int
    stop: Sequence[str]
    top_candidates: int
    grammar: Grammar | None


class AskOptions(DecodeOptions, total=False):
    """The same, for one question."""

    tools: Sequence[Mapping[str, Any]] | None


class Snapshot:
    """A memory pinned to one version. Made by `ParametricMemory.at`; read-only."""

    def __init__(self, history: History, index: UnitIndex, engine: Engine, cache: Cache) -> None:
        self._history = history
        self._index = index
        self._engine = engine
        self._cache = cache
        self._deriving = threading.Lock()
        self._derived = False
        self._global: LoraFactors | None = None

    @classmethod
    def of_nothing(cls, engine: Engine) -> "Snapshot":
        """An empty history that belongs to no memory: the bare model answers, in the same frame."""
        return cls(History(memory="", version=0, transitions=()), UnitIndex(()), engine, _NoCache())

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

    @property
    def global_adapter(self) -> LoraFactors | None:
        """ΔW_g of this version; derived and kept the first time it is needed."""
        with self._deriving:  # a lock of its own: another memory's long derivation is no reason to wait
            if not self._derived:
                self._global = self._engine.global_adapter(self._history, self._cache)
                self._derived = True
            return self._global

    def derive(self) -> None:
        """Compute and keep the global adapter; a unit's evidence is made when a question first activates it."""
        _ = self.global_adapter

    def discard(self) -> int:
        """Delete everything derived for this version; returns the number of texts.

        It is built again from the log when it is next needed. Prefixes compiled behind a system text
        of the caller's own are left: they are keyed by that text.
        """
        with self._deriving:
            self._derived, self._global = False, None
        return self._engine.discard(self._history, self._cache)

    def route(self, query: str, *, k: int = 1) -> list[ScoredUnit]:
        """Return units in the order of activation; empty for an empty memory, and none is missing otherwise.

        Candidates (within the router's margin of the best) come first; then the rest as the router ranks them, with
        `sentences` what is retold later behind what retells it. Which of them an answer is from is for the answer
        to say: a question that memory does not bear on has a ranking too.

        Raises:
            InvalidInput: k is below 1, or another router than the lexical one is asked half a character.
        """
        if k < 1:
            raise InvalidInput(f"k must be at least 1, got {k}.")
        return self._engine.rank(self._index, query, self._cache, k=k) if len(self._index) else []

    def ask(
        self,
        question: str | Sequence[Message],
        *,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        stop: Sequence[str] = (),
        top_candidates: int = 0,
        grammar: Grammar | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Answer:
        """Answer from the weights: the prompt holds the question only.

        Args:
            question: a question, or a conversation that ends with a user or tool turn (its last user
                turn is routed).
            max_new_tokens: longest answer; the engine's setting when not given. Where units also answer alone, one
                shorter than their trial (`TRIAL_TOKENS`) can choose another of them.
            min_new_tokens: the model does not end its answer before this many tokens.
            stop: texts that end the answer; none of them is part of it.
            top_candidates: keep this many candidates of both streams per token in the trace.
            grammar: what the answer may look like.
            tools: what the model may call, in OpenAI's shape; the answer's text then may hold calls.

        Raises:
            InvalidInput: an empty question, a conversation that does not end with a user or tool
                turn, or a grammar that the model's vocabulary cannot follow.
            PromptTooLong: the prompt leaves no room in the model's context window.
        """
        settings = self._settings(max_new_tokens, min_new_tokens, stop, top_candidates, grammar)
        return self._decode([question], settings, tools)[0]

    def ask_many(
        self,
        questions: Sequence[str],
        *,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        stop: Sequence[str] = (),
        top_candidates: int = 0,
        grammar: Grammar | None = None,
    ) -> list[Answer]:
        """Answer several questions in one batch; same answers as one by one. See `ask`."""
        if isinstance(questions, str):
            raise InvalidInput(f"`questions` is a list of questions; write [{questions!r}], or ask({questions!r}).")
        return self._decode(
            questions, self._settings(max_new_tokens, min_new_tokens, stop, top_candidates, grammar), None
        )

    def stream(
        self,
        question: str | Sequence[Message],
        *,
        max_new_tokens: int | None = None,
        min_new_tokens: int = 0,
        stop: Sequence[str] = (),
        top_candidates: int = 0,
        grammar: Grammar | None = None,
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> Generator[AnswerChunk, None, None]:
        """Answer piece by piece; the last chunk carries the whole `Answer`. See `ask`.

        Where units also answer alone (`AnswerPolicy.alone_margin`), the first piece comes when the trial that
        chooses between them is over: after as many steps as a short answer has tokens. With `insist_scale` it comes
        with the first word of the evidence; an answer without one is decoded again before anything is given.
        """
        settings = self._settings(max_new_tokens, min_new_tokens, stop, top_candidates, grammar)
        asked, contest, sides = self._prepared(question, tools)
        told: list[tuple[int, Step]] = []
        with closing(stream_contest(self._engine.decoder, contest, settings)) as decoding:
            for rival, step in decoding:
                told.append((rival, step))
                if step.finish_reason is None and step.text:
                    yield AnswerChunk(step.text)
        rival, last = told[-1]
        decoded = collect(contest.rivals[rival], [step for _, step in told])
        yield AnswerChunk(last.text, self._answer(asked, decoded, sides[rival]))

    def export_adapter(self, directory: str | Path, *, format: Literal["peft", "safetensors"] = "peft") -> Path:
        """Write the global adapter for other programs.

        Args:
            directory: made if it does not exist.
            format: `peft` for `PeftModel.from_pretrained`, vLLM and friends; `safetensors` for
                `plume_memory.lora.files.load_factors`.

        Raises:
            InvalidInput: nothing to export (empty memory, or an engine without a parameterizer), an
                unknown format, or a directory that cannot be written.
        """
        if format not in ("peft", "safetensors"):
            raise InvalidInput(f"Unknown format {format!r}; write peft or safetensors.")
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
            if format == "peft":
                source = named_source(base.name)
                known_as = source.hub_id if source else base.name
                export_peft(factors, folder, base_model=known_as, base_fingerprint=base.fingerprint)
            else:
                save_factors(factors, folder / "factors.safetensors", fingerprints={"model": base.fingerprint})
        except OSError as err:
            raise InvalidInput(f"Cannot write the adapter to {folder}: {err}") from err
        return folder

    def _decode(
        self,
        questions: Sequence[str | Sequence[Message]],
        settings: DecodeSettings,
        tools: Sequence[Mapping[str, Any]] | None,
    ) -> list[Answer]:
        prepared = [self._prepared(question, tools) for question in questions]
        won = decode_contests(self._in_batches, [contest for _, contest, _ in prepared], settings)
        return [
            self._answer(asked, own.decoded, sides[own.rival])
            for own, (asked, _, sides) in zip(won, prepared, strict=True)
        ]

    def _in_batches(self, queries: Sequence[Query], settings: DecodeSettings) -> list[Decoded]:
        decoder = self._engine.decoder
        batches = (queries[at : at + BATCH] for at in range(0, len(queries), BATCH))
        return [decoded for batch in batches for decoded in decoder.decode(batch, settings)]

    def _prepared(
        self, question: str | Sequence[Message], tools: Sequence[Mapping[str, Any]] | None
    ) -> tuple[str, Contest, list[list[ScoredUnit]]]:
        """What is routed of a question, its rivals, and the units of each one's evidence in the router's order."""
        messages = _turns(question)
        asked = _asked(messages)
        framed = self._engine.base.chat.framed(messages, tools)
        sides = self._engine.sides(self._engine.activate(self._index, asked, self._cache) if len(self._index) else [])
        # an empty memory, or one that does not bear on the question, needs no global adapter
        global_adapter = self.global_adapter if sides[0] else None
        return asked, self._engine.contest(asked, framed, global_adapter, sides, self._cache), sides

    def _settings(
        self,
        max_new_tokens: int | None,
        min_new_tokens: int,
        stop: Sequence[str],
        top_candidates: int,
        grammar: Grammar | None,
    ) -> DecodeSettings:
        if isinstance(stop, str):
            raise InvalidInput(f"`stop` is a list of texts; write stop=[{stop!r}].")
        return self._engine.decode_settings(
            max_new_tokens=max_new_tokens,
            min_new_tokens=min_new_tokens,
            stop=stop,
            top_candidates=top_candidates,
            grammar=grammar,
        )

    def _answer(self, asked: str, decoded: Decoded, routed: Sequence[ScoredUnit]) -> Answer:
        settings = self._engine.policy
        return Answer(
            text=decoded.text,
            memory=self.memory,
            version=self.version,
            evidence=source_of(decoded.text, asked, routed),
            usage=decoded.usage,
            finish_reason=decoded.finish_reason,
            trace=decoded.trace,
            evidence_units=tuple(sorted(routed, key=lambda one: (one.unit.position, one.unit.start))),
            calibration=(*settings.confidence, settings.confidence_gain),
        )


def _turns(question: str | Sequence[Message]) -> list[Message]:
    """Check a question or a conversation and return it as turns.

    Raises:
        InvalidInput: not a text or turns of text, an empty last user turn, or characters no tokenizer
            can read.
    """
    if not isinstance(question, Sequence):
        raise InvalidInput(f"Ask a text or a list of turns; got {type(question).__name__}.")
    turns: list[Message] = [{"role": "user", "content": question}] if isinstance(question, str) else list(question)
    for turn in turns:
        if not isinstance(turn, dict) or not all(isinstance(turn.get(key), str) for key in ("role", "content")):
            raise InvalidInput(f"A turn is {{'role': text, 'content': text}}; got {turn!r}.")
        try:
            turn["content"].encode()
        except UnicodeEncodeError as err:
            raise InvalidInput(f"The question holds half a character (a lone surrogate): {err}") from err
    if not turns or not _asked(turns).strip():
        raise InvalidInput("An empty question was asked; pass at least one character.")
    return turns


def _asked(turns: Sequence[Message]) -> str:
    """What is routed: the words of the last user turn, not a tool's output behind it."""
    return next((turn["content"] for turn in reversed(turns) if turn["role"] == "user"), turns[-1]["content"])


class _NoCache:
    """Nothing is derived from an empty history, so nothing is ever kept."""

    place = ""

    def fetch(self, key: str, kind: str, build: Callable[[], bytes]) -> bytes:
        return build()

    def discard(self, key: str) -> None:
        return None

    def is_current(self) -> bool:
        return True
