"""The `plume` command: parse, one call into the library, print."""

from plume_memory.cli.main import main

__all__ = ["main"]
