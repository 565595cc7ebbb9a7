"""
Check digits of account and identity numbers, by python-stdnum. The library is loaded when a number is first checked.
"""

import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from typing import Final, Protocol, cast

_NRIC: Final = (2, 7, 6, 5, 4, 3, 2)


class _Numbers(Protocol):
    def is_valid(self, number: str) -> bool: ...


def is_valid(module: str, number: str) -> bool:
    """Whether `number`, without separators, is one that `stdnum.<module>` knows as valid."""
    return _numbers(module).is_valid(number)


@cache
def _numbers(module: str) -> _Numbers:
    return cast(_Numbers, import_module(f"stdnum.{module}"))


def is_iban(number: str) -> bool:
    """
    The check digits and the form of its country; the digits that some countries add inside an account number do not
    count.
    """
    iban = import_module("stdnum.iban")
    return bool(iban.is_valid(number, check_country=False))


@cache
def iban_length(country: str) -> int:
    """The number of characters of an IBAN of this country; 0 if the country has none."""
    numdb = import_module("stdnum.numdb")
    form: str = numdb.get("iban").info(country)[0][1].get("bban", "")
    return 4 + sum(int(part[:-2]) for part in _parts(form)) if form else 0


def _parts(form: str) -> list[str]:
    """`8!n10!n` as `8!n` and `10!n`."""
    parts, part = list[str](), ""
    for one in form:
        part += one
        if one in "nac":
            parts.append(part)
            part = ""
    return parts


def is_nric(number: str) -> bool:
    """Singapore, which the library does not have."""
    total = sum(int(digit) * weight for digit, weight in zip(number[1:8], _NRIC, strict=True))
    total += 4 if number[0] in "TG" else 3 if number[0] == "M" else 0
    letters = "JZIHGFEDCBA" if number[0] in "ST" else "XWUTRQPNMLK"
    return letters[total % 11] == number[8]


# IBANs: two letters of a country, two check digits, and as many characters as that country has, in any case and
# grouping.

_BEGIN = re.compile(r"(?<![A-Za-z0-9])[A-Za-z]{2}\d{2}(?=[ -]?[A-Za-z0-9])")
_PARTS = re.compile(r"[ -]?[A-Za-z0-9]")


def iban_spans(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of every IBAN."""
    for begin in _BEGIN.finditer(text):
        left = iban_length(begin[0][:2].upper()) - 4
        end = begin.end()
        while left > 0 and (part := _PARTS.match(text, end)):
            end, left = part.end(), left - 1
        if left == 0 and not text[end : end + 1].isalnum() and is_iban(text[begin.start() : end]):
            yield begin.start(), end
