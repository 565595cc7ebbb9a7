"""
number (an extension to FEP): passes if the number in a text is the expected one, within a tolerance.

The number is read as it is written, in decimal: `1,234.5`, `-3e5`, `2.5k`, `4 million`.
"""

import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from assay.checks.checker import Answer, Checker, InvalidArgument, Text, closed_object
from assay.checks.standard.decimals import MAX_DIGITS, exactly, is_near
from assay.checks.standard.measure import INLINE_CHARACTERS
from assay.checks.worker_tasks import WorkerTask, offload
from assay.errors import ValueFault
from assay.ports import Services

LARGEST = 308  # the power of ten that a double cannot hold
SHOWN = 60  # characters of a text in a reason
_SPACES = "\u00a0\u2009\u202f"  # between groups of digits; a plain space separates two numbers
_RUN = re.compile(rf"[.,]?[0-9](?:[0-9.,'’_{_SPACES}]*[0-9])?")
_GROUPED = {
    mark: re.compile(
        rf"[0-9]{{1,3}}(?P<group>[{other}'’_{_SPACES}])[0-9]{{3}}(?:(?P=group)[0-9]{{3}})*(?:[{mark}][0-9]+)?"
    )
    for mark, other in ((".", ","), (",", "."))
}
_PLAIN = {mark: re.compile(rf"[0-9]*(?:[{mark}][0-9]+)?") for mark in ".,"}
_PARTS = {mark: re.compile(rf"[0-9]+(?:[{mark}][0-9]+)?") for mark in ".,"}
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,3})(?![\w.])")
_SCALE = re.compile(
    r"(?:(?P<letter>[kKM]|bn|B)|[ \u00a0-]?(?P<word>thousand|million|billion|trillion|mn|mio|bn))(?!\w)",
    re.IGNORECASE,
)
_SIGN = re.compile(r"(?:^|[^\w)\]%])([-−+])(?:[$€£¥₹] ?)?\Z")
SCALES = {"k": 3, "thousand": 3, "m": 6, "mn": 6, "mio": 6, "million": 6, "b": 9, "bn": 9, "billion": 9, "trillion": 12}  # fmt: skip
Tolerance = Annotated[int, Meta(ge=0)] | Annotated[float, Meta(ge=0)]
Pick = Literal["first", "last", "only"]


class Number(Checker):
    type = "number"
    waits = False
    results_schema = closed_object(
        {
            "passed": {"type": "boolean"},
            "number": {"type": ["number", "null"], "description": "the number that was found; null: none"},
            "reason": {"type": "string"},
        }
    )

    text: Text
    expected: Text
    absolute: Tolerance = 0
    relative: Tolerance = 0
    pick: Pick = "last"
    after: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    decimal: Literal[".", ","] = "."
    scales: bool = True
    negate: bool = False

    def run(self, services: Services) -> Answer | WorkerTask:
        if len(self.text) + len(self.expected) > INLINE_CHARACTERS:
            return offload(self)
        return self.answer(services)

    def answer(self, services: Services) -> Answer:
        expected = expected_number(
            self.expected, self._part(self.expected, strict=False), self.decimal, self.scales
        )
        part = self._part(self.text, strict=True)
        found = list(numbers_in(part, self.decimal, self.scales)) if part is not None else []
        if not found:
            where = "" if self.after is UNSET else f" after {self.after!r}"
            return _answer(False, None, f"expected {_shown(expected)}, got a text without a number{where}")
        if self.pick == "only" and len(set(found)) > 1:
            several = ", ".join(map(_shown, found[:5])) + ("…" if len(found) > 5 else "")
            return _answer(False, None, f"expected {_shown(expected)} as the only number, got {several}")
        number = found[0] if self.pick == "first" else found[-1]
        near = is_near(number, expected, self.absolute, self.relative)
        allowed = "" if not self.absolute and not self.relative else " within the tolerance"
        if near:
            reason = f"{_shown(number)} is {_shown(expected)}{allowed}"
        else:
            reason = f"expected {_shown(expected)}{allowed}, got {_shown(number)}"
        if self.negate:
            reason = f"expected another number than {_shown(expected)}, got {_shown(number)}"
        return _answer(near != self.negate, number, reason)

    def _part(self, text: str, *, strict: bool) -> str | None:
        """The text behind the last marker. Without the marker: nothing, or if not `strict` the whole text."""
        if self.after is UNSET:
            return str(text)
        _, marker, rest = text.rpartition(self.after)
        return rest if marker else None if strict else str(text)

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        if {"expected", "decimal", "scales", "after"} <= literals.keys():
            text, after = literals["expected"], literals["after"]
            part = text if after is UNSET or after not in text else text.rpartition(after)[2]
            try:
                expected_number(text, part, literals["decimal"], literals["scales"])
            except ValueFault as wrong:
                raise InvalidArgument("expected", str(wrong).removeprefix("expected: ")) from None


def _answer(passed: bool, number: Decimal | None, reason: str) -> Answer:
    return {"passed": passed, "number": None if number is None else _json(number), "reason": reason}


def expected_number(text: str, part: str | None, mark: str, scales: bool) -> Decimal:
    """The one number of the expected value. Raises ValueFault if there is none, or more than one."""
    found = list(numbers_in(part if part is not None else text, mark, scales))
    if len(found) != 1:
        count = "none" if not found else f"{len(found)}"
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        raise ValueFault(f"expected: expected one number, got {count} in {str(shown)!r}")
    return found[0]


def numbers_in(text: str, mark: str = ".", scales: bool = True) -> Iterator[Decimal]:
    """
    The numbers of a text, in order. `mark` is the decimal sign; groups of three digits may be separated.

    A number in a word, such as that of `CO2`, is none. What is larger than a double is none either.
    """
    at = 0
    while (run := _RUN.search(text, at)) is not None:
        start, (power, at) = run.start(), _power(text, run.end(), scales)
        if start and (text[start - 1].isalpha() or text[start - 1] == "_"):
            continue
        token = run[0] if run[0][0] != {".": ",", ",": "."}[mark] else run[0][1:]
        numerals = _numerals(token, mark)
        for place, digits in enumerate(numerals):
            number = exactly.create_decimal(digits)
            if place == 0 and _is_negative(text, start):
                number = number.copy_negate()
            if place == len(numerals) - 1 and power:
                number = exactly.scaleb(number, power)
            if len(digits) <= MAX_DIGITS and number.is_finite() and number.adjusted() < LARGEST:
                yield number


def _numerals(token: str, mark: str) -> list[str]:
    """The digits of each number of a run of digits and separators, with a point as the decimal sign."""
    if _GROUPED[mark].fullmatch(token):
        return ["".join(one for one in token if one.isdigit() or one == mark).replace(mark, ".")]
    if _PLAIN[mark].fullmatch(token):
        return [token.replace(mark, ".")]
    return [part.replace(mark, ".") for part in _PARTS[mark].findall(token)]


def _is_negative(text: str, start: int) -> bool:
    found = _SIGN.search(text[max(0, start - 4) : start])
    return found is not None and found[1] != "+"


def _power(text: str, end: int, scales: bool) -> tuple[int, int]:
    """The power of ten that stands behind a number, as an exponent, a letter or a word; and the place behind it."""
    power = 0
    if (exponent := _EXPONENT.match(text, end)) is not None:
        power, end = int(exponent[1]), exponent.end()
    if scales and (scale := _SCALE.match(text, end)) is not None and scale["letter"] != "m":
        return power + SCALES[(scale["letter"] or scale["word"]).lower()], scale.end()
    return power, end


def _json(number: Decimal) -> int | float:
    return int(number) if number == number.to_integral_value() and abs(number) < 2**53 else float(number)


def _shown(number: Decimal) -> str:
    return str(_json(number))
