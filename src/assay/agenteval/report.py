"""The report of an eval run: its summary, intervals, trials and thresholds, from its log (contract §6.4)."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Container, Sequence
from math import fsum
from typing import Any

import msgspec
from msgspec import UNSET, Struct, field

from assay.agenteval.rubric import reasons
from assay.agenteval.run_header import KIND, RESULTS, read_request, read_tasks
from assay.agenteval.safety_records import MODE, SAFETY, SafetyRecord, is_blocking, read_records, record_of
from assay.agenteval.safety_report import SafetyFold, SafetyReport
from assay.agenteval.scorecard import Scorecard, SuiteVerdict, p95, verdict_of
from assay.agenteval.scoring import bar_of
from assay.fep.statistics import rates_by_k
from assay.ports import Event, EvidenceChunk, Run, Store
from assay.protocol.event_record import decode_event
from assay.protocol.events import TrialEnded
from assay.protocol.json_types import JSON, is_object
from assay.protocol.scorecard import EvalSummary
from assay.protocol.suite import EvalTask
from assay.runs.paging import read_chunks, read_events
from assay.stats.intervals import UNIT, Method, Rate, mean_of
from assay.stats.repeats import pass_all_k, pass_at_k


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
       The report of an eval run. A run that is not completed has no verdict.

       `low` and `high` are the 95% interval of the score, over the `cases` tasks that have a score (decision 52). `interval_method` names it.
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
    score: float
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


async def report_of(store: Store, run: Run) -> EvalReport:
    request = await read_request(store, run.id)
    scorecard, trials = Scorecard(request), _TrialScores()
    async for event in read_events(store, run.id):
        scorecard.add(event)
        trials.add(event)
    tasks = [
        _task(msgspec.json.decode(line, type=EvalTask), scorecard, trials)
        async for _, line in read_tasks(store, run.id)
    ]
    done = [task for task in tasks if task.score is not None]
    low, high, method = _interval(done)
    repeats = Counter((task.trials_passed, task.trials) for task in done)
    rates = {int(k): rate for k, rate in rates_by_k(repeats, pass_all_k).items()}
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
        score=scorecard.score,
        low=low,
        high=high,
        cases=len(done),
        pass_score=request.pass_score,
        passed_count=scorecard.passed_count,
        verdict=verdict_of(scorecard) if run.status == "completed" else None,
        cost_usd=scorecard.total_cost,
        known_cost_usd=scorecard.cost,
        max_cost_usd=None if bars.max_cost_usd is UNSET else bars.max_cost_usd,
        p95_latency_ms=p95(scorecard.latencies),
        max_p95_latency_ms=None if bars.max_p95_latency_ms is UNSET else bars.max_p95_latency_ms,
        baseline_run_id=request.baseline_run_id,
        baseline_score=request.baseline_score,
        unmeasured=tuple(task.task_id for task in tasks if task.task_id in scorecard.unmeasured),
        tasks=tuple(tasks),
        pass_k={k: rate.rate for k, rate in rates.items()},
        pass_k_intervals=rates,
        pass_at_k_intervals={int(k): rate for k, rate in rates_by_k(repeats, pass_at_k).items()},
        interval_method=method,
        safety=(await fold_safety(store, run, scorecard.tasks, request.policy)).report()
        if MODE in request.modes
        else None,
    )


async def fold_safety(
    store: Store, run: Run, scored: Container[str], policy: JSON | None, limit: int = 0
) -> SafetyFold:
    """The findings of a run, the first `limit` with their places."""
    fold = SafetyFold(scored, limit, policy)
    async for record in read_records(store, run.id):
        fold.add(record)
    return fold


class _TrialScores:
    """The score of every trial, for tasks with several."""

    def __init__(self) -> None:
        self.scores: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, event: Event) -> None:
        if event.type == "assay.trial.ended":
            ended = msgspec.json.decode(decode_event(event.data).payload, type=TrialEnded)
            if ended.score is not UNSET:
                self.scores[ended.task_id].append(ended.score)


def _task(task: EvalTask, scorecard: Scorecard, trials: _TrialScores) -> TaskReport:
    kind, scored = task.expected.kind, scorecard.tasks.get(task.task_id)
    if scored is None:
        return TaskReport(task_id=task.task_id, kind=kind)
    bar = bar_of(kind, scorecard.request.pass_score)
    scores = trials.scores.get(task.task_id) or [scored.score]
    return TaskReport(
        task_id=task.task_id,
        kind=kind,
        score=scored.score,
        passed=scored.passed,
        trials=len(scores),
        trials_passed=sum(score >= bar for score in scores),
        cost_usd=None if scored.cost_usd is UNSET else scored.cost_usd,
        latency_ms=None if scored.latency_ms is UNSET else scored.latency_ms,
    )


Interval = tuple[float | None, float | None, Method]


def _interval(tasks: list[TaskReport]) -> Interval:
    """The interval of the score. A task with its trials has one value."""
    scores = [task.score for task in tasks if task.score is not None]
    return interval_of(scores, sum(task.trials for task in tasks))


def interval_of(scores: Sequence[float], trials: int) -> Interval:
    """The 95% interval of the mean score of tasks, from their scores and the number of all their trials (decision 52)."""
    if not scores:
        return None, None, "none"
    found = mean_of(scores, trials, UNIT)
    return found.low, found.high, found.method


class Reason(Struct, frozen=True, rename="camel"):
    """Why a trial did not pass. This is content."""

    task_id: str
    trial: int
    measured: bool
    message: str = field(name="why")


async def failure_reasons(store: Store, run: Run) -> AsyncIterator[Reason]:
    """Why each trial did not pass or was not measured, from its evidence, in the order of the suite."""
    request = await read_request(store, run.id)
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
    blocking = [f"{one.kind} ({one.severity})" for one in record.findings if is_blocking([one])]
    return f"found {', '.join(blocking)}" if blocking else None


async def reasons_of(
    store: Store, run: Run, report: EvalReport, limit: int
) -> tuple[tuple[Reason, ...], int]:
    """The first reason of up to `limit` tasks that did not pass, in the order of the suite, and how many more there are."""
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
    """Why a result did not pass; None if it passed."""
    output: JSON = result["execution_context"]["output"]
    for check in result["check_results"]:
        if check["status"] != "completed":
            return str(check.get("error", {}).get("message", check["status"]))
        answer: JSON = check["results"]
        if answer.get("passed") is False:
            error = output.get("metadata", {}).get("error")
            return str(error) if error else _mismatch(check, output["value"])
        response = answer.get("response")
        if is_object(response) and check["check_type"] == "llm_judge":
            return _unmet(result, response, pass_score)
    return None


def _mismatch(check: JSON, value: Any) -> str:
    arguments = check.get("resolved_arguments", {})
    expected = arguments.get("expected", arguments.get("phrases", {})).get("value")
    if check["check_type"] == "json_schema":
        errors = check["results"].get("errors", [{}])
        return f"the result does not match the return schema: {errors[0].get('message', '')}"
    prefix = "a result that contains " if check["check_type"] == "contains" else ""
    return f"expected {prefix}{_shorten(expected)}, got {_shorten(value)}"


def _unmet(result: JSON, response: JSON, pass_score: float) -> str | None:
    criteria: list[JSON] = result["execution_context"]["test_case"]["expected"]
    judged = list(zip(criteria, reasons(response), strict=False))
    total = fsum(one["weight"] for one, _ in judged)
    if total and fsum(one["weight"] for one, (met, _) in judged if met) / total >= pass_score:
        return None
    return "; ".join(f"not met: {one['criterion']} ({why})" for one, (met, why) in judged if not met)


def _shorten(value: Any) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return repr(text if len(text) <= 80 else f"{text[:79]}…") if isinstance(value, str) else text[:80]


class _Outputs(Struct):
    outputs: EvalSummary | None = None


_outputs = msgspec.json.Decoder(_Outputs).decode


async def read_summary(store: Store, run: Run) -> EvalSummary | None:
    """The recorded scorecard of a completed run; None for any other run."""
    if run.status != "completed" or run.kind != KIND:
        return None
    (last,) = await store.events(run.id, after=run.events - 2)
    return _outputs(decode_event(last.data).payload).outputs


async def read_results(
    store: Store, run: Run, start: int = 0, stop: int | None = None
) -> AsyncIterator[bytes]:
    """The evidence: one TestCaseResult per trial, in the order of the suite. A trial that did not start has none."""
    async for chunk in read_chunks(store, run.id, RESULTS, start=start, stop=stop):
        yield chunk.data
