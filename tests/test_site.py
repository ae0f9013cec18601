"""The documentation site builds without a warning, needs no network, and none of its links is broken."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
pytest.importorskip("mkdocstrings", reason="the extra `docs` is not installed")

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",  # and not -q, which keeps warnings from being counted
        "-f",
        "docs/site/mkdocs.yml",
        "-d",
        str(folder),
    ]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    return folder


class Links(HTMLParser):
    """Collects a page's ids, what it links to and what a browser would load for it."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.linked: set[str] = set()
        self.loaded: set[str] = set()
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.linked.add(given["href"])
        elif tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.loaded.add(given["href"])
        self.loaded |= {given[name] for name in ("src", "srcset") if name in given}


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    pages = {page: Links(page) for page in site.rglob("*.html")}
    broken = []
    for page, links in pages.items():
        for link in links.linked | links.loaded:
            target, _, anchor = unquote(link).partition("#")
            if re.match(r"\w+:", target) or page.name == "404.html":
                continue
            file = (page.parent / target).resolve() if target else page
            if not file.is_file() or (anchor and file in pages and anchor not in pages[file].ids):
                broken.append(f"{page.relative_to(site)}: {link}")

    assert len(pages) > 80
    assert broken == []


def test_a_readers_browser_fetches_nothing_from_elsewhere(site: Path) -> None:
    loaded = {link for page in site.rglob("*.html") for link in Links(page).loaded}
    styles = "".join(sheet.read_text(encoding="utf-8") for sheet in site.rglob("*.css"))

    assert {link for link in loaded if re.match(r"(\w+:)?//", link)} == set()
    assert re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//[^)]*", styles) == []


def test_the_reference_has_every_public_name_and_every_command(site: Path) -> None:
    import langchain_plume

    import plume_memory

    library = Links(site / "reference" / "library.html").ids | Links(site / "reference" / "langchain.html").ids
    for package in (plume_memory, langchain_plume):
        for name in package.__all__:
            assert name.startswith("_") or any(known.endswith(f".{name}") for known in library), name
    commands = Links(site / "reference" / "command-line.html").ids
    assert {"plume-update", "plume-ask", "plume-keys-create", "plume-serve"} <= commands
    policy = (site / "reference" / "policy.html").read_text(encoding="utf-8")
    assert "<code>known_at</code>" in policy
