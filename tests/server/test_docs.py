"""What docs/server.md shows works as it stands."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.server.conftest import Served

PAGE = (Path(__file__).parents[2] / "docs" / "server.md").read_text(encoding="utf-8")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
def test_the_examples_run_in_the_order_of_the_page(serve: Callable[..., Served]) -> None:
    served = serve()
    environment = {**os.environ, "PLUME": served.url, "KEY": served.key(), "NO_PROXY": "*"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"

    def run(*command: str) -> str:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    (shell,) = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    said = run("bash", "-euc", shell)
    assert '"number":1' in said
    assert '"evidence":{"unit":{"position":0,"version":1' in said
    assert "event: answer" in said
    ask, write = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert "1 Alice lives in Zurich." in run(sys.executable, "-c", ask)
    begin = ask[: ask.index("reply =")]
    for _ in range(2):
        run(sys.executable, "-c", begin + write)
    memory = served.serving.pool.memory("alice", create=False)
    assert [one.text for one in memory.history()] == ["Alice lives in Zurich.", "Alice has moved to Oslo."]


def test_every_route_is_on_the_page(served: Served) -> None:
    with served.client() as client:
        paths = client.get("/openapi.json").json()["paths"]
    for path in paths:
        shown = path.replace("/v1/memories/{id}/", "…/").replace("/v1/models/{model}", "/v1/chat")
        assert shown.removesuffix("/v1/models") in PAGE, path
