"""Exact evaluation of small arithmetic expressions, so that a reference number is computed and never believed."""

import ast
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction

from plume_memory.errors import InvalidInput

MAX_CHARS = 500
MAX_EXPONENT = 64
MAX_BITS = 4096
"""Bound on numerator and denominator of every intermediate result: no expression can cost more than a moment."""

_GLUED = re.compile(r"\b\d[\d.]*[^\W\d]")
"""1e9999999 would be expanded, 1_000 and 0x1f are no school arithmetic, 2or 3 makes the parser warn."""

_NUMBER = re.compile(
    r"-?(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,300})(?:\.[0-9]{1,300})?|\.[0-9]{1,300}|[0-9]{1,300}/[0-9]{1,300})"
)
"""Commas part thousands; 1e9999999 would be expanded for seconds, and 10,5 is ten and a half to some."""

_OPERATORS: Mapping[type[ast.operator], Callable[[Fraction, Fraction], Fraction | int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


def evaluate(expression: str, names: Mapping[str, Fraction] | None = None) -> Fraction:
    """Evaluate numbers, + − * / // % ** and parentheses; `names` gives earlier results.

    Decimals are taken as written: 0.1 is one tenth.

    Raises:
        InvalidInput: anything else stands in the expression, a name is unknown, it divides by zero, or a bound is
            exceeded.
    """
    if len(expression) > MAX_CHARS:
        raise InvalidInput(f"The expression has {len(expression)} characters; at most {MAX_CHARS} are evaluated.")
    if _GLUED.search(expression):
        raise InvalidInput(f"{expression!r} has a letter behind a digit; numbers are written as 1500 or 0.25.")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
        return _value(tree.body, expression.strip(), names or {})
    except (SyntaxError, ValueError, RecursionError, MemoryError) as err:
        if isinstance(err, InvalidInput):
            raise
        raise InvalidInput(f"{expression!r} is not an arithmetic expression: {err}.") from err
    except ZeroDivisionError as err:
        raise InvalidInput(f"{expression!r} divides by zero.") from err


def parse_number(text: str) -> Fraction:
    """Read a reference number: `1,080`, `$5.00`, `-3`, `7/2`, `25%`.

    Raises:
        InvalidInput: the text is no number.
    """
    plain = text.strip().replace("$", "").replace("−", "-").removesuffix("%").strip()
    if not _NUMBER.fullmatch(plain):
        raise InvalidInput(f"{text[:60]!r} is not a number; write 1080 or 1,080, 0.25 or 7/2.")
    try:
        return _bounded(Fraction(plain.replace(",", "")))
    except ZeroDivisionError as err:
        raise InvalidInput(f"{text!r} is not a number: it divides by zero.") from err


def write_number(value: Fraction) -> str:
    """Write a number as a reference: an integer, a decimal where it ends, else a fraction."""
    if value.denominator == 1:
        return str(value.numerator)
    twos_and_fives = value.denominator
    for prime in (2, 5):
        while twos_and_fives % prime == 0:
            twos_and_fives //= prime
    if twos_and_fives != 1:
        return str(value)
    places = next(n for n in range(1, MAX_BITS) if 10**n % value.denominator == 0)
    digits = str(abs(value.numerator) * 10**places // value.denominator).rjust(places + 1, "0")
    return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def _value(node: ast.expr, expression: str, names: Mapping[str, Fraction]) -> Fraction:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        written = ast.get_source_segment(expression, node) or str(node.value)
        return _bounded(Fraction(written))
    if isinstance(node, ast.Name):
        if node.id not in names:
            raise InvalidInput(f"{expression!r} names {node.id!r}; known are {sorted(names) or 'no names'}.")
        return names[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.UAdd | ast.USub):
        inner = _value(node.operand, expression, names)
        return inner if isinstance(node.op, ast.UAdd) else -inner
    if isinstance(node, ast.BinOp):
        left, right = _value(node.left, expression, names), _value(node.right, expression, names)
        if isinstance(node.op, ast.Pow):
            return _power(left, right)
        if type(node.op) in _OPERATORS:
            return _bounded(Fraction(_OPERATORS[type(node.op)](left, right)))
    raise InvalidInput(f"{expression!r} holds {type(node).__name__}; only numbers, + - * / // % ** and () are allowed.")


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1 or abs(exponent) > MAX_EXPONENT:
        raise InvalidInput(f"The exponent {str(exponent)[:20]} is not an integer within ±{MAX_EXPONENT}.")
    # The size is known before the power is taken: 2 ** 64 ** 64 must not be computed to be refused.
    if max(base.numerator.bit_length(), base.denominator.bit_length()) * abs(int(exponent)) > 2 * MAX_BITS:
        raise InvalidInput(f"A power exceeds {MAX_BITS} bits.")
    return _bounded(base ** int(exponent))


def _bounded(value: Fraction) -> Fraction:
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > MAX_BITS:
        raise InvalidInput(f"A result exceeds {MAX_BITS} bits.")
    return value
