"""Names of memories by whose they are: owner × agent × session. A convention alone; any other name is as good.

    alice                                all that is known of Alice
    alice/agent=support                  what one agent knows of her
    alice/agent=support/session=42       what is of one session

`enclosing` gives the names that a turn reads, widest first; what is learned is written to one of them.
"""

from urllib.parse import quote

from plume_memory.errors import InvalidInput

_KEPT = " @:+!$&'()*,;"
"""Characters that stand for themselves beside letters, digits and `_.-~`. Others are quoted, so `/`, `=` and `%`."""


def scope(owner: str, *, agent: str | None = None, session: str | None = None) -> str:
    """Return the name of the memory of an owner, of what an agent knows of him, or of one session.

    Different arguments give different names.

    Raises:
        InvalidInput: one of them is empty.
    """
    parts = {"": owner, "agent=": agent, "session=": session}
    if any(part is not None and not part.strip() for part in parts.values()):
        raise InvalidInput("An owner, agent or session of a scope has at least one character that is no blank.")
    return "/".join(f"{kind}{_quoted(part)}" for kind, part in parts.items() if part is not None)


def enclosing(name: str) -> tuple[str, ...]:
    """Return the names of a scope and of all that it lies in, the widest first."""
    parts = name.split("/")
    return tuple("/".join(parts[:n]) for n in range(1, len(parts) + 1))


def _quoted(part: str) -> str:
    """Letters of any script stay; else a name would be three times as long as what it names."""
    return "".join(char if char.isalnum() else quote(char, safe=_KEPT) for char in part)
