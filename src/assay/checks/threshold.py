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
    def vet(cls, literals: Mapping[str, Any]) -> None:
        if "min_value" in literals and "max_value" in literals:
            check_bounds(literals["min_value"], literals["max_value"])

    @classmethod
    def compile(cls, literals: Mapping[str, Any]) -> Run | None:
        if set(literals) != set(cls.__struct_fields__) - {"value"}:
            return None
        least, most = literals["min_value"], literals["max_value"]
        at_least, at_most, negate = literals["min_inclusive"], literals["max_inclusive"], literals["negate"]
        inside, outside = (FAILED, PASSED) if negate else (PASSED, FAILED)

        def measure(value: Any) -> Answer:
            if type(value) is not float and type(value) is not int:
                return FALLBACK
            return inside if within(value, least, most, at_least, at_most) else outside

        def measure_from(value: Any) -> Answer:
            if type(value) is not float and type(value) is not int:
                return FALLBACK
            return inside if value >= least else outside

        return measure_from if most is UNSET and at_least else measure


def check_bounds(least: float | UnsetType, most: float | UnsetType) -> None:
    if least is UNSET and most is UNSET:
        raise ValueError("expected min_value, max_value or both, got neither")
    if least is not UNSET and most is not UNSET and least > most:
        raise ValueError(f"min_value {least} is above max_value {most}")


def within(
    value: float, least: float | UnsetType, most: float | UnsetType, at_least: bool, at_most: bool
) -> bool:
    if least is not UNSET and not (value >= least if at_least else value > least):
        return False
    return most is UNSET or (value <= most if at_most else value < most)
