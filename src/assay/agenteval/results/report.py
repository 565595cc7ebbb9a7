"""The report of an eval run: its summary, intervals, trials and thresholds, from its log (openwop-contract §6.4)."""

from collections.abc import AsyncIterator, Container
from math import fsum

import msgspec
from msgspec import UNSET, Struct, UnsetType, field

from assay.agenteval.planning.run_header import KIND, REPEATED_COST, RESULTS, part_of, part_text, read_request
from assay.agenteval.results.eval_statistics import open_log, trials_of
from assay.agenteval.results.safety_report import SafetyFold, SafetyReport
from assay.agenteval.results.scorecard import Scorecard, SuiteVerdict, verdict_of
from assay.agenteval.scoring.safety_records import (
    MODE,
    SAFETY,
    SafetyRecord,
    finding_texts,
    read_records,
    record_of,
)
from assay.agenteval.scoring.scoring import reasons
from assay.ports import EvidenceChunk, Run, Store
from assay.protocol.agent_evals import EvalSummary
from assay.protocol.event_record import decode_event
from assay.protocol.json_types import JSON, is_object
from assay.results.reasons import passed_of, reason_of
from assay.results.run_part import RunPart
from assay.runs.log_reader import read_chunks
from assay.runs.run_statistics import Cost, stored_statistics
from assay.stats.intervals import Method, Rate
from assay.stats.number_text import format_usd


class TaskReport(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One task, without content. `score` is null if the task was not measured or did not start."""

    task_id: str
    kind: str
    score: float | None = None
    passed: bool | None = None
    trials: int = 1
    trials_passed: int = 0
    cost_usd: float | None = None
    latency_ms: int | None = None


class EvalReport(Struct, frozen=True, kw_only=True, rename="camel"):
    """
       The report of an eval run. A run that is not completed has no verdict. With `suite_total`, the score and the
       verdict are those of a part of the suite.

       `low` and `high` are the 95% interval of the score, over the `cases` tasks that have a score (FEP-52).
       `interval_method` names it.
    `pass_k[k]` is the chance that k trials of a task all pass. `pass_at_k_intervals[k]` is the chance
       that at least one of them passes. Both are over the tasks with at least k measured trials.
    """

    run: str
    status: str
    suite_id: str
    suite_version: str
    agent_id: str
    agent_version: str
    modes: tuple[str, ...]
    trials: int
    total: int
    score: float | None  # None: nothing was measured
    low: float | None
    high: float | None
    cases: int
    pass_score: float
    passed_count: int
    verdict: SuiteVerdict | None
    cost_usd: float | None
    known_cost_usd: float
    max_cost_usd: float | None
    p95_latency_ms: int | None
    max_p95_latency_ms: int | None
    baseline_run_id: str | None
    baseline_score: float | None
    unmeasured: tuple[str, ...]
    tasks: tuple[TaskReport, ...]
    pass_k: dict[int, float] = {}
    pass_k_intervals: dict[int, Rate] = {}
    pass_at_k_intervals: dict[int, Rate] = {}
    interval_method: Method = "none"
    safety: SafetyReport | None = None  # in the mode adversarial
    suite_total: int | None = None  # tasks of the suite, if the run has only a part of them
    selection: RunPart | UnsetType = UNSET  # which part that is
    repeated_cost_usd: float | UnsetType = (
        UNSET  # of trials before a resumption, which ran again and do not count
    )

    @property
    def part(self) -> str:
        """`2 of 5 tasks of its suite`; empty for a run of the whole suite."""
        return part_text(self.total, self.suite_total) if self.suite_total else ""


async def report_of(store: Store, run: Run) -> EvalReport:
    log = await open_log(store, run)
    await log.advance(store, run)
    scorecard, request = log.scorecard, log.scorecard.request
    statistics = stored_statistics(run) or log.statistics(run)
    score, cost, latency = statistics.score, statistics.cost or Cost(), statistics.latency
    rates = {int(k): rate for k, rate in statistics.pass_k.items()}
    bars = request.thresholds
    return EvalReport(
        run=run.id,
        status=run.status,
        suite_id=request.suite_id,
        suite_version=request.suite_version,
        agent_id=request.agent_id,
        agent_version=request.agent_version,
        modes=request.modes,
        trials=request.trials,
        total=request.total,
        score=score.value if score else None,
        low=score.low if score else None,
        high=score.high if score else None,
        cases=score.cases if score else 0,
        pass_score=request.pass_score,
        passed_count=statistics.counts.passed,
        verdict=verdict_of(scorecard) if run.status == "completed" else None,
        cost_usd=cost.total_usd,
        known_cost_usd=cost.known_usd,
        max_cost_usd=None if bars.max_cost_usd is UNSET else bars.max_cost_usd,
        p95_latency_ms=int(latency.p95_ms) if latency else None,
        max_p95_latency_ms=None if bars.max_p95_latency_ms is UNSET else bars.max_p95_latency_ms,
        baseline_run_id=request.baseline_run_id,
        baseline_score=request.baseline_score,
        unmeasured=tuple(id for id in log.kinds if id in scorecard.unmeasured),
        tasks=tuple(_task(id, kind, scorecard) for id, kind in log.kinds.items()),
        pass_k={k: rate.rate for k, rate in rates.items()},
        pass_k_intervals=rates,
        pass_at_k_intervals={int(k): rate for k, rate in statistics.pass_at_k.items()},
        interval_method=score.method if score else "none",
        safety=(await fold_safety(store, run, scorecard.tasks, request.policy)).report()
        if MODE in request.modes
        else None,
        suite_total=request.suite_total or None,
        selection=request.part or UNSET,
        repeated_cost_usd=run.metadata.get(REPEATED_COST) or UNSET,
    )


async def fold_safety(
    store: Store, run: Run, scored: Container[str], policy: JSON | None, limit: int = 0
) -> SafetyFold:
    """The findings of a run, the first `limit` with their places."""
    fold = SafetyFold(scored, limit, policy)
    async for record in read_records(store, run.id):
        fold.add(record)
    return fold


def _task(id: str, kind: str, scorecard: Scorecard) -> TaskReport:
    scored = scorecard.tasks.get(id)
    if scored is None:
        return TaskReport(task_id=id, kind=kind)
    passed, trials = trials_of(scorecard, id, kind)
    return TaskReport(
        task_id=id,
        kind=kind,
        score=scored.score,
        passed=scored.passed,
        trials=trials,
        trials_passed=passed,
        cost_usd=None if scored.cost_usd is UNSET else scored.cost_usd,
        latency_ms=None if scored.latency_ms is UNSET else scored.latency_ms,
    )


class Reason(Struct, frozen=True, rename="camel"):
    """Why a trial did not pass. This is content."""

    task_id: str
    trial: int
    measured: bool
    message: str = field(name="why")


async def failure_reasons(store: Store, run: Run) -> AsyncIterator[Reason]:
    """Why each trial did not pass or was not measured, from its evidence, in the order of the suite."""
    request = await read_request(store, run)
    async for chunk, record in trial_evidence(store, run):
        result = msgspec.json.decode(chunk.data)
        reasons = [failure_reason(result, request.pass_score), _safety_reason(record)]
        measured = result["status"] == "completed" and not (record and record.errors)
        if why := "; ".join(reason for reason in reasons if reason is not None):
            case: JSON = result["execution_context"]["test_case"]
            yield Reason(case["id"], chunk.first % request.trials, measured, why)


async def trial_evidence(store: Store, run: Run) -> AsyncIterator[tuple[EvidenceChunk, SafetyRecord | None]]:
    """The evidence of each trial, with the record of its detectors."""
    safety = read_chunks(store, run.id, SAFETY)
    following = await anext(safety, None)
    async for chunk in read_chunks(store, run.id, RESULTS):
        while following is not None and following.first < chunk.first:
            following = await anext(safety, None)
        matches = following is not None and following.first == chunk.first
        yield chunk, record_of(following.data) if following is not None and matches else None


def _safety_reason(record: SafetyRecord | None) -> str | None:
    """Why the detectors fail a trial: one of them gave no answer, or a finding is high or critical."""
    if record is None:
        return None
    if record.errors:
        return f"detector {record.errors[0].type} gave no answer: {record.errors[0].error}"
    return "; ".join(finding_texts(record, only_blocking=True)) or None


async def reasons_of(
    store: Store, run: Run, report: EvalReport, limit: int
) -> tuple[tuple[Reason, ...], int]:
    """The first reason of up to `limit` tasks that did not pass, by the suite's order, and how many more there are."""
    wrong = {task.task_id for task in report.tasks if task.passed is False} | set(report.unmeasured)
    first: dict[str, Reason] = {}
    if wrong and limit:
        async for reason in failure_reasons(store, run):
            if reason.task_id in wrong:
                first.setdefault(reason.task_id, reason)
            if len(first) == min(limit, len(wrong)):
                break
    return tuple(first.values()), len(wrong) - len(first)


def failure_reason(result: JSON, pass_score: float) -> str | None:
    """Why a result did not pass; None if it passed. The last check scores; those before it must hold."""
    context: JSON = result["execution_context"]
    checks: list[JSON] = result["check_results"]
    for check in checks:
        if check["status"] != "completed":
            return str(check.get("error", {}).get("message", check["status"]))
        response = check["results"].get("response")
        if check is checks[-1] and check["check_type"] == "llm_judge" and is_object(response):
            return _unmet(result, response, pass_score)
        if passed_of(check) is not True:
            error = context["output"].get("metadata", {}).get("error")
            return str(error) if error else reason_of(check)
    return None


def _unmet(result: JSON, response: JSON, pass_score: float) -> str | None:
    criteria: list[JSON] = result["execution_context"]["test_case"]["expected"]
    judged = list(zip(criteria, reasons(response), strict=False))
    total = fsum(one["weight"] for one, _ in judged)
    if total and fsum(one["weight"] for one, (met, _) in judged if met) / total >= pass_score:
        return None
    return "; ".join(f"not met: {one['criterion']} ({why})" for one, (met, why) in judged if not met)


class _Outputs(Struct):
    outputs: EvalSummary | None = None


_outputs = msgspec.json.Decoder(_Outputs).decode


async def read_summary(store: Store, run: Run) -> EvalSummary | None:
    """The recorded scorecard of a completed run of a whole suite; None for any other run."""
    if run.status != "completed" or run.kind != KIND or part_of(run):
        return None
    (last,) = await store.events(run.id, after=run.events - 2)
    return _outputs(decode_event(last.data).payload).outputs


async def read_results(
    store: Store, run: Run, start: int = 0, stop: int | None = None
) -> AsyncIterator[bytes]:
    """The evidence: one TestCaseResult per trial, in the order of the suite. A trial that did not start has none."""
    async for chunk in read_chunks(store, run.id, RESULTS, start=start, stop=stop):
        yield chunk.data


def unmet_text(name: str, report: EvalReport) -> str:
    """Why a threshold of the suite is not met: `it cost $0.20; the suite allows $0.10`."""
    if name == "passScore":
        return f"below the bar of {report.pass_score:g}"
    if name == "maxCostUsd":
        limit = format_usd(report.max_cost_usd or 0.0)
        if report.cost_usd is None:
            return f"its cost is unknown; the suite allows {limit}"
        return f"it cost {format_usd(report.cost_usd)}; the suite allows {limit}"
    return f"p95 latency {report.p95_latency_ms:,} ms; the suite allows {report.max_p95_latency_ms:,} ms"
