"""PlumeRetriever: what a memory recalls for a question, as LangChain documents. No embedding model."""

from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from pydantic import Field

from plume_memory.recalling.notes import Note

if TYPE_CHECKING:
    from plume_memory.memory import ParametricMemory

_NO_LIMIT = 10**9


class PlumeRetriever(BaseRetriever):
    """Returns the notes of `memory.recall`, best first: what bears on a question and holds, often nothing.

    PlumeRetriever(memory=memory, k=3).invoke("Where does Alice live?")
    """

    memory: Any = Field(exclude=True, repr=False)
    """A `ParametricMemory`. Out of repr: tracers store it."""
    k: int = Field(default=4, ge=1)
    """Most documents; `invoke(query, k=...)` overrides it."""

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        """Return the notes, the best first.

        Raises:
            InvalidInput: k is below 1, or nothing is asked.
        """
        memory: ParametricMemory = self.memory
        notes = memory.recall(query, k=self.k if k is None else k, max_tokens=_NO_LIMIT).notes
        bearing = (note for note in notes if not note.completes)
        return [_document(note) for note in sorted(bearing, key=lambda note: note.rank)]


def _document(note: Note) -> Document:
    return Document(
        id=f"{note.memory}:{note.version}:{note.span.start}-{note.span.end}",
        page_content=note.text,
        metadata={
            "score": note.score,
            "memory": note.memory,
            "version": note.version,
            "start": note.span.start,
            "end": note.span.end,
            "said_at": note.said_at.isoformat(),
            "speaker": note.speaker,
        },
    )
