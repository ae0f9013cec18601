"""Where a memory's files are: whether a database is there, and where what is derived goes when nobody says."""

from pathlib import Path


def is_missing_file(url: str) -> bool:
    """Whether the URL names a SQLite file that does not exist: a read must not leave one behind."""
    path = url.partition(":///")[2].partition("?")[0]
    return url.startswith("sqlite") and path not in ("", ":memory:") and not Path(path).exists()


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
