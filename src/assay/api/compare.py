"""`assay.compare`: is a run better than another, by how much, where, and which cases changed."""

from collections.abc import Iterator, Sequence

from assay.api.arguments import check_arguments
from assay.api.sources import Results, open_sources
from assay.comparison.compare import PairComparison, RunComparison
from assay.comparison.sources import CompareOptions, compare_sources, read_options
from assay.comparison.wording import (
    ADJUSTED,
    ALL_ADJUSTED,
    MAX_SLICES,
    about_cases,
    cases_text,
    counts_line,
    differs_line,
    interval_text,
    power_line,
    slice_verdict,
    verdict_line,
)
from assay.concurrency.event_loop import run_to_end
from assay.errors import InvalidRequest
from assay.results.notebook_html import page, paragraph, table
from assay.results.slices import slice_text
from assay.stats.number_text import case_value
from assay.terminal import one_line

NAMES = "abcdefgh"  # of results without a name of their own


class Comparison(RunComparison, frozen=True, kw_only=True):
    """
    Runs beside the first of them, as `assay compare --json` prints them.

    With one run beside the first, `pair` has the verdict, the difference with its interval, the cases that changed and
    the slices. With several, `comparisons` has one for each.
    """

    @property
    def pair(self) -> PairComparison:
        """The only comparison."""
        if len(self.comparisons) != 1:
            raise InvalidRequest(f"expected one comparison, got {len(self.comparisons)}: read `comparisons`")
        return self.comparisons[0]

    @property
    def verdict(self) -> str:
        """`improved`, `regressed`, `equivalent` or `not enough data`."""
        return self.pair.result.verdict

    def __repr__(self) -> str:
        """A summary that fits a screen, in the words of the command."""
        lines = (line for pair in self.comparisons for line in (*self._lines(pair), *_slice_lines(pair)))
        return "\n".join(map(one_line, lines))

    def _repr_html_(self) -> str:
        """What a notebook shows: the verdict with its interval, the cases that changed, and the slices."""
        return page(part for pair in self.comparisons for part in self._html(pair))

    def _html(self, pair: PairComparison) -> list[str]:
        first, *others = self._lines(pair)
        changes = [
            ("better" if one.better else "worse", one.id, case_value(one.before), case_value(one.after),
             one.data.reason_before, one.data.reason_after)
            for one in pair.changes
        ]  # fmt: skip
        slices = [
            (
                f"{one.by}: {slice_text(one.slice)}",
                cases_text(one.result),
                interval_text(one.result),
                slice_verdict(one.result),
            )
            for one in pair.slices
        ]
        names = ("change", "case", "before", "after", "reason before", "reason after")
        return [
            paragraph(first, strong=True),
            *map(paragraph, others),
            table(names, changes, pair.worse + pair.better),
            *([paragraph(ADJUSTED)] if slices else []),
            table(("slice", "cases", "difference", "verdict"), slices, len(slices)),
        ]

    def _lines(self, pair: PairComparison) -> list[str]:
        power = power_line(pair, self.margin)
        return [
            f"{pair.baseline_title} → {pair.run_title}: {verdict_line(pair.result)}",
            f"  {counts_line(pair, self)}",
            *(f"  {line}" for line in [differs_line(pair)] if line is not None),
            *(f"  {line}" for line in about_cases(pair)),
            *_metric_lines(pair),
            *([] if power is None else [f"  {power}"]),
        ]


def _metric_lines(pair: PairComparison) -> Iterator[str]:
    if pair.metrics:
        yield f"  {ALL_ADJUSTED}"
    for one in pair.metrics:
        yield f"    {one.metric}: {verdict_line(one.result)}"


def _slice_lines(pair: PairComparison) -> Iterator[str]:
    for by in dict.fromkeys(one.by for one in pair.slices):
        yield f"  by {by}: {ADJUSTED}"
        every = [one for one in pair.slices if one.by == by]
        for one in every[:MAX_SLICES]:
            yield f"    {slice_text(one.slice)}: {verdict_line(one.result)}"
        if every[MAX_SLICES:]:
            yield f"    … and {len(every) - MAX_SLICES:,} more slices"


def compare(
    a: Results,
    b: Results,
    *others: Results,
    by: str | Sequence[str] = (),
    metric: str | None = None,
    margin: float | None = None,
    limit: int = 10,
    standardize_by: str | None = None,
    metrics: bool = False,
    tenant: str | None = None,
) -> Comparison:
    """
    Compare `b`, and others, with `a`. Cases are paired by their ids; runs over different cases are not paired.

        compared = assay.compare(before, after, by="topic")

    Each is a result of `evaluate` or `run_suite`, a file of results, the id of a stored run or `latest`, a data frame
    of `to_pandas()`, or a list of results. `by`, `metric`, `margin`, `limit`, `standardize_by` and `metrics` are the
    options of `assay compare`. It needs the extra `compare`.
    """
    check_arguments(
        by=by,
        metric=metric,
        margin=margin,
        limit=limit,
        standardize_by=standardize_by,
        metrics=metrics,
        tenant=tenant,
    )
    options = CompareOptions(
        metric=metric,
        by=(by,) if isinstance(by, str) else tuple(by),
        margin=margin,
        limit=limit,
        standardize_by=standardize_by,
        metrics=metrics,
    )
    return compare_results((a, b, *others), options, tenant)


def compare_results(runs: Sequence[Results], options: CompareOptions, tenant: str | None) -> Comparison:
    """Compare results with the first of them."""
    read = read_options(options)

    async def work() -> RunComparison:
        async with open_sources(runs, names_of(len(runs)), tenant) as sources:
            scores = [await source.scores(read) for source in sources]
            return await compare_sources(sources, scores, options.margin, options.limit)

    found = run_to_end(work)
    return Comparison(
        metric=found.metric,
        lower_is_better=found.lower_is_better,
        margin=found.margin,
        comparisons=found.comparisons,
    )


def names_of(count: int) -> list[str]:
    """Names for results in memory: `a`, `b` and so on."""
    return [NAMES[at] if at < len(NAMES) else f"run {at + 1}" for at in range(count)]
