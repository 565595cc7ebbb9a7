"""
Telephone numbers, by phonenumbers: those that can be assigned in their country.

The library is loaded when a number is first checked.

An international number needs no word beside it, nor does a North American one in its usual form. Any other national
number needs a word for a telephone before it, and has to be valid in one of REGIONS. Toll-free numbers and those of
services belong to no person.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from types import ModuleType
from typing import Final

REGIONS: Final = (
    "US", "GB", "DE", "FR", "ES", "IT", "NL", "BE", "PL", "SE", "NO", "DK", "CH", "AT", "PT", "AU", "NZ", "JP", "CN", "KR", "IN", "BR",
    "MX", "ZA", "TR", "RU", "IL", "SG", "AE",
)  # fmt: skip
DIGITS: Final = range(7, 16)
MAX_CHECKED: Final = 500  # national numbers of a text that are checked; further ones count by their form
WORDS: Final = (  # any national number may follow
    "phone", "tel", "mobile", "mobil", "cell", "whatsapp", "sms", "fax", "handy", "telefon", "téléphone", "teléfono", "telefone", "telefono", "móvil",
    "celular", "cellulare", "電話", "携帯", "手机", "手機", "电话", "телефон", "моб", "טלפון", "هاتف", "전화",
)  # fmt: skip
WEAK_WORDS: Final = (  # a number in the usual form of many countries may follow
    "call", "text", "contact", "number", "numéro", "numero", "número", "appel", "ruf", "連絡先", "звон", "emergency", "reach", "dial", "recipient",
)  # fmt: skip
_RUN = re.compile(r"(?:\(?\+\(?|\()?\d+(?:[)(./ \u00a0\u2009-]{1,3}\d+)*")
_AMERICAN = re.compile(r"(?:1[ .-])?(?:\(\d{3}\) ?|\d{3}[.-])\d{3}[.-]\d{4}")
_USUAL = re.compile(r"\(?0\d|\d{3}[ .-]\d{3}[ .-]\d{4}\Z|1[3-9]\d{9}\Z|[2-9]\d{9}\Z")
_EDGE = re.compile(r"[A-Za-z0-9_.,-]")
_AFTER = re.compile(r"[A-Za-z0-9_]|[.,]\d|-\w")
_OTHER = re.compile(
    r"(?:invoice|order|ticket|isbn|issn|serial|tracking|sku|batch|part|model|doi|version|case|ref(?:erence)?|id|account|iban|abn|vat|gst|siren|siret|timestamp|total|population|price|amount)\b[\s.:#°no-]{0,8}\Z",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(r"\b(?:example|e\.g\.|for instance|such as|format|test|dummy|placeholder|fake|beispiel|sample|demo)", re.IGNORECASE)  # fmt: skip
_NOT_DIGITS = re.compile(r"\D+")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}(?!\d)")  # of a network
_GROUP = re.compile(r"\d+")


def phone_spans(
    text: str, is_announced: Callable[[int], bool], is_hinted: Callable[[int], bool]
) -> Iterator[tuple[int, int]]:
    """
    Start and end of every telephone number. `is_announced` says whether one of WORDS stands before a place, `is_hinted`
    one of WEAK_WORDS.
    """
    reader = _Reader(text, is_announced, is_hinted)
    for run in _RUN.finditer(text):
        begin = run.start()
        if run.end() - begin < DIGITS[0] or _EDGE.match(text, max(0, begin - 1), begin):
            continue
        if _OTHER.search(text[max(0, begin - 30) : begin]):
            continue
        done = begin
        for group in _GROUP.finditer(text, begin, run.end()):
            if group.start() >= done and (span := reader.number_at(group, run)) is not None:
                yield span
                done = span[1]


class _Reader:
    def __init__(
        self, text: str, is_announced: Callable[[int], bool], is_hinted: Callable[[int], bool]
    ) -> None:
        self._text, self._is_announced, self._is_hinted = text, is_announced, is_hinted
        self._checked = 0

    def number_at(self, group: re.Match[str], run: re.Match[str]) -> tuple[int, int] | None:
        """Start and end of the number that begins with this group of a run of digits; None if there is none."""
        text = self._text
        if "+" in text[run.start() : group.start()] and group.start() - run.start() < 4:
            end = self._longest(group, run, lambda number, end: is_assigned(f"+{number}", None))
            return None if end is None else (run.start(), end)
        start = group.start() - (text[group.start() - 1 : group.start()] == "(")
        if american := _AMERICAN.match(text, start):
            number = _NOT_DIGITS.sub("", american[0])
            is_free = _is_number(number) and not _AFTER.match(text, american.end())
            counts = is_free and not _is_example(text, american) and is_assigned(number, "US")
            return american.span() if counts else None
        if _ADDRESS.match(text, start) or not (self._is_announced(start) or self._is_hinted(start)):
            return None
        end = self._longest(group, run, lambda number, end: self._is_national(number, start, end))
        return None if end is None else (start, end)

    def _is_national(self, number: str, start: int, end: int) -> bool:
        if not self._is_announced(start) and not _USUAL.match(self._text[start:end]):
            return False
        self._checked += 1
        return self._checked > MAX_CHECKED or any(is_assigned(number, region) for region in REGIONS)

    def _longest(
        self, first: re.Match[str], run: re.Match[str], counts: Callable[[str, int], bool]
    ) -> int | None:
        """The end of the longest number that begins with this group and counts; None if there is none."""
        ends: list[tuple[str, int]] = []
        number = ""
        for group in _GROUP.finditer(self._text, first.start(), run.end()):
            number += group[0]
            if len(number) > DIGITS[-1]:
                break
            ends.append((number, group.end()))
        for number, end in reversed(ends):
            if _is_number(number) and not _AFTER.match(self._text, end) and counts(number, end):
                return end
        return None


def _is_example(text: str, match: re.Match[str]) -> bool:
    """A number that is never assigned, in an example."""
    fictional = "555-01" in match[0] or "555-555" in match[0]
    return fictional and _EXAMPLE.search(text, max(0, match.start() - 80), match.end() + 60) is not None


def _is_number(digits: str) -> bool:
    return (
        len(digits) in DIGITS and len(set(digits)) >= 4 and not digits.endswith(("1234567890", "123456789"))
    )


@lru_cache(maxsize=4_096)
def is_assigned(number: str, region: str | None) -> bool:
    """Whether the number can be that of a person in its country."""
    library = _library()
    try:
        parsed = library.parse(number, region)
    except library.NumberParseException:
        return False
    kinds = library.PhoneNumberType
    services = (kinds.TOLL_FREE, kinds.PREMIUM_RATE, kinds.SHARED_COST, kinds.UAN, kinds.VOICEMAIL)
    return bool(library.is_valid_number(parsed)) and library.number_type(parsed) not in services


def _library() -> ModuleType:
    import phonenumbers  # deferred import: 75 ms

    return phonenumbers
