"""What type checkers say of the public API: read by mypy in `make lint` and pyright in test_typing.py, never run."""

from collections.abc import Generator
from typing import assert_type

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.tools import BaseTool
from langchain_plume import (
    ChatPlume,
    ForgetTool,
    HistoryTool,
    PlumeMemoryMiddleware,
    PlumeRetriever,
    PlumeStore,
    RecallTool,
    RememberTool,
    memory_tools,
)

from plume_memory import (
    Answer,
    AnswerPolicy,
    Engine,
    MemoryPool,
    Note,
    ParametricMemory,
    Recall,
    Version,
    enclosing,
    scope,
)
from plume_memory.answering.pinned import Snapshot
from plume_memory.records import AnswerChunk, Difference, ErasureCertificate, Replacement, ScoredUnit, Verification
from plume_memory.remote.memory import RemoteMemory
from plume_memory.remote.snapshot import RemoteSnapshot


def writes(memory: ParametricMemory) -> None:
    """Every way to write gives the version it made."""
    assert_type(memory.update("Alice lives in Bern.", replaces=[1], metadata={"from": "chat"}), Version)
    assert_type(memory.rollback(to=1), Version)
    assert_type(memory.forget(1), Version)
    assert_type(memory.fork("copy"), ParametricMemory)


def asks(memory: ParametricMemory) -> None:
    """Answers, notes and what they are from."""
    assert_type(memory.ask("Where does Alice live?", unknown="bare"), Answer)
    assert_type(memory.ask_many(["Where?", "Who?"]), list[Answer])
    assert_type(memory.stream("Where?"), Generator[AnswerChunk, None, None])
    assert_type(memory.at(version=1), Snapshot)
    assert_type(memory.at(version=1).ask("Where?"), Answer)
    assert_type(memory.route("Where?", k=3), list[ScoredUnit])
    assert_type(memory.recall("Where?", max_tokens=200), Recall)
    assert_type(memory.recall("Where?").notes, tuple[Note, ...])
    assert_type(memory.profile(), Recall)


def looks_back(memory: ParametricMemory) -> None:
    """The log and what it says."""
    assert_type(memory.history(limit=3), list[Version])
    assert_type(memory.diff(1, 2), Difference)
    assert_type(memory.replacements(), tuple[Replacement, ...])
    assert_type(memory.verify(), Verification)


def shares(pool: MemoryPool) -> None:
    """Many memories on one engine."""
    assert_type(pool.memory("alice"), ParametricMemory)
    assert_type(pool.ask_many({"alice": "Where?"}), dict[str, Answer])
    assert_type(pool.engine, Engine)
    assert_type(pool.recall("Where?", ["alice", scope("acme", agent="helper")]), Recall)
    assert_type(enclosing("alice"), tuple[str, ...])


def configures() -> None:
    """Engines and policies."""
    assert_type(Engine.load(policy=AnswerPolicy(known_at=0.6), weights="int8"), Engine)
    assert_type(AnswerPolicy.paper(), AnswerPolicy)


def connects() -> None:
    """A memory that a server has, with the methods of one that was opened here."""
    memory = ParametricMemory.connect("http://127.0.0.1:8000", key="plk_1", memory="alice")
    assert_type(memory, RemoteMemory)
    assert_type(memory.update("Alice lives in Bern.", derive="later"), Version)
    assert_type(memory.ask("Where?"), Answer)
    assert_type(memory.ask_many(["Where?"]), list[Answer])
    assert_type(memory.stream("Where?"), Generator[AnswerChunk, None, None])
    assert_type(memory.at(version=1), RemoteSnapshot)
    assert_type(memory.recall("Where?"), Recall)
    assert_type(memory.history(), list[Version])
    assert_type(memory.erase(1), ErasureCertificate)
    assert_type(memory.fork("copy"), RemoteMemory)
    assert_type(memory.verify(), Verification)


def joins_langchain(memory: ParametricMemory, pool: MemoryPool) -> None:
    """The public names of the integration."""
    assert_type(memory.as_chat_model(), ChatPlume)
    assert_type(ChatPlume().with_memory(memory), ChatPlume)
    assert_type(ChatPlume().invoke("Where?"), AIMessage)
    assert_type(PlumeMemoryMiddleware(pool, write="turns", tools=True), PlumeMemoryMiddleware)
    assert_type(PlumeRetriever(memory=memory).invoke("Where?"), list[Document])
    assert_type(PlumeStore(memory, url="sqlite:///plume.db").erase(("a",), "b"), tuple[ErasureCertificate, ...])
    assert_type(memory_tools(memory), list[BaseTool])
    tools: list[BaseTool] = [tool(memory=memory) for tool in (RememberTool, ForgetTool, RecallTool, HistoryTool)]
    assert_type(tools[0], BaseTool)
