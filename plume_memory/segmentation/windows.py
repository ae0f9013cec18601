"""Cuts a history for one engine: into routable units, and into the windows whose factors add up to ΔW."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from plume_memory.records import Context, Transition, Unit, join_transitions
from plume_memory.segmentation.calls import without_calls
from plume_memory.segmentation.forms.recognise import form_of
from plume_memory.segmentation.units import units_of
from plume_memory.segmentation.unreadable import readable_spans


@dataclass(frozen=True, slots=True)
class WindowRule:
    """How a history becomes windows for a parameterizer."""

    kind: Literal["none", "units", "pieces", "whole", "packed"]
    """`units`: the routable units themselves, for a parameterizer that trains on each text: global and evidence
    adapters share them. `pieces`: texts of at most `tokens`, however small the units are, for one that adds up.
    `whole`: the history as one text, which the parameterizer slices as the paper does. `packed`: transitions packed
    from the start; a window closes when the next transition does not fit, and closed windows never change."""
    tokens: int = 0
    """Longest window; of `pieces` and `packed`."""


class Segmenter:
    """Units and windows of histories.

    Args:
        count_tokens: in the model's own tokens.
        unit_tokens: longest unit.
        single_sentences: whether units are sentences and items of lists.
        windows: how a history becomes windows.
    """

    def __init__(
        self, count_tokens: Callable[[str], int], *, unit_tokens: int, single_sentences: bool, windows: WindowRule
    ) -> None:
        self.count_tokens = count_tokens
        self._unit_tokens = unit_tokens
        self._single_sentences = single_sentences
        self._windows = windows
        self.forget_counted()

    def units(self, transitions: Sequence[Transition], *, first_position: int = 0) -> tuple[Unit, ...]:
        """Cut transitions into routable units."""
        return units_of(
            transitions,
            budget_tokens=self._unit_tokens,
            count_tokens=self.count_tokens,
            first_position=first_position,
            single_sentences=self._single_sentences,
        )

    def windows(self, transitions: Sequence[Transition]) -> list[str]:
        """Texts whose factors add up to ΔW of a history, by the rule; none of an empty history."""
        rule = self._windows
        if not transitions or rule.kind == "none":
            return []
        if rule.kind == "units":
            return [unit.text for unit in self.units(transitions)]
        if rule.kind == "pieces":
            return [text for transition in transitions for text in self._pieces(transition)]
        texts = [text for transition in transitions if (text := _readable(transition.text))]
        if rule.kind == "whole":
            return [join_transitions(texts)] if texts else []
        packs: list[list[str]] = []
        room = 0
        for text in texts:
            needed = self._count_joined(text)
            if not packs or needed > room:
                packs.append([])
                room = rule.tokens
            packs[-1].append(text)
            room -= needed
        return [join_transitions(pack) for pack in packs]

    def _pieces(self, transition: Transition) -> list[str]:
        """A text as it stands; one with a form, or whose words or day are known, as its units say it."""
        tokens = self._windows.tokens
        is_said = transition.context != Context() or form_of(transition.text) is not None
        units = units_of([transition], budget_tokens=tokens, count_tokens=self.count_tokens, single_sentences=is_said)
        return _packed(units, tokens, self.count_tokens) if is_said else [unit.text for unit in units]

    def forget_counted(self) -> None:
        """Let go of every text that was counted; the next count begins another memory."""
        # tokens of a transition with the notice before it; remembered, as every update cuts the history again
        self._count_joined = lru_cache(maxsize=65_536)(lambda text: self.count_tokens(join_transitions(["", text])))


def _packed(units: Sequence[Unit], tokens: int, count_tokens: Callable[[str], int]) -> list[str]:
    """Join what units say, line by line, under headings that are said once, into texts of at most so many tokens."""
    packs: list[list[str]] = []
    room, heading = 0, ""
    for unit in units:
        above, own = unit.text[: unit.own].strip(), unit.text[unit.own :].strip()
        lines = [own] if packs and above == heading else [above, own] if above else [own]
        needed = sum(count_tokens(f"{line}\n") for line in lines)
        if not packs or needed > room:
            packs.append([])
            lines = [above, own] if above else [own]
            room, needed = tokens, sum(count_tokens(f"{line}\n") for line in lines)
        packs[-1] += lines
        room, heading = room - needed, above
    return ["\n".join(pack) for pack in packs]


def _readable(text: str) -> str:
    return without_calls("".join(text[start:end] for start, end in readable_spans(text)))
