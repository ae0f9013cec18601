"""The library does not load the server, and the server's rooms do not load a model."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("imported", "absent"),
    [
        ("plume_memory, plume_memory.cli.main", "fastapi uvicorn prometheus_client torch"),
        ("plume_memory.server.app, plume_memory.server.running", "torch transformers llguidance"),
    ],
)
def test_nothing_is_imported_that_is_not_used_yet(imported: str, absent: str) -> None:
    code = f"import sys, {imported}\nprint([name for name in {absent.split()!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
