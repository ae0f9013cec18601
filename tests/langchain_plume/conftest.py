"""Nothing of the integration may leave the process: every test here runs without a network."""

from collections.abc import Iterator

import pytest
from pytest_socket import disable_socket, enable_socket


@pytest.fixture(autouse=True)
def _no_network() -> Iterator[None]:
    """Nothing here may leave the process; asyncio's own socket pair is a Unix socket."""
    disable_socket(allow_unix_socket=True)
    yield
    enable_socket()
