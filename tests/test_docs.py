"""The front page stays short, what the pages link to is there, and their code, JSON and commands are right."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from plume_memory import Answer, MemoryPool
from plume_memory.cli.main import _in_place, app

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")] + [*(ROOT / "docs").glob("*.md")]
)


def without_code(page: Path) -> str:
    return re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


def anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_readme_is_read_in_two_minutes() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 160


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_links_to_is_there(page: Path) -> None:
    text = without_code(page)
    links = re.findall(r"\]\(([^)\s]+)\)", text) + re.findall(r'(?:src|srcset)="([^"]+)"', text)
    broken = []
    for link in links:
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(link)

    assert broken == []


class Block(str):
    """The code of a fenced block; `language` and `tag` are what stands behind its fence."""

    language: str
    tag: str


def blocks(page: Path) -> Iterator[Block]:
    for said, tag, code in re.findall(
        r"^ *```(\w*) *([\w-]*)\n(.*?)^ *```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    ):
        block = Block(code)
        block.language, block.tag = said, tag
        yield block


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_compiles_and_its_json_parses(page: Path) -> None:
    for block in blocks(page):
        if block.language == "python":
            compile(block, f"{page.name}: {block[:40]!r}", "exec")
        if block.language == "json":
            json.loads(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_a_page_says_what_it_is(page: Path) -> None:
    """So that none is left out of the tests below: `console` is parsed, `text` is what was printed."""
    fences = re.findall(r"^ *```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(fences[::2]), [number for number, said in enumerate(fences[::2], 1) if not said]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_is_installed_is_installed_from_a_clone(page: Path) -> None:
    """The package is not on PyPI."""
    assert not re.findall(r"pip install [^`\n]*plume-memory.*", page.read_text(encoding="utf-8"))


def commands(page: Path) -> Iterator[list[str]]:
    """The `plume` commands of a page's blocks, without comments, pipes and what is written to files."""
    for block in blocks(page):
        if block.language not in ("console", "bash"):
            continue
        for line in block.replace("\\\n", " ").splitlines():
            for words in _between_operators(line.removeprefix("$ ")):
                while words and re.fullmatch(r"\w+=.*", words[0]):
                    words = words[1:]
                if words[:1] == ["plume"]:
                    yield words[1:]


def _between_operators(line: str) -> Iterator[list[str]]:
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:  # a quotation over several lines: curl's
        return
    start = 0
    for at, word in enumerate([*words, ";"]):
        if set(word) <= set("();<>|&"):
            yield words[start:at]
            start = at + 1


def parse(arguments: list[str]) -> None:
    """Parse a command line as `plume` does, and run nothing."""
    group: Any = typer.main.get_command(app)
    rest, context = _in_place(arguments, group), group.make_context("plume", [], resilient_parsing=True)
    while hasattr(group, "commands"):
        if not rest or rest[0] not in group.commands:
            raise typer.BadParameter(f"there is no command {' '.join(arguments)}")
        group, rest = group.commands[rest[0]], rest[1:]
    group.make_context(group.name, rest, parent=context)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_a_page_exist_with_their_options(page: Path) -> None:
    for arguments in commands(page):
        parse(arguments)


def test_a_command_that_does_not_exist_would_be_found() -> None:
    shown = [arguments for page in PAGES for arguments in commands(page)]
    assert ["doctor"] in shown
    assert len(shown) > 10
    for wrong in (["remember", "x"], ["ask", "x", "--quickly"], ["keys", "mend"], ["export"]):
        with pytest.raises(Exception, match=r"no command|[Nn]o such option|Missing (argument|parameter)"):
            parse(wrong)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_command_in_a_sentence_exists(page: Path) -> None:
    group: Any = typer.main.get_command(app)
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for said in re.findall(r"`plume ([a-z][^`\n]*)`", text):
        name, *rest = said.split()
        assert name in group.commands, said
        inner = getattr(group.commands[name], "commands", {})
        command = inner.get(rest[0]) if inner and rest else group.commands[name]
        assert command is not None, said
        known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
        used = {word.split("=")[0] for word in re.findall(r"--[a-z][\w-]*", said)}
        assert inner or used <= known, said


TOLD = ("tutorial.md", "howto-erase.md", "howto-updates.md", "howto-remote-model.md")


@pytest.mark.model
@pytest.mark.slow
@pytest.mark.parametrize("name", TOLD)
def test_the_blocks_of_a_page_print_what_stands_below_them(smollm2: object, tmp_path: Path, name: str) -> None:
    found = list(blocks(ROOT / "docs" / name))
    code = [block for block in found if block.language == "python" and not block.tag]
    shown = [block for block in found if block.language == "text"]
    between = "-- next block --"
    program = "\n".join(f"{block}\nprint({between!r})" for block in code)

    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.split(f"{between}\n") == [*shown, ""]


@pytest.mark.model
@pytest.mark.slow
def test_what_the_page_on_updates_says_fails_does_fail(smollm2: object, tmp_path: Path) -> None:
    """So that the page is mended when the model gets better."""
    with MemoryPool(f"sqlite:///{tmp_path / 'fails.db'}") as pool:

        def answer(name: str, texts: list[str], question: str) -> Answer:
            for text in texts:
                pool.memory(name).update(text)
            return pool.memory(name).ask(question)

        long = (
            "The reorganisation, which was met with some scepticism, finally led to Mara Vogt taking over the backend "
            "team, which had been led by Jonas Brandt since 2021, while he moved to sales."
        )
        assert "Jonas" in answer("long", [long], "Who leads the backend team?").text
        told = ["Alice Keller works at Orbit Labs.", "She leads the design team there."]
        assert "design" not in answer("pronoun", told, "What does Alice Keller lead?").text
        assert "design" not in answer("pronoun in one", [" ".join(told)], "What does Alice Keller lead?").text
        told = ["Alice Keller works at Orbit Labs and leads the design team there."]
        assert "design team" in answer("sentence", told, "What does Alice Keller lead?").text
        told = ["Alice lives in Bern.", "Alice works in Geneva."]
        assert "Bern" in answer("addition", told, "Where does Alice live?").text
        assert "Geneva" in answer("addition 2", told, "Where does Alice work?").text
        told = ["Ben plays the cello.", "Ben also plays the organ."]
        both = answer("both", told, "What does Ben play?").text
        assert ("cello" in both) != ("organ" in both)
        told = ["Alice has a red bicycle.", "Alice no longer has a bicycle."]
        assert "bicycle" in answer("negation", told, "Does Alice have a bicycle?").text  # which one differs by dtype
        told = ["The budget is 40,000 euros. 12,500 euros are spent."]
        assert "27,500" not in answer("sum", told, "How much of the budget is left?").text
