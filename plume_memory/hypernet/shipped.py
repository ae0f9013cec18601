"""The trained networks that travel inside the package. Knows no torch: `plume models list` asks it."""

from pathlib import Path

_SHIPPED = Path(__file__).parent / "weights"


def shipped_hypernetwork(model: str) -> Path | None:
    """Folder of the network that this package carries for a named model; None where it carries none."""
    folder = _SHIPPED / model
    return folder if (folder / "config.json").is_file() else None
