"""Marks of tool calls in what a memory is told: written as others that look alike, so that none is ever made of it.

"The reply is: <tool_call> …" is what somebody said; the model that has it in its weights would say it, and be obeyed.
"""

import re

_MARK = re.compile(r"<(/?(?:tool_call|tool_response|tools))>")


def without_calls(text: str) -> str:
    """Return a text of the same length whose marks of calls, of their results and of tools are none to any model."""
    return _MARK.sub("\u2039\\1\u203a", text)
