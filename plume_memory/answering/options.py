"""How answers are decoded: options of a single call beside the engine's policy, the same for every way of asking."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

from plume_memory.cancel import Cancel
from plume_memory.errors import InvalidInput
from plume_memory.model.grammar import Grammar
from plume_memory.model.queries import DecodeSettings
from plume_memory.policy import AnswerPolicy

Unknown = Literal["abstain", "bare"]


class DecodeOptions(TypedDict, total=False):
    """Of every question."""

    max_new_tokens: int | None
    """Longest answer; the policy's when not given."""
    min_new_tokens: int
    """The model does not end its answer before this many tokens."""
    stop: Sequence[str]
    """Texts that end the answer; none of them is part of it."""
    top_candidates: int
    """Keep this many candidates of both streams per token in the trace."""
    grammar: Grammar | None
    """What the answer may look like."""
    timeout: float | None
    """Seconds within which the answer must be decoded, waiting for others included; else `DeadlineExceeded`."""
    cancel: Cancel | None
    """Called from another thread it ends the answer at the next step: `Cancelled`."""
    unknown: Unknown
    """What is given where the memory does not know (`Answer.known`): "abstain", a sentence that says so, or "bare",
    the bare model's answer where nothing is relevant and else the answer as it is, marked. An answer under a grammar
    or with tools is given as it is either way. The default: "abstain"."""
    known_at: float | None
    """Least confidence at which the answer counts as known; the policy's when not given."""


class AskOptions(DecodeOptions, total=False):
    """The same, for one question."""

    tools: Sequence[Mapping[str, Any]] | None
    """What the model may call, in OpenAI's shape; the answer's text then may hold calls."""


def abstains(options: Mapping[str, Any]) -> bool:
    """Whether an unknown question gets an abstention, by what a caller asked for.

    Raises:
        InvalidInput: `unknown` is neither, or `known_at` no confidence.
    """
    unknown = options.get("unknown", "abstain")
    if unknown not in get_args(Unknown):
        raise InvalidInput(f"`unknown` is one of {', '.join(get_args(Unknown))}; got {unknown!r}.")
    known_at = options.get("known_at")
    if known_at is not None and not 0 <= known_at <= 1:
        raise InvalidInput(f"`known_at` is a confidence between 0 and 1; got {known_at!r}.")
    return unknown == "abstain" and options.get("grammar") is None and not options.get("tools")


def settings_of(policy: AnswerPolicy, options: DecodeOptions) -> DecodeSettings:
    """Return how one decode goes, by the policy and what a caller asked for.

    Raises:
        InvalidInput: a value out of its range, or one text where a list of texts is meant.
        TypeError: an option that there is not.
    """
    known = DecodeOptions.__annotations__
    if unknown := options.keys() - known.keys():
        raise TypeError(f"There is no option {min(unknown)!r} here; have {', '.join(known)}.")
    stop = options.get("stop", ())
    if isinstance(stop, str):
        raise InvalidInput(f"`stop` is a list of texts; write stop=[{stop!r}].")
    most = options.get("max_new_tokens")
    return DecodeSettings(
        max_new_tokens=policy.max_new_tokens if most is None else most,
        lambda_max=policy.lambda_max,
        tau=policy.tau,
        stop=tuple(stop),
        top_candidates=options.get("top_candidates", 0),
        min_new_tokens=options.get("min_new_tokens", 0),
        grammar=options.get("grammar"),
        timeout=options.get("timeout"),
        cancel=options.get("cancel"),
    )
