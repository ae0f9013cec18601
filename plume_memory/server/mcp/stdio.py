"""MCP over this process's stdin and stdout: one client, which started it. stdout has its messages and nothing else."""

from mcp.server.stdio import stdio_server

from plume_memory.defaults import DEFAULT_TENANT
from plume_memory.memory import ParametricMemory
from plume_memory.pool import MemoryPool
from plume_memory.remote import RemotePool
from plume_memory.server.auth import LOCAL
from plume_memory.server.mcp.backend import Backend
from plume_memory.server.mcp.bridge import Bridge
from plume_memory.server.mcp.protocol import mcp_server
from plume_memory.server.mcp.served import Served
from plume_memory.server.settings import ServerSettings
from plume_memory.server.state import Serving

_UNLIMITED = 1_000_000_000


def local_serving(pool: MemoryPool) -> Serving:
    """Return the parts for who started this process: he has all of it, and no rate."""
    return Serving.of(pool, ServerSettings(requests_per_minute=_UNLIMITED, rows_per_minute=_UNLIMITED))


def local_backend(serving: Serving, name: str) -> Backend:
    """Return the backend of one memory of the database, which is made if it is missing. Needs no model yet."""
    own: ParametricMemory = serving.pool.memory(name)
    return Served(serving, LOCAL, serving.directory.get(DEFAULT_TENANT, own.name))


def bridge_backend(pool: RemotePool, name: str | None) -> Backend:
    """Return the backend of another server.

    Args:
        pool: of the server.
        name: of the one memory; None: that of the key, and where it opens several each call names one.

    Raises:
        MemoryNotFound: there is none of that name that the key opens.
        ServerError: the server cannot be reached, or does not let the key in.
    """
    if name is None and pool.key().memory is None:
        return Bridge(pool, None)
    return Bridge(pool, pool.memory(name, create=False))


async def serve_stdio(backend: Backend) -> None:
    """Serve until stdin ends."""
    server = mcp_server(lambda _: backend)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
