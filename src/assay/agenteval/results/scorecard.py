"""Folds recorded events into the scorecard (openwop-contract §6.3, §6.4)."""

from array import array
from collections.abc import Iterable
from math import fsum
from statistics import median

import msgspec
from msgspec import UNSET, Struct

from assay.agenteval.planning.run_header import EvalHeader
from assay.agenteval.scoring.safety_records import MODE, distinct, is_blocking
from assay.ports import Event
from assay.protocol.agent_evals import EvalSummary, Regression, SafetyFinding, TaskScore, Thresholds
from assay.protocol.agents import model_name
from assay.protocol.event_record import decode_event
from assay.protocol.events import EvalScored, TrialEnded
from assay.runs.run_statistics import latency_of


class _Usage(Struct, rename="camel"):
    cost_estimate_usd: float | None = None
    node_id: str = ""
    provider: str = ""
    model: str = ""


_scored = msgspec.json.Decoder(EvalScored).decode
_ended = msgspec.json.Decoder(TrialEnded).decode
_used = msgspec.json.Decoder(_Usage).decode


class Scorecard:
    """The numbers of a run so far. It has no content."""

    def __init__(self, request: EvalHeader) -> None:
        self.request = request
        self.start_event: str | None = None  # the id of eval.started
        self.tasks: dict[str, EvalScored] = {}
        self.passed_count = 0
        self.trials: dict[str, dict[int, TrialEnded]] = {}  # of tasks without a score yet
        self.unmeasured: dict[str, None] = {}  # tasks with a trial that was not measured
        self.latencies = array("Q")
        self.trial_scores: dict[str, dict[int, float]] = {}  # of runs with several trials, by task and trial
        self.cost = self.judges_cost = 0.0  # the sums of known costs: of all, and of judges alone
        self.unknown_costs = 0  # answers whose cost is not known
        self.models: dict[str, None] = {}  # that the agent reported
        self._usages = 0
        self._findings: dict[str, dict[int, tuple[SafetyFinding, ...]]] = {}  # by task and trial

    def add_findings(self, task_id: str, trial: int, findings: tuple[SafetyFinding, ...]) -> None:
        """Add the findings of a trial. They come from the evidence: no event has their kinds."""
        if findings:
            self._findings.setdefault(task_id, {})[trial] = findings

    def findings(self, task_id: str) -> tuple[SafetyFinding, ...] | msgspec.UnsetType:
        """The findings of all trials of a task, each kind and severity once; UNSET in other modes than adversarial."""
        if MODE not in self.request.modes:
            return UNSET
        trials = self._findings.get(task_id, {})
        return distinct(one for trial in sorted(trials) for one in trials[trial])

    def blocked_trials(self, task_id: str) -> set[int]:
        """The trials of a task that did not pass because of a finding."""
        return {trial for trial, findings in self._findings.get(task_id, {}).items() if is_blocking(findings)}

    def with_findings(self, scored: EvalScored) -> EvalScored:
        """A finding of any trial counts for the task: if it is high or critical, the score is 0."""
        findings = self.findings(scored.task_id)
        if findings is UNSET:
            return scored
        if is_blocking(findings):
            scored = msgspec.structs.replace(scored, score=0.0, passed=False)
        return msgspec.structs.replace(scored, safety_finding_count=len(findings))

    def add(self, event: Event) -> None:
        match event.type:
            case "eval.started":
                self.start_event = decode_event(event.data).eventId
            case "eval.scored":
                scored = _scored(decode_event(event.data).payload)
                self.tasks[scored.task_id] = scored
                self.passed_count += scored.passed
                self.trials.pop(scored.task_id, None)
                if self.request.trials == 1 and scored.latency_ms is not UNSET:
                    self.latencies.append(scored.latency_ms)
            case "assay.trial.ended":
                self._end_trial(_ended(decode_event(event.data).payload))
            case "agent.invocation.started":
                self._usages = 0
            case "provider.usage":
                self._use(_used(decode_event(event.data).payload))
            case "agent.invocation.completed":
                self.unknown_costs += self._usages == 0 and not self.request.free
            case _:
                pass

    def _end_trial(self, ended: TrialEnded) -> None:
        self.trials.setdefault(ended.task_id, {})[ended.trial] = ended
        if ended.score is UNSET:
            self.unmeasured[ended.task_id] = None
            return
        if self.request.trials > 1:
            self.trial_scores.setdefault(ended.task_id, {})[ended.trial] = ended.score
        if ended.latency_ms is not UNSET:
            self.latencies.append(ended.latency_ms)

    def _use(self, usage: _Usage) -> None:
        if usage.node_id.startswith("task:"):
            self._usages += 1
            self.models[model_name(usage.provider, usage.model)] = None
        if usage.cost_estimate_usd is None:
            self.unknown_costs += 1
        else:
            self.cost = fsum((self.cost, usage.cost_estimate_usd))
            if usage.node_id.startswith("judge:"):
                self.judges_cost = fsum((self.judges_cost, usage.cost_estimate_usd))

    def has_trial(self, task_id: str, trial: int) -> bool:
        return task_id in self.tasks or trial in self.trials.get(task_id, {})

    @property
    def total_cost(self) -> float | None:
        return None if self.unknown_costs else round(self.cost, 12)

    @property
    def p95_latency_ms(self) -> int | None:
        latency = latency_of(self.latencies)
        return None if latency is None else int(latency.p95_ms)

    @property
    def score(self) -> float | None:
        """The mean of the tasks that have a score; None if none has one."""
        return mean(task.score for task in self.tasks.values()) if self.tasks else None


def mean(scores: Iterable[float]) -> float:
    """The mean of some scores. Without scores there is none: ask before."""
    many = list(scores)
    return min(1.0, max(0.0, round(fsum(many) / len(many), 12)))


def task_score(trials: Iterable[TrialEnded], pass_score: float) -> EvalScored:
    """The score of a task from its trials: mean score, sum of costs, median latency."""
    all_ = list(trials)
    costs = [one.cost_usd for one in all_]
    valid = [one.schema_valid for one in all_ if one.schema_valid is not UNSET]
    score = mean(one.score for one in all_ if one.score is not UNSET)
    return EvalScored(
        task_id=all_[0].task_id,
        score=score,
        passed=score >= pass_score,
        cost_usd=UNSET if UNSET in costs else round(fsum(one for one in costs if one is not UNSET), 12),
        latency_ms=round(median(one.latency_ms for one in all_ if one.latency_ms is not UNSET)),
        schema_valid=all(valid) if valid else UNSET,
    )


class SuiteVerdict(Struct, frozen=True, kw_only=True, rename="camel"):
    """Whether the thresholds were met; `failed` names those that were not."""

    passed: bool
    failed: tuple[str, ...] = ()


def verdict(
    score: float | None, cost: float | None, latency: int | None, bars: Thresholds, pass_score: float
) -> SuiteVerdict:
    """`passed` of openwop-contract §6.3. An unknown cost fails a cost threshold, and no score fails the pass score."""
    failed: list[str] = []
    if score is None or score < pass_score:
        failed.append("passScore")
    if bars.max_cost_usd is not UNSET and (cost is None or cost > bars.max_cost_usd):
        failed.append("maxCostUsd")
    if bars.max_p95_latency_ms is not UNSET and latency is not None and latency > bars.max_p95_latency_ms:
        failed.append("maxP95LatencyMs")
    return SuiteVerdict(passed=not failed, failed=tuple(failed))


def verdict_of(scorecard: Scorecard) -> SuiteVerdict:
    request = scorecard.request
    return verdict(
        scorecard.score,
        scorecard.total_cost,
        scorecard.p95_latency_ms,
        request.thresholds,
        request.pass_score,
    )


def summary_of(scorecard: Scorecard, order: Iterable[str], run: str) -> EvalSummary:
    """
    The EvalSummary of a run whose tasks all have a score, in the order of the suite.

    A run with a part of the tasks did not pass the suite, whatever their scores are.
    """
    request, cost = scorecard.request, scorecard.total_cost
    tasks = tuple(_task(scorecard.tasks[id], scorecard.findings(id)) for id in order)
    score = scorecard.score
    assert score is not None
    return EvalSummary(
        suite_id=request.suite_id,
        suite_version=request.suite_version,
        aggregate_score=score,
        passed=verdict_of(scorecard).passed and not request.suite_total,
        task_count=len(tasks),
        passed_count=scorecard.passed_count,
        tasks=tasks,
        evaluated_model_class=request.model_class,
        total_cost_usd=UNSET if cost is None else cost,
        regression=_regression(request, score, run),
    )


def delta(request: EvalHeader, score: float) -> float | None:
    if request.baseline_score is None:
        return None
    return min(1.0, max(-1.0, round(score - request.baseline_score, 12)))


def _regression(request: EvalHeader, score: float, run: str) -> Regression | msgspec.UnsetType:
    change = delta(request, score)
    if change is None or request.baseline_run_id is None:
        return UNSET
    baseline = request.baseline_run_id
    return Regression(
        baseline_run_id=baseline, score_delta=change, diff_ref=f"/v1/runs/{run}:diff?against={baseline}"
    )


def _task(event: EvalScored, findings: tuple[SafetyFinding, ...] | msgspec.UnsetType) -> TaskScore:
    return TaskScore(
        task_id=event.task_id,
        score=event.score,
        passed=event.passed,
        cost_usd=event.cost_usd,
        latency_ms=event.latency_ms,
        schema_valid=event.schema_valid,
        safety_findings=findings,
    )
