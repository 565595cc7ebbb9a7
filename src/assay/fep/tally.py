"""Counts of a run as it goes: what was measured, what was not, and per check how it came out (decisions 29, 30, 46)."""

import sys
from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec import Struct

from assay.fep.columns import BLOCK, Aside, Column
from assay.fep.spending import NOTHING, Spending
from assay.fep.statistics import FEW, Statistics, few_statistics, few_totals, statistics_of, totals
from assay.protocol.json_types import is_mapping
from assay.protocol.results import EvaluationSummary, Status

LARGEST = sys.float_info.max  # an integer beyond it is in no mean
CATEGORIES = 50  # distinct values counted per check; beyond them, "other"
REASON = 200  # characters kept of why a check errored first
LOOSE = 1_024  # cases and numbers that wait for a column: a small run ends before it needs one


class CheckTally(Struct):
    """One check's line in the table. A check without pass or fail has values instead."""

    passed: int = 0
    failed: int = 0
    error: int = 0
    skip: int = 0
    other: int = 0  # completed, and neither passed nor failed
    numbers: dict[str, tuple[int, float]] = {}  # how many, and their sum
    categories: dict[str, dict[str, int]] = {}
    why: str = ""  # of the first error, on one line

    @property
    def completed(self) -> int:
        return self.passed + self.failed + self.other

    @property
    def total(self) -> int:
        return self.completed + self.error + self.skip

    def category(self, name: str, value: bool | str) -> None:
        counts = self.categories.setdefault(name, {})
        key = str(value).lower() if isinstance(value, bool) else value[:60]
        key = key if key in counts or len(counts) < CATEGORIES else "(other)"
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
        self.why = self.why or other.why
        for name, (many, total) in other.numbers.items():
            here, sum_here = self.numbers.get(name, (0, 0.0))
            self.numbers[name] = here + many, sum_here + total
        for name, counts in other.categories.items():
            self.categories[name] = dict(Counter(self.categories.get(name, {})) + Counter(counts))


def _short(why: str) -> str:
    line = " ".join(why[: 4 * REASON].split())
    return line if len(line) <= REASON else f"{line[: REASON - 1]}…"


class Answers:
    """
    The answers of cases that have the same checks, a number a case: a bit a check for those that passed, above them a bit a
    check for those that passed or failed, and one above all where a check was not measured.

    `ids` and `codes` are the last cases; the first `counted` of them are in the rows. It does not hold its tally: in a cycle,
    all that a request brought would wait for the garbage collector.
    """

    __slots__ = ("_aside", "_column", "_numbers", "codes", "counted", "ids", "labels", "rows", "size")

    def __init__(
        self, labels: tuple[str, ...], rows: list[CheckTally], numbers: "Found", aside: Aside
    ) -> None:
        self.labels, self.size, self.rows = labels, len(labels), rows
        self._numbers, self._aside = numbers, aside
        self.ids: list[str] = []
        self.codes: list[int] = []
        self.counted = 0
        self._column: Column | None = None

    @property
    def column(self) -> Column:
        """The cases before the last ones; it is made when the first case goes there."""
        if self._column is None:
            self._column = Column(self._aside, 2 * self.size + 1)
        return self._column

    def note(self, at: int, status: Status, results: Mapping[str, Any], id: str, why: str = "") -> int:
        """Count what the check at this place came to; its part of the case's code."""
        if status == "completed":
            return self.answer(at, results, id)
        row = self.rows[at]
        if status == "error":
            row.error += 1
            row.why = row.why or _short(why)
        else:
            row.skip += 1
        return 1 << 2 * self.size

    def answer(self, at: int, results: Mapping[str, Any], id: str) -> int:
        """The same of one that completed. What passed or failed is counted with the code."""
        response = results.get("response")
        inner: Mapping[str, Any] = response if is_mapping(response) else {}
        passed = results.get("passed", inner.get("passed"))
        if passed is True:
            return ((1 << self.size) + 1) << at
        if passed is False:
            return 1 << self.size + at
        row = self.rows[at]
        row.other += 1
        for name, value in (inner or results).items():
            if isinstance(value, bool | str):
                row.category(name, value)
            elif isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST):
                row.number(name, value)
                if isfinite(value):
                    numbers_in(self._numbers, self.labels[at], name, self._aside).add(id, float(value))
        return 0

    def close(self, id: str, code: int) -> None:
        """A case is complete."""
        self.ids.append(id)
        self.codes.append(code)

    def fold(self) -> None:
        """Count the cases that were closed."""
        codes = self.codes[self.counted :] if self.counted else self.codes
        few = len(codes) <= FEW and self.size <= FEW
        passed, decided = (
            few_totals(tuple(sorted(codes)), self.size) if few else totals(Counter(codes), self.size)
        )
        for row, good, every in zip(self.rows, passed, decided, strict=True):
            row.passed += good
            row.failed += every - good
        self.counted = len(self.codes)

    def pack(self) -> None:
        """Those that are counted go into the column."""
        self.column.extend(self.ids, self.codes)
        self.ids, self.codes, self.counted = [], [], 0

    def few(self) -> tuple[int, ...] | None:
        """The codes in order, where these are all cases, few, and none is repeated."""
        few = self._column is None and len(self.ids) <= FEW and self.size <= FEW
        return tuple(sorted(self.codes)) if few and len(set(self.ids)) == len(self.ids) else None


class Numbers:
    """The numbers that a check found under one name, each with the case it is about."""

    __slots__ = ("column", "ids", "values")

    def __init__(self, aside: Aside) -> None:
        self.ids: list[str] = []
        self.values: list[float] = []
        self.column = Column(aside)

    def add(self, id: str, value: float) -> None:
        self.ids.append(id)
        self.values.append(value)

    def pack(self) -> None:
        self.column.extend(self.ids, self.values)
        self.ids, self.values = [], []


Found = dict[tuple[str, str], Numbers]  # by the label of the check, and a name


def numbers_in(found: Found, label: str, name: str, aside: Aside) -> Numbers:
    some = found.get((label, name))
    if some is None:
        some = found[label, name] = Numbers(aside)
    return some


class AnswersRecord(Struct, frozen=True, array_like=True):
    """Answers as they are kept until a run has ended."""

    labels: tuple[str, ...]
    ids: list[str]
    codes: bytes


class NumbersRecord(Struct, frozen=True, array_like=True):
    label: str
    name: str
    ids: list[str]
    values: list[float]


class TallyRecord(Struct, omit_defaults=True):
    """A tally as it is kept or sent. It says what each case answered, or of a run that has ended what all of that comes to."""

    rows: dict[str, CheckTally] = {}
    completed_cases: int = 0
    error_cases: int = 0
    skipped_cases: int = 0
    spending: Spending = NOTHING
    answers: list[AnswersRecord] = []
    numbers: list[NumbersRecord] = []
    statistics: Statistics | None = None


class Tally:
    """Rows by label, in the order they were first seen, and the cases. One of a part of a run holds all its cases, for `record`."""

    def __init__(self, *, part: bool = False) -> None:
        self._part = part
        self._rows: dict[str, CheckTally] = {}
        self.completed_cases = self.error_cases = self.skipped_cases = 0
        self.spending = NOTHING
        self.aside = Aside()
        self._answers: dict[tuple[str, ...], Answers] = {}
        self._numbers: Found = {}
        self._statistics: Statistics | None = None  # those of a run that has ended
        self._found: tuple[int, Statistics | None] | None = None  # and those after so many cases

    @property
    def cases(self) -> int:
        return self.completed_cases + self.error_cases + self.skipped_cases

    @property
    def rows(self) -> dict[str, CheckTally]:
        self.fold()
        return self._rows

    def row(self, label: str) -> CheckTally:
        found = self._rows.get(label)
        if found is None:
            found = self._rows[label] = CheckTally()
        return found

    def answers(self, labels: tuple[str, ...]) -> Answers:
        """Where cases with these checks are counted: take it once a run, or once a case."""
        found = self._answers.get(labels)
        if found is None:
            rows = [self.row(label) for label in labels]
            found = self._answers[labels] = Answers(labels, rows, self._numbers, self.aside)
        return found

    def case(self, status: Status, spending: Spending = NOTHING) -> None:
        if spending:
            self.spending += spending
        if status == "completed":
            self.completed_cases += 1
        elif status == "error":
            self.error_cases += 1
        else:
            self.skipped_cases += 1

    def fold(self) -> None:
        """Count what was answered since the last time; a stream does this now and then, so that little is held."""
        loose = 0
        for answers in self._answers.values():
            if answers.counted < len(answers.codes):
                answers.fold()
            loose += answers.counted
        for numbers in self._numbers.values():
            loose += len(numbers.ids)
        if loose >= LOOSE and not self._part:
            self._pack()

    def _pack(self) -> None:
        """Put what is counted into columns, and these aside when they hold much."""
        held = 0
        for one in (*self._answers.values(), *self._numbers.values()):
            one.pack()
            held += one.column.held
        if held >= BLOCK:
            for one in (*self._answers.values(), *self._numbers.values()):
                one.column.spill()

    def add(self, other: TallyRecord) -> None:
        for label, row in other.rows.items():
            self.row(label).add(row)
        self.completed_cases += other.completed_cases
        self.error_cases += other.error_cases
        self.skipped_cases += other.skipped_cases
        self.spending += other.spending
        self._statistics = self._statistics or other.statistics
        for one in other.answers:
            column = self.answers(one.labels).column
            column.extend(one.ids, column.unpacked(one.codes))
        for one in other.numbers:
            numbers_in(self._numbers, one.label, one.name, self.aside).column.extend(one.ids, one.values)
        self.fold()

    def record(self, *, ended: bool = False) -> TallyRecord:
        """What is kept of it. `ended`: all of the run is in it, and its statistics are enough."""
        record = TallyRecord(
            rows=self.rows,
            completed_cases=self.completed_cases,
            error_cases=self.error_cases,
            skipped_cases=self.skipped_cases,
            spending=self.spending,
        )
        if ended:
            record.statistics = self.statistics()
            return record
        record.answers = [
            AnswersRecord(labels, one.ids, one.column.packed(one.codes))
            for labels, one in self._answers.items()
        ]
        record.numbers = [
            NumbersRecord(label, name, one.ids, one.values) for (label, name), one in self._numbers.items()
        ]
        return record

    def statistics(self) -> Statistics | None:
        """Rates and means with their intervals; nothing where nothing was answered."""
        if self._statistics is not None:
            return self._statistics
        if self._found is None or self._found[0] != self.cases:
            self.fold()
            self._found = self.cases, self._now()
        return self._found[1]

    def _now(self) -> Statistics | None:
        if len(self._answers) == 1 and not self._numbers:
            (one,) = self._answers.values()
            if (codes := one.few()) is not None:
                return few_statistics(one.labels, codes)
        if not self._part:
            self._pack()
        answers = [(one.labels, one.column) for one in self._answers.values()]
        numbers = {name: one.column for name, one in self._numbers.items()}
        return statistics_of(answers, numbers)

    @property
    def status(self) -> Status:
        """The worst of the cases: error, then skip, then completed (decision 29)."""
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
