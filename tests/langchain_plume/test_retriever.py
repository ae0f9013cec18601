"""PlumeRetriever against langchain-tests, and what its documents say."""

from datetime import datetime
from pathlib import Path

import pytest
from langchain_core.retrievers import BaseRetriever
from langchain_plume.retriever import PlumeRetriever
from langchain_tests.integration_tests import RetrieversIntegrationTests
from pydantic import ValidationError

from plume_memory.errors import InvalidInput
from plume_memory.memory import ParametricMemory
from plume_memory.policy import AnswerPolicy
from plume_memory.testing import tiny_engine

ENGINE = tiny_engine()
FACTS = ("Alice lives in Bern.", "Bob has a dog.", "Carol plays chess.", "Alice moved to Zurich.", "Dan is ill.")


def filled(url: str = "sqlite://") -> ParametricMemory:
    memory = ParametricMemory.open("alice", url=url, engine=ENGINE)
    for fact in FACTS:
        memory.update(fact, derive=False)
    return memory


class TestPlumeRetriever(RetrieversIntegrationTests):
    """LangChain's own suite."""

    @property
    def retriever_constructor(self) -> type[BaseRetriever]:
        return PlumeRetriever

    @property
    def retriever_constructor_params(self) -> dict[str, object]:
        return {"memory": filled()}

    @property
    def retriever_query_example(self) -> str:
        return "Where do Alice and Bob live? Who has a dog?"  # the suite asks for as many as it wants


@pytest.fixture
def memory(tmp_path: Path) -> ParametricMemory:
    return filled(f"sqlite:///{tmp_path / 'plume.db'}")


def test_documents_are_what_bears_on_the_question_the_best_first(memory: ParametricMemory) -> None:
    documents = PlumeRetriever(memory=memory).invoke("Where did Alice move?")

    assert [d.page_content for d in documents] == ["Alice moved to Zurich.", "Alice lives in Bern."]
    routed = memory.route("Where did Alice move?", k=4)
    assert [d.metadata["score"] for d in documents] == [one.score for one in routed[:2]]
    first = documents[0]
    assert first.page_content == "Alice moved to Zurich."
    assert first.id == "alice:4:0-22"
    said = first.metadata.pop("said_at")
    assert datetime.fromisoformat(said) == memory.history()[3].created_at
    place = {"memory": "alice", "version": 4, "start": 0, "end": 22}
    assert first.metadata == {"score": routed[0].score, "speaker": None, **place}
    assert PlumeRetriever(memory=memory).invoke("zebra") == []


def test_documents_follow_the_reader_where_the_engine_has_it() -> None:
    engine = tiny_engine(policy=AnswerPolicy(retrieval="reader", unit_tokens=64))
    memory = ParametricMemory.open("alice", url="sqlite://", engine=engine)
    for fact in FACTS:
        memory.update(fact, derive=False)

    documents = PlumeRetriever(memory=memory, k=99).invoke("Where did Alice move?")

    routed = [one.unit.text for one in memory.route("Where did Alice move?", k=99)]
    assert [d.page_content for d in documents] == [
        text for text in routed if text in {d.page_content for d in documents}
    ]
    assert {d.page_content for d in documents} >= set(FACTS) - {"Alice lives in Bern."}
    assert all(0 < d.metadata["score"] < 1 for d in documents), "every unit of a short history is read"


def test_ids_tell_the_units_of_one_update_apart(memory: ParametricMemory) -> None:
    memory.update(" ".join(f"Paragraph {n} speaks of a zebra at length." for n in range(8)), derive=False)

    documents = PlumeRetriever(memory=memory, k=99).invoke("zebra")
    assert len({d.id for d in documents}) == len(documents) > 3


def test_a_forgotten_text_is_not_retrieved(memory: ParametricMemory) -> None:
    memory.forget(4)

    assert PlumeRetriever(memory=memory, k=1).invoke("Alice")[0].page_content == "Alice lives in Bern."
    assert len(PlumeRetriever(memory=memory, k=99).invoke("Alice")) == 1


def test_an_empty_memory_has_no_documents() -> None:
    memory = ParametricMemory.open("empty", url="sqlite://", engine=ENGINE)

    assert PlumeRetriever(memory=memory).invoke("anything") == []


def test_a_k_below_one_is_refused_wherever_it_is_given(memory: ParametricMemory) -> None:
    with pytest.raises(ValidationError):
        PlumeRetriever(memory=memory, k=0)
    with pytest.raises(InvalidInput, match="k must be at least 1"):
        PlumeRetriever(memory=memory).invoke("Alice", k=0)


def test_the_memory_is_not_in_the_repr_that_tracers_keep(memory: ParametricMemory) -> None:
    assert "memory" not in repr(PlumeRetriever(memory=memory))
