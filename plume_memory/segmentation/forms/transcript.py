"""Transcripts: what is said at a time of the recording.

WebVTT, SubRip, "[00:01:23] Anna: text", and "Anna (00:01:23):" in a line of its own above it.
"""

import re
from itertools import pairwise

from plume_memory.segmentation.forms.piece import Piece, lines_of
from plume_memory.segmentation.forms.turns import Turn, answering

_AT = r"\d{1,2}:\d{2}(?::\d{2})?(?:[.,]\d{1,3})?"
_CUE = re.compile(rf"(?P<at>{_AT})[ \t]+-->[ \t]+{_AT}.*$")
_LINE = re.compile(
    rf"[\[(]?(?P<at>{_AT})[\])]?[ ]*(?:[-–—][ ]*)?(?:(?P<name>[^\s:<>\[\](){{}}][^:\n<>\[\]{{}}]{{0,40}}):(?= |$))?[ ]*"
)
_ABOVE = re.compile(rf"(?P<name>[^\s:<>\[\](){{}}][^:\n<>\[\](){{}}]{{0,40}}?)[ ]+\((?P<at>{_AT})\):[ ]*$")
_VOICE = re.compile(r"<v(?:\.[\w.]+)? ([^<>\n]{1,60})>|</v>")
_NAMED = re.compile(r"(?P<name>[A-Z][\w.' -]{0,40}):[ ]+")
_BEGINS = 60
"""Seconds: a recording begins at 0, a clock most often not."""


def transcript_pieces(text: str) -> list[Piece] | None:
    """Read a transcript; None if no line of it is stamped."""
    lines = list(lines_of(text))
    if any(_CUE.match(line) for _, line in lines):
        pattern = _CUE
    else:
        pattern = _ABOVE if _ABOVE.match(next((line for _, line in lines if line.strip()), "")) else _LINE
    cues = pattern is _CUE
    begun: list[tuple[int, int, str, str | None]] = []  # start, body, at, speaker
    for number, (start, line) in enumerate(lines):
        if found := pattern.match(line):
            name = None if cues else found.group("name")
            body = min(start + (found.end() if pattern is _LINE else len(line) + 1), len(text))
            numbered = cues and number > 0 and lines[number - 1][1].strip().isdigit()
            begun.append((lines[number - 1][0] if numbered else start, body, found.group("at"), name))
    if not begun:
        return None
    before = [Piece(0, begun[0][0], cut="statements")] if text[: begun[0][0]].strip() not in ("", "WEBVTT") else []
    turns: list[Turn] = []
    speaker: str | None = None
    for (start, body, at, name), end in zip(begun, [*(one[0] for one in begun[1:]), len(text)], strict=True):
        said = text[body:end]
        voice = _VOICE.search(said) or (_NAMED.match(said) if cues else None)
        if voice is not None:
            name = voice.group(1)
            said = _VOICE.sub("", said) if "<v" in voice.group() else said[voice.end() :]
        speaker = name or speaker
        if said.strip():
            words = " ".join(said.split())
            turns.append(Turn(Piece(start, end, (f"At {at.split('.')[0].split(',')[0]}",), words, speaker), words))
    return [*before, *answering(turns)]


def is_transcript(text: str) -> bool:
    """Whether a text is clearly one: it says so, or its lines are stamped from the beginning of a recording on."""
    if text.lstrip("\ufeff").startswith("WEBVTT"):
        return True
    said = [line for _, line in lines_of(text) if line.strip()]
    if len(said) > 2 and said[0].strip("\ufeff ").isdigit() and _CUE.match(said[1]):
        return True
    above = [(at, _seconds(found.group("at"))) for at, line in enumerate(said) if (found := _ABOVE.match(line))]
    if above and above[0][0] == 0:
        seconds = [second for _, second in above]
        spoken = all(one + 1 != other for (one, _), (other, _) in pairwise([*above, (len(said), 0)]))
        return len(above) > 1 and seconds == sorted(seconds) and seconds[0] < _BEGINS and spoken
    stamped = [found for line in said if (found := _LINE.match(line)) and found.end() < len(line)]
    seconds = [_seconds(found.group("at")) for found in stamped]
    first = bool(said) and _LINE.match(said[0]) is not None
    bracketed = all(line[0] in "[(" or found.group("name") or found.group("at").count(":") == 2
                    for line, found in zip((one.group() for one in stamped), stamped, strict=True))  # fmt: skip
    rises = seconds == sorted(seconds)
    return first and len(stamped) > 1 and len(stamped) * 2 >= len(said) and rises and seconds[0] < _BEGINS and bracketed


def _seconds(at: str) -> int:
    whole = 0
    for part in at.split(".")[0].split(",")[0].split(":"):
        whole = whole * 60 + int(part)
    return whole
