"""The seven tools: for every way to reach a memory the same. Data, and a function for each.

Who may act for several memories names one in every call; who has one cannot: models fill in what they may.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations
from pydantic import BaseModel, ValidationError, create_model

from plume_memory.errors import PlumeError
from plume_memory.server.mcp.backend import Backend
from plume_memory.server.mcp.schemas import (
    Answered,
    Arguments,
    AskArguments,
    DiffArguments,
    Differs,
    EraseArguments,
    Erased,
    ForgetArguments,
    Forgotten,
    HistoryArguments,
    HistoryPage,
    MemoryName,
    RecallArguments,
    Recalled,
    RememberArguments,
    Remembered,
)
from plume_memory.server.problems import problem_of


async def _remember(backend: Backend, memory: str | None, given: RememberArguments) -> Remembered:
    return Remembered.of(await backend.remember(memory, given.text, given.idempotency_key))


async def _recall(backend: Backend, memory: str | None, given: RecallArguments) -> Recalled:
    return Recalled.of(await backend.recall(memory, given.question, given.options))


async def _ask(backend: Backend, memory: str | None, given: AskArguments) -> Answered:
    return Answered.of(await backend.ask(memory, given.question, given.version))


async def _history(backend: Backend, memory: str | None, given: HistoryArguments) -> HistoryPage:
    if given.before is None:
        return HistoryPage.of(await backend.history(memory, None, given.limit))
    after = max(0, given.before - 1 - given.limit)  # numbers are dense
    wanted = given.before - 1 - after
    return HistoryPage.of(await backend.history(memory, after, wanted) if wanted else [])


async def _diff(backend: Backend, memory: str | None, given: DiffArguments) -> Differs:
    return Differs.of(await backend.diff(memory, given.before, given.after))


async def _forget(backend: Backend, memory: str | None, given: ForgetArguments) -> Forgotten:
    return Forgotten.of(await backend.forget(memory, given.target))


async def _erase(backend: Backend, memory: str | None, given: EraseArguments) -> Erased:
    return Erased.of(await backend.erase(memory, given.target))


@dataclass(frozen=True, slots=True)
class MemoryTool:
    """One tool."""

    name: str
    title: str
    description: str
    annotations: ToolAnnotations
    arguments: type[Arguments]
    """Without the memory."""
    with_memory: type[Arguments]
    """The same, and the memory."""
    result: type[BaseModel]
    run: Callable[[Backend, str | None, Any], Awaitable[BaseModel]]
    """On a backend, a memory, and arguments of this tool's type."""

    def shown(self, *, names_memory: bool) -> Tool:
        """Return it as a client sees it."""
        taken = self.with_memory if names_memory else self.arguments
        return Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            annotations=self.annotations,
            input_schema=taken.model_json_schema(),
            output_schema=self.result.model_json_schema(mode="serialization"),
        )

    async def call(self, backend: Backend, arguments: dict[str, Any]) -> CallToolResult:
        """Run it. What goes wrong is a result too: a model can read it and do better."""
        names_memory = backend.fixed is None
        try:
            given = (self.with_memory if names_memory else self.arguments).model_validate(arguments)
        except ValidationError as err:
            return _refused(_explained(err))
        memory = getattr(given, "memory", None)
        try:
            found = await self.run(backend, memory, given)
        except PlumeError as err:
            problem = problem_of(err)
            return _refused(f"{problem.code}: {problem.detail}")
        written = found.model_dump(mode="json")
        return CallToolResult(content=[TextContent(text=found.model_dump_json())], structured_content=written)


def _refused(words: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=words)], is_error=True)


def _explained(err: ValidationError) -> str:
    """What is wrong with the arguments, without the arguments."""
    lines = [f"{'.'.join(str(part) for part in one['loc']) or 'arguments'}: {one['msg']}" for one in err.errors()]
    return "invalid-input: " + "; ".join(lines)


def _tool(
    name: str,
    title: str,
    description: str,
    arguments: type[Arguments],
    result: type[BaseModel],
    run: Callable[[Backend, str | None, Any], Awaitable[BaseModel]],
    *,
    reads: bool = True,
    destroys: bool = False,
    is_idempotent: bool = True,
) -> MemoryTool:
    hints = ToolAnnotations(
        title=title,
        read_only_hint=reads,
        destructive_hint=destroys,
        idempotent_hint=is_idempotent,
        open_world_hint=False,
    )
    with_memory = create_model(f"{arguments.__name__}OfMemory", __base__=arguments, memory=(MemoryName, ...))
    return MemoryTool(name, title, description, hints, arguments, with_memory, result, run)


TOOLS = (
    _tool(
        "remember",
        "Remember",
        "Keep what is now true. It replaces what it contradicts and leaves the rest; it is durable once this returns.",
        RememberArguments,
        Remembered,
        _remember,
        reads=False,
        is_idempotent=False,  # only with a key
    ),
    _tool(
        "recall",
        "Recall",
        "Look up what the memory holds on a question: dated notes, oldest first, to be read by yourself.",
        RecallArguments,
        Recalled,
        _recall,
    ),
    _tool(
        "ask",
        "Ask",
        "Have the memory answer a question by itself. `known` false: it was not told; do not guess in its place.",
        AskArguments,
        Answered,
        _ask,
    ),
    _tool(
        "history",
        "History",
        "List the memory's versions, newest first: what was written, taken back, forgotten, and when.",
        HistoryArguments,
        HistoryPage,
        _history,
    ),
    _tool(
        "diff",
        "Compare versions",
        "Say what the memory holds at one version and not at another.",
        DiffArguments,
        Differs,
        _diff,
    ),
    _tool(
        "forget",
        "Forget",
        "Let a text no longer hold from now on. The log keeps it, and earlier versions still answer from it.",
        ForgetArguments,
        Forgotten,
        _forget,
        reads=False,
    ),
    _tool(
        "erase",
        "Erase",
        "Remove a text for good, from the log and all that was made of it. It cannot be undone: ask the person first.",
        EraseArguments,
        Erased,
        _erase,
        reads=False,
        destroys=True,
    ),
)
