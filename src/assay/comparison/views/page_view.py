"""A comparison for a page: the same result as `assay compare`, its sentences, and its charts."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from assay.comparison.compare import CaseList, PairComparison, RunComparison, compare_paired
from assay.comparison.metric_table import metric_differences, metric_names
from assay.comparison.pairing import PairedRuns
from assay.comparison.result_line import BESIDE
from assay.comparison.run_scores import RunScores
from assay.comparison.views.case_lists import CaseLists, PairCharts
from assay.comparison.wording import (
    MetricTexts,
    about_cases,
    counts_line,
    interval_text,
    metric_texts,
    power_line,
    verdict_line,
)
from assay.stats.paired import LEVEL

LISTS = ("unmeasured", "only_in_baseline", "only_in_run", "other_inputs")
MAX_IDS = 5  # in a list of a view; the list of cases has all of them


class PairView(Struct, frozen=True, kw_only=True):
    """
    One pair in words, as `assay compare` prints it. `slices` has the interval of each slice, in the order of the
    comparison. `metric_names` are the metrics that both runs have, `metrics` their words if they are asked for.
    """

    headline: str
    counts: str
    about: tuple[str, ...]
    power: str | None
    slices: tuple[str, ...]
    charts: PairCharts
    metric_names: tuple[str, ...] = ()
    metrics: tuple[MetricTexts, ...] = ()


class ComparisonView(Struct, frozen=True, kw_only=True):
    """
    `pairs` has the words and the charts of each of `comparison.comparisons`.

    `groupings` are the names by which the cases have slices, and `checks` those of the checks
    that the first run shares with another.
    """

    comparison: RunComparison
    pairs: tuple[PairView, ...]
    groupings: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


def comparison_view(paired: PairedRuns, margin: float | None, *, metrics: bool = False) -> ComparisonView:
    """Raises InvalidRequest if there is nothing to compare. With `metrics`, by every metric too."""
    compared = compare_paired(paired, margin=margin, limit=0)
    pairs = tuple(
        _pair(pair, compared, CaseLists(paired, at), metric_names(paired, at))
        for at, pair in enumerate(compared.comparisons, 1)
    )
    short = msgspec.structs.replace(compared, comparisons=tuple(map(_short, compared.comparisons)))
    view = ComparisonView(
        comparison=short,
        pairs=pairs,
        groupings=_groupings(paired.runs),
        checks=tuple(_shared_checks(paired.runs)),
    )
    return with_metrics(view, paired, margin) if metrics else view


def with_metrics(view: ComparisonView, paired: PairedRuns, margin: float | None) -> ComparisonView:
    """The same comparison by every metric too. What it has already is not computed again."""
    every = metric_differences(paired, margin, LEVEL)
    comparisons = tuple(
        msgspec.structs.replace(pair, metrics=every[at])
        for at, pair in enumerate(view.comparison.comparisons, 1)
    )
    pairs = tuple(
        msgspec.structs.replace(pair, metrics=tuple(map(metric_texts, every[at])))
        for at, pair in enumerate(view.pairs, 1)
    )
    compared = msgspec.structs.replace(view.comparison, comparisons=comparisons)
    return msgspec.structs.replace(view, comparison=compared, pairs=pairs)


def _checks(runs: Sequence[RunScores]) -> dict[str, None]:
    return dict.fromkeys(name.removeprefix(BESIDE) for run in runs for name in run.checks)


def _shared_checks(runs: Sequence[RunScores]) -> list[str]:
    others = _checks(runs[1:])
    return [name for name in _checks(runs[:1]) if name in others]


def _groupings(runs: Sequence[RunScores]) -> tuple[str, ...]:
    """What the cases can be sliced by: their tags and members, and what judges them."""
    found = ["tag"] if any(run.has_tags for run in runs) else []
    found += ["check"] if len(_checks(runs)) > 1 else []
    found += ["criterion"] if any(run.has_criteria for run in runs) else []
    found += [name for run in runs for name in run.members if name not in ("tag", "tags")]
    return tuple(dict.fromkeys(found))


def _pair(
    pair: PairComparison, compared: RunComparison, lists: CaseLists, names: tuple[str, ...]
) -> PairView:
    return PairView(
        headline=verdict_line(pair.result),
        counts=counts_line(pair, compared),
        about=tuple(about_cases(pair)),
        power=power_line(pair, compared.margin),
        slices=tuple(interval_text(one.result) for one in pair.slices),
        charts=lists.charts(),
        metric_names=names,
    )


def _short(pair: PairComparison) -> PairComparison:
    lists: Sequence[tuple[str, CaseList]] = [(name, getattr(pair, name)) for name in LISTS]
    return msgspec.structs.replace(
        pair, **{name: CaseList(one.count, one.ids[:MAX_IDS]) for name, one in lists}
    )
