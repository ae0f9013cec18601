"""Visitors of the page: a cookie jar, and forms that carry the token of the page they were on."""

import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests.server.conftest import Served

MORE = re.compile(r'href="(/\?after=\w+)">More memories')
TOKEN = re.compile(r'name="token" value="([0-9a-f]{64})"')


class Visitor:
    """Someone with a browser that runs no scripts."""

    def __init__(self, client: httpx2.Client) -> None:
        self.client = client

    def get(self, path: str, status: int = 200) -> str:
        found = self.client.get(path)
        assert found.status_code == status, (path, found.status_code, found.text[-800:])
        return str(found.text)

    def memories(self) -> str:
        """The list of memories, all its pages: tests share a server, and its list is in the order of random ids."""
        pages = [self.get("/")]
        while more := MORE.search(pages[-1]):
            pages.append(self.get(more.group(1)))
        return "\n".join(pages)

    def token(self, path: str) -> str:
        found = TOKEN.search(self.get(path))
        assert found, f"{path} has no form"
        return found.group(1)

    def send(self, path: str, on: str, **fields: Any) -> httpx2.Response:
        """Send a form that stands on another page."""
        return self.client.post(path, data={"token": self.token(on), **fields})

    def log_in(self, key: str) -> None:
        assert self.send("/login", "/login", key=key, next="/health").status_code == 200


@pytest.fixture
def anybody(served: Served) -> Iterator[Visitor]:
    """A visitor without a key, of a server that has made one."""
    served.key()
    with served.client(follow_redirects=True) as client:
        yield Visitor(client)


@pytest.fixture
def visitor(served: Served) -> Iterator[Visitor]:
    """A visitor with all the scopes of the default tenant."""
    with served.client(follow_redirects=True) as client:
        made = Visitor(client)
        made.log_in(served.key())
        yield made
