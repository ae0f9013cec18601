"""What a chat model makes of a turn: dated statements that can be understood alone. Knows no memory."""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files

from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.runnables import Runnable

NOTHING = "NOTHING"
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)
_BULLET = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+")


def extracted(
    model: Runnable[LanguageModelInput, BaseMessage], message: str, *, before: Sequence[str], said_at: datetime
) -> list[str]:
    """Return what a message says that is worth keeping, one statement each; none where nothing is.

    Args:
        model: any chat model.
        message: what the user wrote.
        before: the turns before it, oldest first.
        said_at: when it was written.

    Raises:
        Whatever the model raises.
    """
    given = {"today": f"{said_at:%Y-%m-%d, %A}", "before": list(before), "message": message}
    asked = [SystemMessage(_prompt()), HumanMessage(json.dumps(given, ensure_ascii=False))]
    written = _THOUGHT.sub("", model.invoke(asked).text)
    lines = (_BULLET.sub("", line).strip() for line in written.splitlines())
    return [line for line in lines if line.rstrip(".") != NOTHING and any(char.isalnum() for char in line)]


@cache
def _prompt() -> str:
    return files("langchain_plume").joinpath("extract_prompt.txt").read_text(encoding="utf-8")
