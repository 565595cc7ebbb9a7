"""The detail of an eval run, for its owner: evidence, trials, judges, corrections (openwop-contract §6.4, §9.2)."""

from collections.abc import Mapping
from datetime import datetime
from math import fsum
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.agenteval.planning.run_header import RESULTS, EvalHeader, read_request
from assay.agenteval.results.report import EvalReport, Reason, TaskReport, fold_safety, reasons_of, report_of
from assay.agenteval.results.safety_report import FindingDetail
from assay.agenteval.results.scorecard import SuiteVerdict, mean, verdict
from assay.agenteval.scoring.scoring import bar_of, judged_criteria
from assay.ports import Event, EvidenceChunk, Run, Store
from assay.protocol.annotations import ScoreCorrection
from assay.protocol.event_record import decode_event
from assay.protocol.events import EvalScored, ProviderUsage, TrialEnded
from assay.protocol.json_types import JSON
from assay.runs.log_reader import read_chunks, read_events

REASONS = 50
FINDINGS = 100
Corrections = Mapping[str, ScoreCorrection]  # by the id of the `eval.scored` event


class _Wire(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    pass


class ModelRef(_Wire, frozen=True, kw_only=True):
    provider: str
    model: str


class CriterionResult(_Wire, frozen=True, kw_only=True):
    """One criterion of a rubric, and the judge's answer."""

    criterion: str
    weight: float
    met: bool
    reason: str


class TrialDetail(_Wire, frozen=True, kw_only=True):
    """One trial with its evidence. `checks` are FEP's results."""

    trial: int = msgspec.field(default=0)
    status: str
    outcome: str = ""
    score: float | UnsetType = UNSET
    latency_ms: int | UnsetType = UNSET
    output: Any = UNSET
    error: str | UnsetType = UNSET
    criteria: tuple[CriterionResult, ...] = ()
    checks: tuple[JSON, ...] = ()


class TaskDetail(_Wire, frozen=True, kw_only=True):
    """A task. `score` is the recorded one; `effectiveScore` is the score after a person's correction."""

    task_id: str
    kind: str
    event_id: str | UnsetType = UNSET
    score: float | UnsetType = UNSET
    passed: bool | UnsetType = UNSET
    effective_score: float | UnsetType = UNSET
    effective_passed: bool | UnsetType = UNSET
    input: Any = UNSET
    trials: tuple[TrialDetail, ...] = ()


class Effective(_Wire, frozen=True, kw_only=True):
    """The result of the run with corrections applied. The recorded result stays."""

    score: float
    verdict: SuiteVerdict | None
    passed_count: int
    corrected: tuple[str, ...]  # tasks


class EvalDetail(_Wire, frozen=True, kw_only=True):
    run_id: str
    status: str
    error: str | UnsetType = UNSET
    started_at: datetime | UnsetType = UNSET
    ended_at: datetime | UnsetType = UNSET
    suite_digest: str
    suite_source: str | UnsetType = UNSET  # pack:<name>@<version>/<path>
    suite_file_digest: str | UnsetType = UNSET  # SHA-256 of the octets of that file, in hex
    agent_pack: str | UnsetType = UNSET  # <name>@<version>
    model_class: str
    judge: str | UnsetType = UNSET  # as requested; `judges` are the models that answered
    judges: tuple[ModelRef, ...] = ()
    models: tuple[ModelRef, ...] = ()  # that the agent reported
    judge_cost_usd: float | None  # None: the cost of some answer is not known
    report: EvalReport
    effective: Effective | UnsetType = UNSET
    reasons: tuple[Reason, ...] = ()
    more_reasons: int = 0
    findings: tuple[FindingDetail, ...] = ()  # of detectors, in the mode adversarial
    more_findings: int = 0
    tasks: tuple[TaskDetail, ...] = ()
    next_task: int | UnsetType = UNSET

    @property
    def seconds(self) -> float:
        if self.started_at is UNSET or self.ended_at is UNSET:
            return 0.0
        return (self.ended_at - self.started_at).total_seconds()


async def detail_of(
    store: Store,
    run: Run,
    corrections: Corrections,
    *,
    first: int = 0,
    limit: int = 0,
    max_reasons: int = REASONS,
    max_findings: int = FINDINGS,
) -> EvalDetail:
    """The detail with the evidence of `limit` tasks from `first` on, and reasons why tasks did not pass."""
    request = await read_request(store, run)
    report, seen = await report_of(store, run), await _index_log(store, run)
    why, more = await reasons_of(store, run, report, max_reasons)
    scored_tasks = {task.task_id for task in report.tasks if task.score is not None}
    safety = (
        await fold_safety(store, run, scored_tasks, request.policy, max_findings) if report.safety else None
    )
    findings, more_findings = safety.findings() if safety else ((), 0)
    tasks = report.tasks[first : first + limit]
    evidence = await _evidence(store, run, request, first, limit) if limit else {}
    rows = tuple(
        _task(one, seen, corrections, request, evidence.get(at, [])) for at, one in enumerate(tasks, first)
    )
    following = first + limit
    costs = seen.judge_costs
    return EvalDetail(
        run_id=run.id,
        status=run.status,
        error=run.metadata.get("error", UNSET),
        started_at=run.started or run.created,
        ended_at=run.ended or UNSET,
        suite_digest=request.suite_digest,
        suite_source=request.suite_source or UNSET,
        suite_file_digest=request.suite_file_digest or UNSET,
        agent_pack=f"{request.definition.pack}@{request.definition.version}" if request.definition else UNSET,
        model_class=request.model_class,
        judge=request.judge or UNSET,
        judges=tuple(seen.judges),
        models=tuple(seen.models),
        judge_cost_usd=None if None in costs else round(fsum(cost for cost in costs if cost is not None), 12),
        report=report,
        effective=_effective(report, seen, corrections, request),
        reasons=why,
        more_reasons=more,
        findings=findings,
        more_findings=more_findings,
        tasks=rows,
        next_task=following if limit and following < len(report.tasks) else UNSET,
    )


async def corrected_report(
    store: Store, run: Run, report: EvalReport, corrections: Corrections
) -> EvalReport:
    """The report with the corrected scores of its tasks. Its other numbers stay."""
    request, log = await read_request(store, run), await _index_log(store, run)
    tasks: list[TaskReport] = []
    for task in report.tasks:
        bar = bar_of(task.kind, request.pass_score)
        found = _apply_corrections(task.task_id, log, corrections, bar)
        score, passed = (task.score, task.passed) if found is None else found
        tasks.append(msgspec.structs.replace(task, score=score, passed=passed))
    return msgspec.structs.replace(report, tasks=tuple(tasks))


class _LogIndex:
    """An index of the log: the event that scored each task, and the models that answered."""

    def __init__(self) -> None:
        self.events: dict[str, str] = {}
        self.scored: dict[str, EvalScored] = {}
        self.trials: dict[tuple[str, int], TrialEnded] = {}
        self.judges: dict[ModelRef, None] = {}
        self.models: dict[ModelRef, None] = {}
        self.judge_costs: list[float | None] = []

    def add(self, event: Event) -> None:
        match event.type:
            case "eval.scored":
                known = decode_event(event.data)
                scored = msgspec.json.decode(known.payload, type=EvalScored)
                self.events[scored.task_id], self.scored[scored.task_id] = known.eventId, scored
            case "assay.trial.ended":
                ended = msgspec.json.decode(decode_event(event.data).payload, type=TrialEnded)
                self.trials[ended.task_id, ended.trial] = ended
            case "provider.usage":
                self._add_usage(msgspec.json.decode(decode_event(event.data).payload, type=ProviderUsage))
            case _:
                pass

    def _add_usage(self, usage: ProviderUsage) -> None:
        model = ModelRef(provider=usage.provider, model=usage.model)
        if str(usage.node_id).startswith("judge:"):
            self.judges[model] = None
            self.judge_costs.append(None if usage.cost_estimate_usd is UNSET else usage.cost_estimate_usd)
        else:
            self.models[model] = None


async def _index_log(store: Store, run: Run) -> _LogIndex:
    seen = _LogIndex()
    async for event in read_events(store, run.id):
        seen.add(event)
    return seen


async def _evidence(
    store: Store, run: Run, request: EvalHeader, first: int, limit: int
) -> dict[int, list[EvidenceChunk]]:
    """The evidence of the trials, by task."""
    found: dict[int, list[EvidenceChunk]] = {}
    start, stop = first * request.trials, (first + limit) * request.trials
    async for chunk in read_chunks(store, run.id, RESULTS, start=start, stop=stop):
        found.setdefault(chunk.first // request.trials, []).append(chunk)
    return found


def _task(
    task: TaskReport,
    log: _LogIndex,
    corrections: Corrections,
    request: EvalHeader,
    pieces: list[EvidenceChunk],
) -> TaskDetail:
    event = log.events.get(task.task_id)
    changed = _apply_corrections(task.task_id, log, corrections, bar_of(task.kind, request.pass_score))
    results = [msgspec.json.decode(piece.data) for piece in pieces]
    score, passed = changed or (UNSET, UNSET)
    return TaskDetail(
        task_id=task.task_id,
        kind=task.kind,
        event_id=event or UNSET,
        score=UNSET if task.score is None else task.score,
        passed=UNSET if task.passed is None else task.passed,
        effective_score=score,
        effective_passed=passed,
        input=results[0]["execution_context"]["test_case"]["input"] if results else UNSET,
        trials=tuple(
            _trial(task.task_id, piece.first % request.trials, result, log)
            for piece, result in zip(pieces, results, strict=True)
        ),
    )


def _trial(task_id: str, trial: int, result: JSON, log: _LogIndex) -> TrialDetail:
    output: JSON = result["execution_context"]["output"]
    metadata: JSON = output.get("metadata", {})
    ended, scored = log.trials.get((task_id, trial)), log.scored.get(task_id)
    score = ended.score if ended is not None else scored.score if scored is not None else UNSET
    return TrialDetail(
        trial=trial,
        status=result["status"],
        outcome=metadata.get("outcome", ""),
        score=score,
        latency_ms=metadata.get("latency_ms", UNSET),
        output=output.get("value", UNSET),
        error=metadata.get("error", UNSET),
        criteria=_criteria(result),
        checks=tuple(result["check_results"]),
    )


def _criteria(result: JSON) -> tuple[CriterionResult, ...]:
    return tuple(CriterionResult(**one) for one in judged_criteria(result) or ())


def _apply_corrections(
    task_id: str, log: _LogIndex, corrections: Corrections, pass_score: float
) -> tuple[float, bool] | None:
    """The corrected score of a task. If only the score is corrected, `passed` follows from it."""
    correction = corrections.get(log.events.get(task_id, ""))
    if correction is None:
        return None
    recorded = log.scored[task_id]
    score = recorded.score if correction.score is UNSET else correction.score
    if correction.passed is not UNSET:
        return score, correction.passed
    return score, score >= pass_score if correction.score is not UNSET else recorded.passed


def _effective(
    report: EvalReport, log: _LogIndex, corrections: Corrections, request: EvalHeader
) -> Effective | UnsetType:
    """The corrected result; None if nothing is corrected."""
    changed = {
        task.task_id: found
        for task in report.tasks
        if (
            found := _apply_corrections(task.task_id, log, corrections, bar_of(task.kind, request.pass_score))
        )
    }
    if not changed:
        return UNSET
    rows = [
        changed.get(task.task_id, (task.score, task.passed))
        for task in report.tasks
        if task.score is not None
    ]
    score = mean(score for score, _ in rows)
    judged = verdict(score, report.cost_usd, report.p95_latency_ms, request.thresholds, request.pass_score)
    return Effective(
        score=score,
        verdict=None if report.verdict is None else judged,
        passed_count=sum(passed is True for _, passed in rows),
        corrected=tuple(changed),
    )
