"""
IBANs: two letters of a country, two check digits, and as many characters as that country has, in any case and grouping.
"""

import re
from collections.abc import Iterator

from assay.checks.safety.check_digits import iban_length, is_iban

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
