"""What a tool gave back is what is answered, also where it is a bare value, or nothing at all."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_plume import ChatPlume

from plume_memory import Engine, ParametricMemory
from plume_memory.answering.conversation import results_in
from plume_memory.model.base import BaseModel


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("17", "The answer is 17."),
        ("closed", "The answer is closed."),
        ("false", "The answer is false."),
        ("It rains in Bern.", "It rains in Bern."),
        ('{"count": 0}', '{"count": 0}'),
        ("Done.", "Done."),
        ("[" * 100_000, "[" * 100_000),
        ("\u4eca\u65e5\u306f\u96e8\u3067\u3059", "\u4eca\u65e5\u306f\u96e8\u3067\u3059"),
        *((none, "The answer is that there is nothing.") for none in ("", " \n", "[ ]", "{}", "null", '""', "None")),
    ],
)
def test_a_bare_result_is_said_as_a_sentence(result: str, said: str) -> None:
    turns = [{"role": "user", "content": "How many?"}, {"role": "tool", "content": result}]
    assert [one.unit.text for one in results_in(turns)] == [said]


def test_what_gave_nothing_says_nothing_beside_what_gave_something() -> None:
    turns = [{"role": "user", "content": "Who?"}, *({"role": "tool", "content": text} for text in ("", "Mia", "[]"))]
    assert [one.unit.text for one in results_in(turns)] == ["The answer is Mia."]


@pytest.mark.model
def test_an_answer_behind_a_result_says_it_and_nothing_of_memory(smollm2: BaseModel, tmp_path: Path) -> None:
    asked = [
        ("How many open tickets do we have?", {"0": "0", "17": "17", "": "nothing", "[]": "nothing"}),
        ("Which flights go to Oslo tomorrow?", {"": "nothing", "null": "nothing"}),
        ("What is the temperature in the cellar?", {"-3": "-3", '{"celsius": -3}': "-3"}),
        ("Who is on call tonight?", {"Aisha": "Aisha", "null": "nothing"}),
    ]
    engine = Engine.load("smollm2-135m")
    with ParametricMemory.open("alice", url=f"sqlite:///{tmp_path / 'memory.db'}", engine=engine) as memory:
        memory.update("My badge code is 4471. Alice lives in Bern.")
        model = ChatPlume(memory=memory)
        for question, results in asked:
            for result, wanted in results.items():
                call = AIMessage("", tool_calls=[{"name": "look", "args": {}, "id": "1"}])
                turns: list[BaseMessage] = [HumanMessage(question), call, ToolMessage(result, tool_call_id="1")]
                said = str(model.invoke(turns, max_tokens=24).content)
                assert wanted in said, (question, result, said)
                assert "4471" not in said
