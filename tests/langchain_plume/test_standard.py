"""LangChain's own suites, without a network: on a tiny random model, and on the real SmolLM2.

A random model shows that every path works; what it says is noise. What only a model that follows
instructions can pass is expected to fail there, with the reason beside it.
"""

from functools import lru_cache
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_plume import ChatPlume
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from plume_memory import Engine, ParametricMemory
from plume_memory.policy import AnswerPolicy
from plume_memory.testing import HashParameterizer, tiny_base

TINY = tiny_base("llama", context_window=8192)
ENGINE = Engine(TINY, HashParameterizer(TINY), AnswerPolicy(max_new_tokens=600, unit_tokens=64))


def tiny_memory() -> ParametricMemory:
    memory = ParametricMemory.open("suite", url="sqlite://", engine=ENGINE)
    memory.update("Alice lives in Bern.")
    return memory


class TestUnitWithoutMemory(ChatModelUnitTests):
    """Construction, binding and parameters; nothing is loaded."""

    chat_model_class = ChatPlume


class TestUnitWithMemory(ChatModelUnitTests):
    chat_model_class = ChatPlume

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"memory": tiny_memory()}


class TestTinyModel(ChatModelIntegrationTests):
    """Every path of the chat model, on random weights."""

    chat_model_class = ChatPlume

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"memory": tiny_memory(), "min_tokens": 4, "max_tokens": 600, "max_string_chars": 16}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @pytest.mark.xfail(reason="a random model does not choose to call a tool, nor the argument 3")
    def test_tool_calling(self, model: BaseChatModel) -> None:
        super().test_tool_calling(model)

    @pytest.mark.xfail(reason="a random model does not choose to call a tool, nor the argument 3")
    async def test_tool_calling_async(self, model: BaseChatModel) -> None:
        await super().test_tool_calling_async(model)

    @pytest.mark.xfail(reason="a random model does not choose to call a tool")
    def test_agent_loop(self, model: BaseChatModel) -> None:
        super().test_agent_loop(model)

    @pytest.mark.xfail(reason="a random model does not repeat the question's characters in an argument")
    def test_unicode_tool_call_integration(self, model: BaseChatModel) -> None:  # type: ignore[override]
        super().test_unicode_tool_call_integration(model)


@lru_cache(maxsize=1)
def real_memory() -> ParametricMemory:
    """SmolLM2 without a hypernetwork: compiled evidence needs no training, so this is quick."""
    memory = ParametricMemory.open("suite", url="sqlite://", engine=Engine.load(hypernetwork="none", device="cpu"))
    memory.update("The Quillon Bridge was designed by Maren Holt and opened in 1911.")
    return memory


@pytest.mark.model
class TestSmolLM2(ChatModelIntegrationTests):
    """The embedded default model, with a small memory."""

    chat_model_class = ChatPlume

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"memory": real_memory(), "max_tokens": 200, "max_string_chars": 120}

    @property
    def supports_json_mode(self) -> bool:
        return True

    @pytest.mark.xfail(reason="SmolLM2-135M answers in words; it opens no call unless it is made to")
    def test_agent_loop(self, model: BaseChatModel) -> None:
        super().test_agent_loop(model)
