"""Summaries of results in Arrow that add up: counts, rates, means, slices and first failures of any parts."""

from collections import Counter
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from heapq import nsmallest
from typing import Any

from msgspec import Struct

from assay.batch.number_sums import NumberSums
from assay.batch.result_table import OutcomePattern, ResultTable
from assay.errors import InvalidRequest, Problem
from assay.fep.outputs.failing_cases import CASES, FailingCase
from assay.ports.cases import ERROR, FAILED, SKIPPED
from assay.protocol.results import Status
from assay.results.case_answers import CheckTally
from assay.results.slices import MAX_SLICES, NONE, SliceRates, too_many_slices
from assay.results.statistics import Group, Labels, OutcomeCounts, Statistics
from assay.results.tally import Tally, TallyRecord
from assay.stats.intervals import Mean, Rate

SEVERAL = (
    "expected all results of a case in one part, because its trials make one value; got a case in several parts: divide"
    " the rows by their ids"
)


SIZE = 16_384  # hashes; of so many cases or fewer, it holds every id


class IdSample:
    """
    The smallest hashes of the ids of a part. Samples of parts add up to the sample of all.

    A share s of all ids that stands in two parts is found with probability 1 - (1 - s)^16,384: a share of 0.1% always.
    """

    def __init__(self, ids: Iterable[str] = ()) -> None:
        smallest, limit = set[int](), 1 << 64
        for id in ids:
            if (number := _hash(id)) < limit:
                smallest.add(number)
                if len(smallest) >= 2 * SIZE:
                    smallest = {*nsmallest(SIZE, smallest)}
                    limit = max(smallest)
        self._hashes = nsmallest(SIZE, smallest)

    def merge(self, other: "IdSample") -> bool:
        """Add the ids of another part. False: an id stands in both."""
        both = {*self._hashes, *other._hashes}
        distinct = len(both) == len(self._hashes) + len(other._hashes)
        self._hashes = nsmallest(SIZE, both)
        return distinct


def _hash(id: str) -> int:
    """The same number in every process, which Python's own hash is not."""
    return int.from_bytes(blake2b(id.encode(), digest_size=8).digest(), "big")


class CheckCounts(Struct):
    """The results of one check. `other`: completed without a verdict."""

    passed: int = 0
    failed: int = 0
    error: int = 0
    skip: int = 0
    other: int = 0


class _Part:
    """The outcomes of some cases: those of a slice, or all."""

    def __init__(self, labels: Labels) -> None:
        self.outcomes = OutcomeCounts([labels])
        self.checks = [CheckCounts() for _ in labels]

    def add(self, patterns: Counter[OutcomePattern], groups: Counter[Group] | None) -> None:
        for pattern, many in patterns.items():
            for counts, word in zip(self.checks, pattern.words, strict=True):
                setattr(counts, word, getattr(counts, word) + many)
        if groups is None:
            codes = Counter[int]()
            for pattern, many in patterns.items():
                codes[pattern.code] += many
            self.outcomes.add_unrepeated(codes)
        else:
            self.outcomes.add_groups(groups)

    def merge(self, other: "_Part") -> None:
        self.outcomes.add(other.outcomes)
        for here, there in zip(self.checks, other.checks, strict=True):
            for word in CheckCounts.__struct_fields__:
                setattr(here, word, getattr(here, word) + getattr(there, word))


class Summary:
    """
    What results say. It can be pickled, and summaries of parts add up with `summarize`.

    Counts, rates, means and their intervals are those of one process over all rows. Quantiles are approximate.
    """

    def __init__(self, labels: Sequence[str], dimensions: Sequence[str] = ()) -> None:
        self.labels, self.dimensions = tuple(labels), tuple(dimensions)
        self.results = 0  # of cases and their trials
        self.bad_rows = 0  # rows that are no cases
        self.statuses: Counter[Status] = Counter()
        self._all = _Part(self.labels)
        self._slices: dict[tuple[str, str], _Part] = {}
        self._numbers: dict[tuple[str, str], NumberSums] = {}
        self._failing: list[FailingCase] = []
        self._ids = IdSample()

    @property
    def cases(self) -> int:
        """The number of distinct ids."""
        return sum(self._all.outcomes.outcomes.values())

    @property
    def checks(self) -> dict[str, CheckCounts]:
        return dict(zip(self.labels, self._all.checks, strict=True))

    @property
    def is_measured(self) -> bool:
        """Whether every row is a case and every check was measured."""
        return bool(self.results) and not (self.bad_rows or self.statuses["error"] or self.statuses["skip"])

    @property
    def statistics(self) -> Statistics | None:
        """Rates and means with their intervals; None if no check has an answer."""
        means: dict[str, dict[str, Mean]] = {}
        for (label, name), sums in sorted(self._numbers.items()):
            means.setdefault(label, {})[name] = sums.mean()
        return self._all.outcomes.statistics(means)

    def tally(self) -> Tally:
        """The counts as those of a run that has ended."""
        means = {} if self.statistics is None else self.statistics.checks
        rows = {
            label: CheckTally(
                counts.passed,
                counts.failed,
                counts.error,
                counts.skip,
                counts.other,
                {name: (one.of, one.mean * one.of) for name, one in means[label].means.items()}
                if label in means
                else {},
            )
            for label, counts in self.checks.items()
        }
        tally = Tally()
        tally.add(
            TallyRecord(
                rows=rows,
                completed_cases=self.statuses["completed"],
                error_cases=self.statuses["error"],
                skipped_cases=self.statuses["skip"],
                statistics=self.statistics,
                outcomes=[(*key, cases) for key, cases in self._all.outcomes.outcomes.items()],
            )
        )
        return tally

    @property
    def pass_rate(self) -> Rate | None:
        """The share of checks that passed, a case at a time."""
        return self._all.outcomes.pass_rate

    @property
    def slices(self) -> list[SliceRates]:
        """The rates of every slice: by dimension, and by name."""
        keys = sorted(self._slices, key=lambda key: (self.dimensions.index(key[0]), key[1] == NONE, key[1]))
        return [self._slice(key) for key in keys]

    def _slice(self, key: tuple[str, str]) -> SliceRates:
        part = self._slices[key]
        passed, failed = (sum(getattr(one, word) for one in part.checks) for word in ("passed", "failed"))
        return SliceRates(*key, passed, failed, part.outcomes.statistics({}))

    @property
    def failing(self) -> list[FailingCase]:
        """The first cases that did not pass, in the order of their ids (`case-2` before `case-10`)."""
        return list(self._failing)

    @property
    def failed_cases(self) -> int:
        """The number of cases that did not pass, or were not measured."""
        outcomes = self._all.outcomes.outcomes
        return sum(cases for (outcome, _), cases in outcomes.items() if outcome in FAILED + ERROR + SKIPPED)

    def quantile(self, check: str, share: float, name: str = "score") -> float | None:
        """The approximate quantile of the numbers of a check, within 1% of a value at that rank; None without one."""
        if not 0 <= share <= 1:
            raise InvalidRequest(Problem("share", f"expected a number from 0 to 1, got {share!r}"))
        sums = self._numbers.get((check, name))
        return None if sums is None else sums.quantile(share)

    def add(self, other: "Summary") -> None:
        """Add the summary of other cases. Raises InvalidRequest for other checks, and for a case that is in both."""
        if (self.labels, self.dimensions) != (other.labels, other.dimensions):
            raise InvalidRequest(Problem("parts", _other(self, other)))
        if not self._ids.merge(other._ids):
            raise InvalidRequest(Problem("parts", SEVERAL))
        self.results += other.results
        self.bad_rows += other.bad_rows
        self.statuses += other.statuses
        self._all.merge(other._all)
        for key, part in other._slices.items():
            self._slice_part(key).merge(part)
        for key, sums in other._numbers.items():
            self._numbers.setdefault(key, NumberSums(key[1], sums.limits)).merge(sums)
        self._failing = sorted([*self._failing, *other._failing], key=_order)[:CASES]

    def _slice_part(self, key: tuple[str, str]) -> _Part:
        if key not in self._slices:
            if len(self._slices) >= MAX_SLICES:
                raise too_many_slices(key[0])
            self._slices[key] = _Part(self.labels)
        return self._slices[key]

    @classmethod
    def of(cls, results: Any) -> "Summary":
        """The summary of results of a scorer: a RecordBatch, a table or a data frame."""
        table = ResultTable(results)
        summary = cls(table.labels, table.dimensions)
        summary.results, summary.bad_rows, summary.statuses = len(table), table.bad_rows, table.statuses()
        summary._all.add(table.patterns(), table.groups())
        for key, patterns, groups in table.slices():
            summary._slice_part(key).add(patterns, groups)
        for label, name, limits, cases in table.numbers():
            sums = summary._numbers.setdefault((label, name), NumberSums(name, limits))
            for answers in cases:
                sums.add_case(answers)
        summary._failing = sorted(table.failing(), key=_order)[:CASES]
        summary._ids = IdSample(table.ids())
        return summary


def summarize(parts: Iterable[Any]) -> Summary:
    """
    The summary of all parts, in any order: results of a scorer (a RecordBatch, a table or a data frame), or summaries.

        total = assay.batch.summarize(summarize([results]) for results in parts)

    Rates, means and their intervals, slices and first failures are those of one process over all rows. All results of a
    case stand in one part: a case that a sample of the ids finds in several parts is refused.
    """
    total: Summary | None = None
    for part in parts:
        summary = part if isinstance(part, Summary) else Summary.of(part)
        if total is None:
            total = Summary(summary.labels, summary.dimensions)
        total.add(summary)
    if total is None:
        raise InvalidRequest(Problem("parts", "expected results or summaries, got none"))
    return total


def _order(case: FailingCase) -> tuple[int, str, list[int]]:
    return len(case.id), case.id, case.trials


def _other(one: Summary, other: Summary) -> str:
    def text(summary: Summary) -> str:
        by = f" by {', '.join(summary.dimensions)}" if summary.dimensions else ""
        return f"{', '.join(summary.labels)}{by}"

    return f"expected results of one list of checks, got {text(one)} and {text(other)}"
