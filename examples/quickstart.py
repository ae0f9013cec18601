"""Fifteen lines: remember, answer from the weights, follow an update, go back in time."""

from plume_memory import ParametricMemory

with ParametricMemory.open("alice", url="sqlite:///quickstart.db") as memory:
    memory.update("Alice Keller lives in Bern. She plays the cello. Her cat is called Mistral.")
    print(memory.ask("Where does Alice Keller live?").text)

    memory.update("Alice Keller moved: she now lives in Zurich.")
    answer = memory.ask("Where does Alice Keller live?")
    print(answer.text)
    print(f"version {answer.version}, evidence from version {answer.evidence.unit.version}, λ {answer.mean_weight:.2f}")

    print(memory.ask("What is the name of her cat?").text)
    print(memory.at(version=1).ask("Where does Alice Keller live?").text)
