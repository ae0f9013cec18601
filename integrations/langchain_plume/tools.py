"""Four tools with which an agent keeps its own memory: remember, forget, recall, history.

    agent = create_agent(memory.as_chat_model(), memory_tools(memory))

`recall` and `history` show what was written; what the model answers from its weights needs no tool. An
error of plume_memory comes back to the agent as the tool's answer with status "error", so a run goes on.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.tools import BaseTool, ToolException
from pydantic import BaseModel, Field

from plume_memory.errors import InvalidInput, PlumeError
from plume_memory.recalling.notes import NOTES
from plume_memory.terms import terms_of

if TYPE_CHECKING:
    from plume_memory.memory import ParametricMemory
    from plume_memory.records import Replacement, Transition, Version

_SHOWN = 5
"""Updates named to an agent that must choose one."""


def memory_tools(memory: "ParametricMemory | None") -> list[BaseTool]:
    """Return the four tools for one memory; with None for PlumeMemoryMiddleware, which gives each call its own."""
    return [tool(memory=memory) for tool in (RememberTool, ForgetTool, RecallTool, HistoryTool)]


class RememberInput(BaseModel):
    """Arguments of `remember`."""

    text: str = Field(description="What is now true, as complete sentences that make sense without the conversation.")


class ForgetInput(BaseModel):
    """Arguments of `forget`."""

    version: int | None = Field(default=None, description="Version of the update to forget, as recall shows it.")
    text: str | None = Field(
        default=None, description="Or words that occur in the update to forget and together in no other."
    )


class RecallInput(BaseModel):
    """Arguments of `recall`."""

    question: str = Field(description="What you want to know, as a question that can be understood alone.")
    k: int = Field(default=NOTES, ge=1, description="Most notes to return.")


class HistoryInput(BaseModel):
    """Arguments of `history`."""

    limit: int = Field(default=10, ge=1, description="Most entries to return; the newest are kept.")


class MemoryTool(BaseTool):
    """What the four tools share."""

    memory: Any = Field(default=None, exclude=True, repr=False)
    """A `ParametricMemory`. Out of repr: tracers store it."""
    handle_tool_error: bool | str | Callable[[ToolException], str] | None = True
    """The message of an error is the tool's answer; False raises ToolException instead."""

    def _own_memory(self) -> "ParametricMemory":
        if self.memory is None:
            raise InvalidInput(
                f"The tool {self.name} has no memory: pass memory=..., or let PlumeMemoryMiddleware(tools=True) "
                "provide it."
            )
        memory: ParametricMemory = self.memory
        return memory


class RememberTool(MemoryTool):
    """Appends an update. Its factors are derived by the next answer, not while the agent waits."""

    name: str = "remember"
    description: str = (
        "Write a fact to long-term memory. A later fact supersedes what it contradicts and leaves the rest. "
        "Returns the version that holds it."
    )
    args_schema: type[BaseModel] = RememberInput

    def _run(self, text: str, run_manager: CallbackManagerForToolRun | None = None) -> str:
        with _as_tool_error():
            memory = self._own_memory()
            newest = memory.text_at().transitions[-1:]
            # A resumed run repeats its last call: no second version, as long as nothing was written in between.
            # Behind anything else the same text is a statement of its own: it may supersede what came between.
            if newest and newest[0].text == text:
                return f"Already remembered as version {newest[0].version}."
            return f"Remembered as version {memory.update(text, derive=False).number}."


class ForgetTool(MemoryTool):
    """Forgets one update. Words name it when it alone has all of them: a guess must not delete."""

    name: str = "forget"
    description: str = (
        "Make long-term memory forget one update: give its version, or words that only that update contains. "
        "When several updates fit, nothing is forgotten and the answer lists them."
    )
    args_schema: type[BaseModel] = ForgetInput

    def _run(
        self,
        version: int | None = None,
        text: str | None = None,
        run_manager: CallbackManagerForToolRun | None = None,
    ) -> str:
        with _as_tool_error():
            memory = self._own_memory()
            if (version is None) == (text is None):
                raise InvalidInput("Give forget a version, or a text, and not both.")
            number = version if version is not None else _named(memory, text or "").version
            forgotten = memory.forget(number)
            return f"Forgot version {number}; the memory is now at version {forgotten.number}."


class RecallTool(MemoryTool):
    """Returns the notes of `memory.recall`; decodes nothing."""

    name: str = "recall"
    description: str = (
        "Look up long-term memory: returns the notes that bear on a question and hold, oldest first, each with its "
        "version and day, or says that there are none."
    )
    args_schema: type[BaseModel] = RecallInput

    def _run(self, question: str, k: int = NOTES, run_manager: CallbackManagerForToolRun | None = None) -> str:
        with _as_tool_error():
            memory = self._own_memory()
            return memory.recall(question, k=k).text or "Nothing in memory bears on that."


class HistoryTool(MemoryTool):
    """Returns the newest entries of the log."""

    name: str = "history"
    description: str = (
        "List what was written to long-term memory, forgotten and rolled back, oldest first. Returns JSON; `holds` "
        "says whether an update's text still counts, and a text that does not is left out; `replaces` lists what an "
        "update replaced, with the probability that it does."
    )
    args_schema: type[BaseModel] = HistoryInput

    def _run(self, limit: int = 10, run_manager: CallbackManagerForToolRun | None = None) -> str:
        with _as_tool_error():
            memory = self._own_memory()
            snapshot = memory.at()
            now = datetime.now(UTC)
            held = {
                one.version: one.text
                for one in memory.text_at(snapshot.version).transitions
                if one.expires_at is None or one.expires_at > now
            }
            return _json([_entry(each, held, snapshot.replacements) for each in memory.history(limit=limit)])


def _named(memory: "ParametricMemory", text: str) -> "Transition":
    """Return the one held update that a text names: the one equal to it, else the one with all its terms.

    Raises:
        InvalidInput: none does, or several do; names those that come nearest.
    """
    held = memory.text_at().transitions
    found = [one for one in held if _plain(one.text) == _plain(text)]
    terms = set(terms_of(text))
    if not found and terms:
        found = [one for one in held if terms <= set(terms_of(one.text))]
    if len(found) == 1:
        return found[0]
    if found:
        raise InvalidInput(f"Several updates say {text!r}, nothing was forgotten. Give a version: {_shown(found)}.")
    routed = {one.unit.version for one in memory.route(text, k=_SHOWN) if one.score > 0}
    near = [one for one in held if one.version in routed]
    advice = f"Nearest: {_shown(near)}; give a version." if near else "Look it up with recall or history."
    raise InvalidInput(f"No update that holds has all the words of {text!r}, nothing was forgotten. {advice}")


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _shown(updates: "list[Transition]") -> str:
    newest = updates[-_SHOWN:]
    listed = "; ".join(f"{one.version}: {one.text[:80]!r}" for one in newest)
    return listed if len(newest) == len(updates) else f"{listed}; and {len(updates) - len(newest)} earlier ones"


def _entry(version: "Version", held: dict[int, str], replaced: "Sequence[Replacement]") -> dict[str, Any]:
    entry: dict[str, Any] = {
        "version": version.number,
        "kind": version.kind,
        "written_at": version.created_at.isoformat(timespec="seconds"),
    }
    if version.kind == "update":
        # What was taken back, a text or a part of it, must not come back to the model through its prompt.
        text = held.get(version.number)
        if text is None:
            return {**entry, "holds": False}
        own = [
            {"version": one.earlier.version, "text": one.earlier.text, "probability": round(one.probability, 3)}
            for one in replaced
            if one.later.version == version.number
        ]
        return {**entry, "holds": True, "text": text, **({"replaces": own} if own else {})}
    return {**entry, **({"restores": version.restores} if version.restores else {"forgets": version.forgets})}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@contextmanager
def _as_tool_error() -> Iterator[None]:
    """Let LangChain hand an error of plume_memory to the agent, which may do better the next time."""
    try:
        yield
    except PlumeError as err:
        raise ToolException(str(err)) from err
