"""
The history of a suite, an experiment or a project of traces: the score of each run with its interval, cost, latency and
findings, newest first. The numbers are those of the stored statistics of each run.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import UNSET, Struct

from assay.agenteval.planning.run_header import KIND, part_of
from assay.agenteval.results.eval_statistics import read_statistics
from assay.agenteval.results.report import read_summary
from assay.fep.records.run_header import KIND as EVALUATION
from assay.fep.trace_windows.window import window_in
from assay.ports import Run, RunQuery, Store
from assay.protocol.agent_evals import EvalSummary
from assay.runs.annotations import annotations, case_corrections, effective
from assay.runs.provenance import commit_text
from assay.runs.run_names import other_tags
from assay.runs.run_statistics import RunStatistics, stored_statistics
from assay.stats.intervals import Method
from assay.stats.number_text import Scale

PAGE = 100  # runs that one read of the store returns
MOST_READ = 1_000  # runs that one page looks at
Position = tuple[datetime, str]  # (created, id) of a run


class DeploymentState(Struct, frozen=True, kw_only=True, rename="camel"):
    """The state of an agent version, and the run that was the evidence for it."""

    state: str
    eval_run_id: str | None = None


class HistoryRow(Struct, frozen=True, kw_only=True, rename="camel"):
    """
    One run, without content. An eval run without a scorecard has no score.

    `low` and `high` are the 95% interval of the score (FEP-52), which `interval_method` names. `findings` are counts by
    severity; null: the run did not look for any. `state` is the state of the deployment of this agent version, and
    `promoted_by` says whether this run was the evidence for it.
    """

    run_id: str
    created_at: datetime
    status: str
    suite_version: str
    agent_id: str
    agent_version: str
    score: float | None = None
    low: float | None = None
    high: float | None = None
    interval_method: Method = "none"
    passed: bool | None = None
    tasks: int = 0
    trials: int = 1
    cost_usd: float | None = None
    p95_latency_ms: int | None = None
    score_delta: float | None = None  # against its baseline
    findings: dict[str, int] | None = None
    state: str | None = None
    promoted_by: bool = False
    erased: bool = False
    part: str = ""  # what part of its suite the run has, if it has not all tasks
    scale: Scale = "score"
    text: str = ""  # the score, as every report writes it
    range: str = ""
    cost_text: str = ""
    p95_text: str = ""
    corrections: int = 0  # of people, to the verdicts of its judges and checks
    commit: str = ""
    tags: tuple[str, ...] = ()
    window_start: datetime | None = None  # of a window of traces
    window_end: datetime | None = None


Deployments = Mapping[tuple[str, str], DeploymentState]  # by agent id and version


async def suite_runs(
    store: Store,
    tenant: str | None,
    suite_id: str,
    *,
    kind: str = KIND,
    agent: str | None = None,
    before: Position | None = None,
    limit: int = 50,
) -> tuple[list[Run], Position | None]:
    """
    Eval runs of a suite, or evaluations of one name, newest first, without replays.

    Work is bounded: a page with more after it may be short.
    """
    found: list[Run] = []
    seen = 0
    while seen < MOST_READ:
        query = RunQuery(tenant=tenant, kind=kind, name=suite_id, before=before, limit=PAGE)
        runs = await store.runs(query)
        for run in runs:
            before = (run.created, run.id)
            if run.metadata.get("forkMode") != "replay" and agent in (None, run.metadata.get("agentId")):
                found.append(run)
            if len(found) == limit:
                return found, before
        seen += len(runs)
        if len(runs) < PAGE:
            return found, None
    return found, before


async def suite_names(store: Store, tenant: str | None) -> list[str]:
    """The suites and experiments of the newest runs."""
    names: dict[str, None] = {}
    before: Position | None = None
    for _ in range(MOST_READ // PAGE):
        kinds = frozenset({KIND, EVALUATION})
        runs = await store.runs(RunQuery(tenant=tenant, kinds=kinds, before=before, limit=PAGE))
        names |= {run.name: None for run in runs if run.name}
        if len(runs) < PAGE:
            break
        before = (runs[-1].created, runs[-1].id)
    return list(names)


async def rows_of(store: Store, runs: Sequence[Run], deployments: Deployments) -> list[HistoryRow]:
    return [await row_of(store, run, deployments) for run in runs]


async def row_of(store: Store, run: Run, deployments: Deployments) -> HistoryRow:
    """The row of a run, from its recorded scorecard or its stored statistics."""
    metadata, window = run.metadata, window_in(run)
    agent, version = str(metadata.get("agentId", "")), str(metadata.get("agentVersion", ""))
    deployment = deployments.get((agent, version))
    row = HistoryRow(
        run_id=run.id,
        created_at=run.created,
        status=run.status,
        suite_version=str(metadata.get("suiteVersion", "")),
        agent_id=agent,
        agent_version=version,
        tasks=int(metadata.get("total", 0)),
        corrections=await _corrections(store, run),
        commit=commit_text(metadata).removeprefix("commit "),
        tags=tuple(other_tags(metadata.get("tags", ()))),
        window_start=None if window is None else window.plan.start,
        window_end=None if window is None else window.plan.end,
        trials=int(metadata.get("trials", 1)),
        state=deployment.state if deployment is not None else None,
        promoted_by=deployment is not None and deployment.eval_run_id == run.id,
        erased=bool(run.erased),
        part=part_of(run),
    )
    if run.kind != KIND:
        return _with_numbers(row, stored_statistics(run) or RunStatistics())
    summary = await read_summary(store, run)
    if summary is None:
        return row
    return _with_scores(_with_numbers(row, await read_statistics(store, run) or RunStatistics()), summary)


async def _corrections(store: Store, run: Run) -> int:
    """How many verdicts of a run people have corrected."""
    notes = await annotations(store, run)
    return len(effective(notes) if run.kind == KIND else case_corrections(notes))


def _with_numbers(row: HistoryRow, statistics: RunStatistics) -> HistoryRow:
    score, latency, cost = statistics.score, statistics.latency, statistics.whole_cost
    return msgspec.structs.replace(
        row,
        score=score.value if score else None,
        scale=score.scale if score else "score",
        low=score.low if score else None,
        high=score.high if score else None,
        text=score.text if score else "",
        range=score.range_text if score else "",
        interval_method=score.method if score else "none",
        tasks=statistics.cases or row.tasks,
        cost_usd=cost.total_usd if cost else None,
        cost_text=cost.text if cost else "",
        p95_latency_ms=int(latency.p95_ms) if latency else None,
        p95_text=latency.p95_text if latency else "",
    )


def _with_scores(row: HistoryRow, summary: EvalSummary) -> HistoryRow:
    looked = [task.safety_findings for task in summary.tasks if task.safety_findings is not UNSET]
    findings = Counter(finding.severity for task in looked for finding in task)
    return msgspec.structs.replace(
        row,
        score=summary.aggregate_score,
        passed=summary.passed,
        tasks=summary.task_count,
        score_delta=None if summary.regression is UNSET else summary.regression.score_delta,
        findings=dict(findings) if looked else None,
    )
