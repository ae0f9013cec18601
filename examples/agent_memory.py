"""An agent that remembers each user across threads: memory in the weights, chosen by the run's context."""

from dataclasses import dataclass

from langchain.agents import create_agent
from langchain_plume import ChatPlume, PlumeMemoryMiddleware
from langgraph.checkpoint.memory import InMemorySaver

from plume_memory import MemoryPool


@dataclass
class User:
    """Whose memory a run uses."""

    user_id: str


pool = MemoryPool("sqlite:///agent.db")
with pool, PlumeMemoryMiddleware(pool) as memory:  # reads at each model call, writes the user's words after the run
    agent = create_agent(
        ChatPlume(max_tokens=24), middleware=[memory], context_schema=User, checkpointer=InMemorySaver()
    )

    def say(user: str, thread: str, text: str) -> None:
        """Run the agent once and print the exchange."""
        result = agent.invoke(
            {"messages": [("user", text)]}, {"configurable": {"thread_id": f"{user}-{thread}"}}, context=User(user)
        )
        print(f"{user}, {thread}: {text}\n    {result['messages'][-1].text}")

    say("alice", "monday", "The badge code of Mira Holm is 4471.")
    say("bob", "monday", "The badge code of Mira Holm is 9035.")
    memory.flush()  # adapters are derived in the background; a question that comes earlier waits for its own
    say("alice", "tuesday", "What is the badge code of Mira Holm?")  # another thread: nothing of Monday in the prompt
    say("bob", "tuesday", "What is the badge code of Mira Holm?")

    for owner in pool.names():
        print(owner, [version.text for version in pool.memory(owner).history()])
