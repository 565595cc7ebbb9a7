"""The numbers of stored runs for comparisons: read off the event loop, and stored while they are in use."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.cache import ByteCache
from assay.comparison.case_reasons import CaseReasons
from assay.comparison.pairing import PairedRuns
from assay.comparison.run_scores import ReadOptions, RunScores
from assay.comparison.sources import StoredSource
from assay.comparison.stored_runs import add_report, new_scores, result_lines, result_rows
from assay.comparison.views.case_grid import CaseGrid
from assay.comparison.views.case_lists import CaseLists
from assay.comparison.views.page_view import ComparisonView, comparison_view, with_metrics
from assay.comparison.views.partings import PartingsView, partings_view, read_partings
from assay.concurrency.event_loop import KeyedLock
from assay.concurrency.threads import in_thread, off_loop
from assay.fep.records.service import EvaluationService
from assay.ports import Run

BATCH = 200  # lines that the thread takes at a time
CACHED = 100 << 20  # bytes of all comparisons that are stored
BYTES_PER_ROW = 200  # of the numbers of a result, and of its place in the lists
MAX_LISTS = 8  # of one comparison


class StoredComparison:
    """The numbers of some runs, and the lists that were read of them. Its methods work in a thread."""

    def __init__(self, runs: Sequence[RunScores]) -> None:
        self.runs, self.rows = runs, sum(run.rows for run in runs)
        self._paired: PairedRuns | None = None
        self._lists: OrderedDict[tuple[int, str, str], CaseLists] = OrderedDict()
        self._views: dict[bool, tuple[float | None, ComparisonView]] = {}  # the last, and its margin
        self._grid: CaseGrid | None = None

    @property
    def paired(self) -> PairedRuns:
        if self._paired is None:
            self._paired = PairedRuns(self.runs)
        return self._paired

    def view(self, margin: float | None, *, metrics: bool = False) -> ComparisonView:
        """The comparison. With `metrics`, by every metric too, which takes longer."""
        last = self._views.get(metrics)
        if last is None or last[0] != margin:  # calls take turns, so another may change it meanwhile
            view = (
                with_metrics(self.view(margin), self.paired, margin)
                if metrics
                else comparison_view(self.paired, margin)
            )
            last = self._views[metrics] = margin, view
        return last[1]

    @property
    def grid(self) -> CaseGrid:
        if self._grid is None:
            self._grid = CaseGrid(self.paired)
        return self._grid

    def lists(self, at: int, by: str, slice: str) -> CaseLists:
        key = at, by, slice
        found = self._lists.get(key)
        if found is None:
            found = self._lists[key] = CaseLists(self.paired, at, by, slice)
            while len(self._lists) > MAX_LISTS:
                self._lists.popitem(last=False)
        return found


class ComparisonCache:
    """The numbers of the comparisons that were read last. An ended run never changes: its id stands for them."""

    def __init__(self) -> None:
        self._stored = ByteCache[StoredComparison](CACHED, largest=CACHED)
        self._locks = KeyedLock()
        self._partings: tuple[tuple[str, str], PartingsView] | None = None  # the ids stand for it

    async def get(
        self, evaluations: EvaluationService, runs: Sequence[Run], options: ReadOptions
    ) -> StoredComparison:
        """The numbers of these runs, which have one tenant. A tenant reads the results of one comparison at a time."""
        tenant = runs[0].tenant
        metrics = options.metric and options.metric.name, tuple(one.name for one in options.metrics)
        names = tuple(one.name for one in options.dimensions)
        standard = options.standard and options.standard.name
        key = tuple(run.id for run in runs), metrics, names, options.groupings, standard, options.every_metric
        async with self._locks.hold(tenant):
            stored = self._stored.get(key, tenant)
            if stored is None:
                scores = [await stored_scores(evaluations, run, options) for run in runs]
                stored = StoredComparison(scores)
                self._stored.put(key, stored, stored.rows * BYTES_PER_ROW, tenant)
            return stored

    async def partings(self, evaluations: EvaluationService, a: Run, b: Run) -> PartingsView:
        """Where two runs part ways, all of it. The short texts of the last answer are kept for its next page."""
        async with self._locks.hold(a.tenant):
            last = self._partings
            if last is None or last[0] != (a.id, b.id):
                view = partings_view(await read_partings(evaluations, a, b))
                last = self._partings = (a.id, b.id), view
            return last[1]

    async def sources(
        self, evaluations: EvaluationService, runs: Sequence[Run], options: ReadOptions
    ) -> list[StoredSource]:
        """These runs for a comparison or a gate, with their numbers."""
        stored = await self.get(evaluations, runs, options)
        return [CachedSource(evaluations, run, scores) for run, scores in zip(runs, stored.runs, strict=True)]


class CachedSource(StoredSource):
    """A run of a store whose numbers were read. Its lines are read off the event loop, and only those in question."""

    def __init__(self, evaluations: EvaluationService, run: Run, scores: RunScores) -> None:
        super().__init__(evaluations, run)
        self._scores = scores

    async def scores(self, options: ReadOptions) -> RunScores:
        return self._scores

    async def reasons(self, ids: Sequence[str]) -> dict[str, str]:
        rows = await in_thread(lambda: self._scores.rows_of(ids))
        return await stored_reasons(self._evaluations, self.run, ids, rows)


async def stored_reasons(
    evaluations: EvaluationService, run: Run, ids: Sequence[str], rows: Sequence[int]
) -> dict[str, str]:
    """The reasons of these cases. Those of an evaluation are read by the numbers of their rows."""
    if not ids:
        return {}
    reasons = CaseReasons(ids)
    lines = result_lines(evaluations, run) if run.kind == EVAL else result_rows(evaluations, run, rows)
    await use_lines(lines, lambda line: reasons.add(line, run.id))
    return reasons.texts()


async def stored_scores(evaluations: EvaluationService, run: Run, options: ReadOptions) -> RunScores:
    """The numbers of a stored run."""
    scores = await new_scores(evaluations.store, run, options)
    await use_lines(result_lines(evaluations, run), lambda line: scores.add(line, run.id))
    await add_report(evaluations.store, run, scores)
    return scores


async def use_lines(lines: AsyncIterator[bytes], use: Callable[[bytes], object]) -> None:
    """Use every line, in batches, off the event loop."""
    batch: list[bytes] = []
    async for line in lines:
        batch.append(line)
        if len(batch) == BATCH:
            await _use(batch, use)
            batch = []
    await _use(batch, use)


async def _use(batch: Sequence[bytes], use: Callable[[bytes], object]) -> None:
    def work() -> None:
        for line in batch:
            use(line)

    await off_loop(sum(map(len, batch)), work)
