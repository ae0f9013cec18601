"""The page in a real Chromium: what only a browser finds out."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from tests.server.conftest import Served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

CHROMIUM = shutil.which("chromium-headless-shell")
pytestmark = pytest.mark.browser
LONG_WORD = "supercalifragilisticexpialidocious" * 6


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """A browser; without one these tests are skipped."""
    if CHROMIUM is None:
        pytest.skip("no chromium-headless-shell here: on Debian, apt-get install chromium-headless-shell")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed: it is in the extra dev")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@dataclass
class Watched:
    """A tab, and what went wrong in it."""

    tab: "Page"
    url: str
    memory: str
    complaints: list[str] = field(default_factory=list)

    def open(self, path: str = "") -> "Page":
        self.tab.goto(f"{self.url}/memories/{self.memory}{path}")
        return self.tab


def watched(context: "BrowserContext", served: Served, memory: str) -> Watched:
    """Open a tab that is signed in and notes each console error and each request that leaves the server."""
    tab = context.new_page()
    tab.set_default_timeout(60_000)
    made = Watched(tab, served.url, memory)
    home = urlsplit(served.url).netloc

    def request(sent: Any) -> None:
        if urlsplit(sent.url).netloc != home:
            made.complaints.append(f"asked for {sent.url}")

    tab.on("request", request)
    tab.on("console", lambda said: made.complaints.append(said.text) if said.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: made.complaints.append(str(error)))
    tab.goto(f"{served.url}/login")
    tab.get_by_label("Key").fill(served.key())
    tab.get_by_role("button", name="Sign in").click()
    tab.get_by_role("heading", name="Memories").wait_for()
    return made


@pytest.fixture
def told(served: Served, memory: dict[str, Any]) -> str:
    """A memory with an entry of every kind, one of them without a place to break a line."""
    own = served.serving.pool.memory(memory["name"], create=False)
    own.update(f"Alice says {LONG_WORD}.", derive=False)
    own.update("Alice lives in Oslo.", replaces=[1])
    own.forget(2)
    own.rollback(to=4)
    return str(memory["id"])


@pytest.fixture
def desk(chromium: "Browser", served: Served, told: str) -> Iterator[Watched]:
    """A tab on a desk; at the end nothing may have gone wrong in it."""
    with chromium.new_context(viewport={"width": 1100, "height": 800}) as context:
        made = watched(context, served, told)
        yield made
        assert made.complaints == []


def test_the_timeline_is_completed_by_what_replaced_what(desk: Watched) -> None:
    tab = desk.open()
    tab.get_by_text("was replaced by").wait_for()
    assert tab.locator(".entry").count() == 6


def test_a_timeline_stays_where_nothing_can_be_compared(chromium: "Browser", served: Served, told: str) -> None:
    with chromium.new_context() as context:
        tab = watched(context, served, told)
        tab.tab.route("**/*replaced=true*", lambda route: route.fulfill(status=503, body="busy"))
        with tab.tab.expect_response("**/*replaced=true*"):
            tab.open()
        tab.tab.get_by_role("link", name="Show what replaced what").wait_for()
        assert tab.tab.locator(".entry").count() == 6


def test_a_question_is_answered_without_a_new_page_and_has_a_path(desk: Watched) -> None:
    tab = desk.open("/ask?version=4")
    tab.evaluate("window.isTheSame = true")
    tab.get_by_label("Question").fill("Where does Alice live?")
    tab.get_by_role("button", name="Ask").click()
    tab.locator(".answer").wait_for()
    assert tab.evaluate("window.isTheSame") is True
    assert "/answers/trc_" in tab.url
    assert tab.locator(".candidates, #candidates").count() == 1
    tab.reload()
    assert tab.locator(".answer").count() == 1


def test_two_versions_are_compared(desk: Watched) -> None:
    tab = desk.open("/diff")
    tab.get_by_label("From version").fill("0")
    tab.get_by_label("to", exact=True).fill("4")
    tab.get_by_role("button", name="Compare").click()
    tab.get_by_text("Alice lives in Oslo.").wait_for()
    assert tab.locator("ins").count() == 4


def test_a_text_is_erased_and_its_certificate_downloaded(desk: Watched) -> None:
    tab = desk.open("/forget?version=1")
    tab.get_by_label("Erase").check()
    tab.get_by_role("button", name="Show what would go").click()
    assert tab.locator("del.going").inner_text() == "Alice lives in Bern."
    tab.get_by_role("button", name="Erase for good").click()
    tab.get_by_role("heading", name="Erased", exact=True).wait_for()
    with tab.expect_download() as download:
        tab.get_by_role("link", name="Download the certificate").click()
    assert download.value.suggested_filename == f"certificate-{desk.memory}-v7.json"
    tab = desk.open()
    assert "Bern" not in tab.content()


def test_everything_is_reached_by_the_keyboard(desk: Watched) -> None:
    tab = desk.open()
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to the content"
    tab.get_by_label("Ask this memory").focus()
    tab.keyboard.type("Where does Alice live?")
    tab.keyboard.press("Enter")
    tab.locator(".answer").wait_for()


PATHS = ("", "/ask", "/diff?from=0&to=6", "/forget", "/versions/6", "/verification")


def test_every_control_has_a_name(desk: Watched) -> None:
    for path in PATHS:
        tab = desk.open(path)
        unnamed = tab.evaluate(
            "[...document.querySelectorAll('input:not([type=hidden]), textarea, button, a')]"
            ".filter(e => !(e.labels && e.labels.length) && !e.textContent.trim() && !e.ariaLabel).length"
        )
        assert unnamed == 0, path
        assert tab.locator("h1").count() == 1
        assert tab.evaluate("document.documentElement.lang") == "en"


def test_nothing_is_wider_than_a_phone(chromium: "Browser", served: Served, told: str) -> None:
    with chromium.new_context(viewport={"width": 375, "height": 700}) as context:
        phone = watched(context, served, told)
        for path in PATHS:
            tab = phone.open(path)
            assert tab.evaluate("document.documentElement.scrollWidth") <= 375, path
        phone.open("/ask?version=4")
        phone.tab.get_by_label("Question").fill("What does Alice say? " + LONG_WORD)
        phone.tab.get_by_role("button", name="Ask").click()
        phone.tab.locator(".answer").wait_for()
        assert phone.tab.evaluate("document.documentElement.scrollWidth") <= 375
        assert phone.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_its_ground(chromium: "Browser", served: Served, told: str, scheme: Any) -> None:
    """By WCAG's contrast, 4.5 for text: of ink, of what is dim, and of the accent."""
    with chromium.new_context(color_scheme=scheme) as context:
        tab = watched(context, served, told).open()
        ground = _luminance(tab.evaluate("getComputedStyle(document.documentElement).backgroundColor"))
        assert (ground > 0.5) == (scheme == "light")
        for selector in ("h1", ".facts", ".crumbs a", ".entry .text"):
            color = _luminance(tab.evaluate(f"getComputedStyle(document.querySelector('{selector}')).color"))
            brighter, darker = max(color, ground), min(color, ground)
            assert (brighter + 0.05) / (darker + 0.05) >= 4.5, selector


def test_it_is_read_without_scripts(chromium: "Browser", served: Served, told: str) -> None:
    with chromium.new_context(java_script_enabled=False) as context:
        plain = watched(context, served, told)
        tab = plain.open()
        tab.get_by_role("link", name="Show what replaced what").click()
        tab.get_by_text("was replaced by").wait_for()
        plain.open("/ask?version=4")
        tab.get_by_label("Question").fill("Where does Alice live?")
        tab.get_by_role("button", name="Ask").click()
        tab.locator(".answer").wait_for()
        assert plain.complaints == []


def _luminance(color: str) -> float:
    """WCAG's relative luminance of `rgb(r, g, b)`."""
    parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
