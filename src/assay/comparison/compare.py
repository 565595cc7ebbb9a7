"""Compares runs with the first of them: the verdict, the cases that changed, slices, and what was not measured."""

from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import nsmallest

from msgspec import Struct
from msgspec.structs import replace

from assay.comparison.difference import (
    DifferenceInterval,
    SamplingRates,
    SliceDifference,
    SliceMix,
    Standardization,
)
from assay.comparison.metric import Metric
from assay.comparison.metric_table import MetricDifference, metric_differences
from assay.comparison.pairing import (
    CaseIndex,
    PairedRuns,
    case_groups,
    other_inputs,
    quantile_interval,
)
from assay.comparison.run_scores import RunScores
from assay.comparison.samples import CaseSample
from assay.comparison.slice_samples import slice_differences, slice_mixes, standardized_sample, whole_sample
from assay.errors import InvalidRequest, Problem
from assay.errors.door import hint_of, place_of
from assay.stats.number_text import percent
from assay.stats.paired import LEVEL
from assay.stats.verdict import Verdict, holm

MAX_IDS = 1_000  # ids in one list of a document
A_PART = "a part of a run"


class CaseList(Struct, frozen=True):
    """Some cases: how many, and the ids of the first."""

    count: int
    ids: tuple[str, ...] = ()


class ChangeReasons(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a case has its values. The reasons quote the tested system: they are data, never an instruction."""

    reason_before: str = ""
    reason_after: str = ""


class CaseDifference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case whose value differs. The reasons in `data` are content; they are read from the results afterwards."""

    id: str
    before: float
    after: float
    better: bool
    data: ChangeReasons = ChangeReasons()


class PairComparison(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    A run beside the first run.

    `span` is the largest difference that a case can have, if it is known. `more_cases` would settle the margin.
    `more_to_show` would show a difference as large as the estimate, if the verdict is `not enough data`.

    `unpaired`: fewer than half of the cases of the smaller run are in both. Then all cases of both runs count, no case
    is better or worse, and `more_cases` and `more_to_show` are those that each run needs.
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
    metrics: tuple[MetricDifference, ...] = ()  # every one, if that is asked for
    notes: tuple[str, ...] = ()
    part: bool = False  # of one of the runs only a part was run: nothing is known of its other cases
    by_outcome: bool = False  # that part was chosen because its cases did not pass, so there is no verdict
    unpaired: bool = False
    in_both: int = 0  # cases of both runs, if they are not paired
    mixes: tuple[SliceMix, ...] = ()  # that differ between runs that are not paired
    standardized: Standardization | None = None
    sampling: SamplingRates | None = None  # if they differ
    baseline_name: str = ""  # that a user gave to the run; `baseline` and `run` are ids or files
    run_name: str = ""
    differs: tuple[str, ...] = ()  # what tells the runs apart: commit, model, agent, tags, command

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


def compare_runs(
    runs: Sequence[RunScores], *, margin: float | None = None, limit: int = 10, level: float = LEVEL
) -> RunComparison:
    """
    Compare each run with the first.

    This is the one function that gives a verdict: the command, REST, gates and policies call it.

    `limit` is the number of changed cases that are listed. Raises InvalidRequest if there is nothing to compare.
    """
    metrics = runs[0].options.every_metric if runs else False
    return compare_paired(PairedRuns(runs), margin=margin, limit=limit, level=level, metrics=metrics)


def compare_paired(
    paired: PairedRuns,
    *,
    margin: float | None = None,
    limit: int = 10,
    level: float = LEVEL,
    metrics: bool = False,
) -> RunComparison:
    """Compare runs whose cases are paired already. With `metrics`, by every metric too."""
    runs, metric, pairings = paired.runs, paired.metric, paired.pairings
    span = _span(runs, metric)
    if margin is not None and span is not None and margin >= span:
        raise InvalidRequest(
            Problem(
                place_of("margin"),
                f"expected a number below {span:g}, the largest difference, got {margin:g}",
            )
        )
    samples: dict[int, CaseSample] = {}
    standardized: dict[int, Standardization] = {}
    standard = runs[0].options.standard
    if metric.quantile is not None:
        _require_two_runs(runs, metric)
    for at in pairings:
        samples[at] = whole_sample(paired, at, span)
        is_apart = (runs[0].part or runs[at].part) and not paired.in_both[at]
        if is_apart or (not samples[at].measured and not samples[at].unmeasured):
            raise InvalidRequest(_nothing_shared(paired, at))
        if standard is not None and at in paired.unpaired and samples[at].measured:
            samples[at], standardized[at] = standardized_sample(paired, at, span, standard.name)
    if metric.quantile is None:
        results = holm(samples, level)
    else:
        results = {1: quantile_interval(paired, metric.quantile, level)}
    slices = slice_differences(paired, span, margin, level)
    comparisons = tuple(
        _pair(paired, at, sample.result(results[at], margin, metric), sample, limit, slices[at],
              standardized.get(at))
        for at, sample in samples.items()
    )  # fmt: skip
    if metrics:
        every = metric_differences(paired, margin, level)
        comparisons = tuple(
            replace(one, metrics=every[at]) for at, one in zip(samples, comparisons, strict=True)
        )
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
    if runs[0].options.standard is not None:
        message = f"expected no {hint_of('standardize-by')}: means are standardized"
        raise InvalidRequest(Problem(place_of("metric", metric.name), message))


def _span(runs: Sequence[RunScores], metric: Metric) -> float | None:
    """1 if every value is between 0 and 1; None if a difference has no limit that is known."""
    if metric.kind == "output":
        return None
    for run in runs:
        if any(value < 0 or value > 1 for value in run.metrics[metric.name].values):
            return None
    return 1.0


def _pair(
    paired: PairedRuns,
    at: int,
    result: DifferenceInterval,
    sample: CaseSample,
    limit: int,
    slices: tuple[SliceDifference, ...],
    standardized: Standardization | None,
) -> PairComparison:
    index, metric = paired.index, paired.metric
    baseline, run = index.runs[0], index.runs[at]
    is_unpaired = at in paired.unpaired
    by_outcome = baseline.by_outcome or run.by_outcome
    if by_outcome:
        result = _without_verdict(result)
        slices = tuple(replace(one, result=_without_verdict(one.result)) for one in slices)
    no_power = by_outcome or metric.quantile is not None
    power = None if no_power else sample.sensitivity(result.margin, result.level)
    groups = case_groups(paired, at)
    found = PairComparison(
        baseline=baseline.name,
        run=run.name,
        result=result,
        better=0,
        worse=0,
        unchanged=0,
        unmeasured=_case_list(index, groups.unmeasured),
        only_in_baseline=_case_list(index, groups.only_before),
        only_in_run=_case_list(index, groups.only_after),
        other_inputs=CaseList(0),
        smallest_effect=None if power is None else power.smallest_effect,
        more_cases=None if power is None else power.more_cases,
        more_to_show=None if power is None else _more_to_show(sample, result),
        span=sample.span,
        slices=slices,
        notes=tuple(_notes_of(baseline, run, is_paired=not is_unpaired)),
        baseline_name=baseline.given_name,
        run_name=run.given_name,
        part=bool(baseline.part or run.part),
        by_outcome=by_outcome,
        unpaired=is_unpaired,
        in_both=paired.in_both[at] if is_unpaired else 0,
        mixes=slice_mixes(paired, at),
        standardized=standardized,
        sampling=_sampling(baseline, run),
        differs=tuple(_differs(baseline, run)),
    )
    return found if is_unpaired else _with_changes(found, paired, at, limit)


def _without_verdict(result: DifferenceInterval) -> DifferenceInterval:
    """The difference of cases that were chosen by their outcome: chance alone would make it."""
    return replace(result, verdict="not enough data", measured_verdict=None)


def _with_changes(found: PairComparison, paired: PairedRuns, at: int, limit: int) -> PairComparison:
    """The comparison with what became of each pair."""
    index, pairing = paired.index, paired.pairings[at]
    sign = -1 if paired.metric.lower_is_better else 1
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
    return replace(
        found,
        better=signs[1],
        worse=signs[-1],
        unchanged=signs[0],
        other_inputs=_case_list(index, other_inputs(index, at)),
        changes=tuple(
            CaseDifference(
                id=index.id_of(pair.case),
                before=pair.before,
                after=pair.after,
                better=(pair.after - pair.before) * sign > 0,
            )
            for pair in [*worst, *best]
        ),
    )


def _differs(baseline: RunScores, run: RunScores) -> Iterable[str]:
    """`commit 1f3a9c2b7d → 88c1d02e4f`: what is recorded of both runs and differs, or is recorded of one."""
    before, after = baseline.about, run.about
    for name in dict.fromkeys((*before, *after)):
        if before.get(name) != after.get(name):
            yield f"{name} {before.get(name, 'none')} → {after.get(name, 'none')}"


def _sampling(baseline: RunScores, run: RunScores) -> SamplingRates | None:
    """The sampling rates of two windows of traces, if they differ."""
    before, after = baseline.sampling.rate, run.sampling.rate
    if before is None or after is None or abs(before - after) <= 1e-9 * max(before, after):
        return None
    return SamplingRates(before=before, after=after)


def _more_to_show(sample: CaseSample, result: DifferenceInterval) -> int | None:
    if result.verdict != "not enough data" or not result.difference:
        return None
    return sample.more_to_show(abs(result.difference), result.level)


def _case_list(index: CaseIndex, cases: Sequence[int]) -> CaseList:
    """The ids in the order of the runs."""
    return CaseList(len(cases), tuple(map(index.id_of, cases[:MAX_IDS])))


# What a reader must know about two runs before their difference, and why there may be none.


def _notes_of(baseline: RunScores, run: RunScores, *, is_paired: bool) -> Iterable[str]:
    """
    Runs that are not complete, parts of runs, checks that only one of them has, and a standardization that does
    nothing.
    """
    for one in (baseline, run):
        if one.incomplete:
            yield f"{one.title} is not complete: {one.incomplete}"
        if one.part:
            yield f"{one.title} is {A_PART}: {one.part}; nothing is known of the others"
    if baseline.by_outcome or run.by_outcome:
        yield (
            "there is no verdict, because cases that are chosen for their failures look better by chance when they run"
            " again: run all cases for a verdict"
        )
    if baseline.checks and run.checks and baseline.checks.keys() != run.checks.keys():
        removed = [name for name in baseline.checks if name not in run.checks]
        added = [name for name in run.checks if name not in baseline.checks]
        parts = [f"only in {baseline.title}: {', '.join(removed[:5])}"] if removed else []
        parts += [f"only in {run.title}: {', '.join(added[:5])}"] if added else []
        yield f"the runs have different checks; {'; '.join(parts)}"
    for one in (baseline, run):
        if (spread := one.sampling.spread) is not None:
            low, high = map(percent, spread)
            yield f"the traces of {one.title} were sampled at different rates, {low} to {high}; each counts once"
    standard = baseline.options.standard
    if is_paired and standard is not None:
        yield f"the cases are paired, so both runs have one mix by {standard.name}: nothing is standardized"


def _nothing_shared(paired: PairedRuns, at: int) -> str:
    """Why two runs have no case to compare. `at` is the number of the run."""
    baseline, run = paired.runs[0], paired.runs[at]
    if (baseline.part or run.part) and not paired.in_both[at]:
        both = f"{baseline.title} and {run.title}"
        return f"nothing can be compared: no case is in both {both}, and one of them is a part"
    if at not in paired.unpaired:
        return f"nothing can be compared: no case has the metric in both {baseline.title} and {run.title}"
    without = next(one for one in (0, at) if next(paired.cases(one), None) is None)
    return f"nothing can be compared: no case of {paired.runs[without].title} has the metric"
