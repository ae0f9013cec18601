"""A LangGraph agent with a strong remote model: it finds the notes that bear on the question in its prompt.

    pip install langchain-anthropic        # or langchain-openai, …
    ANTHROPIC_API_KEY=… python remote_model.py

The memory runs here and reads every turn; only the notes that bear on a question leave this machine.
"""

import sys
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_plume import PlumeMemoryMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from plume_memory import MemoryPool


@dataclass
class User:
    """Whose memory a run uses."""

    user_id: str


def make_agent(model: BaseChatModel, memory: PlumeMemoryMiddleware) -> Any:
    """Return an agent that keeps what its users say, each in a memory of their own."""
    return create_agent(
        model,
        system_prompt="You are a helpful assistant. Use the notes where they bear on the question.",
        middleware=[memory],
        context_schema=User,
        checkpointer=InMemorySaver(),
    )


def say(agent: Any, user: str, thread: str, text: str) -> str:
    """Run the agent once and return what it says."""
    config = {"configurable": {"thread_id": f"{user}-{thread}"}}
    return agent.invoke({"messages": [("user", text)]}, config, context=User(user))["messages"][-1].text


def main(model: BaseChatModel) -> None:
    """Tell it something on Monday, ask on Tuesday in another thread."""
    # also: notes that everybody's agent is shown; derive="later": a remote model needs no weights of ours
    with MemoryPool("sqlite:///remote.db") as pool:
        pool.memory("team").update("The release is on 12 May.", idempotency_key="release", derive=False)
        with PlumeMemoryMiddleware(pool, also=["team"], derive="later") as memory:
            agent = make_agent(model, memory)
            print(say(agent, "alice", "monday", "I am allergic to peanuts."))
            print(say(agent, "alice", "tuesday", "What am I allergic to?"))
            print(say(agent, "alice", "tuesday", "When is the release?"))


if __name__ == "__main__":
    main(init_chat_model(sys.argv[1] if len(sys.argv) > 1 else "anthropic:claude-sonnet-4-5"))
