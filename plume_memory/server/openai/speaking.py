"""One call, whichever of OpenAI's two protocols it comes in: what is asked for, from which memory, and what is said.

1 the model's id          the bare model's, `plume`, or `plume@NAME[:VERSION]`
2 which memory            naming.py
3 what is written         remembering.py: durable before a word is answered
4 what it is made from    pinning.py: the version before that write; the prompt holds its words anyway
5 words and calls         `spoken`
"""

import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plume_memory.answering.tool_calls import (
    TOOL_ROUNDS,
    AnswerForm,
    Call,
    CallReader,
    calls_since_user,
    checked_choice,
    is_quoted,
    refusal,
)
from plume_memory.cancel import Cancel
from plume_memory.errors import MemoryNotFound
from plume_memory.records import Answer, Version
from plume_memory.server.auth import Caller
from plume_memory.server.naming import MODEL, Addressed, addressed, sources_of
from plume_memory.server.openai.conversation import Sent, turns_of
from plume_memory.server.openai.remembering import CONVERSATION_HEADER, made, remember
from plume_memory.server.openai.schemas import PlumeOptions
from plume_memory.server.pinning import Pinned, keep, pin
from plume_memory.server.problems import Problem, Refused, invalid
from plume_memory.server.state import Serving
from plume_memory.store.checks import check_name

if TYPE_CHECKING:  # torch's side
    from plume_memory.model.tool_turns import Message


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a call asks for."""

    model: str
    messages: Sequence[Sent]
    plume: PlumeOptions
    tools: Sequence[Mapping[str, Any]]
    tool_choice: Any
    response_format: Mapping[str, Any] | None
    max_new_tokens: int | None
    stop: tuple[str, ...]
    top_candidates: int
    one_call: bool
    """At most one tool is called."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call is answered from; nothing was pinned or written yet."""

    addressed: Addressed | None
    """None: the bare model answers."""
    writes: bool


@dataclass(frozen=True, slots=True)
class Prepared:
    """A call that can be answered."""

    pinned: Pinned
    turns: "list[Message]"
    form: AnswerForm
    written: tuple[Version, ...]
    timeout_s: float


@dataclass(frozen=True, slots=True)
class Words:
    """Some of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Spoken:
    """The end of an answer."""

    text: str
    """The last words."""
    calls: tuple[Call, ...]
    answer: Answer
    plume: dict[str, Any]
    """What it is from: goes with it as `plume`."""

    @property
    def finish_reason(self) -> str:
        """OpenAI's word for why it ended."""
        return "tool_calls" if self.calls else self.answer.finish_reason


def place_of(serving: Serving, caller: Caller, headers: Mapping[str, str], wanted: Wanted) -> Place:
    """Return which memory a call is about: it reads the directory, and nothing else.

    Raises:
        Refused: 404, no such model; 400, no memory is named; 403, the key may not write.
        MemoryNotFound: there is none of that name that is the caller's.
    """
    bare = serving.pool.model
    if wanted.model not in (bare, MODEL) and not wanted.model.startswith(f"{MODEL}@"):
        detail = (
            f"There is no model {wanted.model[:200]!r}: it is {MODEL!r}, '{MODEL}@NAME' or {bare!r} without memory."
        )
        raise Refused(Problem(404, "model-not-found", detail, param="model"))
    asked = wanted.plume
    named = sources_of(
        caller, serving.settings, headers, memory=asked.memory, version=asked.version, model=wanted.model
    )
    if named:
        caller.check("memory:read")
    found = addressed(serving.directory, caller, named)
    if found is None:
        if wanted.model != bare:
            raise invalid(
                "No memory is named: send the header X-Plume-Memory, `plume.memory` in the body, or the model "
                f"'{MODEL}@NAME'; {bare!r} answers without one.",
                code="memory-missing",
            )
        return Place(None, writes=False)
    writes = caller.writes if asked.write is None else asked.write
    if writes:
        caller.check("memory:write")
    if found.memory is None and not writes:
        raise MemoryNotFound(f"There is no memory {(found.new_name or '')[:200]!r}: check its name, or create it.")
    return Place(found, writes)


def prepare(
    serving: Serving, caller: Caller, headers: Mapping[str, str], wanted: Wanted, place: Place, timeout: float
) -> Prepared:
    """Check what is wanted, pin, and write what the user says: for an answer's thread.

    Raises:
        InvalidInput: tools, a choice or a format that cannot be followed.
        VersionNotFound: there is no such version.
        StoreError: nothing was written.
    """
    turns = turns_of(wanted.messages)
    form = _form(wanted, turns)
    if place.addressed is None:
        return Prepared(pin(serving, None, None), turns, form, (), timeout)
    for name in (CONVERSATION_HEADER, "idempotency-key"):
        if name in headers:
            check_name(headers[name], what=f"The header {name}")
    memory = made(serving, caller.tenant, place.addressed)
    pinned = pin(serving, memory, place.addressed.version)
    written: list[Version] = []
    if place.writes:
        written = remember(
            serving.pool,
            memory,
            wanted.messages,
            conversation=headers.get(CONVERSATION_HEADER),
            idempotency_key=headers.get("idempotency-key"),
        )
    return Prepared(pinned, turns, form, tuple(written), timeout)


def spoken(
    serving: Serving, caller: Caller, wanted: Wanted, prepared: Prepared, cancel: Cancel
) -> Generator[Words | Spoken, None, None]:
    """Answer, piece by piece; the last piece is `Spoken`. Closing it frees the rows. For an answer's threads."""
    form, pinned, begun = prepared.form, prepared.pinned, time.monotonic()
    reader = CallReader() if form.tools else None
    most = serving.settings.answer_tokens
    pieces = pinned.snapshot.stream(
        prepared.turns,
        max_new_tokens=None if wanted.max_new_tokens is None else min(wanted.max_new_tokens, most),
        stop=wanted.stop,
        top_candidates=wanted.top_candidates,
        grammar=form.grammar,
        tools=form.tools,
        unknown=wanted.plume.unknown,
        known_at=wanted.plume.known_at,
        timeout=prepared.timeout_s,
        cancel=cancel,
    )
    is_first = True
    with closing(pieces):
        for piece in pieces:
            if is_first:
                serving.metrics.first_token_s.observe(time.monotonic() - begun)
                is_first = False
            text = reader.add(piece.text) if reader else piece.text
            if piece.answer is not None:
                yield _ended(serving, caller, wanted, prepared, text, reader, piece.answer)
            elif text:
                yield Words(text)


def _ended(
    serving: Serving,
    caller: Caller,
    wanted: Wanted,
    prepared: Prepared,
    text: str,
    reader: CallReader | None,
    answer: Answer,
) -> Spoken:
    rest, calls = reader.finish() if reader else ("", [])
    text += rest + "".join(call.arguments for call in calls if call.name is None)  # what cannot be read stays words
    named = [call for call in calls if call.name is not None]
    units = [one.unit.text for one in answer.evidence_units]
    quoted = [call.name for call in named if call.name is not None and is_quoted(call.name, units)]
    named = [call for call in named if call.name not in quoted][: 1 if wanted.one_call else None]
    if quoted and not text and not named:
        text = refusal(quoted)
    asked = next((turn["content"] for turn in reversed(prepared.turns) if turn["role"] == "user"), "")
    shown = keep(serving, caller, prepared.pinned, asked, answer)
    memory = prepared.pinned.memory
    plume: dict[str, Any] = {
        "memory": shown.memory,
        "name": None if memory is None else memory.name,
        "version": None if memory is None else answer.version,
        "known": answer.known,
        "confidence": answer.confidence,
        "mean_weight": answer.mean_weight,
        "evidence": [_evidence(one) for one in shown.model_dump(mode="json")["evidence_units"]],
        "trace_id": shown.trace_id,
        "written": [version.number for version in prepared.written],
    }
    if quoted:
        plume["refused_calls"] = quoted
    if wanted.plume.trace:
        plume["trace"] = shown.model_dump(mode="json")["trace"]
    return Spoken(text, tuple(named), answer, plume)


def _evidence(unit: dict[str, Any]) -> dict[str, Any]:
    """A unit with its score, on one level."""
    return {**{name: unit["unit"][name] for name in ("version", "start", "end", "text")}, "score": unit["score"]}


def _form(wanted: Wanted, turns: "list[Message]") -> AnswerForm:
    from plume_memory.model.grammar import Limits  # noqa: PLC0415 — only an answer needs it

    tools, choice = wanted.tools, wanted.tool_choice
    if calls_since_user(turns) >= TOOL_ROUNDS and checked_choice(tools, choice) in (None, "auto"):
        tools, choice = (), None
    return AnswerForm.of(tools, choice, wanted.response_format, Limits(string_chars=wanted.plume.max_string_chars))
