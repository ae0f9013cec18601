"""A memory's log as resources: `plume://memories/{id}/history` and `plume://memories/{id}/versions/{n}`."""

import re

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, ReadResourceResult, Resource, ResourceTemplate, TextResourceContents
from pydantic import BaseModel

from plume_memory.errors import MemoryNotFound, PlumeError
from plume_memory.server.mcp.backend import Backend
from plume_memory.server.mcp.schemas import HistoryEntry, HistoryPage
from plume_memory.server.problems import problem_of
from plume_memory.server.settings import MAX_NUMBER

_JSON = "application/json"
_NEWEST = 100
_URI = re.compile(
    r"plume://memories/(?P<id>mem_[0-9a-z]{26})/(?:(?P<history>history)|versions/(?P<version>[1-9]\d{0,15}))"
)

TEMPLATES = [
    ResourceTemplate(
        name="history",
        title="Versions of a memory",
        uri_template="plume://memories/{id}/history",
        description=f"The newest {_NEWEST} versions, newest first; long texts are cut.",
        mime_type=_JSON,
    ),
    ResourceTemplate(
        name="version",
        title="One version of a memory",
        uri_template="plume://memories/{id}/versions/{n}",
        description="What was written, whole.",
        mime_type=_JSON,
    ),
]


def listed(backend: Backend) -> list[Resource]:
    """Return what is there without asking for more: the history of the one memory, if it is one."""
    if backend.fixed is None:
        return []
    uri = f"plume://memories/{backend.fixed}/history"
    return [Resource(name="history", title="Versions of this memory", uri=uri, mime_type=_JSON)]


async def read(backend: Backend, uri: str) -> ReadResourceResult:
    """Return a resource.

    Raises:
        MCPError: there is none of that address that is the caller's.
    """
    named = _URI.fullmatch(uri)
    try:
        if named is None or backend.fixed not in (None, named["id"]):
            raise MemoryNotFound(f"There is no resource {uri[:200]!r}.")
        found = await _content(backend, named)
    except PlumeError as err:
        problem = problem_of(err)
        raise MCPError(code=INVALID_PARAMS, message=f"{problem.code}: {problem.detail}", data={"uri": uri}) from err
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_JSON, text=found.model_dump_json())])


async def _content(backend: Backend, named: "re.Match[str]") -> BaseModel:
    if named["history"]:
        return HistoryPage.of(await backend.history(named["id"], None, _NEWEST))
    number = int(named["version"])
    if number > MAX_NUMBER:
        raise MemoryNotFound(f"There is no version {number}.")
    version = await backend.entry(named["id"], number)
    return HistoryEntry.of_version(version).model_copy(update={"text": version.text, "is_cut": False})
