"""ChatPlume: routing and fused decoding behind LangChain's chat model interface.

One synchronous core, `_stream`; invoke, batch and the async methods come from it through
langchain-core. Everything that must not be merged over chunks (model name, finish reason, usage,
trace, tool calls) is on the last chunk only. Construction loads nothing and imports no torch.
"""

import asyncio
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, Literal

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput, ModelProfile
from langchain_core.language_models.base import LangSmithParams
from langchain_core.language_models.chat_models import BaseChatModel, generate_from_stream
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult, LLMResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, Field, PrivateAttr, SecretStr, field_validator

from langchain_plume.messages import as_context_overflow, conversation, last_chunk, unread
from langchain_plume.structured import Method, Schema, structured
from langchain_plume.tool_calls import AnswerForm, CallReader, checked_choice
from plume_memory.answering.tool_calls import TOOL_ROUNDS, calls_since_user
from plume_memory.errors import InvalidInput
from plume_memory.forks import Lock

if TYPE_CHECKING:
    from plume_memory.answering.pinned import Snapshot
    from plume_memory.engine import Engine
    from plume_memory.memory import ParametricMemory
    from plume_memory.model.tool_turns import Message

_CALL_OPTIONS = {
    "max_tokens", "min_tokens", "temperature", "tools", "tool_choice", "response_format",
    "strict", "parallel_tool_calls",
}  # fmt: skip
_CONTEXT_WINDOWS = {"smollm2-135m": 8192}
"""Known without loading a model; a test holds them against the loaded ones."""


class _SharedEngine:
    """An engine that is loaded once, at its first use, for a model and all its copies."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._engine: Engine | None = None

    def __deepcopy__(self, _: object) -> "_SharedEngine":
        return self

    def __reduce__(self) -> "tuple[type[_SharedEngine], tuple[()]]":
        return _SharedEngine, ()  # another process loads its own

    def get(self, load: "Callable[[], Engine]") -> "Engine":
        with self._lock:
            if self._engine is None:
                self._engine = load()
            return self._engine


class ChatPlume(BaseChatModel):
    """A chat model whose memory is in its parameters; prompts hold the conversation only.

    Each call answers from the memory's version that is newest when the call starts. Decoding is
    greedy by the method; another temperature is refused, not ignored.

        llm = memory.as_chat_model()
        llm.invoke("Where does Alice live?").response_metadata["plume"]

    Without a memory the bare model answers. `with_memory` gives the same model another memory;
    memories opened with `engine=llm.engine` share its weights.
    """

    model_config = ConfigDict(populate_by_name=True, arbitrary_types_allowed=True, extra="forbid")

    memory: Any = Field(default=None, exclude=True, repr=False)
    """A `ParametricMemory`, which brings its own engine. Out of repr: tracers store it."""
    model_name: str = Field(default="smollm2-135m", alias="model")
    """See `Engine.load`; not used with a memory, whose engine has its own model."""
    hypernetwork: str = "auto"
    """See `Engine.load`; not used with a memory."""
    device: str | None = None
    """See `Engine.load`; not used with a memory."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest answer; the engine's setting when not given."""
    min_tokens: int = Field(default=0, ge=0)
    """The model does not end its answer before this many tokens."""
    temperature: float = 0.0
    """Greedy decoding only."""
    stop: list[str] | None = Field(default=None, alias="stop_sequences")
    """Texts that end an answer; added to those of a call."""
    streaming: bool = False
    """Stream inside `invoke` too, for the callbacks' sake."""
    top_candidates: int = Field(default=0, ge=0)
    """Candidates of both streams kept per token in the trace."""
    trace: bool = True
    """Whether `response_metadata["plume"]["trace"]` holds every token's divergence and weight. An agent with a
    checkpointer stores it with each message: False keeps that small."""
    unreadable: Literal["leave out", "refuse"] = "leave out"
    """What is done with images, audio and other content that is no text. Left out, it is counted by type in
    `response_metadata["plume"]["left_out"]`. A refused one stays in its thread, and is refused at every later turn."""
    max_string_chars: int = Field(default=512, ge=1)
    """Longest string of a structured answer or a tool call whose schema sets no `maxLength`: a small
    model may otherwise never close one."""
    tool_rounds: int = Field(default=TOOL_ROUNDS, ge=1)
    """Rounds of tool calls behind a user's message; then the answer is made of what the tools said, unless a call is
    forced. A larger model may need more than one; a small one calls the same tool again."""
    unknown: Literal["bare", "abstain"] = "bare"
    """What is answered where the memory does not know: what the bare model says, or that there is nothing about it in
    memory; see `DecodeOptions.unknown`. `response_metadata["plume"]["known"]` says which it is."""
    timeout: float | None = None
    """Accepted and not used: nothing leaves the process."""
    max_retries: int | None = None
    """Accepted and not used: greedy decoding would fail the same way again."""
    api_key: SecretStr | None = Field(default=None, repr=False)
    """Accepted and not used: a local model has none."""

    _shared: _SharedEngine = PrivateAttr(default_factory=_SharedEngine)

    @field_validator("memory")
    @classmethod
    def _is_memory(cls, memory: Any) -> Any:
        if memory is not None and not hasattr(memory, "at"):
            raise InvalidInput(
                f"`memory` is a ParametricMemory; got a {type(memory).__name__}. Of a MemoryPool take "
                "pool.memory('owner'), or let PlumeMemoryMiddleware choose."
            )
        return memory

    @field_validator("temperature")
    @classmethod
    def _is_greedy(cls, temperature: float) -> float:
        if temperature != 0:
            raise InvalidInput(f"ChatPlume decodes greedily; got temperature={temperature}. Leave it out, or pass 0.")
        return temperature

    # --- the model and its memory -------------------------------------------------------------------

    @property
    def engine(self) -> "Engine":
        """The memory's engine; without a memory one of its own, loaded at first use and shared by copies."""
        if self.memory is not None:
            own: Engine = self.memory.engine
            return own
        return self._shared.get(self._load)

    def with_memory(self, memory: "ParametricMemory | None") -> "ChatPlume":
        """Return a copy that answers from another memory; it loads nothing."""
        copy = self.model_copy(update={"memory": memory})
        copy.profile = copy._resolve_model_profile()  # the other memory's engine may be of another model
        return copy

    def get_num_tokens_from_messages(self, messages: list[BaseMessage], tools: Sequence[Any] | None = None) -> int:
        """Tokens of the prompt that a conversation becomes, tools included; of no messages 0.

        A part of a conversation that does not end with a user's or a tool's turn is counted with an empty one behind.
        What tools said is evidence, not prompt, where the answer is made of it (`tool_rounds`).
        """
        turns = conversation(messages)
        if not turns:
            return 0
        chat = self.engine.base.chat
        answers = calls_since_user(turns) >= self.tool_rounds
        shaped = [] if answers else [convert_to_openai_tool(tool) for tool in tools or []]
        if answers and not shaped:
            turns = turns[: max((i for i, turn in enumerate(turns) if turn["role"] == "user"), default=len(turns)) + 1]
        empty: Message = {"role": "user", "content": ""}
        if turns[-1]["role"] not in ("user", "tool"):
            turns = [*turns, empty]
        if not any(turn["role"] == "user" for turn in turns):
            turns = [empty, *turns]
        try:
            return len(chat.framed(turns, shaped or None).prompt_ids())
        except InvalidInput:  # the model's template refuses these roles in this order: each in a frame of its own
            return sum(len(chat.prompt_ids(turn["content"])) for turn in turns)

    def get_token_ids(self, text: str) -> list[int]:
        """Ids of a text by the model's own tokenizer."""
        return self.engine.base.chat.encode(text)

    def _load(self) -> "Engine":
        from plume_memory.engine import Engine  # noqa: PLC0415 — torch: seconds, and only when asked

        return Engine.load(self.model_name, hypernetwork=self.hypernetwork, device=self.device)

    def _snapshot(self) -> "Snapshot":
        from plume_memory.answering.pinned import Snapshot  # noqa: PLC0415 — as above

        if self.memory is None:
            return Snapshot.of_nothing(self.engine)
        pinned: Snapshot = self.memory.at()
        return pinned

    # --- what LangChain asks ------------------------------------------------------------------------

    @property
    def _llm_type(self) -> str:
        return "plume"

    @property
    def _identifying_params(self) -> dict[str, Any]:
        # LangChain's cache key. The hash of the log and the engine determine every answer, so a cached one
        # survives neither an update nor a mix-up with another memory of the same name.
        memory: ParametricMemory | None = self.memory
        if memory is None:
            answers_by: dict[str, Any] = {
                "model": self.model_name,
                "hypernetwork": self.hypernetwork,
                "device": self.device,
            }
        else:
            answers_by = {
                "memory": memory.name,
                "version": memory.version,
                "head": memory.head_hash,
                "engine": self._engine_key(memory),
            }
        counted = ("max_tokens", "min_tokens", "top_candidates", "max_string_chars", "tool_rounds")
        own = (*counted, "trace", "unknown", "unreadable")
        # Not under "stop": LangChain puts the stop texts of the call there, over what it finds.
        return {**answers_by, "stop_sequences": self.stop, **{name: getattr(self, name) for name in own}}

    def _engine_key(self, memory: "ParametricMemory") -> str:
        # `generate` has loaded it; whoever asks for a key beside it must not load weights on an event loop
        loaded = memory.loaded_engine
        return loaded.fingerprint if loaded is not None else f"not loaded, {uuid.uuid4()}"

    def _get_ls_params(self, stop: list[str] | None = None, **kwargs: Any) -> LangSmithParams:
        own = self.model_name if self.memory is None else f"plume/{self.memory.name}"
        params = LangSmithParams(
            ls_provider="plume", ls_model_name=str(kwargs.get("model", own)), ls_model_type="chat", ls_temperature=0.0
        )
        longest = kwargs.get("max_tokens", self.max_tokens)
        if longest:
            params["ls_max_tokens"] = longest
        if stop or self.stop:
            params["ls_stop"] = [*(self.stop or []), *(stop or [])]
        return params

    def _resolve_model_profile(self) -> ModelProfile | None:
        profile = ModelProfile(
            open_weights=True,
            text_inputs=True,
            text_outputs=True,
            image_inputs=False,
            audio_inputs=False,
            video_inputs=False,
            pdf_inputs=False,
            image_tool_message=False,
            pdf_tool_message=False,
            tool_calling=True,
            tool_choice=True,
            structured_output=True,
            reasoning_output=False,
            temperature=False,
        )
        loaded = self.memory.loaded_engine if self.memory is not None else None
        if loaded is not None:
            profile["name"] = loaded.base.name
            profile["max_input_tokens"] = loaded.base.context_window
        elif self.memory is None:
            profile["name"] = self.model_name
            if self.model_name in _CONTEXT_WINDOWS:
                profile["max_input_tokens"] = _CONTEXT_WINDOWS[self.model_name]
        return profile

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: dict[str, Any] | str | bool | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """Return a model that may call tools.

        Args:
            tools: tools, functions, pydantic classes or OpenAI-shaped dictionaries.
            tool_choice: "any", "required" or True force a call, a tool's name or {"function": {"name":
                ...}} a call of that tool: decoding then allows nothing else. "auto" or None leave it to
                the model, "none" forbids it.
            kwargs: options of the call.

        Raises:
            InvalidInput: `tool_choice` is none of these, or names no bound tool; or a tool is a provider's own.
        """
        shaped = [convert_to_openai_tool(tool) for tool in tools]
        checked_choice(shaped, tool_choice)
        choice = {} if tool_choice is None else {"tool_choice": tool_choice}
        return self.bind(tools=shaped, **choice, **kwargs)

    def with_structured_output(  # type: ignore[override]  # BaseChatModel hides these options in **kwargs
        self,
        schema: Schema | None = None,
        *,
        method: Method = "json_schema",
        include_raw: bool = False,
        strict: bool | None = None,
    ) -> Runnable[LanguageModelInput, Any]:
        """Return a model whose answers are values of a schema, by constrained decoding.

        Args:
            schema: a pydantic class (v2 or v1), a TypedDict or a JSON schema; "json_mode" does without one.
            method: all decode under the schema's grammar; "json_mode" without a schema under that of any
                JSON object.
            include_raw: answer {"raw": message, "parsed": value, "parsing_error": error}.
            strict: recorded only: decoding is strict always.

        Raises:
            InvalidInput: an unknown method, no schema, or (when called) a schema that cannot be enforced.
            OutputParserException: when called: the token budget cut the answer, or validation failed.
        """
        return structured(self, schema, method=method, include_raw=include_raw, strict=strict)

    # --- answering ----------------------------------------------------------------------------------

    def generate(self, messages: list[list[BaseMessage]], *args: Any, **kwargs: Any) -> LLMResult:
        """Answer, with the engine loaded before LangChain asks its cache: what it finds there was answered by it."""
        self._load_memory()
        return super().generate(messages, *args, **kwargs)

    async def agenerate(self, messages: list[list[BaseMessage]], *args: Any, **kwargs: Any) -> LLMResult:
        """See `generate`; the engine is loaded in a thread."""
        await asyncio.to_thread(self._load_memory)
        return await super().agenerate(messages, *args, **kwargs)

    def _load_memory(self) -> None:
        if self.memory is not None:
            _ = self.memory.engine

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
        left_out = unread(messages)
        turns = conversation(messages)
        form = self._form(kwargs, turns)
        reader = CallReader() if form.tools else None
        self._check_readable(turns, left_out)
        model_name = self.engine.base.name  # now: the memory may be closed while its answer is decoded
        pieces = self._snapshot().stream(
            turns,
            max_new_tokens=kwargs.get("max_tokens", self.max_tokens),
            min_new_tokens=kwargs.get("min_tokens", self.min_tokens),
            stop=[*(self.stop or []), *(stop or [])],
            top_candidates=self.top_candidates,
            grammar=form.grammar,
            tools=form.tools,
            unknown=self.unknown,
        )
        with as_context_overflow(), closing(pieces):  # a caller who stops early frees the decode at once
            for piece in pieces:
                text = reader.add(piece.text) if reader else piece.text
                if piece.answer is None:
                    message = AIMessageChunk(content=text)
                else:
                    rest, calls = reader.finish() if reader else ("", [])
                    message = last_chunk(
                        text + rest, calls, piece.answer, model_name, trace=self.trace, left_out=left_out
                    )
                chunk = ChatGenerationChunk(message=message)
                if run_manager:
                    run_manager.on_llm_new_token(message.text, chunk=chunk)
                yield chunk

    def _check_readable(self, turns: "list[Message]", left_out: dict[str, int]) -> None:
        """Refuse what is no text if that is asked for, and a question that holds nothing else."""
        asked = next((turn["content"] for turn in reversed(turns) if turn["role"] == "user"), "")
        if left_out and (self.unreadable == "refuse" or not asked.strip()):
            listed = ", ".join(f"{count} of type {kind!r}" for kind, count in left_out.items())
            found = "the messages hold" if asked.strip() else "the question has no text; the messages hold"
            raise InvalidInput(f"ChatPlume reads text; {found} content blocks: {listed}. Send a description of them.")

    def _form(self, options: dict[str, Any], turns: "list[Message]") -> AnswerForm:
        """Check the options of a call and return what its answer may be."""
        unknown = sorted(set(options) - _CALL_OPTIONS)
        if unknown:
            raise InvalidInput(f"ChatPlume does not know the call options {unknown}; remove them.")
        self._is_greedy(options.get("temperature") or 0.0)
        from plume_memory.model.grammar import Limits  # noqa: PLC0415 — only an answer needs it

        limits = Limits(string_chars=self.max_string_chars)
        tools, choice = options.get("tools") or [], options.get("tool_choice")
        if calls_since_user(turns) >= self.tool_rounds and checked_choice(tools, choice) in (None, "auto"):
            tools, choice = [], None
        return AnswerForm.of(tools, choice, options.get("response_format"), limits)
