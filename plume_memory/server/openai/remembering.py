"""What a user says in a chat, written to his memory: once, however often a client sends it.

OpenAI's client repeats a call that failed, with no key of its own. So each message is written under a key made of the
memory, the conversation, its place in it and its words; or of the call's `Idempotency-Key`, where there is one. A
conversation is what its header says, and without one the messages that came before: the same words said first in two
conversations that nobody tells apart are then one update.
"""

import hashlib
import json
from collections.abc import Sequence

from plume_memory.errors import IdempotencyConflict, MemoryExists
from plume_memory.pool import MemoryPool
from plume_memory.records import Version
from plume_memory.segmentation.said import everything_said
from plume_memory.server.naming import Addressed
from plume_memory.server.openai.conversation import Sent, said_now
from plume_memory.server.state import Serving
from plume_memory.store.checks import storable
from plume_memory.store.directory import ListedMemory

CONVERSATION_HEADER = "x-plume-conversation"


def made(serving: Serving, tenant: str, addressed: Addressed) -> ListedMemory:
    """Return the memory that is written to, making it where its first words make it."""
    if addressed.memory is not None:
        return addressed.memory
    name = addressed.new_name or ""
    try:
        return serving.directory.create(tenant, name)
    except MemoryExists:  # another request of the same person was faster
        return serving.directory.get(tenant, name)


def remember(
    pool: MemoryPool,
    memory: ListedMemory,
    messages: Sequence[Sent],
    *,
    conversation: str | None,
    idempotency_key: str | None,
) -> list[Version]:
    """Append what the user says now, where it says something; a question says nothing.

    Args:
        pool: of the memory.
        memory: whose it is.
        messages: all of the call.
        conversation: what the call's header says.
        idempotency_key: the call's own.

    Returns:
        The updates, also those that an earlier try has written.
    """
    own = pool.memory(memory.log_name, create=False)
    written = []
    for said in said_now(messages):
        text = everything_said(storable(said.text))
        if text is None:
            continue
        before = conversation if conversation is not None else [dict(one) for one in messages[: said.at]]
        for part_at, part in enumerate(_parts(text, own.max_update_chars)):
            called = idempotency_key if idempotency_key is not None else [before, said.at, text]
            key = hashlib.sha256(json.dumps([memory.id, called, said.at, part_at]).encode()).hexdigest()
            metadata = {"source": "chat", **({} if conversation is None else {"conversation": conversation})}
            try:
                written.append(own.update(part, idempotency_key=key, metadata=metadata, derive="later"))
            except IdempotencyConflict:  # it was erased since: it is not written again
                continue
    return written


def _parts(text: str, longest: int) -> list[str]:
    """A message that is longer than an update: in parts, as it would else be refused at every try."""
    return [part for at in range(0, len(text), longest) if (part := text[at : at + longest]).strip()]
