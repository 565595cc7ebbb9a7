"""Running counts of a run: cases by status, and the outcomes of each check (FEP-29, FEP-30, FEP-46)."""

from collections.abc import Collection

from msgspec import Struct

from assay.protocol.results import EvaluationSummary, Status
from assay.results.case_answers import Answers, CheckTally
from assay.results.check_numbers import NumbersByName, NumbersRecord, numbers_for
from assay.results.columns import BLOCK, SpillFile
from assay.results.spending import NOTHING, Spending
from assay.results.statistics import Measured, Statistics, few_statistics, pass_rate_of, statistics_of
from assay.stats.intervals import Rate

PACK_AFTER = 1_024  # cases and numbers before they go to columns; small runs never need a column


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
