"""What takes longer than a second says so on a terminal, on one line that is gone when something is printed."""

import io
import json
import sys
from pathlib import Path

import pytest

from plume_memory.cli.main import main
from plume_memory.cli.output import ERR


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def told(workdir: Path, model_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A memory of two versions of which nothing is derived."""
    monkeypatch.setenv("PLUME_MODEL", str(model_folder))
    monkeypatch.setenv("PLUME_HYPERNETWORK", "none")
    monkeypatch.setenv("TERM", "xterm-256color")
    for text in ("Alice lives in Bern.", "Alice lives in Zurich."):
        main(["update", text, "--defer"])
    return workdir


def run(*arguments: str, stderr: io.StringIO, stdin: str = "") -> tuple[int, str, str]:
    with pytest.MonkeyPatch.context() as patched:
        out = io.StringIO()
        patched.setattr("sys.stdin", io.StringIO(stdin))
        patched.setattr("sys.stdout", out)
        patched.setattr("sys.stderr", stderr)
        patched.setattr(ERR, "is_interactive", stderr.isatty())  # rich asks once, when the console is made
        code = main(list(arguments))
        return code, out.getvalue(), sys.stderr.getvalue()  # type: ignore[attr-defined]


LOADING: list[list[str]] = [
    ["ask", "Where does Alice live?", "--max-new-tokens", "2"],
    ["update", "Bob sails."],
    ["route", "Alice"],
    ["recall", "Where does Alice live?"],
    ["profile"],
    ["history", "--replaced"],
    ["diff", "0", "2", "--replaced"],
    ["rebuild"],
    ["verify", "--derived", "1"],
    ["forget", "1", "--erase"],
    ["chat"],
]


@pytest.mark.parametrize("command", LOADING, ids=lambda command: command[0])
def test_a_command_that_loads_the_model_says_so_on_a_terminal_alone(told: Path, command: list[str]) -> None:
    question = "Where does Alice live?\n"
    code, out, err = run(*command, "--json", stderr=Terminal(), stdin=question)
    assert code == 0
    assert "loading the model" in err
    assert "\x1b[2K" in err.rpartition("working")[2], "the line is cleared"
    for line in out.splitlines():
        json.loads(line)

    code, _, err = run(*command, stderr=io.StringIO(), stdin=question)
    assert "loading the model" not in err
    assert "\x1b" not in err


@pytest.mark.parametrize(
    "command", [["show"], ["history"], ["list"], ["rollback", "1"]], ids=lambda command: command[0]
)
def test_a_command_that_loads_nothing_shows_no_line(told: Path, command: list[str]) -> None:
    assert run(*command, stderr=Terminal())[2] == ""


def test_the_line_is_gone_before_an_error_is_told(told: Path) -> None:
    (told / "broken").mkdir()
    (told / "broken" / "config.json").write_text("{}")
    code, _, err = run("ask", "Where?", "--model", str(told / "broken"), stderr=Terminal())
    assert code != 0
    assert "loading the model" in err
    shown, _, said = err.rpartition("\x1b[2K")
    assert "loading the model" in shown
    assert "loading the model" not in said
    assert "UnknownArchitecture: " in said


def test_an_error_in_a_chat_leaves_no_line_over_the_next_prompt(told: Path) -> None:
    (told / "broken").mkdir()
    (told / "broken" / "config.json").write_text("{}")
    code, _, err = run("chat", "--model", str(told / "broken"), stderr=Terminal(), stdin="Where?\n/quit\n")
    assert code == 0
    shown, _, said = err.rpartition("\x1b[2K")
    assert "loading the model" in shown
    assert "loading the model" not in said
    assert "UnknownArchitecture: " in said


def test_forced_colours_put_no_line_into_a_file(told: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ERR, "_force_terminal", True)
    assert "loading the model" not in run("ask", "Where?", "--max-new-tokens", "2", stderr=io.StringIO())[2]
