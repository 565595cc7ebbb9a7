"""The ranges that a check declares for its numbers, by the schema of its class or by `response_format`."""

from collections.abc import Iterator, Mapping
from typing import Any

from assay.checks.arguments import BoundCheck
from assay.protocol.json_types import is_list, is_object
from assay.results.reasons import LARGEST, number_of
from assay.stats.intervals import Range

Ranges = Mapping[str, Range]  # by the name of a number


def declared_ranges(check: BoundCheck) -> Ranges:
    schema = check.checker.results_schema
    response = _properties(schema).get("response")
    found = dict(_ranges(schema)) | dict(_ranges(response))
    return found | dict(_ranges(check.literals.get("response_format")))


def _ranges(schema: Any) -> Iterator[tuple[str, Range]]:
    for name, one in _properties(schema).items():
        if is_object(one) and (limits := _range(one)) is not None:
            yield name, limits


def _properties(schema: Any) -> dict[str, Any]:
    properties = schema.get("properties") if is_object(schema) else None
    return properties if is_object(properties) else {}


def _range(schema: dict[str, Any]) -> Range | None:
    """From `minimum` and `maximum`, from those that exclude their bound, or from an `enum` of numbers."""
    choices = schema.get("enum")
    if is_list(choices):
        numbers = [number for one in choices if (number := number_of(one)) is not None]
        lows = highs = numbers if len(numbers) == len(choices) else []
    else:
        lows = [number_of(schema.get(name)) for name in ("minimum", "exclusiveMinimum")]
        highs = [number_of(schema.get(name)) for name in ("maximum", "exclusiveMaximum")]
    low = min((one for one in lows if one is not None), default=None)
    high = max((one for one in highs if one is not None), default=None)
    if low is None or high is None or not 0 < high - low <= LARGEST:
        return None
    return low, high


def common_ranges(one: Ranges, other: Ranges) -> Ranges:
    """The ranges that hold for the numbers of both."""
    return {name: common_range(one[name], other[name]) for name in one if name in other}


def common_range(one: Range, other: Range) -> Range:
    return min(one[0], other[0]), max(one[1], other[1])
