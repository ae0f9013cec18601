"""Days that a text names from where it stands ("yesterday", "next Friday"), with their dates beside the words.

Which words are such is a list of what English says; what day they mean dateparser says.
"""

from datetime import date, datetime, time, timedelta
from functools import lru_cache

import regex

_UNIT = r"(?:day|week|month|year)s?"
_NUMBER = r"(?:\d{1,3}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)"
_WEEKDAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_RELATIVE = regex.compile(
    rf"""\b(?:
        (?:the\ )?day\ (?:before\ yesterday|after\ tomorrow)
      | yesterday | today | tomorrow | tonight | last\ night
      | (?:last|next|this|this\ coming|this\ past)\ (?:{_WEEKDAY}|week|month|year)
      | on\ {_WEEKDAY}(?!s)
      | in\ {_NUMBER}\ {_UNIT}(?:['’]?\ time)?
      | {_NUMBER}\ {_UNIT}\ (?:ago|from\ now|earlier)
    )\b""",
    regex.VERBOSE | regex.IGNORECASE,
)
_PERIOD = regex.compile(r"\b(week|month|year)s?\b", regex.IGNORECASE)
_PAST = regex.compile(r"\b(?:was|were|had|did|went|came|saw|met|got|took|made|bought|\w{2,}ed)\b", regex.IGNORECASE)


def with_dates(text: str, said_at: datetime) -> str:
    """Return a text with the date behind each day that it names from where it stands: "yesterday (2026-03-04)".

    Of a week the Monday it begins with is said, of a month or a year its name: "last month (2026-02)". The text is the
    same object where it names none.

    Args:
        text: what was said.
        said_at: when.
    """
    found = [(match, said) for match in _RELATIVE.finditer(text) if (said := _date_of(match, text, said_at))]
    if not found:
        return text
    parts, at = [], 0
    for match, said in found:
        parts += [text[at : match.end()], f" ({said})"]
        at = match.end()
    return "".join([*parts, text[at:]])


def _date_of(match: "regex.Match[str]", text: str, said_at: datetime) -> str | None:
    phrase = " ".join(match.group().lower().removeprefix("this coming").removeprefix("this past").split())
    if text[match.end() : match.end() + 2] == " (" and text[match.end() + 2 : match.end() + 6].isdigit():
        return None  # the text says it itself
    named = phrase.startswith("on ")
    begun = max(text.rfind(mark, 0, match.start()) for mark in ".!?\n") + 1
    past = named and _PAST.search(text, begun, match.end()) is not None
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
