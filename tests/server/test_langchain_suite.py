"""LangChain's own suite through `ChatOpenAI`, over the wire: what LangChain expects of OpenAI's server, of ours.

A model of 135M answers in words and fills in what it is held to; what it cannot choose by itself is expected to fail,
with the reason beside it.
"""

from collections.abc import Callable
from typing import Any

import httpx2
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

from plume_memory import Engine
from tests.server.conftest import Served

pytestmark = [
    pytest.mark.model,
    pytest.mark.slow,
    # the client's own, about a class of the suite and about what it parsed itself
    pytest.mark.filterwarnings("ignore:Received a Pydantic BaseModel V1 schema"),
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
]


@pytest.fixture(scope="module")
def real(serve: Callable[..., Served]) -> Served:
    """A server with SmolLM2's weights, without a hypernetwork: it is there sooner, and the wire is the same."""
    served = serve(Engine.load(hypernetwork="none", device="cpu"))
    served.serving.directory.create("default", "suite")
    served.serving.pool.memory("suite").update("The Quillon Bridge was designed by Maren Holt and opened in 1911.")
    return served


class TestChatCompletions(ChatModelIntegrationTests):
    """`/v1/chat/completions`, answered from a memory."""

    use_responses_api = False
    chat_model_class = ChatOpenAI

    @pytest.fixture(autouse=True)
    def connected(self, real: Served) -> None:
        """The suite asks for parameters by a property: it finds here where the server is."""
        self.url, self.key = f"{real.url}/v1", real.key()

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {
            "model": "plume@suite",
            "base_url": self.url,
            "api_key": self.key,
            "max_tokens": 120,
            "stream_usage": True,
            "use_responses_api": self.use_responses_api,
            "extra_body": {"plume": {"max_string_chars": 80}},  # else a string goes on until it is cut: no JSON
            # LangChain shares one client among event loops, and every test has a loop of its own
            "http_async_client": httpx2.AsyncClient(limits=httpx2.Limits(max_keepalive_connections=0)),
        }

    @property
    def supports_json_mode(self) -> bool:
        return True

    @pytest.mark.xfail(reason="asked for JSON without a schema, SmolLM2-135M gives one of the two keys")
    def test_json_mode(self, model: BaseChatModel) -> None:
        super().test_json_mode(model)

    @pytest.mark.xfail(reason="SmolLM2-135M answers in words; it opens no call unless it is made to")
    def test_agent_loop(self, model: BaseChatModel) -> None:
        super().test_agent_loop(model)


class TestResponses(TestChatCompletions):
    """`/v1/responses`, the same."""

    use_responses_api = True
