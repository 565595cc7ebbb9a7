"""The numbers that the checks of a run answer, by check and name."""

from msgspec import Struct

from assay.results.columns import Column, SpillFile
from assay.results.number_ranges import common_range
from assay.stats.intervals import Range


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


class NumbersRecord(Struct, frozen=True, array_like=True):
    label: str
    name: str
    ids: list[str]
    values: list[float]
    limits: Range | None = None
