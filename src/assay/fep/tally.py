"""Counts of a run as it goes: what was measured, what was not, and per check how it came out (decisions 29, 30)."""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from assay.fep.spending import NOTHING, Spending
from assay.protocol.results import EvaluationSummary, Status
from assay.protocol.values import is_mapping

LARGEST = sys.float_info.max  # an integer beyond it is in no mean
CATEGORIES = 50  # distinct values counted per check; beyond them, "other"
REASON = 200  # characters kept of why a check errored first


class Row(Struct):
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

    def note(self, status: Status, results: Mapping[str, Any], why: str = "") -> None:
        if status == "error":
            self.error += 1
            self.why = self.why or _short(why)
        elif status == "skip":
            self.skip += 1
        else:
            self._answer(results)

    def _answer(self, results: Mapping[str, Any]) -> None:
        response = results.get("response")
        inner: Mapping[str, Any] = response if is_mapping(response) else {}
        passed = results.get("passed", inner.get("passed"))
        if passed is True:
            self.passed += 1
        elif passed is False:
            self.failed += 1
        else:
            self.other += 1
            for name, value in (inner or results).items():
                self._value(name, value)

    def _value(self, name: str, value: Any) -> None:
        if isinstance(value, bool | str):
            counts = self.categories.setdefault(name, {})
            key = str(value).lower() if isinstance(value, bool) else value[:60]
            key = key if key in counts or len(counts) < CATEGORIES else "(other)"
            counts[key] = counts.get(key, 0) + 1
        elif isinstance(value, float) or (isinstance(value, int) and abs(value) <= LARGEST):
            many, total = self.numbers.get(name, (0, 0.0))
            self.numbers[name] = many + 1, total + value

    def add(self, other: "Row") -> None:
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


class Tally(Struct):
    """Rows by label, in the order they were first seen, and the cases."""

    rows: dict[str, Row] = {}
    completed_cases: int = 0
    error_cases: int = 0
    skipped_cases: int = 0
    spending: Spending = NOTHING

    @property
    def cases(self) -> int:
        return self.completed_cases + self.error_cases + self.skipped_cases

    def row(self, label: str) -> Row:
        found = self.rows.get(label)
        if found is None:
            found = self.rows[label] = Row()
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

    def add(self, other: "Tally") -> None:
        for label, row in other.rows.items():
            self.row(label).add(row)
        self.completed_cases += other.completed_cases
        self.error_cases += other.error_cases
        self.skipped_cases += other.skipped_cases
        self.spending += other.spending

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
