"""Bodies of OpenAI's protocol. Fields that nobody here reads are let through: every client sends some."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from plume_memory.server.settings import MAX_NUMBER
from plume_memory.store.checks import MAX_NAME

_Texts = Annotated[list[Annotated[str, Field(min_length=1)]], Field(max_length=16)]
_Tokens = Annotated[int, Field(ge=1)]

UNREAD = (
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "service_tier",
    "reasoning_effort",
    "reasoning",
    "verbosity",
    "prediction",
    "truncation",
)
"""What changes an answer elsewhere and nothing here: decoding is greedy. Said on the response, not refused: mainstream
clients send a temperature always."""

ERRORS: dict[int | str, dict[str, Any]] = {
    status: {
        "description": "An error in OpenAI's shape.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/OpenAIError"}}},
    }
    for status in (400, 401, 403, 404, 405, 408, 409, 412, 413, 415, 422, 429, 500, 503)
}


class ErrorBody(BaseModel):
    """What went wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(BaseModel):
    """An error."""

    error: ErrorBody


class PlumeOptions(BaseModel):
    """What a call says of memory: `extra_body={"plume": {…}}`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    memory: Annotated[str, Field(min_length=1, max_length=MAX_NAME)] | None = None
    """Name or id."""
    version: Annotated[int, Field(ge=0, le=MAX_NUMBER)] | None = None
    """To answer from; the newest by default."""
    write: bool | None = None
    """Whether what the user says now is written; by default as the key says."""
    trace: bool = False
    """Whether every token's divergence and weight come with the answer; `/v1/traces/{id}` has them anyway."""
    unknown: Literal["abstain", "bare"] = "bare"
    """What is given where the memory does not know: a sentence that says so, or what the bare model says."""
    known_at: Annotated[float, Field(ge=0, le=1)] | None = None
    max_string_chars: Annotated[int, Field(ge=1, le=MAX_NUMBER)] = 512
    """Longest string of a JSON answer or of a tool's argument where its schema says nothing: a small model may never
    close one, and JSON that is cut is none."""


class _Call(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    model: Annotated[str, Field(min_length=1)]
    stream: bool | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    plume: PlumeOptions = PlumeOptions()

    def unread(self) -> list[str]:
        """Names of what was sent and does nothing."""
        sent = self.model_extra or {}
        return [
            name for name in UNREAD if sent.get(name) is not None and not (name == "temperature" and not sent[name])
        ]


class StreamOptions(BaseModel):
    """What else a stream holds."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    include_usage: bool | None = None


class ChatCall(_Call):
    """`POST /v1/chat/completions`."""

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    stream_options: StreamOptions | None = None
    max_tokens: _Tokens | None = None
    max_completion_tokens: _Tokens | None = None
    stop: Annotated[str, Field(min_length=1)] | _Texts | None = None
    n: int | None = None
    response_format: dict[str, Any] | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None


class ResponsesCall(_Call):
    """`POST /v1/responses`."""

    input: str | Annotated[list[dict[str, Any]], Field(min_length=1)]
    instructions: str | None = None
    max_output_tokens: _Tokens | None = None
    text: dict[str, Any] | None = None
    store: bool | None = None
    background: bool | None = None
    previous_response_id: str | None = None
    conversation: Any = None
