"""What the help of commands shows, apart from the modules that use it: those import a database, seconds."""

DEFAULT_URL = "sqlite:///plume.db"
DEFAULT_MODEL = "smollm2-135m"
DEFAULT_TENANT = "default"
"""Whose memories are that nobody said a tenant of."""
CONNECTIONS = 16
"""To PostgreSQL, of one process at most, where nobody says. Half of them may write: writers that wait for each other's
locks leave the others to readers."""
SCOPES = ("memory:read", "memory:write", "memory:erase", "memory:list", "act-as", "admin")
"""Of keys: read and ask · update, roll back, fork, forget, create · erase · list · name memories by a mapped header ·
all, and metrics."""
