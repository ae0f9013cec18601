"""ChatPlume: routing and fused decoding behind LangChain's chat model interface.

One synchronous core, `_stream`; invoke, batch and the async methods come from it through
langchain-core. Everything that must not be merged over chunks (model name, finish reason, usage,
trace) is on the last chunk only.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import BaseChatModel, generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage, merge_message_runs
from langchain_core.messages.ai import UsageMetadata
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from pydantic import ConfigDict, Field

from plume_memory.errors import InvalidInput

if TYPE_CHECKING:
    from plume_memory.memory import ParametricMemory
    from plume_memory.model.prompt import Message
    from plume_memory.records import Answer

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "system": "system",
    "HumanMessageChunk": "user",
    "AIMessageChunk": "assistant",
    "SystemMessageChunk": "system",
}


class ChatPlume(BaseChatModel):
    """A chat model whose memory is in its parameters; prompts hold the conversation only.

    Each call answers from the memory's version that is newest when the call starts. Decoding is
    greedy by the method; another temperature is refused, not ignored.

        llm = memory.as_chat_model()
        llm.invoke("Where does Alice live?").response_metadata["plume"]
    """

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True)

    memory: Any = Field(exclude=True, repr=False)
    """A `ParametricMemory`. Out of repr: tracers store it."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer; the engine's setting when not given."""
    temperature: float = Field(default=0.0, ge=0.0, le=0.0)
    """Greedy decoding only."""
    stop: list[str] | None = Field(default=None, alias="stop_sequences")
    """Texts that end an answer; added to those of a call."""
    top_candidates: int = Field(default=0, ge=0)
    """Candidates of both streams kept per token in the trace."""

    @property
    def _llm_type(self) -> str:
        return "plume"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        # LangChain's cache key. The hash of the log and the engine determine every answer, so a cached one
        # survives neither an update nor a mix-up with another memory of the same name.
        memory: ParametricMemory = self.memory
        return {
            "memory": memory.name,
            "version": memory.version,
            "head": memory.head_hash,
            "engine": memory.engine.fingerprint,
            "max_tokens": self.max_tokens,
            "stop": self.stop,
            "top_candidates": self.top_candidates,
        }

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        name = str(kwargs.get("model", f"plume/{self.memory.name}"))
        params = LangSmithParams(ls_provider="plume", ls_model_name=name, ls_model_type="chat")
        params["ls_temperature"] = self.temperature
        if self.max_tokens:
            params["ls_max_tokens"] = self.max_tokens
        if stop or self.stop:
            params["ls_stop"] = [*(self.stop or []), *(stop or [])]
        return params

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return generate_from_stream(self._stream(messages, stop, None, **kwargs))

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        if kwargs:
            raise InvalidInput(f"ChatPlume does not know the call options {sorted(kwargs)}; remove them.")
        memory: ParametricMemory = self.memory
        pieces = memory.stream(
            _conversation(messages),
            max_new_tokens=self.max_tokens,
            stop=[*(self.stop or []), *(stop or [])],
            top_candidates=self.top_candidates,
        )
        for piece in pieces:
            message = AIMessageChunk(content=piece.text)
            if piece.answer is not None:
                message = _last_chunk(piece.text, piece.answer, memory.engine.base.name)
            chunk = ChatGenerationChunk(message=message)
            if run_manager:
                run_manager.on_llm_new_token(piece.text, chunk=chunk)
            yield chunk


def _conversation(messages: Sequence[BaseMessage]) -> "list[Message]":
    """LangChain messages to plain turns; neighbours of one role become one turn.

    Raises:
        InvalidInput: a tool message, or content that is not text.
    """
    turns: list[Message] = []
    for message in merge_message_runs(list(messages)):
        role = _ROLES.get(message.type)
        if role is None:
            raise InvalidInput(f"ChatPlume reads system, human and ai messages; got a {message.type!r} message.")
        for block in message.content if isinstance(message.content, list) else []:
            if not isinstance(block, str) and block.get("type") != "text":
                raise InvalidInput(f"ChatPlume reads text; got a content block of type {block.get('type')!r}.")
        turns.append({"role": role, "content": message.text})
    return turns


def _last_chunk(text: str, answer: "Answer", model_name: str) -> AIMessageChunk:
    evidence = answer.evidence
    plume = {
        "memory": answer.memory,
        "version": answer.version,
        "evidence": None if evidence is None else asdict(evidence),
        "trace": [asdict(token) for token in answer.trace],
    }
    return AIMessageChunk(
        content=text,
        chunk_position="last",
        response_metadata={
            "model_name": model_name,
            "model_provider": "plume",
            "finish_reason": answer.finish_reason,
            "plume": plume,
        },
        usage_metadata=UsageMetadata(
            input_tokens=answer.usage.prompt_tokens,
            output_tokens=answer.usage.completion_tokens,
            total_tokens=answer.usage.total_tokens,
        ),
    )
