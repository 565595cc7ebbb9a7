"""The numbers that the checks of a run answer, by check and name."""

import sys
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any

from msgspec import Struct

from assay.protocol.json_types import is_mapping
from assay.results.columns import Column, SpillFile
from assay.results.number_ranges import common_range
from assay.stats.intervals import Range

MAX_NUMBER = sys.float_info.max  # a result file may have larger integers; of a check they are errors


class Numbers:
    """The numbers of a check under one name, each with the id of its case. `limits`: their range, if known."""

    __slots__ = ("column", "ids", "limits", "values")

    def __init__(self, limits: Range | None, spill_file: SpillFile) -> None:
        self.limits = limits
        self.ids: list[str] = []
        self.values: list[float] = []
        self.column = Column(spill_file)

    def add(self, id: str, value: float) -> None:
        self.ids.append(id)
        self.values.append(value)

    def pack(self) -> None:
        self.column.extend(self.ids, self.values)
        self.ids, self.values = [], []


NumbersByName = dict[tuple[str, str], Numbers]  # by the label of the check and the name of the number


def numbers_for(
    by_name: NumbersByName, label: str, name: str, limits: Range | None, spill_file: SpillFile
) -> Numbers:
    numbers = by_name.get((label, name))
    if numbers is None:
        numbers = by_name[label, name] = Numbers(limits, spill_file)
    elif numbers.limits is not None and numbers.limits != limits:
        numbers.limits = None if limits is None else common_range(numbers.limits, limits)
    return numbers


def numbers_in(results: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """The numbers of a check without `passed`, as a tally counts them: those of `response`, or of the results."""
    response = results.get("response")
    for name, value in (response if is_mapping(response) and response else results).items():
        if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > MAX_NUMBER:
            continue
        if isfinite(value):
            yield name, float(value)


class NumbersRecord(Struct, frozen=True, array_like=True):
    label: str
    name: str
    ids: list[str]
    values: list[float]
    limits: Range | None = None
