"""A terminal assistant that remembers across runs: say something and it is kept, ask and it is answered.

Start it twice: the second run knows what the first was told. `/as-of 2 QUESTION` asks an older version, `/log` lists
what was said, `/quit` or Ctrl-D ends it.
"""

import sys

from plume_memory import ParametricMemory, PlumeError


def reply(memory: ParametricMemory, line: str) -> str:
    """Do what a line says and return what to print."""
    if line == "/log":
        return "\n".join(f"{version.number}  {version.kind}  {version.text}" for version in memory.history())
    if line.startswith("/as-of "):
        number, _, question = line.removeprefix("/as-of ").partition(" ")
        return memory.at(version=int(number)).ask(question).text
    if not line.endswith("?"):
        version = memory.update(line, derive="later")  # in the log at once; the weights follow in a thread
        return f"kept as version {version.number}"
    answer = memory.ask(line)
    if not answer.known or answer.evidence is None:
        return "You have not told me."
    return f"{answer.text}  (version {answer.evidence.unit.version})"


def main() -> None:
    """Read lines until the input ends."""
    with ParametricMemory.open("me", url="sqlite:///assistant.db") as memory:
        print(f"I am at version {memory.version}. What is new?")
        for line in map(str.strip, sys.stdin):
            if line == "/quit":
                break
            if line:
                try:
                    print(reply(memory, line), flush=True)
                except (PlumeError, ValueError) as err:  # no such version, or no number
                    print(err)


if __name__ == "__main__":
    main()
