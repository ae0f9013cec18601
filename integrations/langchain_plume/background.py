"""Derives adapters beside the conversation: an agent's reply does not wait for what only the next one needs."""

from typing import TYPE_CHECKING, Literal

from plume_memory import background
from plume_memory.errors import InvalidInput

if TYPE_CHECKING:
    from plume_memory.memory import ParametricMemory

Derive = Literal["background", "now", "later"]


class Deriver:
    """Brings memories' adapters up to date; the newest version at that time is enough."""

    def __init__(self, derive: Derive) -> None:
        """Choose when; see `PlumeMemoryMiddleware`.

        Raises:
            InvalidInput: none of background, now, later.
        """
        if derive not in ("background", "now", "later"):
            raise InvalidInput(f"derive is background, now or later; got {derive!r}.")
        self._derive: Derive = derive
        self._background = background.Deriver()

    def begin(self, memory: "ParametricMemory") -> None:
        """Derive a memory's newest version: now, soon, or not here."""
        if self._derive == "now":
            memory.at().derive()
        elif self._derive == "background":
            self._background.begin(memory, memory.version)

    def flush(self) -> None:
        """Wait for everything begun and raise the first error since the last flush."""
        self._background.flush()

    def close(self) -> None:
        """Finish what was begun and stop the thread."""
        self._derive = "later"
        self._background.close()
