"""PlumeMemoryMiddleware: the memory of whoever is speaking, in any LangChain agent.

    agent = create_agent(
        ChatPlume(),
        middleware=[PlumeMemoryMiddleware(MemoryPool("sqlite:///plume.db"))],
        context_schema=User,                      # a dataclass with `user_id`
    )
    agent.invoke({"messages": [...]}, context=User("alice"))

Before each call of the model the owner's memory is attached: to a ChatPlume in its weights, to any
other chat model as routed evidence in the system message. After each run the user's words are
appended to the log, once per message: the idempotency key is made of the message's id, so a run that
is resumed from a checkpoint writes nothing twice. The assistant's words are never written: a guess
must not become a memory.
"""

import asyncio
import hashlib
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Literal

from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage

from langchain_plume.chat_model import ChatPlume
from plume_memory.errors import InvalidInput
from plume_memory.evidence.segment import sentence_spans

if TYPE_CHECKING:
    from langgraph.runtime import Runtime

    from plume_memory.memory import ParametricMemory
    from plume_memory.pool import MemoryPool

Write = Literal["turns", "corrections", "off"]
Derive = Literal["background", "now", "later"]

_LOGGER = logging.getLogger(__name__)
_CORRECTS = re.compile(
    r"\b(actually|correction|update|instead|no longer|not any ?more|from now on|as of|moved|changed|renamed|replaced|"
    r"new|now|remember|please note|i meant|sorry|used to|anymore)\b|^\s*no\b",
    re.IGNORECASE,
)


class PlumeMemoryMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Reads and writes a memory around an agent's model calls.

    The sync and the async hooks do the same: the async ones run the same code in a thread.
    """

    def __init__(
        self,
        memory: "ParametricMemory | MemoryPool",
        *,
        write: Write | Callable[[str], str | None] = "turns",
        user_id: str = "user_id",
        derive: Derive = "background",
        units: int = 4,
    ) -> None:
        """Take a memory for everyone, or a pool with one per user.

        Args:
            memory: one memory for all runs, or a pool: then the runtime's context names the owner.
            write: what of a user's message is appended: `turns` the whole message unless it only asks,
                `corrections` the sentences that say something has changed (a word list: see
                `corrections_in`), `off` nothing; or a function from the message's text to what is
                appended, None for nothing.
            user_id: attribute or key of the runtime's context that names the owner in a pool.
            derive: when the adapter of a new version is computed: in the `background` (see `flush`),
                `now` before the run returns, or `later` by the next question.
            units: routed units that a foreign chat model is shown.

        Raises:
            InvalidInput: an unknown policy, or `units` below 1.
        """
        super().__init__()
        if not callable(write) and write not in _POLICIES:
            raise InvalidInput(f"write is one of {', '.join(_POLICIES)} or a function; got {write!r}.")
        if derive not in ("background", "now", "later"):
            raise InvalidInput(f"derive is background, now or later; got {derive!r}.")
        if units < 1:
            raise InvalidInput(f"A foreign chat model is shown at least one unit; got units={units}.")
        self.tools = ()
        self._memories = memory
        self._chosen = write if callable(write) else _POLICIES[write]
        self._user_id, self._units = user_id, units
        self._derive: Derive = derive
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="plume-derive")
        self._pending: list[Future[None]] = []
        self._lock = threading.Lock()

    # --- before the model ---------------------------------------------------------------------------

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

    def _with_memory(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        memory = self._memory_of(request.runtime)
        if isinstance(request.model, ChatPlume):
            return request.override(model=request.model.with_memory(memory))
        asked = next((m.text for m in reversed(request.messages) if isinstance(m, HumanMessage)), "")
        known = _known(memory, asked, self._units) if asked.strip() else None
        if known is None:
            return request
        before = f"{request.system_message.text}\n\n" if request.system_message else ""
        return request.override(system_message=SystemMessage(before + known))

    def _memory_of(self, runtime: "Runtime[Any] | None") -> "ParametricMemory":
        memories: Any = self._memories
        if not hasattr(memories, "memory"):
            single: ParametricMemory = memories
            return single
        context = getattr(runtime, "context", None)
        owner = context.get(self._user_id) if isinstance(context, Mapping) else getattr(context, self._user_id, None)
        if not isinstance(owner, str) or not owner:
            raise InvalidInput(
                f"The run's context has no {self._user_id!r}, so it is not known whose memory to use (found: "
                f"{context!r}). Invoke the agent with context=..., and give create_agent a context_schema."
            )
        pool: MemoryPool = memories
        return pool.memory(owner)

    # --- after the run ------------------------------------------------------------------------------

    def after_agent(self, state: AgentState[Any], runtime: "Runtime[Any]") -> None:
        """Append what the user said in this turn. The log has it when this returns; see `derive` for the rest."""
        memory = self._memory_of(runtime)
        for message in _last_turn(state["messages"]):
            text = self._chosen(message.text)
            if text and text.strip():
                version = memory.update(
                    text, idempotency_key=_key(message, text), metadata={"message_id": message.id}, derive=False
                )
                self._derived(memory, version.number)

    async def aafter_agent(self, state: AgentState[Any], runtime: "Runtime[Any]") -> None:
        """See `after_agent`."""
        await asyncio.to_thread(self.after_agent, state, runtime)

    def flush(self) -> None:
        """Wait until every adapter begun in the background is done, and raise what went wrong with any."""
        with self._lock:
            pending, self._pending = self._pending, []
        for one in pending:
            one.result()

    def close(self) -> None:
        """Finish what was begun in the background and stop its thread; the memories stay open. Twice is allowed.

        Runs after it still write; what they write is derived by the next question.
        """
        with self._lock:
            self._derive = "later"
        self._worker.shutdown()

    def _derived(self, memory: "ParametricMemory", number: int) -> None:
        if self._derive == "now":
            memory.at(version=number).derive()
            return
        with self._lock:
            if self._derive == "later":
                return
            begun = self._worker.submit(lambda: memory.at(version=number).derive())
            begun.add_done_callback(_report)
            # what went wrong stays for `flush`; what is done need not be kept
            self._pending = [one for one in self._pending if not one.done() or one.exception()] + [begun]


def everything_said(text: str) -> str | None:
    """The `turns` policy: the message as it stands; None when every sentence of it is a question."""
    return None if all(sentence.endswith("?") for sentence in _sentences(text)) else text.strip()


def corrections_in(text: str) -> str | None:
    """The `corrections` policy: the sentences that say that something has changed; None without any.

    A sentence counts when it is no question and has one of a few words: actually, correction, update,
    instead, no longer, from now on, moved, changed, now, new, remember, …; or begins with "no".
    """
    told = [sentence for sentence in _sentences(text) if not sentence.endswith("?") and _CORRECTS.search(sentence)]
    return " ".join(told) or None


def _nothing(text: str) -> None:
    del text


_POLICIES: dict[str, Callable[[str], str | None]] = {
    "turns": everything_said,
    "corrections": corrections_in,
    "off": _nothing,
}


def _sentences(text: str) -> list[str]:
    return [stripped for start, end in sentence_spans(text) if (stripped := text[start:end].strip())]


def _last_turn(messages: Sequence[AnyMessage]) -> list[HumanMessage]:
    """The user's messages that this run answered: those behind the answer before it, oldest first.

    Seen from the end: the run's own answer and tool calls, then the user's messages, then an earlier answer.
    """
    turn: list[HumanMessage] = []
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            turn.append(message)
        elif turn and isinstance(message, AIMessage):
            break
    return turn[::-1]


def _key(message: HumanMessage, text: str) -> str:
    """One key per message and wording: a resumed run repeats it, an edited message has another."""
    return hashlib.sha256(f"{message.id}\n{text}".encode()).hexdigest()


def _known(memory: "ParametricMemory", asked: str, units: int) -> str | None:
    """Routed evidence as words for a model that has no memory in its weights; oldest first, so the last word holds."""
    routed = sorted((one.unit for one in memory.route(asked, k=units)), key=lambda unit: unit.position)
    if not routed:
        return None
    lines = "\n".join(f"- (version {unit.version}) {unit.text.strip()}" for unit in routed)
    return f"What is known from earlier, oldest first; later entries supersede earlier ones:\n{lines}"


def _report(done: "Future[None]") -> None:
    error = done.exception()
    if error is not None:
        _LOGGER.error("An adapter could not be derived in the background; the log is whole.", exc_info=error)
