"""Values that can stand in for an answer: numbers and dates of the same form, names asked for in the same way."""

import random
import re
from collections.abc import Iterable
from typing import Literal, NamedTuple

from plume_memory.training.facts.words import MONTHS, WEEKDAYS
from plume_memory.training.sources.reading import Question

Shape = Literal["year", "date", "number", "number word", "month", "weekday", "name"]

_NUMBER_WORDS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_LATEST_YEAR = 2024
_YEAR = re.compile(r"(?:1\d|20)\d\d")
_NUMBER = re.compile(r"[$€£]? ?\d+(?:,\d{3})*(?:\.\d+)? ?%?(?: [A-Za-z]{2,}){0,2}")
_DATE = re.compile(
    rf"(?:(?:{'|'.join(MONTHS)}) \d{{1,2}}(?:, \d{{4}})?|\d{{1,2}} (?:{'|'.join(MONTHS)})(?:,? \d{{4}})?"
    rf"|(?:{'|'.join(MONTHS)}),? \d{{4}})"
)
_NAME = re.compile(r"[A-Z][^\W\d]+(?:['’.-]?[^\W\d]+)*(?: (?:of|the|de|von|van|and|[A-Z][^\W\d]*\.?)){0,3}")
_PASSED_OVER = frozenset({"a", "an", "the", "is", "was", "are", "were", "did", "do", "does", "of"})
_FEWEST_OTHERS = 5


def shape_of(answer: str) -> Shape | None:
    """Tell what kind of value the answer is; None if it is of no kind that can be replaced."""
    if answer in MONTHS:
        return "month"
    if answer in WEEKDAYS:
        return "weekday"
    if answer.lower() in _NUMBER_WORDS:
        return "number word"
    if _YEAR.fullmatch(answer):
        return "year"
    if _DATE.fullmatch(answer):
        return "date"
    if _NUMBER.fullmatch(answer):
        return "number"
    last = answer.rsplit(" ", 1)[-1]
    return "name" if _NAME.fullmatch(answer) and last[0].isupper() else None


class Pools:
    """Names that can stand in for each other, by how they are asked for: "who" of two words, "which city" of one."""

    def __init__(self, questions: Iterable[Question]) -> None:
        pools: dict[_Asked, set[str]] = {}
        for question in questions:
            if shape_of(question.answer) == "name":
                pools.setdefault(_asked(question), set()).add(question.answer)
        # sorted: a set's order differs between processes, and a run must draw the same when resumed
        self._pools = {key: sorted(names) for key, names in pools.items() if len(names) > _FEWEST_OTHERS}

    def replacement(self, chance: random.Random, question: Question) -> str | None:
        """Draw another value of the same shape; None if there are too few."""
        answer = question.answer
        shape = shape_of(answer)
        if shape == "name":
            pool = self._pools.get(_asked(question))
            return chance.choice(pool) if pool else None
        if shape == "number word":
            word = chance.choice(_NUMBER_WORDS)
            return word.capitalize() if answer[0].isupper() else word
        if shape == "month":
            return chance.choice(MONTHS)
        if shape == "weekday":
            return chance.choice(WEEKDAYS)
        if shape == "date":
            return re.sub(r"[A-Z]\w+|\d+", lambda part: _date_part(chance, part.group()), answer)
        return re.sub(r"\d[\d,.]*\d|\d", lambda part: _number(chance, part.group()), answer) if shape else None


class _Asked(NamedTuple):
    """How a name is asked for; names that agree in this can stand in for each other."""

    by: str
    """"who", "where", "which city"; empty if the question has no such word."""
    words: int
    is_upper: bool


def _asked(question: Question) -> _Asked:
    words = re.findall(r"[a-z]+", question.text.lower())
    by = ""
    for index, word in enumerate(words):
        if word in {"who", "whom", "whose", "where"}:
            by = "where" if word == "where" else "who"
            break
        if word in {"what", "which"}:
            following = [other for other in words[index + 1 : index + 4] if other not in _PASSED_OVER]
            by = f"{word} {following[0] if following else ''}"
            break
    return _Asked(by, question.answer.count(" ") + 1, question.answer.isupper())


def _date_part(chance: random.Random, part: str) -> str:
    if part in MONTHS:
        return chance.choice(MONTHS)
    return _year(chance, part) if len(part) == 4 else str(chance.randint(1, 28))


def _year(chance: random.Random, year: str) -> str:
    shifted = int(year) + chance.choice((-1, 1)) * chance.randint(1, 30)
    return str(shifted if shifted <= _LATEST_YEAR else int(year) - chance.randint(1, 30))


def _number(chance: random.Random, number: str) -> str:
    """Draw other digits in the same places: "1,496.5" stays a number of that size and precision."""
    if _YEAR.fullmatch(number):
        return _year(chance, number)
    digits = [str(chance.randint(0, 9)) if char.isdigit() else char for char in number]
    if digits[0] == "0" and len(number) > 1 and number[1] != ".":
        digits[0] = str(chance.randint(1, 9))
    elif len(number) == 1:
        digits[0] = str(chance.randint(2, 9))
    return "".join(digits)
