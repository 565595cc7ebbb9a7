"""Running counts of a run: cases by status, and the outcomes of each check (FEP-29, FEP-30, FEP-46)."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from math import isfinite
from typing import Any

from msgspec import Struct, field

from assay.protocol.json_types import is_mapping
from assay.protocol.results import EvaluationSummary, Status
from assay.results.check_numbers import MAX_NUMBER, Numbers, NumbersByName, NumbersRecord, numbers_for
from assay.results.columns import BLOCK, Column, SpillFile
from assay.results.number_ranges import Ranges, common_ranges
from assay.results.spending import NOTHING, Spending
from assay.results.statistics import (
    FEW,
    Measured,
    Statistics,
    few_statistics,
    few_totals,
    pass_rate_of,
    statistics_of,
    totals,
)
from assay.stats.intervals import Rate

MAX_CATEGORIES = 50  # distinct values counted per check; more are counted as "other"
MAX_MESSAGE = 200  # characters of the message of the first error
PACK_AFTER = 1_024  # cases and numbers before they go to columns; small runs never need a column


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


class AnswersRecord(Struct, frozen=True, array_like=True):
    """Stored answers of a run that has not ended."""

    labels: tuple[str, ...]
    ids: list[str]
    codes: bytes


class TallyRecord(Struct, omit_defaults=True):
    """A stored tally: the answers of each case; or the statistics and the outcomes of cases, if the run has ended."""

    rows: dict[str, CheckTally] = {}
    completed_cases: int = 0
    error_cases: int = 0
    skipped_cases: int = 0
    spending: Spending = NOTHING
    answers: list[AnswersRecord] = []
    numbers: list[NumbersRecord] = []
    statistics: Statistics | None = None
    outcomes: list[tuple[str, int, int]] = []  # outcome, results of a case, cases


class Tally:
    """Rows by label, in order of first use, and counts of cases. `part`: keep all cases in memory, for `record`."""

    def __init__(self, *, part: bool = False) -> None:
        self._part = part
        self._rows: dict[str, CheckTally] = {}
        self.completed_cases = self.error_cases = self.skipped_cases = 0
        self.spending = NOTHING
        self.spill_file = SpillFile()
        self._answers: dict[tuple[str, ...], Answers] = {}
        self._numbers: NumbersByName = {}
        self._stored: Measured | None = None  # of a run that has ended
        self._measured: tuple[int, Measured] | None = None  # the number of results, and what they say

    @property
    def cases(self) -> int:
        return self.completed_cases + self.error_cases + self.skipped_cases

    @property
    def distinct_cases(self) -> int:
        """The number of distinct ids. `cases` counts each repeat."""
        return sum(self.measured().outcomes.values())

    @property
    def rows(self) -> dict[str, CheckTally]:
        self.fold()
        return self._rows

    def row(self, label: str) -> CheckTally:
        row = self._rows.get(label)
        if row is None:
            row = self._rows[label] = CheckTally()
        return row

    def answers(self, labels: tuple[str, ...]) -> Answers:
        """The answers of cases with these checks. Call it once per run or once per case."""
        answers = self._answers.get(labels)
        if answers is None:
            rows = [self.row(label) for label in labels]
            answers = self._answers[labels] = Answers(labels, rows, self._numbers, self.spill_file)
        return answers

    def compiled_answers(self, cases: int) -> Answers | None:
        """The answers of all `cases`, if the compiled scorer made them and each check passed or failed; else None."""
        if len(self._answers) != 1:
            return None
        (answers,) = self._answers.values()
        return answers if answers.compiled and len(answers.codes) == cases else None

    def count_case(self, status: Status, spending: Spending = NOTHING) -> None:
        if spending is not NOTHING and spending:
            self.spending += spending
        if status == "completed":
            self.completed_cases += 1
        elif status == "error":
            self.error_cases += 1
        else:
            self.skipped_cases += 1

    def fold(self) -> None:
        """Count the answers since the last fold. Streams call it regularly to bound memory."""
        loose = 0
        for answers in self._answers.values():
            if answers.fold_count < len(answers.codes):
                answers.fold()
            loose += answers.fold_count
        for numbers in self._numbers.values():
            loose += len(numbers.ids)
        if loose >= PACK_AFTER and not self._part:
            self._pack()

    def _pack(self) -> None:
        """Move counted answers to columns."""
        for one in (*self._answers.values(), *self._numbers.values()):
            one.pack()
        self._spill()

    def _spill(self) -> None:
        """Write the columns to disk when they are large."""
        every = (*self._answers.values(), *self._numbers.values())
        if sum(one.column.buffer_size for one in every) >= BLOCK:
            for one in every:
                one.column.spill()

    def add(self, other: TallyRecord) -> None:
        for label, row in other.rows.items():
            self.row(label).add(row)
        self.completed_cases += other.completed_cases
        self.error_cases += other.error_cases
        self.skipped_cases += other.skipped_cases
        self.spending += other.spending
        if other.outcomes:
            outcomes = {(outcome, results): cases for outcome, results, cases in other.outcomes}
            self._stored = Measured(other.statistics, outcomes)
        for one in other.answers:
            column = self.answers(one.labels).column
            column.extend(one.ids, column.unpack_values(one.codes))
        for one in other.numbers:
            numbers = numbers_for(self._numbers, one.label, one.name, one.limits, self.spill_file)
            numbers.column.extend(one.ids, one.values)
        self.fold()
        if not self._part:
            self._spill()

    def record(self, *, final: bool = False) -> TallyRecord:
        """The stored form. `final`: the tally covers the whole run, so only its statistics are stored."""
        record = TallyRecord(
            rows=self.rows,
            completed_cases=self.completed_cases,
            error_cases=self.error_cases,
            skipped_cases=self.skipped_cases,
            spending=self.spending,
        )
        if final:
            measured = self.measured()
            record.statistics = measured.statistics
            record.outcomes = [(*key, cases) for key, cases in measured.outcomes.items()]
            return record
        record.answers = [
            AnswersRecord(labels, one.ids, one.column.pack_values(one.codes))
            for labels, one in self._answers.items()
        ]
        record.numbers = [
            NumbersRecord(label, name, one.ids, one.values, one.limits)
            for (label, name), one in self._numbers.items()
        ]
        return record

    def statistics(self) -> Statistics | None:
        """Rates and means with their intervals; None without answers."""
        return self.measured().statistics

    def measured(self) -> Measured:
        """The statistics and the outcomes of the cases."""
        if self._stored is not None:
            return self._stored
        if self._measured is None or self._measured[0] != self.cases:
            self.fold()
            self._measured = self.cases, self._measure()
        return self._measured[1]

    def _measure(self) -> Measured:
        if len(self._answers) == 1 and not self._numbers:
            (one,) = self._answers.values()
            if (codes := one.few_codes()) is not None:
                return few_statistics(one.labels, codes)
        if not self._part:
            self._pack()
        answers = [(one.labels, one.column) for one in self._answers.values()]
        numbers = {name: (one.column, one.limits) for name, one in self._numbers.items()}
        return statistics_of(answers, numbers)

    def pass_rate(self, labels: Collection[str] | None = None) -> Rate | None:
        """The pass rate of the checks with these labels together; None stands for all checks."""
        found = self.statistics()
        if labels is None or found is None:
            return found.pass_rate if found else None
        if len(labels) == 1:
            check = found.checks.get(next(iter(labels)))
            return check.pass_rate if check else None
        if not self._part:
            self._pack()
        return pass_rate_of([(one.labels, one.column) for one in self._answers.values()], labels)

    @property
    def status(self) -> Status:
        """The worst of the cases: error, then skip, then completed (FEP-29)."""
        return "error" if self.error_cases else "skip" if self.skipped_cases else "completed"

    def summary(self) -> EvaluationSummary:
        completed = error = skipped = 0
        for row in self.rows.values():
            completed += row.passed + row.failed + row.other
            error += row.error
            skipped += row.skip
        return EvaluationSummary(
            total_test_cases=self.cases,
            completed_test_cases=self.completed_cases,
            error_test_cases=self.error_cases,
            skipped_test_cases=self.skipped_cases,
            total_checks=completed + error + skipped,
            completed_checks=completed,
            error_checks=error,
            skipped_checks=skipped,
        )
