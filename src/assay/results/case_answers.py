"""The outcomes of each check, and the answers of cases as one integer each."""

from collections import Counter
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct, field

from assay.protocol.json_types import is_mapping
from assay.protocol.results import Status
from assay.results.check_numbers import MAX_NUMBER, Numbers, NumbersByName, numbers_for
from assay.results.columns import Column, SpillFile
from assay.results.number_ranges import Ranges, common_ranges
from assay.results.statistics import FEW, few_totals, totals

MAX_CATEGORIES = 50  # distinct values counted per check; more are counted as "other"
MAX_MESSAGE = 200  # characters of the message of the first error


class CheckTally(Struct):
    """The row of one check in the table. A check without `passed` has numbers and categories instead."""

    passed: int = 0
    failed: int = 0
    error: int = 0
    skip: int = 0
    other: int = 0  # completed without `passed`
    numbers: dict[str, tuple[int, float]] = {}  # count and sum
    categories: dict[str, dict[str, int]] = {}
    first_error: str = field(default="", name="why")  # its message, on one line; stored as `why`

    @property
    def completed(self) -> int:
        return self.passed + self.failed + self.other

    @property
    def total(self) -> int:
        return self.completed + self.error + self.skip

    def category(self, name: str, value: bool | str) -> None:
        counts = self.categories.setdefault(name, {})
        key = str(value).lower() if isinstance(value, bool) else value[:60]
        key = key if key in counts or len(counts) < MAX_CATEGORIES else "(other)"
        counts[key] = counts.get(key, 0) + 1

    def number(self, name: str, value: float) -> None:
        many, total = self.numbers.get(name, (0, 0.0))
        self.numbers[name] = many + 1, total + value

    def add(self, other: "CheckTally") -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.error += other.error
        self.skip += other.skip
        self.other += other.other
        self.first_error = self.first_error or other.first_error
        for name, (many, total) in other.numbers.items():
            here, sum_here = self.numbers.get(name, (0, 0.0))
            self.numbers[name] = here + many, sum_here + total
        for name, counts in other.categories.items():
            self.categories[name] = dict(Counter(self.categories.get(name, {})) + Counter(counts))


def _first_line(message: str) -> str:
    line = " ".join(message[: 4 * MAX_MESSAGE].split())
    return line if len(line) <= MAX_MESSAGE else f"{line[: MAX_MESSAGE - 1]}…"


class Answers:
    """
    The answers of cases that have the same checks, as one integer (code) per case.

    The low `size` bits say which checks passed. The next `size` bits say which checks passed or failed. The bit above
    them is set if a check was not measured, and the bit above that one if a check has an error. `ids` and `codes` are
    the most recent cases; the first `fold_count` of them are in the rows. It has no reference to its tally: a reference
    cycle would hold a request's memory until a garbage collection.
    """

    __slots__ = (
        "_column", "_numbers", "_spill_file", "codes", "compiled", "fold_count", "ids", "labels", "ranges", "rows",
        "size",
    )  # fmt: skip

    def __init__(
        self, labels: tuple[str, ...], rows: list[CheckTally], numbers: "NumbersByName", spill_file: SpillFile
    ) -> None:
        self.labels, self.size, self.rows = labels, len(labels), rows
        self._numbers, self._spill_file = numbers, spill_file
        self.ranges: Sequence[Ranges] | None = None  # of the numbers of each check; None: they are not known
        self.ids: list[str] = []
        self.codes: list[int] = []
        self.fold_count = 0
        # each case so far was added by the compiled scorer, in order, and each check passed or failed
        self.compiled = True
        self._column: Column | None = None

    @property
    def column(self) -> Column:
        """The packed cases. The column is created with the first of them."""
        if self._column is None:
            self._column = Column(self._spill_file, 2 * self.size + 2)
        return self._column

    def record(
        self, check_index: int, status: Status, results: Mapping[str, Any], id: str, error: str = ""
    ) -> int:
        """Count the result of the check with this number. Returns its bits of the code of the case."""
        if status == "completed":
            return self.answer(check_index, results, id)
        row = self.rows[check_index]
        if status == "error":
            row.error += 1
            row.first_error = row.first_error or _first_line(error)
            return 3 << 2 * self.size
        row.skip += 1
        return 1 << 2 * self.size

    def answer(self, check_index: int, results: Mapping[str, Any], id: str) -> int:
        """`record` for a completed check. Passes and failures are counted later, from the code."""
        self.compiled = False
        response = results.get("response")
        inner: Mapping[str, Any] = response if is_mapping(response) else {}
        passed = results.get("passed", inner.get("passed"))
        if passed is True:
            return ((1 << self.size) + 1) << check_index
        if passed is False:
            return 1 << self.size + check_index
        row = self.rows[check_index]
        row.other += 1
        for name, value in (inner or results).items():
            if isinstance(value, bool | str):
                row.category(name, value)
            elif isinstance(value, int | float) and abs(value) <= MAX_NUMBER:
                row.number(name, value)
                if isfinite(value):
                    self._numbers_of(check_index, name).add(id, float(value))
        return 0

    def _numbers_of(self, check_index: int, name: str) -> Numbers:
        limits = None if self.ranges is None else self.ranges[check_index].get(name)
        return numbers_for(self._numbers, self.labels[check_index], name, limits, self._spill_file)

    def declare(self, ranges: Sequence[Ranges]) -> None:
        """Cases whose checks declare these ranges follow. Ranges that all cases have are kept."""
        if self.ranges is None:
            self.ranges = ranges
        elif self.ranges != ranges:
            self.ranges = [common_ranges(one, other) for one, other in zip(self.ranges, ranges, strict=True)]

    def close(self, id: str, code: int) -> None:
        """Add a complete case."""
        self.compiled = False
        self.ids.append(id)
        self.codes.append(code)

    def fold(self) -> None:
        """Count the cases added since the last fold."""
        codes = self.codes[self.fold_count :] if self.fold_count else self.codes
        few = len(codes) <= FEW and self.size <= FEW
        passed, decided = (
            few_totals(tuple(sorted(codes)), self.size) if few else totals(Counter(codes), self.size)
        )
        for row, good, every in zip(self.rows, passed, decided, strict=True):
            row.passed += good
            row.failed += every - good
        self.fold_count = len(self.codes)

    def pack(self) -> None:
        """Move the counted cases to the column."""
        self.column.extend(self.ids, self.codes)
        self.ids, self.codes, self.fold_count = [], [], 0

    def apart(self) -> "Answers":
        """Answers of these checks that are counted later, by `merge`."""
        answers = Answers(self.labels, [CheckTally() for _ in self.rows], {}, self._spill_file)
        answers.ranges = self.ranges
        return answers

    def merge(self, other: "Answers") -> None:
        """Count the recent cases of other answers of these checks."""
        self.compiled = self.compiled and other.compiled
        for row, more in zip(self.rows, other.rows, strict=True):
            row.add(more)
        for (label, name), more in other._numbers.items():
            numbers = numbers_for(self._numbers, label, name, more.limits, self._spill_file)
            numbers.ids += more.ids
            numbers.values += more.values
        self.ids += other.ids
        self.codes += other.codes

    def few_codes(self) -> tuple[int, ...] | None:
        """The sorted codes if there are few cases and none is repeated; else None."""
        few = self._column is None and len(self.ids) <= FEW and self.size <= FEW
        return tuple(sorted(self.codes)) if few and len(set(self.ids)) == len(self.ids) else None
