"""Where a memory's files are: whether a database is there, and where what is derived goes when nobody says."""

from pathlib import Path
from urllib.parse import unquote


def is_missing_file(url: str) -> bool:
    """Whether the URL names a SQLite file that does not exist: a read must not leave one behind."""
    path, _, options = url.partition(":///")[2].partition("?")
    if path.startswith("file:"):  # SQLite's own URI: file:relative, file:/absolute or file://host/absolute
        path = unquote(path.removeprefix("file:"))
        path = f"/{path[2:].partition('/')[2]}" if path.startswith("//") else path
    in_memory = path in ("", ":memory:") or "mode=memory" in options
    return url.startswith("sqlite") and not in_memory and not Path(path).exists()


def default_artifacts(url: str) -> str:
    """Folder for derived bytes beside a SQLite file; in memory for a database in memory; else a local folder.

    Absolute: an erasure's certificate names it as the only place that was searched, wherever it is read.
    """
    path = url.partition(":///")[2].partition("?")[0]
    if not url.startswith("sqlite"):
        return str(Path("plume.artifacts").absolute())
    if path in ("", ":memory:"):
        return "memory://plume"
    folder = f"{path}.artifacts"
    return folder if path.startswith("file:") else str(Path(folder).absolute())
