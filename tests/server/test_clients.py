"""What docs/clients.md shows works as it stands, with every client that is installed here.

Two kinds need an environment of their own, which a variable names: `make clients` makes it and runs them.
"""

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.conftest import Served, new_engine, node

PAGE = (Path(__file__).parents[2] / "docs" / "clients.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"```python (\w+)\n(.*?)```", PAGE, re.DOTALL))
SCRIPTS = dict(re.findall(r"```js (\w+)\n(.*?)```", PAGE, re.DOTALL))
NODE_TOOLS = os.environ.get("PLUME_NODE_TOOLS")
LLAMA_INDEX = os.environ.get("PLUME_LLAMA_INDEX")
EXTRAS = {
    "plume": "plume_memory",
    "openai": "openai",
    "langchain_openai": "langchain_openai",
    "agents": "agents",
    "litellm": "litellm",
    "mcp": "mcp",
}
SAID = {"plume": "Alice lives in Zurich.", "mcp": "'known': True"}
"""What an example prints whatever the tiny model answers; the others: something."""


def run(served: Served, *command: str) -> str:
    environment = {**os.environ, "PLUME": served.url, "KEY": served.key(), "NO_PROXY": "*"}
    environment |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}  # else it asks for a list of prices
    done = subprocess.run(command, env=environment, capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


@pytest.fixture(scope="module")
def told(serve: Callable[..., Served]) -> Served:
    """A server with a memory `alice`, whose answers end: one that is cut is an error to the Agents SDK."""
    served = serve(new_engine(max_new_tokens=4000))
    served.serving.directory.create("default", "alice")
    served.serving.pool.memory("alice").update("Alice lives in Zurich.", idempotency_key="move-1")
    return served


def test_the_page_has_the_clients_that_are_tested() -> None:
    assert EXAMPLES.keys() == {*EXTRAS, "llama_index"}
    assert SCRIPTS.keys() == {"openai", "ai"}


@pytest.mark.parametrize("client", EXTRAS)
def test_a_client_works_as_its_example_says(told: Served, client: str) -> None:
    if importlib.util.find_spec(EXTRAS[client]) is None:
        pytest.skip(f"{EXTRAS[client]} is not installed: pip install --constraint constraints.txt '.[dev]'")
    answered = told.serving.pool.engine.scheduler.counters().answered
    printed = run(told, sys.executable, "-c", EXAMPLES[client])
    assert SAID.get(client, "") in printed
    assert printed.strip()
    assert told.serving.pool.engine.scheduler.counters().answered > answered


@pytest.mark.skipif(LLAMA_INDEX is None, reason="PLUME_LLAMA_INDEX names no Python with LlamaIndex")
def test_llama_index_works_as_its_example_says(told: Served) -> None:
    answered = told.serving.pool.engine.scheduler.counters().answered
    assert run(told, LLAMA_INDEX or "", "-c", EXAMPLES["llama_index"]).strip()
    assert told.serving.pool.engine.scheduler.counters().answered > answered


@pytest.mark.skipif(NODE_TOOLS is None, reason="PLUME_NODE_TOOLS names no folder with the npm packages")
@pytest.mark.parametrize("client", SCRIPTS)
def test_a_client_in_javascript_works_as_its_example_says(told: Served, client: str) -> None:
    folder = Path(NODE_TOOLS or "")
    package = {"ai": "@ai-sdk/openai-compatible"}.get(client, client)
    if not (folder / "node_modules" / package).is_dir():
        pytest.skip(f"{package} is not in {folder}: npm install --prefix {folder} {package}")
    script = folder / f"plume-{client}.mjs"
    script.write_text(SCRIPTS[client], encoding="utf-8")
    try:
        printed = run(told, node(), str(script))
    finally:
        script.unlink()
    assert printed.strip()
    assert "1" in printed, "the version that it answered from"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
def test_curl_works_as_the_page_says(told: Served) -> None:
    (shell,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    reply = json.loads(run(told, "bash", "-euc", shell))
    assert reply["object"] == "chat.completion"
    assert reply["plume"]["evidence"][0]["text"] == "Alice lives in Zurich."


def test_the_snippets_for_programs_are_json_and_start_what_there_is() -> None:
    snippets = [json.loads(one) for one in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]
    assert len(snippets) == 4
    options = subprocess.run(
        [sys.executable, "-m", "plume_memory.cli", "mcp", "--help"],
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for snippet in snippets:
        (servers,) = snippet.values()
        if servers["memory"].get("command") == "plume":
            named = [word for word in servers["memory"]["args"] if word.startswith("--")]
            assert all(word in options for word in named)
        else:
            assert servers["memory"]["url"].endswith("/mcp")
