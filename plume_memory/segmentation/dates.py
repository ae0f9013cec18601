"""Days that a text names from where it stands ("yesterday", "next Friday"), with their dates beside the words.

Which words are such is a list of what English says; what day they mean dateparser says.
"""

from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise

import regex

_UNIT = r"(?:day|week|month|year)s?"
_NUMBER = r"(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_RELATIVE = regex.compile(
    rf"""(?<!\b(?:{_UNIT}|{_WEEKDAY})\ (?:from|before|after)\ )\b(?:
        (?:the\ )?day\ (?:before\ yesterday|after\ tomorrow)
      | yesterday | today | tomorrow | tonight | last\ night
      | (?:last|next|this|this\ coming|this\ past)\ (?:{_WEEKDAY}|week|month|year)
      | (?<!\b{_NUMBER}\ {_UNIT}\ )on\ {_WEEKDAY}(?!s)
      | in\ {_NUMBER}\ {_UNIT}(?:['’]?\ time)?
      | {_NUMBER}\ {_UNIT}\ (?:ago|from\ now|earlier)
    )\b(?!\ week\b)""",
    regex.VERBOSE | regex.IGNORECASE,
)
"""Not where another day is counted from it: "a week from tomorrow", "a week on Friday", "on Monday week"."""
_PERIOD = regex.compile(r"\b(week|month|year)s?\b", regex.IGNORECASE)
_DONE = r"""(?:was|were|had|did|went|came|saw|met|got|took|made|bought|left|gave|sent|spoke|spent|wrote|ate
    |(?!(?:need|feed|speed|hundred)\b)\w{2,}ed)"""
_NOW = r"""(?:\b(?:is|are|am|be|will|shall|can|must|may|might|should|would)\b
    |\b\w+['’](?:ll|re|m)\b|\bwon['’]t\b|\b(?:it|he|she)['’]s\b)"""
_VERB = regex.compile(
    rf"""{_NOW}(?:\ (?:not|be|been|have|being))*(?:\ \w+)?\ {_DONE}\b  # "is planned", "will be opened"
      | (?P<past>\b(?:(?:has|have)\ (?:\w+\ )?)?{_DONE}\b)
      | {_NOW} | \b(?:has|have|needs?)\b""",
    regex.VERBOSE | regex.IGNORECASE,
)
_CLAUSE = regex.compile(
    r"""[.!?;\n]|:(?=\s)
      | (?:,|\b(?:and|but|so))\ (?=(?:i|we|you|he|she|it|they)\b)
      | \b(?:that|because|when|if|while)\ (?=(?:i|we|you|he|she|it|they|the|my|our|your|his|her|their|on)\b)""",
    regex.VERBOSE | regex.IGNORECASE,
)
_FURTHEST = 200
"""Characters on either side in which the verb of a weekday is looked for."""


def with_dates(text: str, said_at: datetime) -> str:
    """Return a text with the date behind each day that it names from where it stands: "yesterday (2026-03-04)".

    Of a week the Monday it begins with is said, of a month or a year its name: "last month (2026-02)". The text is the
    same object where it names none.

    Args:
        text: what was said.
        said_at: when.
    """
    phrases = _apart(text, list(_RELATIVE.finditer(text)))
    found = [(match, said) for match in phrases if (said := _date_of(match, text, said_at))]
    if not found:
        return text
    parts, at = [], 0
    for match, said in found:
        parts += [text[at : match.end()], f" ({said})"]
        at = match.end()
    return "".join([*parts, text[at:]])


def _apart(text: str, found: "list[regex.Match[str]]") -> "Iterator[regex.Match[str]]":
    """Yield the phrases that stand for themselves: "a week ago on Tuesday" is one day, and neither of two."""
    joined = [pair for pair in pairwise(found) if not text[pair[0].end() : pair[1].start()].strip(" ")]
    parts = {one.start() for pair in joined for one in pair}
    yield from (one for one in found if one.start() not in parts)


def _is_past(match: "regex.Match[str]", text: str) -> bool:
    """Whether the verb nearest to a weekday in its clause tells what was; one that stands before it goes first.

    Behind it a verb counts where the weekday begins its clause, or where it follows at once: "dinner on Friday with the
    people we met" is to come.
    """
    begun = max(0, match.start() - _FURTHEST)
    for boundary in _CLAUSE.finditer(text, begun, match.start()):
        begun = boundary.end()
    before = list(_VERB.finditer(text, begun, match.start()))
    if before:
        return before[-1].group("past") is not None
    behind = match.end() + text.startswith(",", match.end())  # "On Monday, we met"
    limit = min(len(text), behind + _FURTHEST)
    ended = _CLAUSE.search(text, behind, limit)
    find = _VERB.match if text[begun : match.start()].strip() else _VERB.search
    verb = find(text, behind + text.startswith(" ", behind), ended.start() if ended else limit)
    return verb is not None and verb.group("past") is not None


def _date_of(match: "regex.Match[str]", text: str, said_at: datetime) -> str | None:
    phrase = " ".join(match.group().lower().removeprefix("this coming").removeprefix("this past").split())
    if text[match.end() : match.end() + 2] == " (" and text[match.end() + 2 : match.end() + 6].isdigit():
        return None  # the text says it itself
    past = phrase.startswith("on ") and _is_past(match, text)
    plain = phrase.removesuffix(" time").rstrip("'’").replace(" earlier", " ago")
    day = _parsed(plain, said_at.date(), past)
    if day is None:
        return None
    period = _PERIOD.search(phrase) if phrase.startswith(("last", "next", "this")) else None
    match period.group(1).lower() if period else "":
        case "week":
            return f"week of {day - timedelta(days=day.weekday()):%Y-%m-%d}"
        case "month":
            return f"{day:%Y-%m}"
        case "year":
            return f"{day:%Y}"
        case _:
            return f"{day:%Y-%m-%d}"


@lru_cache(maxsize=4096)
def _parsed(phrase: str, day: date, past: bool) -> datetime | None:
    import dateparser  # noqa: PLC0415 — a quarter of a second, and only for texts that name such a day

    noon = datetime.combine(day, time(12))
    settings = {"RELATIVE_BASE": noon, "PREFER_DATES_FROM": "past" if past else "future"}
    return dateparser.parse(phrase, languages=["en"], settings=settings)
