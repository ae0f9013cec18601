"""What of a text is no words: base64, hex dumps, minified code. It is kept in the log, and nothing is made of it.

Nobody tells a fact in it, and a model reads it for minutes: 60,000 characters of base64 took 73 s.
"""

import re
from itertools import pairwise

from plume_memory.segmentation.sentences import Span

LONGEST_WORD = 256
"""ASCII characters without white space; a longer run is no word. Scripts without spaces are not ASCII."""

_LONG_LINE = 400
_CODE_SIGNS = 0.12
_CODE_SPACES = 0.1
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_ENCODED = re.compile(r"[ \t>]*([A-Za-z0-9+/=_-]{40,})[ \t]*\r?\n?")
_REST = re.compile(r"[ \t>]*(?=[A-Za-z]*[0-9+/=])[A-Za-z0-9+/=_-]+[ \t]*\r?\n?")
"""The last line of it."""
_BYTES = r"(?:(?:[0-9a-fA-F]{2}[ \t]+){3,}|(?:[0-9a-fA-F]{4}[ \t]+){3,}|(?:[0-9a-fA-F]{8}[ \t]+){2,})"
_DUMPED = re.compile(rf"[ \t>]*[0-9a-fA-F]{{4,16}}:?[ \t]+{_BYTES}(?:[0-9a-fA-F]{{2,8}}[ \t]*)?(?:[ \t]\S[^\n]*)?\n?")
_IN_A_ROW = 4
"""Lines that look encoded, one below the other, before they count as it: one alone may be a serial number."""
_RUN = re.compile(rf"[!-~]{{{LONGEST_WORD + 1},}}")
_FIELDS = re.compile(r"[\"'\]}],|[\"']:")
"""Compact JSON has them, and says something."""
_SIGN = re.compile(r"[{}()\[\];=<>&|!+*/\\\"',:]")
_PROGRAM = re.compile(r"\bfunction\b|\bvar\b|\breturn\b|=>|;\}|\)\{")


def unreadable_spans(text: str) -> list[Span]:
    """Return where no words stand, ascending; most often nowhere. Linear in the text."""
    if len(text) <= LONGEST_WORD // 2:
        return []
    found: list[Span] = []
    row: list[Span] = []
    for line in _LINES.finditer(text):
        span, said = Span(*line.span()), line.group()
        if _ENCODED.fullmatch(said) or _DUMPED.fullmatch(said) or (len(row) >= _IN_A_ROW and _REST.fullmatch(said)):
            row.append(span)
            continue
        found += _rows(text, row)
        row = []
        found += [span] if _is_minified(said) else _runs(text, [span])
    return _joined(found + _rows(text, row))


def _rows(text: str, row: list[Span]) -> list[Span]:
    """Lines in a row that look encoded: all of them, if they are no table, no list of paths or of long names."""
    lines = [text[start:end].strip(" \t>\r\n") for start, end in row]
    if len(row) < _IN_A_ROW:
        return _runs(text, row)
    if all(_ENCODED.fullmatch(line) for line in lines[:-1]):
        alike = len({len(line) for line in lines[:-1]}) == 1
        joined = "".join(lines)
        mixed = all(re.search(kind, joined) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
        return row if alike and (mixed or re.fullmatch(r"[0-9a-fA-F]+", joined)) else _runs(text, row)
    addresses = [line.split(maxsplit=1)[0].rstrip(":") for line in lines]
    ascending = all(a < b for a, b in pairwise(addresses)) and len({len(one) for one in addresses}) == 1
    groups = " ".join(line.split(maxsplit=1)[-1][:24] for line in lines)
    return row if ascending and re.search(r"\b[0-9]*[a-fA-F][0-9a-fA-F]*\b", groups) else _runs(text, row)


def readable_spans(text: str) -> list[Span]:
    """Return what is left of a text, ascending: the whole, where everything may be words."""
    found: list[Span] = []
    at = 0
    for start, end in [*unreadable_spans(text), (len(text), len(text))]:
        if start > at:
            found.append(Span(at, start))
        at = end
    return found


def _runs(text: str, lines: list[Span]) -> list[Span]:
    found = (run for start, end in lines for run in _RUN.finditer(text, start, end))
    return [Span(*run.span()) for run in found if len(_FIELDS.findall(run.group())) * 50 < len(run.group())]


def _is_minified(line: str) -> bool:
    if len(line) < _LONG_LINE or not _PROGRAM.search(line):
        return False
    spaces = sum(char.isspace() for char in line) / len(line)
    return spaces < _CODE_SPACES and len(_SIGN.findall(line)) / len(line) > _CODE_SIGNS


def _joined(spans: list[Span]) -> list[Span]:
    found: list[Span] = []
    for start, end in spans:
        if found and found[-1].end == start:
            found[-1] = Span(found[-1].start, end)
        else:
            found.append(Span(start, end))
    return found
