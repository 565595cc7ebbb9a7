"""The slices of a report: those of each run, and those of its comparison. Without a choice they are by tag."""

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.comparison.compare import PairComparison
from assay.comparison.run_scores import Grouping, ReadOptions
from assay.comparison.sources import CompareOptions, read_options, require_slices, slices_by
from assay.comparison.stored_runs import columns_of, result_lines
from assay.comparison.views.page_view import ComparisonView, PairView
from assay.concurrency.threads import in_thread
from assay.errors import InvalidRequest, UsageError
from assay.errors.door import place_of
from assay.fep.records.service import EvaluationService
from assay.ports import Run
from assay.results.slices import MAX_SLICES, Dimension, SliceSink, read_dimension
from assay.serve.fep.comparison_cache import ComparisonCache, StoredComparison, use_lines
from assay.stats.number_text import rate_text

TAG = "tag"
LEAST = 2  # slices by tag that are shown without a choice: one slice is the run
WITHOUT_CONTENT = "check"  # the grouping that a redacted report has


class ReportSlice(Struct, frozen=True, kw_only=True, rename="camel"):
    """The cases with one value: how many were measured, and the rates with their intervals, as texts."""

    by: str
    name: str
    cases: int
    case_pass_rate: str
    pass_rate: str


class SliceChoice(NamedTuple):
    """`automatic`: no name was given. Then neither tags that do not tell cases apart nor too many tags have slices."""

    dimensions: tuple[Dimension, ...]
    groupings: tuple[Grouping, ...] = ()
    automatic: bool = False


def read_choice(by: Sequence[str], runs: Sequence[Run], *, redact: bool) -> SliceChoice:
    """What `--by` names. Raises UsageError."""
    if not by:
        return SliceChoice(() if redact else (read_dimension(TAG),), automatic=True)
    options = read_options(CompareOptions(by=tuple(by)))
    if len(runs) == 1:
        if "criterion" in options.groupings:
            place = place_of("by", "criterion")
            raise UsageError(f"{place}: expected two runs or more: criteria are compared")
        if options.dimensions and runs[0].kind == EVAL:
            place = place_of("by", options.dimensions[0].name)
            raise UsageError(
                f"{place}: {runs[0].id} is an agent eval, whose tasks have no tags and no members"
            )
    return SliceChoice(options.dimensions, options.groupings)


async def run_slices(
    evaluations: EvaluationService, run: Run, choice: SliceChoice, *, required: bool
) -> list[ReportSlice]:
    """The slices of one run. `required`: a name that none of its cases has is refused."""
    if not choice.dimensions or run.kind == EVAL:
        return []
    columns = await columns_of(evaluations.store, run)
    sink = SliceSink([one.in_table(columns) for one in choice.dimensions])
    try:
        await use_lines(result_lines(evaluations, run), sink.write)
    except InvalidRequest:  # there are too many slices
        if choice.automatic:
            return []
        raise
    if required:
        sink.require_values()
    rates = await in_thread(lambda: list(sink.rates()))
    if choice.automatic and len(rates) < LEAST:
        return []
    return [
        ReportSlice(
            by=one.dimension,
            name=one.name,
            cases=one.case_pass_rate.cases if one.case_pass_rate else 0,
            case_pass_rate=rate_text(one.case_pass_rate),
            pass_rate=rate_text(one.pass_rate),
        )
        for one in rates
    ]


async def compare_slices(
    evaluations: EvaluationService, runs: Sequence[Run], choice: SliceChoice
) -> tuple[StoredComparison, ComparisonView]:
    """The numbers of the runs, and their comparison with its slices."""
    cache = ComparisonCache()
    options = ReadOptions(None, choice.dimensions, choice.groupings, every_metric=True)
    try:
        stored = await cache.get(evaluations, runs, options)
    except InvalidRequest:  # there are too many slices; another reason is met again
        if not choice.automatic:
            raise
        stored = await cache.get(evaluations, runs, ReadOptions(every_metric=True))
    require_slices(stored.runs)
    names = [one.name for one in stored.runs[0].options.dimensions]
    if choice.automatic:
        names = [name for name in names if LEAST <= len(slices_by(stored.runs, name)) <= MAX_SLICES]
    return stored, only_slices(stored.view(None, metrics=True), [*choice.groupings, *names])


def only_slices(view: ComparisonView, names: Sequence[str]) -> ComparisonView:
    """The comparison with the slices of these groupings alone."""
    pairs = [
        _only(pair, words, names) for pair, words in zip(view.comparison.comparisons, view.pairs, strict=True)
    ]
    comparison = replace(view.comparison, comparisons=tuple(pair for pair, _ in pairs))
    return ComparisonView(comparison=comparison, pairs=tuple(words for _, words in pairs))


def _only(pair: PairComparison, words: PairView, names: Sequence[str]) -> tuple[PairComparison, PairView]:
    kept = [both for both in zip(pair.slices, words.slices, strict=True) if both[0].by in names]
    slices, texts = tuple(one for one, _ in kept), tuple(text for _, text in kept)
    return replace(pair, slices=slices), replace(words, slices=texts)
