"""What the page loads beside itself: each file under a name with its hash in it, so that it may be kept for ever."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "assets"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file."""

    name: str
    """As it is asked for."""
    media_type: str
    content: bytes


class Assets:
    """The files of this package."""

    def __init__(self) -> None:
        found = [path for path in sorted(FOLDER.iterdir()) if path.suffix in _TYPES]
        self._urls: dict[str, str] = {}
        self._by_name: dict[str, Asset] = {}
        for path in found:
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:12]
            # a file of others has its hash in its own name, so that a change of it is seen in the tree
            name = path.name if digest in path.name else f"{path.stem}-{digest}{path.suffix}"
            self._by_name[name] = Asset(name, _TYPES[path.suffix], content)
            self._urls[path.name.split("-")[0].split(".")[0] + path.suffix] = f"/assets/{name}"

    def url(self, name: str) -> str:
        """Return where a file is: `htmx.js`, whatever its version and hash."""
        return self._urls[name]

    def get(self, name: str) -> Asset | None:
        """Return the file of that name; None where there is none."""
        return self._by_name.get(name)
