"""threshold (FEP 2.3.5): a number lies within bounds, or with `negate` outside them (FEP-23)."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import UNSET, Meta, UnsetType

from assay.checks.checker import (
    FAILED,
    FALLBACK,
    PASSED,
    PASSED_SCHEMA,
    Answer,
    Checker,
    InvalidArgument,
    Number,
    Run,
    verdict,
)
from assay.checks.standard.parse import Parse, Unparsable, not_parsed, number, parse_number
from assay.errors import InvalidRequest, Problem
from assay.ports import Services

NumberOrText = Annotated[Any, Meta(description="a number; with `parse` also a text that holds one")]


class Threshold(Checker):
    type = "threshold"
    waits = False
    results_schema = PASSED_SCHEMA

    value: NumberOrText
    min_value: Number | UnsetType = UNSET
    max_value: Number | UnsetType = UNSET
    min_inclusive: bool = True
    max_inclusive: bool = True
    negate: bool = False
    parse: Parse | UnsetType = UNSET

    def __post_init__(self) -> None:
        try:
            _check_value(self.value, self.parse)
        except InvalidArgument as wrong:
            raise ValueError(f"value: {wrong}") from None
        check_bounds(self.min_value, self.max_value)

    def run(self, services: Services) -> Answer:
        value = self.value
        if self.parse is not UNSET:
            try:
                value = parse_number(value, self.parse, services.limits)
            except Unparsable as reason:
                return not_parsed(reason)
        inside = in_range(value, self.min_value, self.max_value, self.min_inclusive, self.max_inclusive)
        return verdict(inside != self.negate)

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        problems: list[Problem] = []
        try:
            if "value" in literals and "parse" in literals:
                _check_value(literals["value"], literals["parse"])
        except InvalidArgument as wrong:
            problems.append(Problem(wrong.argument, str(wrong)))
        try:
            if "min_value" in literals and "max_value" in literals:
                check_bounds(literals["min_value"], literals["max_value"])
        except ValueError as wrong:
            problems.append(Problem("", str(wrong)))
        if problems:
            raise InvalidRequest(problems)

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        if set(literals) != set(cls.__struct_fields__) - {"value"} or literals["parse"] is not UNSET:
            return None
        minimum, maximum = literals["min_value"], literals["max_value"]
        min_inclusive, max_inclusive, negate = (
            literals["min_inclusive"],
            literals["max_inclusive"],
            literals["negate"],
        )
        inside, outside = (FAILED, PASSED) if negate else (PASSED, FAILED)

        def measure(value: Any) -> Answer:
            if type(value) is not float and type(value) is not int:
                return FALLBACK
            return inside if in_range(value, minimum, maximum, min_inclusive, max_inclusive) else outside

        def measure_from(value: Any) -> Answer:
            if type(value) is not float and type(value) is not int:
                return FALLBACK
            return inside if value >= minimum else outside

        return measure_from if maximum is UNSET and min_inclusive else measure


def _check_value(value: Any, parse: Parse | UnsetType) -> None:
    """Raise InvalidArgument for a value that is not a number, nor a text that `parse` reads."""
    if type(value) is not float and type(value) is not int and (parse is UNSET or not isinstance(value, str)):
        try:
            number(value)
        except ValueError as wrong:
            raise InvalidArgument("value", str(wrong)) from None


def check_bounds(minimum: float | UnsetType, maximum: float | UnsetType) -> None:
    if minimum is UNSET and maximum is UNSET:
        raise ValueError("expected min_value, max_value or both, got neither")
    if minimum is not UNSET and maximum is not UNSET and minimum > maximum:
        raise ValueError(f"min_value {minimum} is above max_value {maximum}")


def in_range(
    value: float,
    minimum: float | UnsetType,
    maximum: float | UnsetType,
    min_inclusive: bool,
    max_inclusive: bool,
) -> bool:
    if minimum is not UNSET and not (value >= minimum if min_inclusive else value > minimum):
        return False
    return maximum is UNSET or (value <= maximum if max_inclusive else value < maximum)
