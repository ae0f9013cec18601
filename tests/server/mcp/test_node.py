"""What others wrote in another language against the same protocol: the inspector and the conformance suite.

`make clients` installs them, with the Node that they need (≥ 22.19), and runs this.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.conftest import Served, node

TOOLS = os.environ.get("PLUME_NODE_TOOLS")
pytestmark = pytest.mark.skipif(TOOLS is None, reason="PLUME_NODE_TOOLS names no folder with the npm packages")
SCENARIOS = ["server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection"]
"""The generic ones: the others want a server with the suite's own tools."""


def run(script: str, *arguments: str) -> str:
    command = [node(), str(Path(TOOLS or "") / "node_modules" / ".bin" / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def open_server(serve: Callable[..., Served]) -> Served:
    """A server for which no key was made, with a memory `alice`."""
    served = serve()
    served.serving.directory.create("default", "alice")
    return served


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_conformance_suite_finds_nothing(open_server: Served, scenario: str) -> None:
    said = run("conformance", "server", "--url", f"{open_server.url}/mcp", "--scenario", scenario)
    assert "0 failed, 0 warnings" in said


def test_the_inspector_lists_and_calls(open_server: Served) -> None:
    def inspect(*arguments: str) -> dict[str, object]:
        header = ("--header", "X-Plume-Memory: alice")
        url = f"{open_server.url}/mcp"
        return dict(json.loads(run("mcp-inspector", "--cli", url, "--transport", "http", *header, *arguments)))

    assert "remember" in str(inspect("--method", "tools/list"))
    call = ("--method", "tools/call", "--tool-name")
    assert inspect(*call, "remember", "--tool-arg", "text=Alice lives in Bern.")["isError"] is False
    answer = inspect(*call, "ask", "--tool-arg", "question=Where does Alice live?")
    assert "Alice lives in Bern." in str(answer["structuredContent"])
