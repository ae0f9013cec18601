"""What an answer is made from, fixed before it is begun, and what is kept of it afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from plume_memory.records import Answer
from plume_memory.server.auth import Caller
from plume_memory.server.problems import invalid
from plume_memory.server.rest.answer_schemas import AnswerOut, TraceOut
from plume_memory.server.state import Serving
from plume_memory.server.traces import KeptTrace, new_trace_id
from plume_memory.stages import stage
from plume_memory.store.directory import ListedMemory

if TYPE_CHECKING:  # torch's side
    from plume_memory.answering.pinned import Snapshot

ROWS = 2
"""Decode rows of a question: the global stream's and the evidence's."""
TIMEOUT_HEADER = "x-plume-timeout"


@dataclass(frozen=True, slots=True)
class Pinned:
    """A memory at a version, or the bare model."""

    snapshot: "Snapshot"
    memory: ListedMemory | None
    """None: the bare model answers."""
    last_erasure: int
    fingerprint: str
    """Names version, log and engine: `system_fingerprint`, the one field that every client keeps."""
    trace_id: str

    def headers(self) -> dict[str, str]:
        """What says on a response where to look further."""
        named = {} if self.memory is None else {"x-plume-version": str(self.snapshot.version)}
        return {"x-plume-trace": self.trace_id, **named}


def pin(serving: Serving, memory: ListedMemory | None, version: int | None) -> Pinned:
    """Pin a version (None: the newest). It loads the model and may read a long log: for an answer's thread.

    Raises:
        VersionNotFound: there is no such version.
    """
    from plume_memory.answering.pinned import Snapshot  # noqa: PLC0415 — torch: seconds, and only when asked

    engine, trace_id = serving.pool.engine, new_trace_id(serving.settings.mark)
    if memory is None:
        return Pinned(Snapshot.of_nothing(engine), None, 0, f"plume-0-none-{engine.fingerprint[:8]}", trace_id)
    own = serving.pool.memory(memory.log_name, create=False)
    last_erasure = own.last_erasure
    snapshot = own.at(version=version)
    head = own.entry(snapshot.version).chain_hash if snapshot.version else "0" * 8
    fingerprint = f"plume-{snapshot.version}-{head[:8]}-{engine.fingerprint[:8]}"
    return Pinned(snapshot, memory, last_erasure, fingerprint, trace_id)


def keep(serving: Serving, caller: Caller, pinned: Pinned, question: str, answer: Answer) -> AnswerOut:
    """Count an answer, keep its trace for a while, and return it as memory's own routes send it."""
    with stage("answer") as said:
        said.update(question=question, answer=answer.text, units=len(answer.evidence_units))
    memory_id = None if pinned.memory is None else pinned.memory.id
    shown = AnswerOut.of(answer, memory=memory_id, trace_id=pinned.trace_id)
    body = TraceOut(**dict(shown), question=question, created_at=datetime.now(UTC))
    serving.traces.keep(
        KeptTrace(
            id=pinned.trace_id,
            tenant=caller.tenant,
            memory_id=memory_id,
            log_name=None if pinned.memory is None else pinned.memory.log_name,
            last_erasure=pinned.last_erasure,
            body=body.model_dump(mode="json"),
        )
    )
    serving.metrics.count_answer(answer)
    return shown


def timeout_s(serving: Serving, headers: Mapping[str, str]) -> float:
    """Return the seconds that an answer may take: the server's, or what a caller sets below.

    Raises:
        Refused: 400, no number of seconds above 0.
    """
    given, most = headers.get(TIMEOUT_HEADER), serving.settings.answer_s
    if given is None:
        return most
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not seconds > 0:
        raise invalid(f"{TIMEOUT_HEADER} is a number of seconds above 0; got {given[:40]!r}.", param=TIMEOUT_HEADER)
    return min(seconds, most)
