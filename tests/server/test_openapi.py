"""The OpenAPI document is what is served: schemathesis asks everything that it describes, and what it forbids."""

import subprocess
import sys
from collections.abc import Callable

from tests.server.conftest import Served

CHECKS_LEFT_OUT = "positive_data_acceptance"
"""That every request of the right form is accepted: a version that is not there, or a tool that is no tool, is none."""


def test_no_answer_is_off_the_document_and_no_request_accepted_that_it_refuses(serve: Callable[..., Served]) -> None:
    served = serve()
    memory = served.serving.directory.create("default", "alice")
    served.serving.pool.memory(memory.log_name).update("Alice lives in Bern.")
    command = [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run"]
    options = ["--max-examples", "5", "--phases", "coverage,fuzzing,stateful", "--seed", "20261125", "--no-color"]
    done = subprocess.run(
        [*command, f"{served.url}/openapi.json", *options, "--exclude-checks", CHECKS_LEFT_OUT],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    with served.client() as client:
        paths = client.get("/openapi.json").json()["paths"]
    operations = sum(len(path) for path in paths.values())
    assert f"Selected: {operations}/{operations}" in done.stdout


def test_the_document_knows_no_shape_but_ours(served: Served) -> None:
    with served.client() as client:
        document = client.get("/openapi.json").json()
    assert "HTTPValidationError" not in str(document)
    assert {"ProblemDocument", "OpenAIError"} <= set(document["components"]["schemas"])
