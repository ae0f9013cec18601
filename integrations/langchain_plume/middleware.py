"""PlumeMemoryMiddleware: the memory of whoever is speaking, in any LangChain agent.

    with MemoryPool("sqlite:///plume.db") as pool, PlumeMemoryMiddleware(pool) as memory:
        agent = create_agent(ChatPlume(), middleware=[memory], context_schema=User)  # a dataclass with `user_id`
        agent.invoke({"messages": [...]}, context=User("alice"))

When a run begins, the user's new messages are noted in the agent's state, with their owner. At each call
of the model the owner's memory is attached: to a ChatPlume in its weights, to any other chat model as
what `recall` gives for the last turns, quoted, in a message before the question. When the run ends, what was noted is
appended to its owner's log, once: the idempotency key is made of thread, message and words. The notes lie
in the checkpoint, so a run that is resumed, by whomever, or abandoned for another writes neither twice nor
to the wrong owner, and a summary that replaces the messages takes nothing away. The assistant's words are no
evidence of their own, for a guess must not become a memory: only what it has just asked of the user is kept
beside the reply, and told above it.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NotRequired, TypedDict, get_args

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain.agents.middleware.types import PrivateStateAttr, ToolCallRequest
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.runnables import Runnable
from langgraph.types import Command

from langchain_plume.background import Derive, Deriver
from langchain_plume.chat_model import ChatPlume
from langchain_plume.extracting import extracted
from langchain_plume.tools import MemoryTool, memory_tools
from plume_memory.errors import IdempotencyConflict, InvalidInput
from plume_memory.pool import MemoryPool
from plume_memory.recalling.notes import MAX_TOKENS, NOTES
from plume_memory.segmentation.dates import with_dates
from plume_memory.segmentation.forms.turns import question_at_end
from plume_memory.segmentation.said import corrections_in, everything_said
from plume_memory.store.checks import check_name, storable
from plume_memory.store.overruling import answered_end
from plume_memory.terms import speaks_of_me

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from plume_memory.memory import ParametricMemory
    from plume_memory.model.prompt import Message
    from plume_memory.recalling.notes import Recall, RecallOptions
    from plume_memory.records import Form

Write = Literal["turns", "corrections", "off"]
Notes = Literal["user", "system"]


_TURNS_BEFORE, _CHARS_BEFORE = 4, 1000
"""Messages before one that are shown to `extract`, and how much of each."""


class Said(TypedDict):
    """A message of a user that has yet to be written."""

    owner: str | None
    """None where one memory serves everyone."""
    id: str
    text: str
    at: str
    """When it was noted, ISO 8601."""
    before: list[str]
    """The turns before it, for `extract`."""
    asked: NotRequired[str | None]
    """What the assistant asked of the user, that it answers."""


class PlumeState(AgentState[Any]):
    """What a run notes; in the checkpoint, and neither in its input nor in its output."""

    plume_owner: NotRequired[Annotated[str | None, PrivateStateAttr]]
    """Who spoke when the run began."""
    plume_said: NotRequired[Annotated[list[Said], PrivateStateAttr]]


class PlumeMemoryMiddleware(AgentMiddleware[PlumeState, Any, Any]):
    """Reads and writes a memory around an agent's model calls. A context manager: leaving it is `close`.

    The sync and the async hooks do the same: the async ones run the same code in a thread.
    """

    state_schema = PlumeState

    def __init__(
        self,
        memory: "ParametricMemory | MemoryPool",
        *,
        write: Write | Callable[[str], str | None] = "turns",
        extract: Runnable[LanguageModelInput, BaseMessage] | None = None,
        tools: bool = False,
        user_id: str = "user_id",
        derive: Derive = "background",
        units: int = NOTES,
        max_tokens: int = MAX_TOKENS,
        also: Sequence[str] = (),
        notes: Notes = "user",
    ) -> None:
        """Take a memory for everyone, or a pool with one per user.

        Args:
            memory: one memory for all runs, or a pool: then the runtime's context names the owner.
            write: what of a user's message is appended: `turns` the whole message unless it only asks,
                `corrections` the sentences that say something has changed (a word list: see
                `corrections_in`), `off` nothing; or a function from the message's text to what is
                appended, None for nothing.
            extract: a chat model that turns what is appended into dated statements which can be understood alone
                (extract_prompt.txt); the words themselves are kept beside them, in the version's metadata under
                `said`. Where it finds nothing worth keeping nothing is written. What it raises the run raises, and
                what was noted is written when the run is resumed: see `with_retry` and `with_fallbacks`.
            tools: whether the agent also gets `memory_tools`, each call on its owner's memory.
            user_id: attribute or key of the runtime's context that names the owner in a pool.
            derive: when the adapter of a new version is computed: in the `background` (see `flush`),
                `now` before the run returns, or `later` by the next question. Not before a ChatPlume
                has answered here: no other model uses it.
            units: notes that a foreign chat model is shown at most, beside those that complete one of them.
            max_tokens: of those notes together, at most; what completes a note goes first.
            also: memories of the pool that a foreign chat model is shown notes of beside the owner's: the team's.
            notes: where it is shown them: in a message of the `user` before the question, or behind the text of the
                `system` message, which most models obey; what a memory was told may be anybody's words.

        Raises:
            InvalidInput: an unknown policy or place, `units` or `max_tokens` below 1, or `also` without a pool.
        """
        super().__init__()
        if not callable(write) and write not in _POLICIES:
            raise InvalidInput(f"write is one of {', '.join(_POLICIES)} or a function; got {write!r}.")
        if units < 1 or max_tokens < 1:
            raise InvalidInput(
                f"A foreign chat model is shown at least one unit and one token; got units={units}, "
                f"max_tokens={max_tokens}."
            )
        if notes not in get_args(Notes):
            raise InvalidInput(f"notes is one of {', '.join(get_args(Notes))}; got {notes!r}.")
        if also and not isinstance(memory, MemoryPool):
            raise InvalidInput("`also` names memories of a pool, and this is one memory: pass a MemoryPool.")
        self.tools = memory_tools(None) if tools else ()
        self._memories = memory
        self._chosen = write if callable(write) else _POLICIES[write]
        self._extract = extract
        self._user_id, self._also, self._notes = user_id, tuple(also), notes
        self._most: RecallOptions = {"k": units, "max_tokens": max_tokens}
        self._deriver = Deriver(derive)
        self._answers_from_weights = False

    # --- a run begins -------------------------------------------------------------------------------

    def before_agent(self, state: PlumeState, runtime: "Runtime[Any]") -> dict[str, Any]:
        """Note whose run this is and what the user says in it."""
        owner = self._owner(runtime)
        noted = list(state.get("plume_said", ()))
        known = {said["id"] for said in noted}
        for at, message in _newest(state["messages"]):
            text = self._chosen(message.text)
            own_id = message.id or f"#{at}"  # the graph gives every message an id; a caller's own state may not
            if own_id not in known and text and text.strip():
                now = datetime.now(UTC).isoformat()
                before = [
                    f"{m.type}: {m.text[:_CHARS_BEFORE]}" for m in state["messages"][:at][-_TURNS_BEFORE:] if m.text
                ]
                noted.append(
                    Said(
                        owner=owner,
                        id=own_id,
                        text=text,
                        at=now,
                        before=before if self._extract else [],
                        asked=_asked_before(state["messages"][:at]),
                    )
                )
        return {"plume_owner": owner, "plume_said": noted}

    async def abefore_agent(self, state: PlumeState, runtime: "Runtime[Any]") -> dict[str, Any]:
        """See `before_agent`."""
        return await asyncio.to_thread(self.before_agent, state, runtime)

    # --- the model and the tools --------------------------------------------------------------------

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Let the model answer with the owner's memory."""
        return handler(self._with_memory(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """See `wrap_model_call`."""
        return await handler(await asyncio.to_thread(self._with_memory, request))

    def wrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]]
    ) -> ToolMessage | Command[Any]:
        """Let a memory tool work on the owner's memory."""
        return handler(self._on_memory(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]]
    ) -> ToolMessage | Command[Any]:
        """See `wrap_tool_call`."""
        return await handler(await asyncio.to_thread(self._on_memory, request))

    def _with_memory(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        owner = _noted_owner(request.state)
        if isinstance(request.model, ChatPlume):
            self._answers_from_weights = True
            return request.override(model=request.model.with_memory(self._memory_of(owner)))
        at, asked = next(((at, m.text) for at, m in _spoken(request.messages)), (0, ""))
        notes = self._recalled(owner, _turns(request.messages[: at + 1])) if asked.strip() else None
        if not notes:
            return request
        if self._notes == "system":
            return request.override(system_message=_joined(request.system_message, notes.text))
        quoted = HumanMessage(notes.text, additional_kwargs={"lc_source": "plume_notes"})
        return request.override(messages=[*request.messages[:at], quoted, *request.messages[at:]])

    def _recalled(self, owner: str | None, turns: "list[Message]") -> "Recall":
        memory = self._memory_of(owner)
        if isinstance(self._memories, MemoryPool) and self._also:
            return self._memories.recall(turns, [memory.name, *self._also], **self._most)
        return memory.recall(turns, **self._most)

    def _on_memory(self, request: ToolCallRequest) -> ToolCallRequest:
        if not isinstance(request.tool, MemoryTool) or request.tool.memory is not None:
            return request
        memory = self._memory_of(_noted_owner(request.state))
        return request.override(tool=request.tool.model_copy(update={"memory": memory}))

    def _owner(self, runtime: "Runtime[Any] | None") -> str | None:
        if not isinstance(self._memories, MemoryPool):
            return None
        context = getattr(runtime, "context", None)
        owner = context.get(self._user_id) if isinstance(context, Mapping) else getattr(context, self._user_id, None)
        if not isinstance(owner, str) or not owner:
            raise InvalidInput(
                f"Whose memory? {self._user_id!r} of the run's context must be a text that is not empty; the context "
                f"is of type {type(context).__name__}, its {self._user_id!r} of type {type(owner).__name__}. Invoke "
                "the agent with context=..., and give create_agent a context_schema."
            )
        return check_name(owner, what="The user a memory belongs to")

    def _memory_of(self, owner: str | None) -> "ParametricMemory":
        if not isinstance(self._memories, MemoryPool):
            return self._memories
        if owner is None:
            raise InvalidInput(
                "The run's state does not say whose it is: it began without this middleware. Begin anew."
            )
        return self._memories.memory(owner)

    # --- a run ends ---------------------------------------------------------------------------------

    def after_agent(self, state: PlumeState, runtime: "Runtime[Any]") -> dict[str, Any]:
        """Append what was noted. The logs have it when this returns; see `derive` for the rest.

        Characters that no log can hold, NUL and halves of surrogate pairs, become blanks, and the version's metadata
        counts them: refused, the message would be noted again in every later run and hold up all that is said.
        """
        thread = getattr(getattr(runtime, "execution_info", None), "thread_id", None)
        for said in state.get("plume_said", ()):
            memory = self._memory_of(said["owner"])
            text = storable(said["text"])
            if not text.strip():
                continue
            replaced = sum(one != other for one, other in zip(text, said["text"], strict=True))
            facts = {"message_id": said["id"], "thread_id": thread}
            facts |= {"replaced_characters": replaced} if replaced else {}
            # a longer one than the memory takes is written in parts: refused, it would be noted again in every run
            for at, part in enumerate(_parts(text, memory.max_update_chars)):
                key = hashlib.sha256(f"{thread}\n{said['id']}\n{part}".encode()).hexdigest()
                self._write(memory, part, said if at == 0 else {**said, "asked": None}, facts, key)
            if self._answers_from_weights:
                self._deriver.begin(memory)
        return {"plume_said": []}

    def _write(self, memory: "ParametricMemory", text: str, said: Said, facts: dict[str, Any], key: str) -> None:
        at = datetime.fromisoformat(said["at"])
        is_dated = with_dates(text, at) is not text  # "yesterday": it has to be known of which day
        form: Form | None = None
        asked = said.get("asked")
        if self._extract is not None:
            told = extracted(self._extract, text, before=said.get("before", []), said_at=at)
            if not told:
                return
            text, facts, form, is_dated = "\n".join(told), {**facts, "said": text}, "notes", True
            asked = None
        with suppress(IdempotencyConflict):  # written before this run was resumed, in other words or erased since
            memory.update(
                text,
                form=form,
                observed_at=at if is_dated else None,
                in_answer_to=asked,
                idempotency_key=key,
                metadata=facts,
                derive=False,
            )

    async def aafter_agent(self, state: PlumeState, runtime: "Runtime[Any]") -> dict[str, Any]:
        """See `after_agent`."""
        return await asyncio.to_thread(self.after_agent, state, runtime)

    def flush(self) -> None:
        """Wait until every adapter begun in the background is done.

        Raises:
            Exception: what went wrong with one of them, since the last flush; all are over by then.
        """
        self._deriver.flush()

    def close(self) -> None:
        """Finish what was begun in the background and stop its thread; the memories stay open. Twice is allowed.

        Runs after it still write; what they write is derived by the next question.
        """
        self._deriver.close()

    def __enter__(self) -> "PlumeMemoryMiddleware":
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def _parts(text: str, longest: int) -> list[str]:
    return [part for at in range(0, len(text), longest) if (part := text[at : at + longest]).strip()]


def _nothing(text: str) -> None:
    del text


_POLICIES: dict[str, Callable[[str], str | None]] = {
    "turns": everything_said,
    "corrections": corrections_in,
    "off": _nothing,
}


def _spoken(messages: Sequence[AnyMessage]) -> list[tuple[int, HumanMessage]]:
    """A user's own messages with their places, newest first: a summary of LangChain's is no one's words."""
    return [
        (at, message)
        for at, message in reversed(list(enumerate(messages)))
        if isinstance(message, HumanMessage) and "lc_source" not in message.additional_kwargs
    ]


def _newest(messages: Sequence[AnyMessage]) -> list[tuple[int, HumanMessage]]:
    """What a run's input adds: the user's messages behind the last one of anybody else, oldest first."""
    begin = next((at for at in range(len(messages), 0, -1) if not isinstance(messages[at - 1], HumanMessage)), 0)
    return [(at, message) for at, message in reversed(_spoken(messages)) if at >= begin]


def _asked_before(messages: Sequence[AnyMessage]) -> str | None:
    """What the assistant has just asked of the user; None where it asked nothing, or what it can do itself."""
    last = next((message for message in reversed(messages) if message.text.strip()), None)
    question = question_at_end(last.text) if isinstance(last, AIMessage) else None
    return None if question is None or speaks_of_me(question) else answered_end(question)


def _noted_owner(state: Any) -> str | None:
    owner: str | None = state.get("plume_owner") if isinstance(state, Mapping) else None
    return owner


def _turns(messages: Sequence[AnyMessage]) -> "list[Message]":
    """What was said, for `recall`: nothing of tools and systems, and no summary."""
    spoken = {at for at, _ in _spoken(messages)}
    return [
        {"role": "assistant" if isinstance(message, AIMessage) else "user", "content": message.text}
        for at, message in enumerate(messages)
        if message.text and (at in spoken or isinstance(message, AIMessage))
    ]


def _joined(system: SystemMessage | None, notes: str) -> SystemMessage:
    """Put the notes behind the system message; its blocks and options stay."""
    if system is None:
        return SystemMessage(notes)
    if isinstance(system.content, str):
        return system.model_copy(update={"content": f"{system.content}\n\n{notes}"})
    return system.model_copy(update={"content": [*system.content, {"type": "text", "text": notes}]})
