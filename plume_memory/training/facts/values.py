"""Values of invented facts, by kind: codes, numbers with units, dates, names, and a few small sets.

Most kinds are large or combinatorial, so that guessing is hopeless. A kind opens with a capital or a digit
(`opens_sentence`) or with a small letter; a phrasing that begins with the value needs the former.
"""

import random
from collections.abc import Callable

from plume_memory.training.facts import names, words

Draw = Callable[[random.Random], str]


def opens_sentence(kind: str) -> bool:
    """Tell whether values of the kind may begin a sentence as they stand."""
    return kind not in _SMALL_LETTERS


def _code(chance: random.Random) -> str:
    form = chance.random()
    if form < 0.5:
        return f"{_letters(chance, 2)}-{chance.randint(100, 999)}"
    if form < 0.75:
        return f"{_letters(chance, 1)}{chance.randint(1000, 9999)}"
    return f"{_letters(chance, 3)}{chance.randint(10, 99)}"


def _serial(chance: random.Random) -> str:
    return f"{_letters(chance, 2)}{chance.randint(10000, 99999)}-{_letters(chance, 1)}"


def _letters(chance: random.Random, count: int) -> str:
    return "".join(chance.choice("ABCDEFGHJKLMNPQRSTUVWXYZ") for _ in range(count))


def _version(chance: random.Random) -> str:
    patch = f".{chance.randint(0, 30)}" if chance.random() < 0.5 else ""
    return f"{chance.randint(1, 19)}.{chance.randint(0, 40)}{patch}"


def _thousands(chance: random.Random, low: int, high: int) -> str:
    """Draw a number with about as many small as large ones; rounded when large."""
    number = round(low * (high / low) ** chance.random())
    if number > 20_000:
        number = number // 100 * 100
    return f"{number:,}"


def _measure(low: int, high: int, unit: str) -> Draw:
    return lambda chance: f"{chance.randint(low, high)} {unit}"


def _decimal(low: int, high: int, unit: str) -> Draw:
    return lambda chance: f"{chance.randint(low, high)}.{chance.randint(1, 9)} {unit}"


def _date(chance: random.Random) -> str:
    return f"{chance.randint(1, 28)} {chance.choice(words.MONTHS)}"


def _full_date(chance: random.Random) -> str:
    return f"{_date(chance)} {chance.randint(1996, 2039)}"


def _time(chance: random.Random) -> str:
    return f"{chance.randint(5, 22):02d}:{chance.choice((0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55)):02d}"


def _money(chance: random.Random) -> str:
    amount = _thousands(chance, 12, 9_000)
    return chance.choice(("${}", "€{}", "£{}", "{} euros", "{} dollars", "{} crowns")).format(amount)


def _budget(chance: random.Random) -> str:
    amount = chance.choice(("{:.1f} million", "{:.2f} million")).format(chance.uniform(1, 90))
    return chance.choice(("${}", "€{}", "£{}")).format(amount)


def _span(chance: random.Random) -> str:
    return f"{chance.randint(2, 48)} {chance.choice(('days', 'weeks', 'months'))}"


def _minutes(chance: random.Random) -> str:
    if chance.random() < 0.3:
        return f"{chance.randint(2, 6)} hours {chance.randint(5, 55)} minutes"
    return f"{chance.randint(6, 95)} minutes"


def _phone(chance: random.Random) -> str:
    return f"{chance.randint(200, 989)}-555-{chance.randint(0, 9999):04d}"


def _place_number(chance: random.Random) -> str:
    kind = chance.choice(("Street", "Lane", "Road", "Square", "Row"))
    return f"{chance.randint(2, 188)} {names.last_name(chance)} {kind}"


def _email(chance: random.Random) -> str:
    return f"{names.last_name(chance).lower()}{chance.randint(2, 99)}@{names.last_name(chance).lower()}.example"


def _handle(chance: random.Random) -> str:
    word = names.first_name(chance).lower()
    return f"@{word}{chance.choice(('_', '.', ''))}{chance.choice(words.ANIMALS)}{chance.randint(1, 99)}"


def _passphrase(chance: random.Random) -> str:
    return f"{chance.choice(words.COLOURS)}-{chance.choice(words.ANIMALS)}-{chance.randint(10, 99)}"


def _address(chance: random.Random) -> str:
    return f"10.{chance.randint(0, 255)}.{chance.randint(0, 255)}.{chance.randint(2, 254)}"


def _colour(chance: random.Random) -> str:
    shade = f"{chance.choice(('dark', 'pale', 'bright', 'deep'))} " if chance.random() < 0.3 else ""
    return shade + chance.choice(words.COLOURS)


def _dish(chance: random.Random) -> str:
    if chance.random() < 0.5:
        return chance.choice(words.FOODS)
    return f"{chance.choice(words.FOODS)} with {chance.choice(words.SIDES)}"


def _languages(chance: random.Random) -> str:
    first, second = chance.sample(words.LANGUAGES, 2)
    return f"{first} and {second}" if chance.random() < 0.7 else first


def _paired(firsts: tuple[str, ...], seconds: tuple[str, ...], share: float) -> Draw:
    def draw(chance: random.Random) -> str:
        first = f"{chance.choice(firsts)} " if chance.random() < share else ""
        return first + chance.choice(seconds)

    return draw


def _one_of(choices: tuple[str, ...]) -> Draw:
    return lambda chance: chance.choice(choices)


VALUES: dict[str, Draw] = {
    "code": _code,
    "serial": _serial,
    "pin": lambda chance: f"{chance.randint(0, 9999):04d}",
    "extension": lambda chance: str(chance.randint(1000, 9899)),
    "number": lambda chance: str(chance.randint(11, 989)),
    "version": _version,
    "count": lambda chance: _thousands(chance, 20, 9_000),
    "people": lambda chance: _thousands(chance, 400, 900_000),
    "few": lambda chance: str(chance.randint(2, 60)),
    "percent": lambda chance: f"{chance.randint(3, 97)}%",
    "distance": _measure(2, 480, "kilometres"),
    "elevation": lambda chance: f"{_thousands(chance, 60, 4_000)} metres",
    "height": _measure(148, 209, "centimetres"),
    "length": _decimal(3, 240, "metres"),
    "weight": _decimal(2, 95, "kilograms"),
    "tonnes": lambda chance: f"{_thousands(chance, 40, 90_000)} tonnes",
    "litres": lambda chance: f"{_thousands(chance, 15, 9_000)} litres",
    "area": lambda chance: f"{_thousands(chance, 12, 4_000)} hectares",
    "floor": lambda chance: f"{_thousands(chance, 18, 900)} square metres",
    "temperature": _measure(2, 39, "degrees"),
    "power": lambda chance: f"{_thousands(chance, 12, 4_000)} watts",
    "storage": _measure(6, 990, "gigabytes"),
    "knots": _measure(7, 41, "knots"),
    "minutes": _minutes,
    "span": _span,
    "date": _date,
    "full date": _full_date,
    "month": lambda chance: f"{chance.choice(words.MONTHS)} {chance.randint(2021, 2039)}",
    "year": lambda chance: str(chance.randint(1702, 2024)),
    "weekday": _one_of(words.WEEKDAYS),
    "time": _time,
    "money": _money,
    "budget": _budget,
    "phone": _phone,
    "street": _place_number,
    "email": _email,
    "handle": _handle,
    "passphrase": _passphrase,
    "address": _address,
    "room number": lambda chance: f"{chance.choice('ABCDEFGH')}{chance.randint(101, 699)}",
    "seat": lambda chance: f"{chance.randint(1, 48)}{chance.choice('ABCDEFGHJK')}",
    "plate": lambda chance: f"{_letters(chance, 3)} {chance.randint(100, 999)}",
    "person": names.person,
    "town": names.town,
    "company": names.company,
    "title": names.title,
    "team": names.team,
    "device": names.device,
    "room": names.room,
    "pet name": _one_of(words.PET_NAMES),
    "language": _one_of(words.LANGUAGES),
    "languages": _languages,
    "tool": _one_of(words.TOOLS),
    "city": _one_of(words.CITIES),
    "first name": names.first_name,
    "numeral": _one_of(("two", "three", "four", "five", "six", "seven")),
    "size": lambda chance: str(chance.randint(35, 48)),
    "car": _paired(words.COLOURS, words.CARS, 1.0),
    "manner": _one_of(words.MANNERS),
    "ingredient": _one_of(words.INGREDIENTS),
    "colour": _colour,
    "dish": _dish,
    "drink": _one_of(words.DRINKS),
    "instrument": _one_of(words.INSTRUMENTS),
    "animal": _paired(words.BREEDS, words.ANIMALS, 0.3),
    "job": _paired(words.JOB_KINDS, words.JOBS, 0.4),
    "material": _one_of(words.MATERIALS),
    "goods": _paired(words.GOODS_KINDS, words.GOODS, 0.4),
    "hobby": _one_of(words.HOBBIES),
    "allergen": _one_of(words.ALLERGENS),
    "flower": _one_of(words.FLOWERS),
    "field": _one_of(words.FIELDS),
    "reason": _one_of(words.REASONS),
}
"""How to draw a value, by its kind."""

_SMALL_LETTERS = frozenset(
    names.listed(
        """
    passphrase device colour dish drink instrument animal job material goods hobby allergen flower field reason
    handle email car manner ingredient numeral
    """
    )
)
