"""One memory at one version: everything that reads.

A snapshot holds its history, routing index and global adapter by value. An update meanwhile makes
the next version; it neither blocks nor changes an answer that is being decoded.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from plume_memory.derived import DerivedCache
from plume_memory.engine import Engine
from plume_memory.errors import InvalidInput
from plume_memory.evidence.route import UnitIndex
from plume_memory.lora.factors import LoraFactors
from plume_memory.lora.files import export_peft, to_bytes
from plume_memory.model.decode import Decoded, DecodeSettings, Query, collect
from plume_memory.model.prompt import Message
from plume_memory.records import Answer, History, ScoredUnit

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AnswerChunk:
    """A piece of a streamed answer."""

    text: str
    answer: Answer | None = None
    """The whole answer, on the last chunk only."""


class Snapshot:
    """A memory pinned to one version. Made by `ParametricMemory.at`; read-only."""

    def __init__(self, history: History, index: UnitIndex, engine: Engine, cache: DerivedCache) -> None:
        self._history = history
        self._index = index
        self._engine = engine
        self._cache = cache

    @property
    def memory(self) -> str:
        """Name of the memory."""
        return self._history.memory

    @property
    def version(self) -> int:
        """The pinned version; 0 before the first update."""
        return self._history.version

    @property
    def text(self) -> str:
        """C(t), the history as one text."""
        return self._history.text

    @cached_property
    def global_adapter(self) -> LoraFactors | None:
        """ΔW_g of this version; derived and kept the first time it is needed."""
        return self._engine.global_adapter(self._history, self._cache)

    def derive(self) -> None:
        """Make sure that everything `ask` needs of this version is computed and kept."""
        self.global_adapter  # noqa: B018 — a cached property: reading it derives it

    def discard(self) -> int:
        """Delete the factors this version was derived from; returns the number of texts.

        They are built again from the log when they are next needed.
        """
        texts = dict.fromkeys(self._engine.windows(self._history.transitions))
        for text in texts:
            self._engine.discard(text, self._cache)
        return len(texts)

    def route(self, query: str, *, k: int = 1) -> list[ScoredUnit]:
        """Return units in the order of activation: the first is the evidence; empty for an empty memory.

        Candidates (within δ of the best score) come first, the latest first; then the rest by score.

        Raises:
            InvalidInput: k is below 1.
        """
        if k < 1:
            raise InvalidInput(f"k must be at least 1, got {k}.")
        if not len(self._index):
            return []
        return self._index.rank(query, delta=self._engine.settings.delta, k=k)

    def ask(
        self,
        question: str | Sequence[Message],
        *,
        max_new_tokens: int | None = None,
        stop: Sequence[str] = (),
        top_candidates: int = 0,
    ) -> Answer:
        """Answer from the weights: the prompt holds the question only.

        Args:
            question: a question, or a conversation that ends with a user turn (its last user turn
                is routed).
            max_new_tokens: longest answer; the engine's setting when not given.
            stop: texts that end the answer; none of them is part of it.
            top_candidates: keep this many candidates of both streams per token in the trace.

        Raises:
            InvalidInput: an empty question or a conversation that does not end with a user turn.
            PromptTooLong: the prompt leaves no room in the model's context window.
        """
        return self._decode([question], self._settings(max_new_tokens, stop, top_candidates))[0]

    def ask_many(
        self,
        questions: Sequence[str],
        *,
        max_new_tokens: int | None = None,
        stop: Sequence[str] = (),
        top_candidates: int = 0,
    ) -> list[Answer]:
        """Answer several questions in one batch; same answers as one by one. See `ask`."""
        return self._decode(questions, self._settings(max_new_tokens, stop, top_candidates))

    def stream(
        self,
        question: str | Sequence[Message],
        *,
        max_new_tokens: int | None = None,
        stop: Sequence[str] = (),
        top_candidates: int = 0,
    ) -> Iterator[AnswerChunk]:
        """Answer piece by piece; the last chunk carries the whole `Answer`. See `ask`."""
        query, evidence = self._query(question)
        steps = []
        for step in self._engine.decoder.stream([query], self._settings(max_new_tokens, stop, top_candidates)):
            steps.append(step)
            if step.finish_reason is None and step.text:
                yield AnswerChunk(step.text)
        yield AnswerChunk(steps[-1].text, self._answer(collect(query, steps), evidence))

    def export_adapter(self, directory: str | Path, *, format: Literal["peft", "safetensors"] = "peft") -> Path:
        """Write the global adapter for other programs.

        Args:
            directory: made if it does not exist.
            format: `peft` for `PeftModel.from_pretrained`, vLLM and friends; `safetensors` for
                `plume_memory.lora.files.from_bytes`.

        Raises:
            InvalidInput: nothing to export (empty memory, or an engine without a parameterizer).
        """
        factors = self.global_adapter
        if factors is None:
            raise InvalidInput(
                f"Memory {self.memory!r} has no global adapter at version {self.version}: "
                + ("it is empty." if not self._history.transitions else "its engine has no parameterizer.")
            )
        folder = Path(directory).expanduser()
        if format == "peft":
            export_peft(
                factors,
                folder,
                base_model=self._engine.base.name,
                base_fingerprint=self._engine.base.fingerprint,
            )
        else:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "factors.safetensors").write_bytes(to_bytes(factors))
        return folder

    def _decode(self, questions: Sequence[str | Sequence[Message]], settings: DecodeSettings) -> list[Answer]:
        prepared = [self._query(question) for question in questions]
        decoded = self._engine.decoder.decode([query for query, _ in prepared], settings)
        return [self._answer(own, evidence) for own, (_, evidence) in zip(decoded, prepared, strict=True)]

    def _query(self, question: str | Sequence[Message]) -> tuple[Query, ScoredUnit | None]:
        messages: list[Message] = (
            [{"role": "user", "content": question}] if isinstance(question, str) else list(question)
        )
        if not messages or not messages[-1]["content"].strip():
            raise InvalidInput("An empty question was asked; pass at least one character.")
        framed = self._engine.base.chat.framed(messages)
        routed = next(iter(self.route(messages[-1]["content"])), None)
        evidence = self._engine.evidence(routed.unit, framed, self._cache) if routed else None
        return self._engine.query(framed, self.global_adapter, evidence), routed

    def _settings(self, max_new_tokens: int | None, stop: Sequence[str], top_candidates: int) -> DecodeSettings:
        return self._engine.decode_settings(max_new_tokens=max_new_tokens, stop=stop, top_candidates=top_candidates)

    def _answer(self, decoded: Decoded, evidence: ScoredUnit | None) -> Answer:
        return Answer(
            text=decoded.text,
            memory=self.memory,
            version=self.version,
            evidence=evidence,
            usage=decoded.usage,
            finish_reason=decoded.finish_reason,
            trace=decoded.trace,
        )
