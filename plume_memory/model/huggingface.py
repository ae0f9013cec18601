"""What is downloaded from the Hugging Face hub, at which revision, with its errors as ours."""

import logging
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plume_memory.errors import HubUnreachable, ModelNotFound

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class HubCheckpoint:
    """A Doc-to-LoRA checkpoint on the Hugging Face hub, in the reference's pickle format."""

    repo: str
    filename: str
    notice: str
    """Printed when it is downloaded: its licence is not the code's."""


def snapshot(asked: str) -> Path:
    """Return the folder of a model, downloaded the first time; the revision taken is logged.

    Args:
        asked: "owner/name", which takes the newest, or "owner/name@revision": a commit, a tag or a branch.

    Raises:
        HubUnreachable: it is not in the hub's local cache and the hub cannot be reached.
        ModelNotFound: no such id or revision, or access to it is refused.
    """
    from huggingface_hub import snapshot_download  # noqa: PLC0415 — costs half a second; only hub users pay

    repo, _, revision = asked.partition("@")
    patterns = ["*.json", "*.safetensors", "*.jinja", "tokenizer.model"]
    folder = _from_hub(snapshot_download, asked, repo_id=repo, revision=revision or None, allow_patterns=patterns)
    logger.info("%s is taken at revision %s.", repo, folder.name)
    return folder


def fetch_checkpoint(checkpoint: HubCheckpoint) -> Path:
    """Download a Doc-to-LoRA checkpoint file from the hub and return its path; the revision taken is printed.

    Raises:
        HubUnreachable: it is not in the hub's local cache and the hub cannot be reached.
        ModelNotFound: the repository has no such file, or access to it is refused.
    """
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 — costs half a second; only hub users pay

    print(checkpoint.notice, file=sys.stderr)  # noqa: T201 — a licence must be seen, not logged
    path = _from_hub(hf_hub_download, checkpoint.repo, repo_id=checkpoint.repo, filename=checkpoint.filename)
    folders = len(Path(checkpoint.filename).parents)  # the folder of a revision is named after its commit
    print(f"{checkpoint.repo} is taken at revision {path.parents[folders - 1].name}.", file=sys.stderr)  # noqa: T201
    return path


def _from_hub(download: Any, asked: str, **arguments: Any) -> Path:
    """Call a huggingface_hub download function; map its errors to ours."""
    from huggingface_hub import errors as hub  # noqa: PLC0415 — as above

    try:
        return Path(download(**arguments))
    except (
        hub.GatedRepoError,
        hub.RepositoryNotFoundError,
        hub.RevisionNotFoundError,
        hub.EntryNotFoundError,
        hub.HFValidationError,
    ) as err:
        if not isinstance(err, hub.LocalEntryNotFoundError):
            raise ModelNotFound(
                f"The Hugging Face hub does not give {asked!r}: {_first_line(err)} Check the spelling; "
                "for a gated model accept its licence on the hub and run `hf auth login`."
            ) from err
        unreachable: Exception = err
    except (hub.OfflineModeIsEnabled, hub.HfHubHTTPError, *_transport_errors(), OSError) as err:
        unreachable = err
    raise HubUnreachable(
        f"{asked!r} is not in the local cache and the Hugging Face hub cannot be reached: "
        f"{_first_line(unreachable)} Go online once, or pass the path of a folder that holds the model."
    ) from unreachable


def _transport_errors() -> Any:
    """The hub client's HTTP library changes with its version; its base error is an ancestor of the client's own."""
    from huggingface_hub.errors import HfHubHTTPError  # noqa: PLC0415 — as above

    ancestors = [kind for kind in HfHubHTTPError.__mro__ if kind.__name__ in ("HTTPError", "RequestException")]
    return tuple(ancestors)


def _first_line(err: Exception) -> str:
    return (str(err).strip().splitlines() or [type(err).__name__])[0]
