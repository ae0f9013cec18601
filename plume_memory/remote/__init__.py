"""Memories of a server, used as those of this process are: the same methods, values and errors, over its REST.

It needs neither torch nor a database. What holds where the memory is in another process is said in `remote.memory`.
"""

from plume_memory.remote.memory import RemoteMemory
from plume_memory.remote.pool import RemotePool
from plume_memory.remote.snapshot import RemoteSnapshot

__all__ = ["RemoteMemory", "RemotePool", "RemoteSnapshot"]
