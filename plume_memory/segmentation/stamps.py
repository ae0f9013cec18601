"""Reads the day and time with which a message is stamped, as chats and mails write them. Knows no form."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, timezone
from email.utils import parsedate_to_datetime

_CLOCK = r"\d{1,2}[:.]\d{2}(?:[:.]\d{2}(?:[.,]\d{1,6})?)?(?:[\s\u202f\u00a0]?[AaPp]\.?[Mm]\.?)?"
_DAY = r"\d{1,4}[./-](?:\d{1,2}|[A-Za-z]{3})[./-]\d{2,4}\.?"
_ZONE = r"(?:Z|[\s]?[+-]\d{2}:?\d{2}|\s?UTC|\s?GMT)"
STAMP = rf"(?:{_DAY}(?:,|T|\s+at)?[\s\u202f]?\s?)?{_CLOCK}{_ZONE}?(?:[\s\u202f]?{_DAY})?"
"""A day, or none, and a time."""
_NUMBERS = re.compile(r"(\d{1,4})([./-])(\d{1,2}|[A-Za-z]{3})[./-](\d{2,4})")
_OFFSET = re.compile(r"([+-])(\d{2}):?(\d{2})$")
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAY_LINE = re.compile(
    r"\W*(?:\d{1,2}:\d{2}\s?(?:[ap]m)?,?\s+(?:on\s+)?)?(?:\w+day,?\s+)?(?:(?P<d>\d{1,2})(?:st|nd|rd|th|\.)?\s+(?P<m>[A-Za-z]{3,9})|(?P<m2>[A-Za-z]{3,9})\s+"
    r"(?P<d2>\d{1,2})(?:st|nd|rd|th)?),?\s+(?P<y>\d{4})(?:,?\s+(?:at\s+)?\d{1,2}:\d{2}\s?(?:[ap]m)?)?\W*$",
    re.IGNORECASE,
)


class DayOrder:
    """Which of the numbers of a text's stamps is the day: what any of them cannot be, none of them is.

    Args:
        stamps: those of the text. Where they do not tell, the day comes first, but for "3/4/26, 9:15 AM".
    """

    def __init__(self, stamps: Iterable[str]) -> None:
        first = second = 0
        american = False
        for stamp in stamps:
            found = _NUMBERS.search(stamp)
            if found and found.group(3).isdigit() and len(found.group(1)) < 3:
                first, second = max(first, int(found.group(1))), max(second, int(found.group(3)))
                american = american or (found.group(2) == "/" and stamp.rstrip(". ").lower().endswith("m"))
        self._month_first = first <= 12 and (second > 12 or american)

    def read(self, stamp: str) -> datetime | None:
        """Return the time; without a zone where the stamp names none, None where it names no day or none there is."""
        found = _NUMBERS.search(stamp)
        if found is None:
            return None
        one, two, three = found.group(1), found.group(3), found.group(4)
        if len(one) > 2:
            year, month, day = one, two, three
        elif two.isdigit() and self._month_first:
            month, day, year = one, two, three
        else:
            day, month, year = one, two, three
        number = int(month) if month.isdigit() else _month(month)
        rest = stamp[: found.start()] + " " + stamp[found.end() :]
        hours, zone = _clock(rest)
        try:
            day_number = int(day) if len(day) < 3 else 0
            return datetime(int(year) + (2000 if len(year) == 2 else 0), number, day_number, *hours, tzinfo=zone)
        except ValueError:
            return None


def has_day(stamp: str) -> bool:
    """Whether a stamp names a day."""
    return bool(_NUMBERS.search(stamp))


def day_alone(line: str) -> datetime | None:
    """Read a line that is a date, perhaps with a time, and nothing else, as stands above the messages of a day."""
    found = _DAY_LINE.match(line) if len(line) < 60 else None
    if found is None:
        return None
    month = _month((found.group("m") or found.group("m2"))[:3])
    try:
        return datetime(int(found.group("y")), month, int(found.group("d") or found.group("d2")))
    except ValueError:
        return None


def iso_time(written: object) -> datetime | None:
    """Read what exports write: ISO 8601, or seconds since 1970 as a number or text."""
    try:
        if isinstance(written, str) and not re.fullmatch(r"\d{9,11}(?:\.\d+)?", written):
            return datetime.fromisoformat(written.strip())
        return datetime.fromtimestamp(float(written), UTC)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError, OSError):
        return None


def mail_time(written: str) -> datetime | None:
    """Read the date of a mail's header: as RFC 5322 has it, else ISO 8601."""
    try:
        return parsedate_to_datetime(written.strip())
    except (TypeError, ValueError, IndexError, OverflowError):
        return iso_time(written)


def _month(name: str) -> int:
    return _MONTHS.index(name.lower()) + 1 if name.lower() in _MONTHS else 0


def _clock(written: str) -> tuple[tuple[int, int, int], timezone | None]:
    found = re.search(r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2}))?(?:[.,]\d+)?[\s\u202f\u00a0]?([AaPp]?)", written)
    if found is None:
        return (0, 0, 0), None
    hour = int(found.group(1))
    half = found.group(4).lower()
    if half:
        hour = hour % 12 + (12 if half == "p" else 0)
    rest = written[found.end() :].strip(" Mm.])")
    offset = _OFFSET.search(rest)
    zone = None
    if offset:
        minutes = int(offset.group(2)) * 60 + int(offset.group(3))
        zone = timezone(timedelta(minutes=min(minutes, 1439) * (-1 if offset.group(1) == "-" else 1)))
    elif rest in ("Z", "UTC", "GMT"):
        zone = UTC
    return (hour, int(found.group(2)), int(found.group(3) or 0)), zone
