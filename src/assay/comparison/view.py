"""A comparison for a page: the same result as `assay compare`, its sentences, and its charts."""

from collections.abc import Sequence

import msgspec
from msgspec import Struct

from assay.comparison.case_lists import CaseLists, PairCharts
from assay.comparison.compare import CaseList, PairComparison, RunComparison, compare_paired
from assay.comparison.pairing import PairedRuns
from assay.comparison.wording import about_cases, counts_line, interval_text, power_line, verdict_line

LISTS = ("unmeasured", "only_in_baseline", "only_in_run", "other_inputs")
MAX_IDS = 5  # in a list of a view; the list of cases has all of them


class PairView(Struct, frozen=True, kw_only=True):
    """
    One pair in words, as `assay compare` prints it. `slices` has the interval of each slice, in the order of the
    comparison.
    """

    headline: str
    counts: str
    about: tuple[str, ...]
    power: str | None
    slices: tuple[str, ...]
    charts: PairCharts


class ComparisonView(Struct, frozen=True, kw_only=True):
    """`pairs` has the words and the charts of each of `comparison.comparisons`."""

    comparison: RunComparison
    pairs: tuple[PairView, ...]


def comparison_view(paired: PairedRuns, margin: float | None) -> ComparisonView:
    """Raises InvalidRequest if there is nothing to compare."""
    compared = compare_paired(paired, margin=margin, limit=0)
    pairs = tuple(
        _pair(pair, compared, CaseLists(paired, at)) for at, pair in enumerate(compared.comparisons, 1)
    )
    short = msgspec.structs.replace(compared, comparisons=tuple(map(_short, compared.comparisons)))
    return ComparisonView(comparison=short, pairs=pairs)


def _pair(pair: PairComparison, compared: RunComparison, lists: CaseLists) -> PairView:
    return PairView(
        headline=verdict_line(pair.result),
        counts=counts_line(pair, compared),
        about=tuple(about_cases(pair)),
        power=power_line(pair, compared.margin),
        slices=tuple(interval_text(one.result) for one in pair.slices),
        charts=lists.charts(),
    )


def _short(pair: PairComparison) -> PairComparison:
    lists: Sequence[tuple[str, CaseList]] = [(name, getattr(pair, name)) for name in LISTS]
    return msgspec.structs.replace(
        pair, **{name: CaseList(one.count, one.ids[:MAX_IDS]) for name, one in lists}
    )
