"""A run of any kind as a row of a list. It has no content."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.agenteval.report import interval_of, read_summary
from assay.agenteval.run_header import KIND as EVAL
from assay.fep.result_json import times_of
from assay.fep.run_header import KIND as EVALUATION
from assay.ports import CLOSED, CaseTotals, Run, RunStatus, Store
from assay.ports.cases import ERROR, FAILED, PASSED, SKIPPED, UNGRADED
from assay.protocol.json_types import is_object
from assay.runs.case_blocks import all_blocks
from assay.runs.case_table import CaseEntry, CaseFilter, entries
from assay.stats.intervals import counted_rate

CACHED = 1_000  # runs whose numbers are remembered
MAX_CASES = 20_000  # results of a repeated run or an eval whose interval is computed for a list
SCORED = (EVALUATION, EVAL)
GENERATION = "case pass rate"


class _Wire(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class ScoreInterval(Struct, frozen=True, kw_only=True, rename="camel"):
    """A score with its 95% interval. `cases` are the measured ones; `method` names the interval."""

    name: str
    value: float
    low: float | None
    high: float | None
    cases: int
    method: str | None = None


class CaseCounts(Struct, frozen=True, kw_only=True):
    """The cases or tasks of a run by outcome. `error` and `skipped` were not measured."""

    passed: int = 0
    failed: int = 0
    ungraded: int = 0
    error: int = 0
    skipped: int = 0


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
    trials: int | UnsetType = UNSET
    score: ScoreInterval | None
    passed: bool | None
    counts: CaseCounts | None
    total: int | None
    cost_usd: float | None
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


class CaseNumbers(Struct, frozen=True):
    """The counts and the score of a run, from its table of cases."""

    counts: CaseCounts
    score: ScoreInterval | None


class RunRows:
    """Makes rows. The numbers of a run are remembered until the run changes."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._numbers: dict[tuple[str, int, str], CaseNumbers] = {}
        self._regressions: dict[str, int | None] = {}

    async def rows(self, runs: Sequence[Run], now: datetime) -> list[RunRow]:
        scored = [run.id for run in runs if run.kind in SCORED and not run.erased and run.events]
        totals = await self._store.case_totals(scored) if scored else {}
        return [await self.row(run, now, totals) for run in runs]

    async def row(self, run: Run, now: datetime, totals: Mapping[str, CaseTotals]) -> RunRow:
        metadata = run.metadata
        started, ended = times_of(run)
        numbers = await self._numbers_of(run, totals.get(run.id))
        until = ended or (now if run.status not in CLOSED else None)
        members: dict[str, Any] = {
            name: metadata[key] for name, key in _MEMBERS.items() if metadata.get(key) is not None
        }
        if "parent" in metadata:
            members["parent_run_id"] = metadata["parent"]["runId"]
        if "source" in metadata:
            members |= {"source_run_id": metadata["source"], "fork_mode": metadata["mode"]}
        if metadata.get("trials", 1) > 1:
            members["trials"] = metadata["trials"]
        if isinstance(error := _error_of(run), RunError):
            members["error"] = error
        if run.erased:
            members |= {"erased_at": run.erased, "erased_by": run.erased_by or UNSET}
        if "baselineRunId" in metadata and run.kind == EVAL:
            members["regressions"] = await self._regressions_of(run)
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
            score=numbers.score if numbers else None,
            passed=facts.passed if facts.passed is not None else metadata.get("goalSatisfied"),
            counts=numbers.counts if numbers else None,
            total=cases_total(run),
            cost_usd=facts.cost,
            **members,
        )

    async def _numbers_of(self, run: Run, totals: CaseTotals | None) -> CaseNumbers | None:
        if totals is None:
            return None
        key = run.id, run.events, run.status
        if (known := self._numbers.get(key)) is not None:
            return known
        numbers = await case_numbers(self._store, run, totals)
        while len(self._numbers) >= CACHED:
            self._numbers.pop(next(iter(self._numbers)))
        self._numbers[key] = numbers
        return numbers

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


def cases_total(run: Run) -> int | None:
    """The number of cases or tasks. An evaluation counts trials in its metadata."""
    total: int | None = run.metadata.get("total")
    if run.kind not in SCORED or total is None:
        return None
    return total // run.metadata.get("trials", 1) if run.kind == EVALUATION else total


def _error_of(run: Run) -> RunError | None:
    found = run.metadata.get("error")
    if is_object(found):
        return RunError(code=str(found.get("code", "")), message=str(found.get("message", "")))
    if found is None and "code" not in run.metadata:
        return None
    return RunError(code=run.metadata.get("code", UNSET), message=UNSET if found is None else str(found))


async def case_numbers(store: Store, run: Run, totals: CaseTotals) -> CaseNumbers:
    """The counts of cases, and the score with its interval (decision 46)."""
    trials: int = run.metadata.get("trials", 1)
    if run.kind == EVALUATION and trials == 1:
        rate = counted_rate({(1, 1): totals.passed, (0, 1): totals.failed}) if totals.results else None
        score = None
        if rate is not None:
            score = ScoreInterval(
                name=GENERATION,
                value=rate.rate,
                low=rate.low,
                high=rate.high,
                cases=rate.cases,
                method=rate.method,
            )
        return CaseNumbers(counts_of(totals), score)
    if totals.results > MAX_CASES:
        value = run.facts.score
        known = None if value is None else ScoreInterval(
            name="score" if run.kind == EVAL else GENERATION, value=value, low=None, high=None, cases=totals.results // trials
        )  # fmt: skip
        return CaseNumbers(counts_of(totals), known)
    blocks = await all_blocks(store, run.id)
    cases = list(entries(blocks, trials, CaseFilter(), complete=run.status in CLOSED))
    found = Counter(case.status for case in cases)
    counts = CaseCounts(
        passed=found[PASSED], failed=found[FAILED], ungraded=found[UNGRADED], error=found[ERROR], skipped=found[SKIPPED]
    )  # fmt: skip
    return CaseNumbers(counts, _eval_score(run, cases) if run.kind == EVAL else _repeated_score(cases))


def _repeated_score(cases: Sequence[CaseEntry]) -> ScoreInterval | None:
    clusters = Counter((case.count(PASSED), case.count(PASSED) + case.count(FAILED)) for case in cases)
    rate = counted_rate({key: many for key, many in clusters.items() if key[1]})
    if rate is None:
        return None
    return ScoreInterval(
        name=GENERATION, value=rate.rate, low=rate.low, high=rate.high, cases=rate.cases, method=rate.method
    )


def _eval_score(run: Run, cases: Sequence[CaseEntry]) -> ScoreInterval | None:
    """The mean score of the tasks. It is recorded when the run ends."""
    scores = [case.score for case in cases if case.score is not None]
    if not scores:
        return None
    value: float = run.metadata.get("aggregateScore", round(sum(scores) / len(scores), 12))
    trials = sum(len(case.patterns) for case in cases if case.score is not None)
    low, high, method = interval_of(scores, trials)
    return ScoreInterval(name="score", value=value, low=low, high=high, cases=len(scores), method=method)


def counts_of(totals: CaseTotals) -> CaseCounts:
    return CaseCounts(
        passed=totals.passed,
        failed=totals.failed,
        ungraded=totals.ungraded,
        error=totals.error,
        skipped=totals.skipped,
    )
