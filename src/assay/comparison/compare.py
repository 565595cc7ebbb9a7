"""Compares runs with the first of them: the verdict, the cases that changed, slices, and what was not measured."""

from collections import Counter
from collections.abc import Sequence
from heapq import nsmallest

from msgspec import Struct

from assay.comparison.metric import Metric
from assay.comparison.pair_notes import notes_of, nothing_shared
from assay.comparison.pairing import (
    CaseIndex,
    CasePair,
    CaseValues,
    PairedRuns,
    Pairing,
    other_inputs,
    quantile_interval,
)
from assay.comparison.run_scores import GROUPINGS, RunScores, Series
from assay.concurrency.loop_budget import spend
from assay.errors import InvalidRequest, Problem
from assay.errors.door import hint_of, place_of
from assay.results.slices import NONE
from assay.stats.paired import LEVEL, PairedResult, PairedSample
from assay.stats.power import cases_to_show, sensitivity
from assay.stats.verdict import UnmeasuredBounds, Verdict, holm, tost_p, unmeasured_bounds, verdict

MAX_IDS = 1_000  # ids in one list of a document
MAX_BOUNDED = 100_000  # unmeasured cases whose bounds are computed; with more there is no verdict


class CaseList(Struct, frozen=True):
    """Some cases: how many, and the ids of the first."""

    count: int
    ids: tuple[str, ...] = ()


class CaseDifference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case whose value differs. The reasons are content; they are read from the results afterwards."""

    id: str
    before: float
    after: float
    better: bool
    reason_before: str = ""
    reason_after: str = ""


class DifferenceInterval(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A difference with its interval and the verdict that follows from it."""

    before: float | None
    after: float | None
    difference: float | None
    low: float | None
    high: float | None
    level: float
    method: str
    cases: int
    verdict: Verdict
    p_value: float | None = None
    mcnemar_p: float | None = None
    adjusted_p: float | None = None
    equivalence_p: float | None = None
    unmeasured: UnmeasuredBounds | None = None
    margin: float | None = None
    measured_verdict: Verdict | None = None  # of the measured cases, if unmeasured ones took it away


class SliceDifference(Struct, frozen=True, kw_only=True):
    """The difference of one slice. Its interval is adjusted for the number of slices (Holm)."""

    by: str
    slice: str
    result: DifferenceInterval

    def gain(self, metric: Metric) -> float:
        """How much better the slice is. Checks and criteria are compared by their scores."""
        is_lower_better = metric.lower_is_better and self.by not in GROUPINGS
        return (self.result.difference or 0.0) * (-1 if is_lower_better else 1)


class PairComparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A run beside the first run.

    `span` is the largest difference that a case can have, if it is known. `more_cases` would settle the margin.
    `more_to_show` would show a difference as large as the estimate, if the verdict is `not enough data`.
    """

    baseline: str
    run: str
    result: DifferenceInterval
    better: int
    worse: int
    unchanged: int
    unmeasured: CaseList
    only_in_baseline: CaseList
    only_in_run: CaseList
    other_inputs: CaseList
    smallest_effect: float | None = None
    more_cases: int | None = None
    more_to_show: int | None = None
    span: float | None = None
    changes: tuple[CaseDifference, ...] = ()
    slices: tuple[SliceDifference, ...] = ()
    notes: tuple[str, ...] = ()
    baseline_name: str = ""  # that a user gave to the run; `baseline` and `run` are ids or files
    run_name: str = ""

    @property
    def baseline_title(self) -> str:
        """What a text for people calls the baseline: its name, with its id if the run has the same name."""
        if self.baseline_name and self.baseline_name == self.run_name:
            return f"{self.baseline_name} ({self.baseline})"
        return self.baseline_name or self.baseline

    @property
    def run_title(self) -> str:
        """What a text for people calls the run, in the same way."""
        if self.run_name and self.baseline_name == self.run_name:
            return f"{self.run_name} ({self.run})"
        return self.run_name or self.run

    @property
    def verdict(self) -> Verdict:
        return self.result.verdict


class RunComparison(Struct, frozen=True, kw_only=True):
    """Runs beside the first of them. With several, the intervals are adjusted for their number (Holm)."""

    metric: str
    lower_is_better: bool
    margin: float | None
    comparisons: tuple[PairComparison, ...]


class _Sample:
    """The pairs of one group of cases, and the ranges of those that were not measured."""

    def __init__(self, span: float | None) -> None:
        self.pairs = PairedSample(span)
        self.ranges: list[tuple[float, float]] = []

    def add(self, pair: CasePair) -> None:
        self.pairs.add(pair.before, pair.after, single_trial=pair.single_trial)

    def result(self, paired: PairedResult, margin: float | None, metric: Metric) -> DifferenceInterval:
        is_mean = metric.quantile is None
        bounds = self._bounds(paired.level, is_mean=is_mean)
        decided = verdict(paired, margin, bounds=bounds, lower_is_better=metric.lower_is_better)
        measured = verdict(paired, margin, lower_is_better=metric.lower_is_better)
        return DifferenceInterval(
            before=paired.before,
            after=paired.after,
            difference=paired.estimate,
            low=paired.low,
            high=paired.high,
            level=paired.level,
            method=paired.method,
            cases=paired.n,
            verdict=decided,
            p_value=paired.p_value,
            mcnemar_p=paired.mcnemar_p,
            adjusted_p=paired.adjusted_p,
            equivalence_p=tost_p(self.pairs, margin)
            if margin is not None and paired.n > 1 and is_mean
            else None,
            unmeasured=bounds,
            margin=margin,
            measured_verdict=None if measured == decided else measured,
        )

    def _bounds(self, level: float, *, is_mean: bool) -> UnmeasuredBounds | None:
        if not self.ranges:
            return None
        if len(self.ranges) > MAX_BOUNDED or not self.pairs.n or not is_mean:
            return UnmeasuredBounds(len(self.ranges), None, None, None, None)
        return unmeasured_bounds(self.pairs, self.ranges, level)


def compare_runs(
    runs: Sequence[RunScores], *, margin: float | None = None, limit: int = 10, level: float = LEVEL
) -> RunComparison:
    """
    Compare each run with the first.

    This is the one function that gives a verdict: the command, REST, gates and policies call it.

    `limit` is the number of changed cases that are listed. Raises InvalidRequest if there is nothing to compare.
    """
    return compare_paired(PairedRuns(runs), margin=margin, limit=limit, level=level)


def compare_paired(
    paired: PairedRuns, *, margin: float | None = None, limit: int = 10, level: float = LEVEL
) -> RunComparison:
    """Compare runs whose cases are paired already."""
    runs, metric, index, pairings = paired.runs, paired.metric, paired.index, paired.pairings
    span = _span(runs, metric)
    if margin is not None and span is not None and margin >= span:
        raise InvalidRequest(
            Problem(
                place_of("margin"),
                f"expected a number below {span:g}, the largest difference, got {margin:g}",
            )
        )
    samples: dict[int, _Sample] = {}
    for at, pairing in pairings.items():
        samples[at] = _filled(pairing, span)
        if not samples[at].pairs.n and not samples[at].ranges:
            raise InvalidRequest(nothing_shared(runs[0], runs[at], index, at))
    if metric.quantile is None:
        results = holm({at: sample.pairs for at, sample in samples.items()}, level)
    else:
        _require_two_runs(runs, metric)
        results = {1: quantile_interval(metric.name, metric.quantile, pairings[1].pairs(), level)}
    slices = _slices(runs, index, paired.values, span, margin, metric, level)
    comparisons = tuple(
        _pair(index, at, pairing, samples[at].result(results[at], margin, metric), samples[at],
              metric, margin, limit, slices[at])
        for at, pairing in pairings.items()
    )  # fmt: skip
    return RunComparison(
        metric=metric.name, lower_is_better=metric.lower_is_better, margin=margin, comparisons=comparisons
    )


def _require_two_runs(runs: Sequence[RunScores], metric: Metric) -> None:
    """Holm's adjustment is over intervals of means, so a quantile has neither slices nor several comparisons."""
    if len(runs) > 2:
        raise InvalidRequest(Problem(place_of("metric", metric.name), f"expected two runs, got {len(runs)}"))
    if runs[0].options.dimensions or runs[0].options.groupings:
        message = f"expected no {hint_of('by')}: slices are compared by means"
        raise InvalidRequest(Problem(place_of("metric", metric.name), message))


def _span(runs: Sequence[RunScores], metric: Metric) -> float | None:
    """1 if every value is between 0 and 1; None if a difference has no limit that is known."""
    if metric.kind == "output":
        return None
    for run in runs:
        if any(value < 0 or value > 1 for value in run.metrics[metric.name].values):
            return None
    return 1.0


def _filled(pairing: Pairing, span: float | None) -> _Sample:
    sample = _Sample(span)
    for pair in pairing.pairs():
        sample.add(pair)
    sample.ranges = [limits for _, limits in pairing.unmeasured()]
    return sample


def _pair(
    index: CaseIndex,
    at: int,
    pairing: Pairing,
    result: DifferenceInterval,
    sample: _Sample,
    metric: Metric,
    margin: float | None,
    limit: int,
    slices: tuple[SliceDifference, ...],
) -> PairComparison:
    baseline, run = index.runs[0], index.runs[at]
    sign = -1 if metric.lower_is_better else 1
    gains = ((pair.after - pair.before) * sign for pair in pairing.pairs())
    signs = Counter((gain > 0) - (gain < 0) for gain in gains)
    worst = nsmallest(
        min(limit, signs[-1]),
        pairing.pairs(),
        key=lambda pair: ((pair.after - pair.before) * sign, pair.case),
    )
    best = nsmallest(
        min(limit - len(worst), signs[1]),
        pairing.pairs(),
        key=lambda pair: ((pair.before - pair.after) * sign, pair.case),
    )
    only_before, only_after = pairing.only()
    power = sensitivity(sample.pairs, margin, result.level) if metric.quantile is None else None
    return PairComparison(
        baseline=baseline.name,
        run=run.name,
        result=result,
        better=signs[1],
        worse=signs[-1],
        unchanged=signs[0],
        unmeasured=_case_list(index, [case for case, _ in pairing.unmeasured()]),
        only_in_baseline=_case_list(index, only_before),
        only_in_run=_case_list(index, only_after),
        other_inputs=_case_list(index, other_inputs(index, at)),
        smallest_effect=None if power is None else power.smallest_effect,
        more_cases=None if power is None else power.more_cases,
        more_to_show=None if power is None else _more_to_show(sample.pairs, result),
        span=sample.pairs.span,
        changes=tuple(
            CaseDifference(
                id=index.id_of(pair.case),
                before=pair.before,
                after=pair.after,
                better=(pair.after - pair.before) * sign > 0,
            )
            for pair in [*worst, *best]
        ),
        slices=slices,
        notes=tuple(notes_of(baseline, run)),
        baseline_name=baseline.given_name,
        run_name=run.given_name,
    )


def _more_to_show(sample: PairedSample, result: DifferenceInterval) -> int | None:
    if result.verdict != "not enough data" or not result.difference:
        return None
    needed = cases_to_show(sample, abs(result.difference), result.level)
    return None if needed is None or needed <= sample.n else needed - sample.n


def _case_list(index: CaseIndex, cases: Sequence[int]) -> CaseList:
    """The ids in the order of the runs."""
    return CaseList(len(cases), tuple(map(index.id_of, cases[:MAX_IDS])))


def _slices(
    runs: Sequence[RunScores],
    index: CaseIndex,
    values: Sequence[CaseValues],
    span: float | None,
    margin: float | None,
    metric: Metric,
    level: float,
) -> list[tuple[SliceDifference, ...]]:
    """For each run, the slices of every grouping, the worst first. Holm adjusts all of one grouping together."""
    found: list[list[SliceDifference]] = [[] for _ in runs]
    options = runs[0].options
    groups: list[tuple[str, dict[tuple[int, str], _Sample]]] = [
        (one.name, _sliced_samples(index, one.name, values, span)) for one in options.dimensions
    ]
    groups += [(grouping, _grouped_samples(index, grouping)) for grouping in options.groupings]
    for by, samples in groups:
        measured = {key: samples[key] for key in sorted(samples) if samples[key].pairs.n}
        adjusted = holm({key: sample.pairs for key, sample in measured.items()}, level)
        compared = metric if by not in options.groupings else Metric(name="score", kind="score")
        for (at, name), sample in measured.items():
            spend()
            result = sample.result(adjusted[at, name], margin, compared)
            found[at].append(SliceDifference(by=by, slice=name, result=result))
    return [tuple(sorted(one, key=lambda part: (part.by, part.gain(metric), part.slice))) for one in found]


def _sliced_samples(
    index: CaseIndex, dimension: str, values: Sequence[CaseValues], span: float | None
) -> dict[tuple[int, str], _Sample]:
    """The samples by run and slice. The first run that has a case says in which slices it is."""
    names = [{number: names for names, number in run.slice_sets[dimension].items()} for run in index.runs]
    numbers = [index.slices_of(at, dimension) for at in range(len(index.runs))]
    samples: dict[tuple[int, str], _Sample] = {}

    def of(at: int, case: int) -> list[_Sample]:
        run = 0 if numbers[0][case] else at
        slices = names[run].get(numbers[run][case], (NONE,))
        return [samples.setdefault((at, name), _Sample(span)) for name in slices]

    for at in range(1, len(index.runs)):
        pairing = Pairing(index, values[0], values[at])
        for pair in pairing.pairs():
            for sample in of(at, pair.case):
                sample.add(pair)
        for case, limits in pairing.unmeasured():
            for sample in of(at, case):
                sample.ranges.append(limits)
    return samples


def _grouped_samples(index: CaseIndex, grouping: str) -> dict[tuple[int, str], _Sample]:
    """The samples by run and check, or by run and criterion, over the cases that have it in both runs."""
    samples: dict[tuple[int, str], _Sample] = {}
    names = [name for by, name in index.runs[0].groups if by == grouping]
    for name in names:
        first = CaseValues(index, 0, index.runs[0].groups[grouping, name])
        for at, run in enumerate(index.runs[1:], 1):
            series = run.groups.get((grouping, name))
            if series is not None:
                pairing = Pairing(index, first, CaseValues(index, at, series))
                samples[at, name] = _filled(
                    pairing, _series_span(index.runs[0].groups[grouping, name], series)
                )
    return samples


def _series_span(*series: Series) -> float | None:
    return None if any(value < 0 or value > 1 for one in series for value in one.values) else 1.0
