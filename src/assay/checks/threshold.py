"""threshold (FEP 2.3.5): a number lies within bounds, or with `negate` outside them (decision 23)."""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from assay.checks.checker import (
    FAILED,
    FALLBACK,
    PASSED,
    PASSED_SCHEMA,
    Answer,
    Checker,
    Number,
    Run,
    verdict,
)
from assay.ports import Services


class Threshold(Checker):
    type = "threshold"
    waits = False
    results_schema = PASSED_SCHEMA

    value: Number
    min_value: Number | UnsetType = UNSET
    max_value: Number | UnsetType = UNSET
    min_inclusive: bool = True
    max_inclusive: bool = True
    negate: bool = False

    def __post_init__(self) -> None:
        check_bounds(self.min_value, self.max_value)

    def run(self, services: Services) -> Answer:
        inside = within(self.value, self.min_value, self.max_value, self.min_inclusive, self.max_inclusive)
        return verdict(inside != self.negate)

    @classmethod
    def validate_literals(cls, literals: Mapping[str, Any]) -> None:
        if "min_value" in literals and "max_value" in literals:
            check_bounds(literals["min_value"], literals["max_value"])

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        if set(literals) != set(cls.__struct_fields__) - {"value"}:
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
            return inside if within(value, minimum, maximum, min_inclusive, max_inclusive) else outside

        def measure_from(value: Any) -> Answer:
            if type(value) is not float and type(value) is not int:
                return FALLBACK
            return inside if value >= minimum else outside

        return measure_from if maximum is UNSET and min_inclusive else measure


def check_bounds(minimum: float | UnsetType, maximum: float | UnsetType) -> None:
    if minimum is UNSET and maximum is UNSET:
        raise ValueError("expected min_value, max_value or both, got neither")
    if minimum is not UNSET and maximum is not UNSET and minimum > maximum:
        raise ValueError(f"min_value {minimum} is above max_value {maximum}")


def within(
    value: float,
    minimum: float | UnsetType,
    maximum: float | UnsetType,
    min_inclusive: bool,
    max_inclusive: bool,
) -> bool:
    if minimum is not UNSET and not (value >= minimum if min_inclusive else value > minimum):
        return False
    return maximum is UNSET or (value <= maximum if max_inclusive else value < maximum)
