"""What is compared: runs, files and results in memory. Each is read twice: its numbers, then reasons of a few cases."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path

from msgspec import Struct

from assay.comparison.case_reasons import CaseReasons, with_reasons
from assay.comparison.compare import RunComparison, compare_runs
from assay.comparison.metric import read_metric
from assay.comparison.result_files import lines_in
from assay.comparison.run_scores import GROUPINGS, Grouping, ReadOptions, RunScores
from assay.comparison.stored_runs import read_run, result_lines
from assay.concurrency.threads import in_thread
from assay.errors import UsageError
from assay.errors.door import place_of
from assay.extras import require
from assay.fep.records.service import EvaluationService
from assay.ports import Limits, Run
from assay.results.slices import read_dimension, require_values

Lines = Iterator[tuple[str, bytes]]  # each with its place


class CompareOptions(Struct, frozen=True, kw_only=True):
    """How runs are compared: the options that a comparison and a gate share."""

    metric: str | None = None
    by: tuple[str, ...] = ()
    margin: float | None = None
    limit: int = 10
    standardize_by: str | None = None
    metrics: bool = False  # every metric beside the chosen one


def read_options(options: CompareOptions) -> ReadOptions:
    """Read the metric and the groupings. Raises UsageError."""
    groupings: tuple[Grouping, ...] = tuple(one for one in GROUPINGS if one in options.by)
    dimensions = {
        one.name: one for one in (read_dimension(text) for text in options.by if text not in groupings)
    }
    if options.margin is not None and not 0 < options.margin < float("inf"):
        raise UsageError(f"{place_of('margin')}: expected a number above 0, got {options.margin:g}")
    metric = None if options.metric is None else read_metric(options.metric)
    standard = None
    if options.standardize_by is not None:
        if options.standardize_by in GROUPINGS:
            raise UsageError(
                f"{place_of('standardize-by')}: expected tag, the name of a member or a path, got"
                f" {options.standardize_by}: every case has the same {options.standardize_by}s"
            )
        standard = read_dimension(options.standardize_by)
    return ReadOptions(
        metric, tuple(dimensions.values()), groupings, standard=standard, every_metric=options.metrics
    )


class RunSource(ABC):
    """Results that can be read twice."""

    path: Path | None = None  # of the file that holds them

    def __init__(self, name: str) -> None:
        self.name = name

    @abstractmethod
    def is_same(self, other: "RunSource") -> bool:
        """Whether both are one run, or one file under two names."""

    @abstractmethod
    async def scores(self, options: ReadOptions) -> RunScores:
        """The numbers of all results."""

    async def reasons(self, ids: Sequence[str]) -> dict[str, str]:
        """Why these cases have their values, a line for each."""
        found = CaseReasons(ids)
        async for place, line in self.lines():
            found.add(line, place)
        return found.texts()

    @abstractmethod
    def lines(self) -> AsyncIterator[tuple[str, bytes]]:
        """The results, encoded."""


class LineSource(RunSource):
    """
    Results that are read line by line. `read` tells the scores, if there are any, what it knows beside the lines.

    `results` are the caller's, of which `read` is.
    """

    def __init__(
        self, name: str, results: object, read: Callable[[RunScores | None], Lines], *, is_eval: bool = False
    ) -> None:
        super().__init__(name)
        self.results, self._read, self._is_eval = results, read, is_eval

    def is_same(self, other: RunSource) -> bool:
        return isinstance(other, LineSource) and self.results is other.results

    async def scores(self, options: ReadOptions) -> RunScores:
        scores = RunScores(self.name, options, is_eval=self._is_eval)
        for place, line in self._read(scores):
            scores.add(line, place)
        return scores

    async def lines(self) -> AsyncIterator[tuple[str, bytes]]:
        for numbered in self._read(None):
            yield numbered


class FileSource(LineSource):
    """A file of results."""

    def __init__(self, name: str, limits: Limits) -> None:
        super().__init__(name, name, lambda scores: lines_in(name, limits, scores))
        self.path = Path(name)

    def is_same(self, other: RunSource) -> bool:
        try:
            return isinstance(other, FileSource) and Path(self.name).samefile(other.name)
        except OSError:  # the refusal of a file that cannot be read comes later, with its reason
            return False


class StoredSource(RunSource):
    """A run of a store."""

    def __init__(self, evaluations: EvaluationService, run: Run) -> None:
        super().__init__(run.id)
        self._evaluations, self.run, self.store = evaluations, run, evaluations.store

    def is_same(self, other: RunSource) -> bool:
        return isinstance(other, StoredSource) and self.name == other.name

    async def scores(self, options: ReadOptions) -> RunScores:
        return await read_run(self._evaluations, self.run, options)

    async def lines(self) -> AsyncIterator[tuple[str, bytes]]:
        async for line in result_lines(self._evaluations, self.run):
            yield self.name, line


def require_slices(scores: Sequence[RunScores]) -> None:
    """Refuse a dimension that no case of any run has. Raises UsageError."""
    members = dict.fromkeys(name for run in scores for name in run.members)
    options = scores[0].options
    for one in options.every_dimension:
        option = "by" if one in options.dimensions else "standardize-by"
        require_values(one.name, slices_by(scores, one.name), members, option)


def slices_by(scores: Sequence[RunScores], dimension: str) -> set[str]:
    """The names of the slices of all runs."""
    return {name for run in scores for names in run.slice_sets[dimension] for name in names}


async def compare_sources(
    sources: Sequence[RunSource], scores: Sequence[RunScores], margin: float | None, limit: int
) -> RunComparison:
    """Compare each source with the first, with the reasons of the cases that are listed."""
    require("a comparison", "compare")
    require_slices(scores)
    compared = await in_thread(lambda: compare_runs(scores, margin=margin, limit=limit))
    pairs = list(compared.comparisons)
    for at, pair in enumerate(pairs):
        ids = [change.id for change in pair.changes]
        if ids:
            before, after = await sources[0].reasons(ids), await sources[at + 1].reasons(ids)
            pairs[at] = with_reasons(pair, before, after)
    return RunComparison(
        metric=compared.metric,
        lower_is_better=compared.lower_is_better,
        margin=margin,
        comparisons=tuple(pairs),
    )
