"""Numbers as they are written, in decimal: `0.30` is 0.3, and 0.30000000000000004 is not."""

from decimal import Context, Decimal

MAX_DIGITS = 400
exactly = Context(prec=2 * MAX_DIGITS, Emax=10_000, Emin=-10_000, traps=[])


def decimal_of(number: float) -> Decimal:
    """The shortest decimal number that stands for this double, or the integer."""
    return exactly.create_decimal(repr(number))


def is_near(number: Decimal, expected: Decimal, absolute: float, relative: float) -> bool:
    """As `math.isclose` with a fixed side: the relative tolerance is a share of the expected number."""
    if number == expected:
        return True
    distance = abs(exactly.subtract(number, expected))
    return distance <= max(decimal_of(absolute), exactly.multiply(decimal_of(relative), abs(expected)))
