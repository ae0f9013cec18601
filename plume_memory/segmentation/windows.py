"""Cuts a history for one engine: into routable units, and into the windows whose factors add up to ΔW."""

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache

from plume_memory.hypernet.parameterizer import Parameterizer
from plume_memory.model.base import BaseModel
from plume_memory.policy import AnswerPolicy
from plume_memory.records import Transition, Unit, join_transitions
from plume_memory.segmentation.tokens import build_encoding, token_counter
from plume_memory.segmentation.units import units_of


class Segmenter:
    """Units and windows of histories, by the settings. Counts in the model's own tokens."""

    def __init__(self, base: BaseModel, parameterizer: Parameterizer | None, settings: AnswerPolicy) -> None:
        self._base = base
        self._parameterizer = parameterizer
        self._settings = settings

    @cached_property
    def count_tokens(self) -> Callable[[str], int]:
        """Token counter of the segmentation: tiktoken over the model's own byte-level BPE where it has one."""
        backend = getattr(self._base.tokenizer, "backend_tokenizer", None)
        encoding = build_encoding(backend.to_str(), self._base.name) if backend is not None else None
        if encoding is None:
            return self._base.chat.count
        return token_counter(encoding)

    def units(self, transitions: Sequence[Transition], *, first_position: int = 0) -> tuple[Unit, ...]:
        """Cut transitions into routable units."""
        return units_of(
            transitions,
            budget_tokens=self._settings.unit_tokens,
            count_tokens=self.count_tokens,
            first_position=first_position,
            single_sentences=self._settings.router == "sentences",
        )

    def windows(self, transitions: Sequence[Transition]) -> list[str]:
        """Texts whose factors add up to ΔW of a history.

        `near_equal` hands the whole history to the parameterizer, which slices it as the paper does.
        `append_only` packs transitions greedily from the start and closes a window when the next one
        does not fit: closed windows never change, so an update costs only the last one. An additive
        parameterizer that trains on each text gets the evidence units themselves, so global and evidence
        adapters share them; one that writes a text in a pass gets pieces of the length it was trained on,
        however small the units are.
        """
        parameterizer = self._parameterizer
        if not transitions or parameterizer is None:
            return []
        if parameterizer.additive and parameterizer.shared_a is None:
            return [unit.text for unit in self.units(transitions)]
        if parameterizer.additive:
            longest = parameterizer.max_tokens
            return [unit.text for unit in units_of(transitions, budget_tokens=longest, count_tokens=self.count_tokens)]
        if self._settings.chunking == "near_equal":
            return [join_transitions([t.text for t in transitions])]
        packs: list[list[str]] = []
        room = 0
        for transition in transitions:
            needed = self._count_joined(transition.text)
            if not packs or needed > room:
                packs.append([])
                room = parameterizer.max_tokens
            packs[-1].append(transition.text)
            room -= needed
        return [join_transitions(pack) for pack in packs]

    def forget_counted(self) -> None:
        """Let go of every text that was counted; the next count begins another memory."""
        self.__dict__.pop("_count_joined", None)

    @cached_property
    def _count_joined(self) -> Callable[[str], int]:
        """Tokens of a transition with the notice before it; remembered, as every update cuts the history again."""
        return lru_cache(maxsize=65_536)(lambda text: self.count_tokens(join_transitions(["", text])))
