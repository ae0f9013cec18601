"""`plume demo` with the real model: what it tells is right, it is quick to see, and it ends with what to do next."""

import io
import json
import re
import sys
from typing import Any

import pytest

from plume_memory.cli import main
from plume_memory.cli.demo import QUESTIONS
from plume_memory.cli.output import OUT

pytestmark = pytest.mark.model
COLOURS = re.compile("\x1b\\[[0-9;]*m")


@pytest.fixture(scope="module")
def shown(smollm2: object) -> str:
    """What a terminal gets."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TERM", "xterm-256color")
        patched.delenv("NO_COLOR", raising=False)
        patched.setattr(OUT, "_color_system", 1)  # rich asks once, when the console is made
        patched.setattr("sys.stdout", Terminal())
        assert main(["demo"]) == 0
        return sys.stdout.getvalue()  # type: ignore[attr-defined,no-any-return]


def test_the_flow_is_in_colour_and_opens_with_an_answer_that_is_right(shown: str) -> None:
    answers = [line.strip() for line in COLOURS.sub("", shown).splitlines() if line.strip().startswith(("✓", "✗"))]
    assert len(answers) == 2 * len(QUESTIONS) + 1
    assert [answer[0] for answer in answers] == ["✓"] * len(answers)
    assert "Odile Farrant" in answers[0]
    assert "Tomas Velling" in answers[3]
    assert answers[0] == answers[-1], "as of version 1 it says what it said then"
    for colour in ("32m", "36m"):
        assert colour in shown


def test_it_ends_with_three_commands_to_try(shown: str) -> None:
    last = [line.strip() for line in COLOURS.sub("", shown).splitlines()][-3:]
    assert last == ['plume update "Alice lives in Bern."', 'plume ask "Where does Alice live?"', "plume history"]


def test_a_program_gets_one_document_without_colour(smollm2: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--json"]) == 0
    out, err = capsys.readouterr()
    found: dict[str, Any] = json.loads(out)
    assert (found["score"]["before"], found["score"]["after"], found["score"]["time travel identical"]) == (3, 3, True)
    assert "\x1b" not in out + err
