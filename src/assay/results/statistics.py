"""The statistics of a run: rates and means with their intervals, pass@k and pass^k (FEP-52)."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from math import fsum
from typing import NamedTuple

from msgspec import Struct

from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED
from assay.results.columns import Column, Pairs, partitions
from assay.stats.intervals import (
    CONFIDENCE,
    Mean,
    Range,
    Rate,
    Shares,
    counted_rate,
    mean_of,
    pass_all_k,
    pass_at_k,
    score_range,
)

MAX_TRIALS = 100  # repeats of a case; pass@k and pass^k are not computed for a larger k
MAX_PATTERNS = 256  # distinct codes that are counted bit by bit
FEW = (
    32  # cases, or distinct outcomes, up to which statistics are cached: small runs often have equal outcomes
)

# The numbers of each check by its label and their name, each with the range that the check declares.
NumberColumns = Mapping[tuple[str, str], tuple[Column, Range | None]]
SCORE = "score"  # the name of a number that is between 0 and 1, if all of them are

# a case has the first of these outcomes that one of its results has
WORST = ERROR + SKIPPED + FAILED + PASSED + UNGRADED
UNMEASURED = ERROR + SKIPPED
Labels = tuple[str, ...]
Group = tuple[tuple[int, int], ...]  # the outcomes of one case: for each repeat, its column and its code
Outcomes = dict[
    tuple[str, int], int
]  # from the outcome of a case and the number of its results to the number of such cases
Clusters = defaultdict[tuple[int, int], int]  # from (passed, answers) of a case to the number of such cases


class CheckStatistics(Struct, frozen=True, omit_defaults=True):
    pass_rate: Rate | None = None
    means: dict[str, Mean] = {}


class Statistics(Struct, frozen=True, omit_defaults=True):
    """
    `pass_rate` is the mean over cases of the share of their checks that passed, `case_pass_rate` that of the trials
    that passed all their checks.

    A case with a check that was not measured, in whichever trial, is not in the case rate. `pass_k[k]` is the
    probability that k repeats of a case all pass all their checks, `pass_at_k[k]` the probability that at least one of
    them does. Both are empty if no case is repeated.
    """

    confidence: float
    pass_rate: Rate | None = None
    case_pass_rate: Rate | None = None
    checks: dict[str, CheckStatistics] = {}
    pass_k: dict[str, Rate] = {}
    pass_at_k: dict[str, Rate] = {}


class Measured(NamedTuple):
    """The statistics, or None if no check has an answer; and the outcomes of the cases."""

    statistics: Statistics | None
    outcomes: Outcomes


def statistics_of(answers: Sequence[tuple[Labels, Column]], numbers: NumberColumns) -> Measured:
    if len(answers) == 1 and not numbers:
        ((labels, column),) = answers
        if not column.is_spilled and column.distinct:
            counts = Counter[int](chain.from_iterable(column.values()))
            if len(counts) <= FEW:
                return _statistics_of_few(labels, frozenset(counts.items()))
    counted = OutcomeCounts([labels for labels, _ in answers])
    counted.add_columns([column for _, column in answers])
    return counted.measured(numbers)


def pass_rate_of(answers: Sequence[tuple[Labels, Column]], chosen: Collection[str]) -> Rate | None:
    """The pass rate of some checks together: one share a case, over all answers of these checks."""
    counted = OutcomeCounts([labels for labels, _ in answers], chosen)
    counted.add_columns([column for _, column in answers])
    return counted.pass_rate


@lru_cache(maxsize=1_024)
def few_statistics(labels: Labels, codes: tuple[int, ...]) -> Measured:
    """`statistics_of` for a few distinct cases, from their sorted codes; cached."""
    return _statistics_of_few(labels, frozenset(Counter(codes).items()))


@lru_cache(maxsize=1_024)
def _statistics_of_few(labels: Labels, outcomes: frozenset[tuple[int, int]]) -> Measured:
    """The statistics of distinct cases, from the number of cases with each code; cached."""
    counted = OutcomeCounts([labels])
    counted.add_unrepeated(Counter(dict(outcomes)))
    return counted.measured({})


def _groups(part: Sequence[Pairs]) -> Counter[Group]:
    """Group the repeats of each case. Returns the number of cases with each distinct group of outcomes."""
    by_id: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for which, (ids, codes) in enumerate(part):
        for id, code in zip(ids, codes, strict=True):
            by_id[id].append((which, code))
    return Counter(tuple(sorted(outcomes)) for outcomes in by_id.values())


class OutcomeCounts:
    """
    Counts cases by (passed, answers): over all checks, for each check, and over repeats that passed all checks.

    `chosen` are the labels of the checks that count over all of them; None: all do.
    """

    def __init__(self, labels: Sequence[Labels], chosen: Collection[str] | None = None) -> None:
        self._labels = labels
        self._masks = [
            sum(1 << at for at, label in enumerate(some) if chosen is None or label in chosen)
            for some in labels
        ]
        self._all: Clusters = defaultdict(int)
        self._checks: dict[str, Clusters] = {label: defaultdict(int) for some in labels for label in some}
        self._trials: Clusters = defaultdict(int)  # of the measured trials
        # the same of the cases that are measured: all their trials are
        self._cases: Clusters = defaultdict(int)
        self._outcomes: Outcomes = {}

    @property
    def pass_rate(self) -> Rate | None:
        return _rate(self._all)

    def add_columns(self, columns: Sequence[Column]) -> None:
        if len(columns) == 1 and columns[0].distinct:
            for codes in columns[0].values():
                self.add_unrepeated(Counter[int](codes))
            return
        for part in partitions(columns):
            if len(part) == 1 and len(set(part[0][0])) == len(part[0][0]):
                self.add_unrepeated(Counter[int](part[0][1]))
            else:
                self.add_groups(_groups(part))

    def add_unrepeated(self, codes: Counter[int]) -> None:
        """Count distinct cases. There is only one column."""
        (labels,) = self._labels
        size = len(labels)
        if len(self._checks) < size:  # several checks share a label
            self.add_groups(Counter({((0, code),): many for code, many in codes.items()}))
            return
        passed, decided = totals(codes, size)
        for label, good, every in zip(labels, passed, decided, strict=True):
            self._checks[label][1, 1] += good
            self._checks[label][0, 1] += every - good
        full, mask = (1 << size) - 1, self._masks[0]
        for code, cases in codes.items():
            good, every = code & full, code >> size & full
            self._count(_outcome(code, size), 1, cases)
            if every & mask:
                self._all[(good & mask).bit_count(), (every & mask).bit_count()] += cases
            if every and not code >> 2 * size:
                self._trials[int(good == every), 1] += cases
                self._cases[int(good == every), 1] += cases

    def add_groups(self, groups: Counter[Group]) -> None:
        for group, cases in groups.items():
            passed: Counter[str] = Counter()
            decided: Counter[str] = Counter()
            trials = trials_passed = good = every = 0
            outcomes = ""
            for which, code in group:
                labels, mask = self._labels[which], self._masks[which]
                size = len(labels)
                good += (code & mask).bit_count()
                every += (code >> size & mask).bit_count()
                outcomes += _outcome(code, size)
                for at, label in enumerate(labels):
                    if code >> size + at & 1:
                        decided[label] += 1
                        passed[label] += code >> at & 1
                full = (1 << size) - 1
                if code >> size & full and not code >> 2 * size:
                    trials += 1
                    trials_passed += code & full == code >> size
            for label, many in decided.items():
                self._checks[label][passed[label], many] += cases
            if every:
                self._all[good, every] += cases
            outcome = min(outcomes, key=WORST.index)
            if trials:
                self._trials[trials_passed, trials] += cases
                if outcome not in UNMEASURED:
                    self._cases[trials_passed, trials] += cases
            self._count(outcome, len(group), cases)

    def _count(self, outcome: str, results: int, cases: int) -> None:
        key = outcome, results
        self._outcomes[key] = self._outcomes.get(key, 0) + cases

    @property
    def outcomes(self) -> Outcomes:
        return self._outcomes

    def add(self, other: "OutcomeCounts") -> None:
        """Add the counts of other cases of the same checks."""
        pairs = ((self._all, other._all), (self._trials, other._trials), (self._cases, other._cases))
        of_checks = ((self._checks[label], counts) for label, counts in other._checks.items())
        for here, there in chain(pairs, of_checks):
            for share, cases in there.items():
                here[share] += cases
        for (outcome, results), cases in other._outcomes.items():
            self._count(outcome, results, cases)

    def measured(self, numbers: NumberColumns) -> Measured:
        means: dict[str, dict[str, Mean]] = {}
        for (label, name), (column, declared) in numbers.items():
            if column.count:
                values = _MeanFold(column)
                limits = declared or (score_range(values) if name == SCORE else None)
                means.setdefault(label, {})[name] = mean_of(values, column.count, limits)
        return Measured(self.statistics(means), self._outcomes)

    def statistics(self, means: Mapping[str, Mapping[str, Mean]]) -> Statistics | None:
        """The rates, with these means of each check by their names; None if no check has an answer."""
        checks: dict[str, CheckStatistics] = {}
        for label in dict.fromkeys([*self._checks, *means]):
            check = CheckStatistics(_rate(self._checks.get(label, {})), dict(means.get(label, {})))
            if check.pass_rate or check.means:
                checks[label] = check
        if not checks:
            return None
        repeats = rates_by_k(self._trials, pass_all_k), rates_by_k(self._trials, pass_at_k)
        return Statistics(CONFIDENCE, self.pass_rate, _rate(self._cases), checks, *repeats)


def _outcome(code: int, size: int) -> str:
    """The outcome of a result with this code."""
    if unmeasured := code >> 2 * size:
        return ERROR if unmeasured > 1 else SKIPPED
    full = (1 << size) - 1
    every = code >> size & full
    return UNGRADED if not every else PASSED if code & full == every else FAILED


def _rate(clusters: Mapping[tuple[int, int], int]) -> Rate | None:
    return _cached_rate(frozenset(clusters.items())) if len(clusters) <= FEW else counted_rate(clusters)


@lru_cache(maxsize=4_096)
def _cached_rate(clusters: frozenset[tuple[tuple[int, int], int]]) -> Rate | None:
    """`counted_rate` with a cache: small runs often have the same rates."""
    return counted_rate(dict(clusters))


def totals(codes: Counter[int], size: int) -> tuple[list[int], list[int]]:
    """For each check, the number of passes, and the number of passes and failures."""
    if len(codes) <= MAX_PATTERNS and codes.total() > 4 * len(codes):
        bits = [sum(many for code, many in codes.items() if code >> at & 1) for at in range(2 * size)]
        return bits[:size], bits[size:]
    width = 2 * size + 2
    text = "".join([f"{code:0{width}b}" for code in codes.elements()])
    bits = [text[width - 1 - at :: width].count("1") for at in range(2 * size)]
    return bits[:size], bits[size:]


@lru_cache(maxsize=1_024)
def few_totals(codes: tuple[int, ...], size: int) -> tuple[list[int], list[int]]:
    """`totals` of a few sorted codes; cached. Callers must not change the lists."""
    return totals(Counter(codes), size)


class _MeanFold:
    """An iterable over the mean of each case's numbers. It can be iterated several times."""

    def __init__(self, column: Column) -> None:
        self._column = column

    def __iter__(self) -> Iterator[float]:
        if self._column.distinct:
            for values in self._column.values():
                yield from values
            return
        for ((ids, values),) in partitions([self._column]):
            by_id: defaultdict[int, list[float]] = defaultdict(list)
            for id, value in zip(ids, values, strict=True):
                by_id[id].append(value)
            yield from map(_mean, by_id.values())


def _mean(values: Sequence[float]) -> float:
    return fsum(value / len(values) for value in values)


def rates_by_k(trials: Shares, estimate: Callable[[Shares, int], Rate | None]) -> dict[str, Rate]:
    """
    pass^k or pass@k for every k up to the largest number of trials of a case. It is empty if no case is repeated.

    The rate is the mean over the cases with at least k measured trials.
    """
    largest = max((many for _, many in trials), default=0)
    rates: dict[str, Rate] = {}
    for k in range(1, min(largest, MAX_TRIALS) + 1 if largest > 1 else 1):
        rate = estimate({case: number for case, number in trials.items() if case[1] >= k}, k)
        assert rate is not None
        rates[str(k)] = rate
    return rates
