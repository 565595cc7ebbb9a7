"""The cases of each slice, check and criterion of compared runs, and the mixes of slices that the runs have."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from assay.comparison.difference import SliceDifference, SliceMix, SliceShare, Standardization
from assay.comparison.metric import Metric
from assay.comparison.pairing import CaseIndex, CaseValues, PairedRuns, Pairing, RunCase, run_cases
from assay.comparison.run_scores import RunScores, Series, check_metric
from assay.comparison.samples import CaseSample, PairedCases, UnpairedCases
from assay.concurrency.loop_budget import spend
from assay.errors import InvalidRequest, Problem
from assay.errors.door import place_of
from assay.results.slices import NONE
from assay.stats.unpaired import UnpairedSample
from assay.stats.verdict import holm

LEAST_MOVED = 0.05  # share of cases in other slices from which mixes are said to differ
MAX_SHARES = 100  # slices of a mix in a document
Samples = dict[tuple[int, str], CaseSample]  # by run and slice


def whole_sample(paired: PairedRuns, at: int, span: float | None) -> CaseSample:
    """The cases of the first run and of another."""
    if at not in paired.unpaired:
        return _paired_sample(paired.pairings[at], span)
    sample = UnpairedSample(span)
    for is_after, run in enumerate((0, at)):
        for case in paired.cases(run):
            _put(sample, case, is_after=bool(is_after))
    return UnpairedCases(sample)


def _paired_sample(pairing: Pairing, span: float | None) -> PairedCases:
    sample = PairedCases(span)
    for pair in pairing.pairs():
        sample.add(pair)
    sample.ranges = [limits for _, limits in pairing.unmeasured()]
    return sample


def _put(sample: UnpairedSample, case: RunCase, *, is_after: bool, stratum: str = "") -> None:
    if case.mean is None:
        sample.add_unmeasured(case.limits, is_after=is_after, stratum=stratum)
    else:
        sample.add(case.mean, is_after=is_after, single_trial=case.single_trial, stratum=stratum)


def slice_differences(
    paired: PairedRuns, span: float | None, margin: float | None, level: float
) -> list[tuple[SliceDifference, ...]]:
    """For each run, the slices of every grouping, the worst first. Holm adjusts all of one grouping together."""
    runs, metric = paired.runs, paired.metric
    found: list[list[SliceDifference]] = [[] for _ in runs]
    options = runs[0].options
    groups = [(one.name, _sliced_samples(paired, one.name, span)) for one in options.dimensions]
    groups += [(grouping, _grouped_samples(paired, grouping)) for grouping in options.groupings]
    for by, samples in groups:
        measured = {key: samples[key] for key in sorted(samples) if samples[key].measured}
        adjusted = holm(measured, level)
        for (at, name), sample in measured.items():
            spend()
            compared = (
                metric if by not in options.groupings else _grouped_metric(by, name, (runs[0], runs[at]))
            )
            result = sample.result(adjusted[at, name], margin, compared)
            found[at].append(SliceDifference(by=by, slice=name, result=result))
    return [tuple(sorted(one, key=lambda part: (part.by, part.gain(metric), part.slice))) for one in found]


def _grouped_metric(by: str, name: str, runs: Sequence[RunScores]) -> Metric:
    """What a check or a criterion is compared by. A criterion is met or not."""
    if by == "criterion":
        return Metric(name="score", kind="score", by_verdict=True)
    return check_metric(runs, Metric(name=name, kind="check", check=name))


class _SliceNames:
    """The slices of each case in each run."""

    def __init__(self, index: CaseIndex, dimension: str) -> None:
        self._names = [
            {number: names for names, number in run.slice_sets[dimension].items()} for run in index.runs
        ]
        self._numbers = [index.slices_of(at, dimension) for at in range(len(index.runs))]

    def of(self, run: int, case: int) -> tuple[str, ...]:
        return self._names[run].get(self._numbers[run][case], (NONE,))

    def of_pair(self, at: int, case: int) -> tuple[str, ...]:
        """The first run that has a case says in which slices it is."""
        return self.of(0 if self._numbers[0][case] else at, case)


def _sliced_samples(paired: PairedRuns, dimension: str, span: float | None) -> Samples:
    names = _SliceNames(paired.index, dimension)
    samples: Samples = {}
    for at, pairing in paired.pairings.items():
        if at in paired.unpaired:
            samples |= _unpaired_slices(paired, at, names, span)
            continue
        slices: dict[str, PairedCases] = {}

        def of(case: int, at: int = at, slices: dict[str, PairedCases] = slices) -> list[PairedCases]:
            return [slices.setdefault(name, PairedCases(span)) for name in names.of_pair(at, case)]

        for pair in pairing.pairs():
            for sample in of(pair.case):
                sample.add(pair)
        for case, limits in pairing.unmeasured():
            for sample in of(case):
                sample.ranges.append(limits)
        samples |= {(at, name): sample for name, sample in slices.items()}
    return samples


def _unpaired_slices(paired: PairedRuns, at: int, names: _SliceNames, span: float | None) -> Samples:
    """The cases of each run by the slices that this run says."""
    slices: dict[str, UnpairedSample] = {}
    for is_after, run in enumerate((0, at)):
        for case in paired.cases(run):
            for name in names.of(run, case.case):
                _put(slices.setdefault(name, UnpairedSample(span)), case, is_after=bool(is_after))
    return {(at, name): UnpairedCases(sample) for name, sample in slices.items()}


def _grouped_samples(paired: PairedRuns, grouping: str) -> Samples:
    """The samples by run and check, or by run and criterion, over the cases that have it in both runs."""
    index, runs = paired.index, paired.runs
    samples: Samples = {}
    for name in [name for by, name in runs[0].groups if by == grouping]:
        own = runs[0].groups[grouping, name]
        first = CaseValues(index, 0, own)
        for at, run in enumerate(runs[1:], 1):
            series = run.groups.get((grouping, name))
            if series is None:
                continue
            span, second = series_span(own, series), CaseValues(index, at, series)
            samples[at, name] = series_sample(paired, at, (first, second), span, is_whole=False)
    return samples


def series_sample(
    paired: PairedRuns, at: int, values: tuple[CaseValues, CaseValues], span: float | None, *, is_whole: bool
) -> CaseSample:
    """The cases of the first run and of another by their values. `is_whole`: see `run_cases`."""
    if at not in paired.unpaired:
        return _paired_sample(Pairing(paired.index, *values), span)
    sample = UnpairedSample(span)
    for is_after, one in enumerate(values):
        for case in run_cases(one, is_whole=is_whole):
            _put(sample, case, is_after=bool(is_after))
    return UnpairedCases(sample)


def series_span(*series: Series) -> float | None:
    """1 if every value is between 0 and 1; None if a difference has no limit that is known."""
    return None if any(value < 0 or value > 1 for one in series for value in one.values) else 1.0


# The mix of slices of two runs that are not paired, and a difference that is standardized to one of them.


def slice_mixes(paired: PairedRuns, at: int) -> tuple[SliceMix, ...]:
    """The groupings whose slices have other shares in one run than in the other. Paired cases have one mix."""
    if at not in paired.unpaired:
        return ()
    found = (_mix(one.name, *_counts(paired, at, one.name)) for one in paired.runs[0].options.every_dimension)
    return tuple(mix for mix in found if mix.moved > LEAST_MOVED)


def _strata_of(paired: PairedRuns, dimension: str) -> Callable[[int, int], str]:
    """The slice of a case of a run. A case with several values has a slice of its own: strata do not overlap."""
    names = _SliceNames(paired.index, dimension)
    return lambda run, case: " + ".join(names.of(run, case))


def _counts(paired: PairedRuns, at: int, dimension: str) -> tuple[Counter[str], Counter[str]]:
    stratum = _strata_of(paired, dimension)
    before, after = (Counter(stratum(run, case.case) for case in paired.cases(run)) for run in (0, at))
    return before, after


def _mix(by: str, before: Mapping[str, int], after: Mapping[str, int]) -> SliceMix:
    shares = _shares(dict.fromkeys([*before, *after]), before, after)
    moved = sum(abs(one.share_after - one.share_before) for one in shares) / 2
    ordered = sorted(shares, key=lambda one: (-abs(one.share_after - one.share_before), one.slice))
    return SliceMix(by=by, moved=moved, slices=tuple(ordered[:MAX_SHARES]))


def _shares(
    names: Mapping[str, None], before: Mapping[str, int], after: Mapping[str, int]
) -> list[SliceShare]:
    totals = [sum(counts.get(name, 0) for name in names) for counts in (before, after)]
    return [
        SliceShare(
            slice=name,
            cases_before=before.get(name, 0),
            cases_after=after.get(name, 0),
            share_before=before.get(name, 0) / totals[0] if totals[0] else 0.0,
            share_after=after.get(name, 0) / totals[1] if totals[1] else 0.0,
        )
        for name in names
    ]


def standardized_sample(
    paired: PairedRuns, at: int, span: float | None, by: str
) -> tuple[CaseSample, Standardization]:
    """
    The cases in strata that have the weights of the baseline's mix. Slices that one run did not measure are left out.
    """
    stratum = _strata_of(paired, by)
    before, after = _counts(paired, at, by)
    measured = [
        {stratum(run, case.case) for case in paired.cases(run) if case.mean is not None} for run in (0, at)
    ]
    kept = dict.fromkeys(name for name in before if name in measured[0] & measured[1])
    if not kept:
        raise InvalidRequest(
            Problem(
                place_of("standardize-by", by),
                f"expected a slice that both runs measured; {_listed(paired.runs[0], before)},"
                f" {_listed(paired.runs[at], after)}",
            )
        )
    shares = _shares(kept, before, after)
    sample = UnpairedSample(span, {one.slice: one.share_before for one in shares})
    for is_after, run in enumerate((0, at)):
        for case in paired.cases(run):
            if (name := stratum(run, case.case)) in kept:
                _put(sample, case, is_after=bool(is_after), stratum=name)
    every = _shares(dict.fromkeys([*before, *after]), before, after)
    left_out = tuple(one for one in every if one.slice not in kept)
    shares.sort(key=lambda one: (-one.share_before, one.slice))
    return UnpairedCases(sample), Standardization(by=by, slices=tuple(shares), left_out=left_out)


def _listed(run: RunScores, counts: Mapping[str, int]) -> str:
    return f"{run.title} has {', '.join(list(counts)[:5]) or 'none'}"
