"""Which hypernetwork a name means, and those that travel inside the package. Knows no torch: opening a log asks it."""

from pathlib import Path

from plume_memory.errors import InvalidInput
from plume_memory.model.hub import check_model, named_source
from plume_memory.model.huggingface import HubCheckpoint

_SHIPPED = Path(__file__).parent / "weights"


def shipped_hypernetwork(model: str) -> Path | None:
    """Folder of the network that this package carries for a named model; None where it carries none."""
    folder = _SHIPPED / model
    return folder if (folder / "config.json").is_file() else None


def chosen_network(model: str, hypernetwork: str) -> Path | HubCheckpoint | None:
    """Return the network that is meant by a name, see `Engine.load`; None where none is: distillation, or neither.

    Raises:
        ModelNotFound: the model is no name, folder or id.
        InvalidInput: no such name or folder of a network, or none is carried for the model.
    """
    check_model(model)
    source = named_source(model)
    if hypernetwork in ("distill", "none"):
        return None
    if hypernetwork == "auto":
        return (source.checkpoint or shipped_hypernetwork(source.name)) if source else None
    if hypernetwork == "shipped":
        folder = shipped_hypernetwork(source.name) if source else None
        if folder is None:
            raise InvalidInput(
                f"This package carries no hypernetwork for {model!r}; `plume models list` shows which models have one. "
                "Write distill, or train one: `plume train`."
            )
        return folder
    folder = Path(hypernetwork).expanduser()
    if not folder.is_dir():
        raise InvalidInput(
            f"Unknown hypernetwork {hypernetwork!r}: write auto, shipped, distill, none, or a network's folder."
        )
    return folder
