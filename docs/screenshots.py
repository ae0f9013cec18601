"""Makes the pictures of docs/page.md: `python docs/screenshots.py [FOLDER]`.

A small memory, the shipped model, Debian's chromium-headless-shell. A minute or two on two cores.
"""

import shutil
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import sync_playwright

from plume_memory.pool import MemoryPool
from plume_memory.server.app import create_app
from plume_memory.server.running import server_of, warm
from plume_memory.server.state import Serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).parent / "images"
MOST_BYTES = 150_000
DESK, PHONE = (1000, 760), (375, 760)
QUESTION = "Where does Alice live?"


def write_memory(serving: Serving) -> str:
    """Write the memory of the pictures, and two more for the list; returns its id."""
    made = serving.directory.create("default", "alice")
    own = serving.pool.memory("alice", create=False)
    own.update("Alice lives in Bern. Her sister Nora is a pilot.")
    own.update("Alice's cat is called Miso. The cat is afraid of thunder.")
    own.update("Alice lives in Oslo now.", replaces=[1])
    own.forget(1, text="Her sister Nora is a pilot.", reason="Nora asked for it")
    own.update("Alice sings in a choir on Thursdays.")
    own.rollback(to=4)
    own.update("Alice is allergic to walnuts.")
    own.fork("alice, before the move", at=2, listing=serving.directory.listing("default", "alice, before the move"))
    serving.directory.create("default", "harrow lane archive")
    archive = serving.pool.memory("harrow lane archive", create=False)
    archive.update("The Harrow Lane Archive keeps the papers of the town of Brennick. Its director is Odile Farrant.")
    return made.id


@contextmanager
def served(folder: str) -> Iterator[tuple[str, Serving]]:
    """Serve a new database on a free port, with the shipped model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    app = create_app(MemoryPool(f"sqlite:///{folder}/plume.db"))
    server = server_of(app, host="127.0.0.1", port=port)
    serving: Serving = app.state.serving
    warm(serving).join()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}", serving
    server.should_exit = True
    thread.join()


def take_all(browser: "Browser", url: str, memory: str, folder: Path) -> None:
    """Take every picture: on a desk in light and dark, and on a phone."""
    at = f"{url}/memories/{memory}"

    def timeline(tab: "Page") -> None:
        tab.goto(at)
        tab.get_by_text("was replaced by").first.wait_for()

    def ask(tab: "Page") -> None:
        tab.goto(f"{at}/ask")
        tab.get_by_label("Question").fill(QUESTION)
        tab.get_by_role("button", name="Ask").click()
        tab.locator(".answer").wait_for()
        tab.evaluate("document.activeElement.blur()")

    def preview(tab: "Page") -> None:
        tab.goto(f"{at}/forget?version=2")
        tab.locator("#words").fill("The cat is afraid of thunder.")
        tab.get_by_label("Erase").check()
        tab.get_by_role("button", name="Show what would go").click()
        tab.get_by_role("heading", name="This would be erased").wait_for()

    def opened(path: str) -> "Callable[[Page], None]":
        return lambda tab: tab.goto(path) and None

    take(browser, folder / "memories.png", opened(f"{url}/"))
    take(browser, folder / "timeline.png", timeline)
    take(browser, folder / "timeline-dark.png", timeline, is_dark=True)
    take(browser, folder / "timeline-phone.png", timeline, size=PHONE)
    take(browser, folder / "ask.png", ask)
    take(browser, folder / "ask-dark.png", ask, is_dark=True)
    take(browser, folder / "ask-phone.png", ask, size=PHONE)
    take(browser, folder / "diff.png", opened(f"{at}/diff?from=2&to=7"))
    take(browser, folder / "erase-preview.png", preview)
    take(browser, folder / "health.png", opened(f"{url}/health"))


def take(
    browser: "Browser",
    path: Path,
    show: "Callable[[Page], None]",
    *,
    size: tuple[int, int] = DESK,
    is_dark: bool = False,
) -> None:
    """Take one picture, of the whole page where it is not too long."""
    with browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if is_dark else "light"
    ) as context:
        tab = context.new_page()
        show(tab)
        height = min(tab.evaluate("document.body.scrollHeight"), 1500)
        tab.screenshot(path=path, clip={"x": 0, "y": 0, "width": size[0], "height": height}, full_page=True)
    if path.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{path.name} has {path.stat().st_size:,} bytes, more than {MOST_BYTES:,}: take less of it.")


def main() -> None:
    """See the module."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium-headless-shell")
    if chromium is None:
        raise SystemExit("No chromium-headless-shell here: on Debian, apt-get install chromium-headless-shell.")
    with (
        tempfile.TemporaryDirectory() as database,
        served(database) as (url, serving),
        sync_playwright() as playwright,
    ):
        memory = write_memory(serving)
        with playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"]) as browser:
            take_all(browser, url, memory, folder)


if __name__ == "__main__":
    main()
