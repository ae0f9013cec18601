"""PlumeRetriever: the units that a memory retrieves for a question, as LangChain documents. No embedding model."""

from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

if TYPE_CHECKING:
    from plume_memory.memory import ParametricMemory


class PlumeRetriever(BaseRetriever):
    """Returns the written text that bears on a question, from the newest version of a memory.

    The order is that of `memory.route`: the first document is the evidence that an answer would most likely be
    decoded from. There are exactly `k` documents where the history has that many units.

        PlumeRetriever(memory=memory, k=3).invoke("Where does Alice live?")
    """

    memory: Any = Field(exclude=True, repr=False)
    """A `ParametricMemory`. Out of repr: tracers store it."""
    k: int = Field(default=4, ge=1)
    """Most documents; `invoke(query, k=...)` overrides it."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        """Return the units, the best first.

        Raises:
            InvalidInput: k is below 1.
        """
        memory: ParametricMemory = self.memory
        routed = memory.route(query, k=self.k if k is None else k)
        if not routed:
            return []
        numbers = {one.unit.version for one in routed}
        written_at = {number: memory.entry(number).created_at.isoformat() for number in numbers}
        return [
            Document(
                id=f"{memory.name}:{unit.version}:{unit.start}-{unit.end}",
                page_content=unit.text,
                metadata={
                    "score": one.score,
                    "superseded": one.superseded,
                    "memory": memory.name,
                    "version": unit.version,
                    "start": unit.start,
                    "end": unit.end,
                    "created_at": written_at[unit.version],
                },
            )
            for one in routed
            for unit in (one.unit,)
        ]
