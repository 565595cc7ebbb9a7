"""`assay compare`: is a run better than another, by how much, where, and which cases changed."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from assay import settings
from assay.api.suites import TENANT
from assay.auth.audit import audit_read
from assay.checks import STANDARD
from assay.cli.console.console import echo_json
from assay.comparison.case_reasons import CaseReasons, with_reasons
from assay.comparison.compare import RunComparison, compare_runs
from assay.comparison.metric import read_metric
from assay.comparison.result_files import is_file, lines_in
from assay.comparison.run_scores import GROUPINGS, Grouping, ReadOptions, RunScores
from assay.comparison.stored_runs import read_run, result_lines
from assay.errors import UsageError
from assay.extras import require
from assay.fep.records.service import EvaluationService
from assay.host import parts
from assay.ports import Limits, Run, Services, Store
from assay.promotion.records import KIND as DEPLOYMENT
from assay.promotion.records import decode
from assay.results.slices import read_dimension
from assay.runs.find_run import find_run

# The runs and result files that a command line names, read for a comparison.

PROMOTED = "latest-promoted"


class CompareOptions(Struct, frozen=True, kw_only=True):
    """What is compared, and how: the options that `assay compare` and `assay gate` share."""

    references: tuple[str, ...]
    metric: str | None = None
    by: tuple[str, ...] = ()
    margin: float | None = None
    limit: int = 10
    tenant: str | None = None


def read_options(options: CompareOptions) -> ReadOptions:
    """Read the metric and the groupings. Raises UsageError."""
    groupings: tuple[Grouping, ...] = tuple(one for one in GROUPINGS if one in options.by)
    dimensions = {
        one.name: one for one in (read_dimension(text) for text in options.by if text not in groupings)
    }
    if options.margin is not None and not 0 < options.margin < float("inf"):
        raise UsageError(f"--margin: expected a number above 0, got {options.margin:g}")
    metric = None if options.metric is None else read_metric(options.metric)
    return ReadOptions(metric, tuple(dimensions.values()), groupings)


class RunSource:
    """A run or a file that can be read twice: first its numbers, then the reasons of a few cases."""

    def __init__(self, name: str, limits: Limits, stored: tuple[EvaluationService, Run] | None) -> None:
        self.name, self._limits, self._stored = name, limits, stored

    def is_same(self, other: "RunSource") -> bool:
        """Whether both are one run, or one file under two names."""
        if self._stored is not None or other._stored is not None:
            return self._stored is not None and other._stored is not None and self.name == other.name
        try:
            return Path(self.name).samefile(other.name)
        except OSError:  # the refusal of a file that cannot be read comes later, with its reason
            return False

    async def scores(self, options: ReadOptions) -> RunScores:
        if self._stored is not None:
            return await read_run(*self._stored, options)
        scores = RunScores(self.name, options)
        for place, line in lines_in(self.name, self._limits, scores):
            scores.add(line, place)
        return scores

    async def reasons(self, ids: Sequence[str]) -> dict[str, str]:
        found = CaseReasons(ids)
        async for place, line in self._lines():
            found.add(line, place)
        return found.texts()

    async def _lines(self) -> AsyncIterator[tuple[str, bytes]]:
        if self._stored is None:
            for place, line in lines_in(self.name, self._limits):
                yield place, line
            return
        async for line in result_lines(*self._stored):
            yield self.name, line


@asynccontextmanager
async def open_sources(references: Sequence[str], tenant: str | None) -> AsyncGenerator[list[RunSource]]:
    """Open what the references name: a file, a run, `latest`. The store is opened only for a run."""
    chosen = settings.load()
    for reference in references:
        if reference == "-":
            raise UsageError("-: expected a file or a run; a comparison reads its results twice")
    if all(map(is_file, references)):
        yield [RunSource(name, chosen.limits, None) for name in references]
        return
    async with parts.store(chosen, light=True) as store:
        evaluations = EvaluationService(store, STANDARD, Services(limits=chosen.limits))
        sources: list[RunSource] = []
        for reference in references:
            if is_file(reference):
                sources.append(RunSource(reference, chosen.limits, None))
                continue
            run = await _find(evaluations, reference, tenant)
            await audit_read(store, run)
            sources.append(RunSource(run.id, chosen.limits, (evaluations, run)))
        yield sources


async def _find(evaluations: EvaluationService, reference: str, tenant: str | None) -> Run:
    if reference == PROMOTED:
        return await promoted_run(evaluations.store, tenant or TENANT)
    return await find_run(evaluations.store, reference, tenant=tenant)


async def promoted_run(store: Store, tenant: str) -> Run:
    """The newest eval run that is the evidence of an active version of an agent."""
    runs: list[Run] = []
    after = ""
    while page := await store.documents(tenant, DEPLOYMENT, after=after):
        for document in page:
            for record in decode(document).versions.values():
                run = await store.run(record.eval_run, tenant=tenant) if record.eval_run else None
                if run is not None and record.state == "active":
                    runs.append(run)
        after = page[-1].key
    if not runs:
        raise UsageError(
            f"{PROMOTED}: no version of an agent is active here with an eval run; name a run, `latest` or a file"
        )
    return max(runs, key=lambda run: run.created)


async def compare_sources(
    sources: Sequence[RunSource], scores: Sequence[RunScores], margin: float | None, limit: int
) -> RunComparison:
    """Compare each source with the first, with the reasons of the cases that are listed."""
    require("a comparison", "compare")
    compared = compare_runs(scores, margin=margin, limit=limit)
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


def compare_references(options: CompareOptions) -> RunComparison:
    """Compare what a command line names."""
    read = read_options(options)

    async def work() -> RunComparison:
        async with open_sources(options.references, options.tenant) as sources:
            scores = [await source.scores(read) for source in sources]
            return await compare_sources(sources, scores, options.margin, options.limit)

    return asyncio.run(work())


def main(options: CompareOptions, *, json: bool) -> None:
    """Print the comparison."""
    compared = compare_references(options)
    if json:
        echo_json(msgspec.json.encode(compared))
        return
    from assay.cli.compare.render_comparison import show_comparisons  # deferred import: rich loads slowly

    show_comparisons(compared)
