"""
Pairs the cases of runs by id, and averages the trials of each case.

Two runs are paired if at least half of the cases of the smaller one are in both, or if one of them is a part of a run
and they share a case. Otherwise they are runs over different cases, as two windows of traces: all cases of both count.

Runs have up to millions of results, and a server compares them in a thread: every loop gives other tenants their turn.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isnan
from typing import Any

from msgspec import Struct

from assay.comparison.metric import Quantile
from assay.comparison.run_scores import RunScores, Series, chosen_metric
from assay.concurrency.loop_budget import PART, paced, spend
from assay.errors import InvalidRequest, Problem
from assay.errors.door import hint_of, place_of
from assay.stats.bootstrap import LEAST_CASES, MOST_CASES, bootstrap_interval
from assay.stats.distributions import numpy
from assay.stats.paired import PairedResult

ABSENT, MEASURED, UNMEASURED = 0, 1, 2


class CaseIndex:
    """The cases of several runs, numbered as they first appear; and the number of the case of every row."""

    def __init__(self, runs: Sequence[RunScores]) -> None:
        self.runs = runs
        hashes = array("q")
        for run in runs:
            hashes.extend(run.hashes)
        distinct = _distinct(hashes)
        self.count = len(distinct)
        numbers = array("q", [-1]) * self.count
        self.cases_of_rows = [array("I") for _ in runs]
        following = 0
        for run, cases in zip(runs, self.cases_of_rows, strict=True):
            for one in paced(run.hashes):
                at = bisect_left(distinct, one)
                if numbers[at] < 0:
                    numbers[at] = following
                    following += 1
                cases.append(numbers[at])
        self._first_rows = [_first_rows(cases, self.count) for cases in self.cases_of_rows]

    def row_of(self, run: int, case: int) -> int:
        """The first row of a case in a run; -1 if the run does not have it."""
        return self._first_rows[run][case]

    def cases_in(self, run: int) -> int:
        """How many cases a run has."""
        return sum(row >= 0 for row in self._first_rows[run])

    def cases_in_both(self, run: int) -> int:
        """How many cases the first run and this one share."""
        first, other = self._first_rows[0], self._first_rows[run]
        return sum(here >= 0 <= there for here, there in paced(zip(first, other, strict=True)))

    def id_of(self, case: int) -> str:
        for run, rows in zip(self.runs, self._first_rows, strict=True):
            if rows[case] >= 0:
                return run.id_of(rows[case])
        raise AssertionError("a case without a row")

    def slices_of(self, run: int, dimension: str) -> "array[int]":
        """For each case, the number of its set of slices in this run; 0: the run does not say."""
        found, sets = array("I", bytes(4 * self.count)), self.runs[run].slices[dimension]
        for row, case in enumerate(paced(self.cases_of_rows[run])):
            if not found[case]:
                found[case] = sets[row]
        return found


def _distinct(hashes: "array[int]") -> "array[int]":
    """The distinct hashes in order. Hashes spread evenly, so their upper bits divide them into equal parts."""
    bits = (len(hashes) // PART).bit_length()
    parts = [array("q") for _ in range(1 << bits)]
    for one in paced(hashes):
        parts[(one >> (64 - bits)) + len(parts) // 2].append(one)
    found = array("q")
    for part in parts:
        spend()
        last = None
        for one in sorted(part):
            if one != last:
                found.append(one)
                last = one
    return found


def _first_rows(cases: "array[int]", count: int) -> "array[int]":
    rows = array("q", [-1]) * count
    for row in paced(range(len(cases) - 1, -1, -1)):
        rows[cases[row]] = row
    return rows


class CaseValues:
    """The mean of each case over its trials in one run. With an unmeasured trial, only its bounds are known."""

    def __init__(self, index: CaseIndex, run: int, series: Series | None) -> None:
        count = index.count
        self._index, self._run = index, run
        self._sums, self._measured, self._trials = (
            array("d", bytes(8 * count)), array("I", bytes(4 * count)), array("I", bytes(4 * count)),
        )  # fmt: skip
        if series is None:
            return
        cases, weights = index.cases_of_rows[run], index.runs[run].trials
        for row, value in paced(zip(series.rows, series.values, strict=True)):
            case, trials = cases[row], weights[row]
            self._trials[case] += trials
            if not isnan(value):
                self._measured[case] += trials
                self._sums[case] += value * trials

    def status(self, case: int) -> int:
        if not self._trials[case]:
            return ABSENT
        return MEASURED if self._measured[case] == self._trials[case] else UNMEASURED

    def has_case(self, case: int) -> bool:
        """Whether the run has the case, with or without a value."""
        return self._index.row_of(self._run, case) >= 0

    def counts(self) -> Iterator[tuple[int, int, float]]:
        """For each case its trials, those that were measured, and the sum of their values."""
        return zip(self._trials, self._measured, self._sums, strict=True)

    def mean(self, case: int) -> float | None:
        """The mean of a case; None: it was not measured, or the run does not have it."""
        return self._sums[case] / self._trials[case] if self.status(case) == MEASURED else None

    def bounds(self, case: int) -> tuple[float, float]:
        """The least and the largest mean that an unmeasured case between 0 and 1 could have."""
        trials = self._trials[case]
        if not trials:
            return 0.0, 1.0
        low = self._sums[case] / trials
        return low, low + (trials - self._measured[case]) / trials


class CasePair(Struct, frozen=True):
    """A case that both runs measured."""

    case: int
    before: float
    after: float
    single_trial: bool


class Pairing:
    """The cases of two runs: those that both measured, those that one did not, and those that only one has."""

    def __init__(self, index: CaseIndex, before: CaseValues, after: CaseValues) -> None:
        self._index, self._before, self._after = index, before, after

    def pairs(self) -> Iterator[CasePair]:
        both = zip(self._before.counts(), self._after.counts(), strict=True)
        for case, (here, there) in enumerate(paced(both)):
            (trials, measured, total), (others, others_measured, others_total) = here, there
            if trials and others and measured == trials and others_measured == others:
                yield CasePair(case, total / trials, others_total / others, trials == 1 == others)

    def unmeasured(self) -> Iterator[tuple[int, tuple[float, float]]]:
        """The cases that both runs have and one did not measure, with the least and the largest possible difference."""
        before, after = self._before, self._after
        for case, (here, there) in enumerate(self._states()):
            if ABSENT not in (here, there) and UNMEASURED in (here, there):
                (low, high), (least, largest) = before.bounds(case), after.bounds(case)
                yield case, (least - high, largest - low)

    def only(self) -> tuple[list[int], list[int]]:
        """The cases that only the first run has, and those that only the second has."""
        states = list(self._states())
        return (
            [case for case, (here, there) in enumerate(states) if here and not there],
            [case for case, (here, there) in enumerate(states) if there and not here],
        )

    def _states(self) -> Iterator[tuple[int, int]]:
        """The states of every case. One that has a value in the other run alone is unmeasured."""
        before, after = self._before, self._after
        for case in paced(range(self._index.count)):
            here, there = before.status(case), after.status(case)
            if here and not there and after.has_case(case):
                there = UNMEASURED
            elif there and not here and before.has_case(case):
                here = UNMEASURED
            yield here, there


class RunCase(Struct, frozen=True):
    """A case of one run. `mean` is None if it was not measured; `limits` are those that its mean could have."""

    case: int
    mean: float | None
    limits: tuple[float, float]
    single_trial: bool


def run_cases(values: CaseValues, *, is_whole: bool) -> Iterator[RunCase]:
    """
    The cases of a run that have a value or should have one.

    `is_whole`: the metric is one that every case has, so a case without a value was not measured.
    """
    for case, (trials, measured, total) in enumerate(paced(values.counts())):
        if trials and trials == measured:
            yield RunCase(case, total / trials, (0.0, 1.0), trials == 1)
        elif trials or (is_whole and values.has_case(case)):
            yield RunCase(case, None, values.bounds(case), single_trial=False)


class PairedRuns:
    """
    Runs beside the first of them, case by case. `pairings[at]` has the run number `at`, from 1.

    `unpaired` are the numbers of the runs whose cases are not paired with those of the first.
    """

    def __init__(self, runs: Sequence[RunScores]) -> None:
        """Raises InvalidRequest if the runs have no metric in common."""
        self.runs, self.metric, self.index = runs, chosen_metric(runs), CaseIndex(runs)
        self.values = [
            CaseValues(self.index, at, run.metrics[self.metric.name]) for at, run in enumerate(runs)
        ]
        self.pairings = {
            at: Pairing(self.index, self.values[0], other) for at, other in enumerate(self.values[1:], 1)
        }
        self.in_both = {at: self.index.cases_in_both(at) for at in self.pairings}
        self.unpaired = frozenset(at for at in self.pairings if not self._is_paired(at))

    def _is_paired(self, at: int) -> bool:
        """Whether at least half of the cases of the smaller run are in both, or one of them is a part of a run."""
        if self.in_both[at] and (self.runs[0].part or self.runs[at].part):
            return True
        smaller = min(self.index.cases_in(0), self.index.cases_in(at))
        return 2 * self.in_both[at] >= smaller

    def positions(self, at: int, cases: Sequence[int], trials: int) -> list[int | None]:
        """The number of each case in a run, whose cases have this many trials."""
        run, every = self.runs[at], self.index.cases_of_rows[at]
        if run.is_eval:
            tasks = {case: number for number, case in enumerate(every[run.tasks :])}
            return [tasks.get(case) for case in cases]
        rows = [self.index.row_of(at, case) for case in cases]
        return [None if row < 0 else row // trials for row in rows]

    def cases(self, at: int) -> Iterator[RunCase]:
        """The cases of a run by the metric."""
        return run_cases(self.values[at], is_whole=self.metric.kind != "check")


class CaseGroups(Struct, frozen=True):
    """The cases of two runs that were not measured, and those that only one of them has."""

    unmeasured: list[int]
    only_before: list[int]
    only_after: list[int]


def case_groups(paired: PairedRuns, at: int) -> CaseGroups:
    """The groups in the order of the runs. No case is in two of them."""
    pairing = paired.pairings[at]
    only_before, only_after = pairing.only()
    if at not in paired.unpaired:
        return CaseGroups([case for case, _ in pairing.unmeasured()], only_before, only_after)
    found = dict.fromkeys(case.case for run in (0, at) for case in paired.cases(run) if case.mean is None)
    return CaseGroups(
        list(found),
        [case for case in only_before if case not in found],
        [case for case in only_after if case not in found],
    )


# Compares medians and 95th percentiles of two runs: metrics that are not means, by the BCa bootstrap.


class QuantileValues(Struct, frozen=True):
    """The values of two runs whose quantile is compared."""

    quantile: Quantile
    before: list[float]
    after: list[float]
    is_paired: bool

    def interval(self, level: float) -> PairedResult:
        """The difference with its interval; without one, if there are too few cases for a bootstrap, or too many."""
        sizes = None if self.is_paired else (len(self.before), len(self.after))
        n = len(self.before) if self.is_paired else len(self.before) + len(self.after)
        if not (self.before and self.after):
            return PairedResult(None, None, None, None, None, level, "none", n, sizes=sizes)
        if min(len(self.before), len(self.after)) < LEAST_CASES or max(map(len, self._both)) > MOST_CASES:
            first, second = (
                float(_STATISTICS[self.quantile](numpy().asarray(one), -1)) for one in self._both
            )
            return PairedResult(first, second, second - first, None, None, level, "none", n, sizes=sizes)
        statistic = _STATISTICS[self.quantile]
        return bootstrap_interval(statistic, *self._both, level=level, is_paired=self.is_paired)

    @property
    def _both(self) -> tuple[list[float], list[float]]:
        return self.before, self.after


def quantile_values(
    quantile: Quantile, values: tuple[CaseValues, CaseValues], index: CaseIndex, *, is_paired: bool
) -> QuantileValues:
    """The values of the cases that both runs measured; of runs that are not paired, those of each."""
    if is_paired:
        pairs = list(Pairing(index, *values).pairs())
        return QuantileValues(quantile, [one.before for one in pairs], [one.after for one in pairs], True)
    before, after = (
        [one.mean for one in run_cases(each, is_whole=True) if one.mean is not None] for each in values
    )
    return QuantileValues(quantile, before, after, False)


def quantile_interval(paired: PairedRuns, quantile: Quantile, level: float) -> PairedResult:
    """The difference of the quantile of two runs. Raises InvalidRequest for too few cases, or too many."""
    name, is_paired = paired.metric.name, 1 not in paired.unpaired
    found = quantile_values(quantile, (paired.values[0], paired.values[1]), paired.index, is_paired=is_paired)
    before, after = found.before, found.after
    try:
        return bootstrap_interval(_STATISTICS[quantile], before, after, level=level, is_paired=is_paired)
    except InvalidRequest as refusal:
        mean = name.partition(":")[0]
        raise InvalidRequest(
            Problem(place_of("metric", name), f"{refusal}: {hint_of('metric', mean)}")
        ) from None


def _median(values: Any, axis: int) -> Any:
    return numpy().median(values, axis=axis)


def _p95(values: Any, axis: int) -> Any:
    """By nearest rank, as scorecards have it."""
    return numpy().quantile(values, 0.95, axis=axis, method="inverted_cdf")


_STATISTICS: Mapping[Quantile, Callable[[Any, int], Any]] = {"median": _median, "p95": _p95}


def other_inputs(index: CaseIndex, at: int) -> list[int]:
    """The cases with one id and two inputs: they are probably not the same case."""
    first, second = index.runs[0].inputs, index.runs[at].inputs
    found: list[int] = []
    for case in paced(range(index.count)):
        here, there = index.row_of(0, case), index.row_of(at, case)
        if here >= 0 and there >= 0 and first[here] and second[there] and first[here] != second[there]:
            found.append(case)
    return found
