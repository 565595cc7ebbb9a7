"""The judged cases of results in any form, with the labels of people: for `assay judge` and `assay.judge_check`."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
from msgspec import Struct

from assay.agenteval.planning.run_header import KIND as AGENT_EVAL
from assay.api.sources import Results, open_sources
from assay.comparison.judged_results import JudgeChoice, JudgedResults, read_stored_judge
from assay.comparison.labels import LabelSource, is_absent, read_verdict
from assay.comparison.run_scores import ReadOptions
from assay.comparison.sources import RunSource, StoredSource
from assay.comparison.stored_runs import require_comparable
from assay.errors import UsageError
from assay.errors.door import place_of
from assay.ports import Run, Store
from assay.protocol.json_types import preview
from assay.results.judge_check import Category, JudgedCase, JudgedCases, JudgeReport, PanelReport, check_judge
from assay.runs.annotations import annotations


class JudgeQuery(Struct, frozen=True, kw_only=True):
    """Which check is the judge, and the labels of people. Without labels, those of `assay annotate` are read."""

    labels: Sequence[LabelSource] = ()
    check: str | None = None
    bar: float | None = None
    tenant: str | None = None


@asynccontextmanager
async def open_judge(results: Results, query: JudgeQuery) -> AsyncGenerator["JudgeSource"]:
    """Open the results: a result, a file, a data frame or a stored run."""
    async with open_sources([results], ["results"], query.tenant) as (source,):
        if isinstance(source, StoredSource):
            require_comparable(source.run)
        yield JudgeSource(source, query)


class JudgeSource:
    """The judged cases of one source."""

    def __init__(self, source: RunSource, query: JudgeQuery) -> None:
        self.name, self._source, self._query = source.name, source, query
        self.stored: tuple[Store, Run] | None = None
        if isinstance(source, StoredSource):
            self.stored = source.store, source.run
        self.partial = ""  # why a file has not all results of its run

    @property
    def noun(self) -> str:
        return "task" if self.stored is not None and self.stored[1].kind == AGENT_EVAL else "case"

    async def check(self, seed: int | None = None) -> JudgeReport:
        """What the labels say about the judge."""
        if self.stored is None and not self._query.labels:
            raise UsageError(
                f"{place_of('labels')}: expected a member of the cases, or a file such as labels.csv, got none;"
                " only a stored run has labels of its own, those of `assay annotate`"
            )
        return check_judge(*await self.read(seed))

    async def read(self, seed: int | None = None) -> tuple[JudgedCases, PanelReport | None]:
        """The judged cases with their labels and the recorded sample, and what a panel says."""
        labels = self._query.labels
        if self.stored is None:
            self.partial = (await self._source.scores(ReadOptions())).incomplete
            return await self._read_results(labels, seed)
        store, run = self.stored
        choice = JudgeChoice(labels=labels, check=self._query.check, bar=self._query.bar, seed=seed)
        found = await read_stored_judge(store, run, await annotations(store, run), self._feed, choice)
        judged = self._with_other_labels(found.judged) if run.kind == AGENT_EVAL else found.judged
        return judged, found.panel

    async def _feed(self, use: Callable[[bytes], None]) -> None:
        async for _, line in self.lines():
            use(line)

    def lines(self) -> AsyncIterator[tuple[str, bytes]]:
        return self._source.lines()

    async def _read_results(
        self, labels: Sequence[LabelSource], seed: int | None
    ) -> tuple[JudgedCases, PanelReport | None]:
        results = JudgedResults(labels, check=self._query.check, bar=self._query.bar)
        async for place, line in self.lines():
            results.add(line, place)
        return results.judged(seed), results.panel()

    def _with_other_labels(self, judged: JudgedCases) -> JudgedCases:
        """The tasks of an agent eval with the labels of the query instead of those that are stored with the run."""
        if self._query.check is not None:
            raise UsageError(
                f"{place_of('check')}: expected none with an agent eval, which has one judge, that of its rubrics"
            )
        labels = self._query.labels
        if not labels:
            return judged
        for source in labels:
            if source.by_id is None:
                raise UsageError(
                    f"{place_of('labels', source.name)}: a task has no members; "
                    "expected a file with the ids of tasks, such as labels.csv"
                )
        cases = [
            msgspec.structs.replace(case, labels=_labels(case, labels, self._query.bar), human_score=None)
            for case in judged.cases
        ]
        ids = {case.id for case in cases}
        given = [
            id for source in labels for id, value in (source.by_id or {}).items() if not is_absent(value)
        ]
        return msgspec.structs.replace(
            judged,
            cases=cases,
            annotators=tuple(source.name for source in labels),
            unmatched=sum(id not in ids for id in given),
        )


def _labels(
    case: JudgedCase, sources: Sequence[LabelSource], bar: float | None
) -> tuple[Category | None, ...]:
    values = [(source.name, (source.by_id or {}).get(case.id)) for source in sources]
    return tuple(
        None
        if is_absent(value)
        else read_verdict(value, bar, f"{place_of('labels', name)}, the task {preview(case.id)}")
        for name, value in values
    )
