"""A run of any kind as a row of a list. It has no content."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.agenteval.planning.run_header import KIND as EVAL
from assay.agenteval.results.eval_statistics import SCORED as SCORED
from assay.agenteval.results.eval_statistics import EvalLog, open_log, read_statistics
from assay.agenteval.results.report import read_summary
from assay.fep.outputs.run_result import times_of
from assay.fep.records.run_header import KIND as EVALUATION
from assay.ports import CLOSED, CaseTotals, Run, RunStatus, Store
from assay.ports.kinds import EXTERNALLY_DRIVEN
from assay.protocol.json_types import is_object
from assay.runs.provenance import COMMIT
from assay.runs.run_statistics import (
    CaseCounts,
    CostParts,
    RunStatistics,
    Score,
    planned_cases,
    stored_statistics,
)
from assay.stats.intervals import METHOD_NAMES
from assay.stats.number_text import format_usd

CACHED = 1_000  # runs whose numbers are remembered
LOGS = 16  # agent evals in progress whose logs are continued, not read again
MAX_LIVE = 20_000  # results of an evaluation in progress whose score is computed for a request


class _Wire(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class ScoreInterval(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    A score with its 95% interval. `cases` are the measured ones; `method` names the interval.

    `text` and `range` are how every report writes the score and its interval.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    cases: int
    method: str
    scale: str
    text: str
    range: str


def score_interval(score: Score | None) -> ScoreInterval | None:
    if score is None:
        return None
    return ScoreInterval(
        name=score.name,
        value=score.value,
        low=score.low,
        high=score.high,
        cases=score.cases,
        method=METHOD_NAMES[score.method],
        scale=score.scale,
        text=score.text,
        range=score.range_text,
    )


class Commit(_Wire, frozen=True, kw_only=True):
    """The commit of git of the folder that the command ran in. `clean`: no tracked file differed, if that is known."""

    id: str
    clean: bool | UnsetType = UNSET


class CostTexts(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the outputs cost, and what their judges did. A run that only judges outputs did not pay for them."""

    system: str | UnsetType = UNSET
    judges: str | UnsetType = UNSET


def cost_texts(parts: CostParts | None) -> CostTexts | UnsetType:
    if parts is None:
        return UNSET
    system, judges = (format_usd(cost) if cost else UNSET for cost in (parts.system_usd, parts.judges_usd))
    return CostTexts(system=system, judges=judges)


class RunError(_Wire, frozen=True, kw_only=True):
    code: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


class RunRow(_Wire, frozen=True, kw_only=True):
    """One run. A member that is null is not known or not measured; an absent one does not apply."""

    run_id: str
    kind: str
    status: RunStatus
    name: str = msgspec.field(default_factory=str)
    version: str
    created_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    duration_ms: int | None
    suite_version: str | UnsetType = UNSET
    agent_id: str | UnsetType = UNSET
    agent_version: str | UnsetType = UNSET
    models: list[str] | UnsetType = UNSET
    modes: list[str] | UnsetType = UNSET
    tags: list[str] | UnsetType = UNSET
    commit: Commit | UnsetType = UNSET
    trials: int | UnsetType = UNSET
    score: ScoreInterval | None
    passed: bool | None
    counts: CaseCounts | None
    total: int | None
    suite_total: int | UnsetType = UNSET  # tasks of the suite, if the run has only a part of them
    cost_usd: float | None  # of the outputs and of their judges, if all of it is known
    cost_text: str | UnsetType = UNSET
    cost_parts: CostTexts | UnsetType = UNSET
    baseline_run_id: str | UnsetType = UNSET
    regressions: int | UnsetType | None = UNSET
    error: RunError | UnsetType = UNSET
    waiting: Any = UNSET
    verdict: str | UnsetType = UNSET
    transition: str | UnsetType = UNSET
    to_state: str | UnsetType = UNSET
    parent_run_id: str | UnsetType = UNSET
    source_run_id: str | UnsetType = UNSET
    fork_mode: str | UnsetType = UNSET
    erased_at: str | UnsetType = UNSET
    erased_by: str | UnsetType = UNSET


class RunRows:
    """Makes rows. The numbers of a run are remembered until the run changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._statistics: dict[
            tuple[str, int, str], RunStatistics
        ] = {}  # of runs without a recorded document
        self._logs: dict[str, EvalLog] = {}  # of agent evals in progress
        self._regressions: dict[str, int | None] = {}

    async def rows(self, runs: Sequence[Run], now: datetime) -> list[RunRow]:
        live = [run.id for run in runs if run.kind == EVALUATION and run.events and run.status not in CLOSED]
        totals = await self._store.case_totals(live) if live else {}
        return [await self.row(run, now, totals) for run in runs]

    async def row(self, run: Run, now: datetime, totals: Mapping[str, CaseTotals]) -> RunRow:
        metadata = run.metadata
        started, ended = times_of(run)
        statistics = await self.statistics(run, totals.get(run.id, CaseTotals()))
        until = ended or (now if run.status not in CLOSED else None)
        members: dict[str, Any] = {
            name: metadata[key] for name, key in _MEMBERS.items() if metadata.get(key) is not None
        }
        if "parent" in metadata:
            members["parent_run_id"] = metadata["parent"]["runId"]
        if "source" in metadata:
            members |= {"source_run_id": metadata["source"], "fork_mode": metadata["mode"]}
        if is_object(commit := metadata.get(COMMIT)):
            members["commit"] = Commit(id=str(commit["id"]), clean=commit.get("clean", UNSET))
        if metadata.get("trials", 1) > 1:
            members["trials"] = metadata["trials"]
        if isinstance(error := _error_of(run), RunError):
            members["error"] = error
        if run.erased:
            members |= {"erased_at": run.erased, "erased_by": run.erased_by or UNSET}
        if "baselineRunId" in metadata and run.kind == EVAL:
            members["regressions"] = await self._regressions_of(run)
        cost = statistics.whole_cost if statistics else None
        facts = run.facts
        return RunRow(
            run_id=run.id,
            kind=run.kind,
            status=run.status,
            name=run.name,
            version=version_of(run),
            created_at=run.created,
            started_at=started,
            ended_at=ended,
            duration_ms=round((until - started).total_seconds() * 1000) if started and until else None,
            score=score_interval(statistics.score) if statistics else None,
            passed=facts.passed if facts.passed is not None else metadata.get("goalSatisfied"),
            counts=statistics.counts if statistics and statistics.counts.all == statistics.cases else None,
            total=cases_total(run, statistics),
            cost_usd=cost.total_usd if cost else None,
            cost_text=cost.text if cost else UNSET,
            cost_parts=cost_texts(statistics.parts) if statistics else UNSET,
            **members,
        )

    async def statistics(self, run: Run, totals: CaseTotals) -> RunStatistics | None:
        """
        The recorded statistics of a run; of a run that has not ended, or that a crash ended, those of its records.

        Of a very long evaluation in progress, only the counts of results are read: `totals`. They are those of its
        cases if each has one trial.
        """
        if (stored := stored_statistics(run)) is not None:
            return stored
        if totals.results > MAX_LIVE:
            trials = int(run.metadata.get("trials", 1))
            counts = counts_of(totals) if trials == 1 else CaseCounts()
            return RunStatistics(cases=totals.results // trials, results=totals.results, counts=counts)
        key = run.id, run.events, run.status
        if (cached := self._statistics.get(key)) is not None:
            return cached
        if run.kind == EVAL and run.status not in CLOSED and run.events:
            found = await self._eval_statistics(run)
        else:
            found = await read_statistics(self._store, run)
        if found is None:
            return None
        while len(self._statistics) >= CACHED:
            self._statistics.pop(next(iter(self._statistics)))
        self._statistics[key] = found
        return found

    async def _eval_statistics(self, run: Run) -> RunStatistics:
        """The statistics of the log so far. The log is read on from where the last request stopped."""
        log = self._logs.pop(run.id, None) or await open_log(self._store, run)
        await log.advance(self._store, run)
        while len(self._logs) >= LOGS:
            self._logs.pop(next(iter(self._logs)))
        self._logs[run.id] = log
        return log.statistics(run)

    async def _regressions_of(self, run: Run) -> int | None:
        """The tasks that passed in the baseline and did not pass here; None if one of the two has no scorecard."""
        if run.status not in CLOSED:
            return None
        if run.id in self._regressions:
            return self._regressions[run.id]
        baseline = await self._store.run(run.metadata["baselineRunId"], tenant=run.tenant)
        before = await read_summary(self._store, baseline) if baseline else None
        after = await read_summary(self._store, run)
        count = None
        if before is not None and after is not None:
            passed = {task.task_id for task in before.tasks if task.passed}
            count = sum(not task.passed and task.task_id in passed for task in after.tasks)
        while len(self._regressions) >= CACHED:
            self._regressions.pop(next(iter(self._regressions)))
        self._regressions[run.id] = count
        return count


_MEMBERS = {
    "suite_version": "suiteVersion",
    "agent_id": "agentId",
    "agent_version": "agentVersion",
    "models": "models",
    "modes": "modes",
    "tags": "tags",
    "suite_total": "suiteTotal",
    "baseline_run_id": "baselineRunId",
    "waiting": "waiting",
    "verdict": "verdict",
    "transition": "transition",
    "to_state": "toState",
    "source_run_id": "sourceRunId",
    "fork_mode": "forkMode",
}


def version_of(run: Run) -> str:
    """It changes when the row of the run may have changed."""
    return f"{run.events}-{run.status}{'-erased' if run.erased else ''}"


def cases_total(run: Run, statistics: RunStatistics | None) -> int | None:
    """The number of cases or tasks. An evaluation counts results in its metadata."""
    if run.kind not in SCORED:
        return None
    trials = int(run.metadata.get("trials", 1))
    if run.kind == EVAL:
        return run.metadata.get("total")
    if run.status not in CLOSED and run.metadata.get(EXTERNALLY_DRIVEN):
        return None  # a command stores what it has read so far
    return planned_cases(run, statistics, trials=trials)


def _error_of(run: Run) -> RunError | None:
    found = run.metadata.get("error")
    if is_object(found):
        return RunError(code=str(found.get("code", "")), message=str(found.get("message", "")))
    if found is None and "code" not in run.metadata:
        return None
    return RunError(code=run.metadata.get("code", UNSET), message=UNSET if found is None else str(found))


def counts_of(totals: CaseTotals) -> CaseCounts:
    return CaseCounts(
        passed=totals.passed,
        failed=totals.failed,
        ungraded=totals.ungraded,
        error=totals.error,
        skipped=totals.skipped,
    )
