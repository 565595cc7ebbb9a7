"""
The state of an eval run: its scorecard so far, its remaining trials, and how it ends (openwop-contract §3.3, §3.5,
§5.1, §6.3).
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import UNSET

from assay.agenteval.planning.request import EvalLimits
from assay.agenteval.planning.run_header import MAX_COST, REPEATED_COST, RESULTS, read_tasks
from assay.agenteval.planning.stopping import EvalRounds
from assay.agenteval.results.eval_statistics import Kinds, eval_statistics
from assay.agenteval.results.scorecard import Scorecard, delta, summary_of, task_score
from assay.agenteval.scoring.safety_records import SAFETY
from assay.agenteval.scoring.scoring import bar_of
from assay.agenteval.scoring.task_checks import check_chunks
from assay.agenteval.trial import TrialResult, TrialUnit
from assay.agenteval.trial_events import task_node, trial_events, trial_row
from assay.cases.fold import CHECKS, CaseFold
from assay.concurrency.threads import off_loop
from assay.errors import BudgetExceeded, EnvironmentFailure, Refusal
from assay.ports import (
    CaseBlock,
    Clock,
    DeleteDocument,
    Event,
    EvidenceChunk,
    PutDocument,
    Run,
    RunFacts,
    RunStatus,
    Store,
)
from assay.ports.batches import BatchBudget
from assay.ports.kinds import Ending, UnitOutcome, split
from assay.protocol import events as payloads
from assay.protocol.agents import Usage, UsageStep
from assay.protocol.event_record import PendingEvent
from assay.protocol.events import EvalScored, TrialEnded
from assay.runs.agent_answers import AgentAnswers
from assay.runs.run_options import CostBudget, TimeBudget
from assay.runs.run_statistics import STATISTICS, RunStatistics, statistics_metadata

MAX_MODELS = 5  # in the metadata of a run
_pack = msgspec.msgpack.encode
_trial = msgspec.json.Decoder(TrialResult).decode


class EvalState:
    """The scorecard folded from the log, and the tasks in the order of the suite."""

    size = 0

    def __init__(
        self,
        run: Run,
        scorecard: Scorecard,
        kinds: Kinds,
        clock: Clock,
        time_budget: TimeBudget,
        host: EvalLimits,
        answers: AgentAnswers,
        batches: BatchBudget | None = None,
    ) -> None:
        self._run, self._scorecard, self._clock = run, scorecard, clock
        self._kinds, self._order, self._statistics = kinds, list(kinds), RunStatistics()
        self._time_budget, self._ceiling = time_budget, host.max_cost_usd
        self._answers, self._batches = answers, batches
        self._repeated: float = run.metadata.get(REPEATED_COST, 0.0)
        self._budget = CostBudget(run.metadata.get(MAX_COST))  # of this run; `_ceiling` is the host's
        self._trials: dict[str, dict[int, TrialEnded]] = {}  # trials of tasks without a score yet
        self._table = CaseFold(run.metadata.get(CHECKS, ()))
        until = scorecard.request.until
        self._rounds = None if until is None else EvalRounds(until, self._order)

    def add(self, event: Event) -> None:
        self._scorecard.add(event)

    def on_commit(self) -> None: ...

    async def units(self, store: Store) -> AsyncIterator[bytes]:
        request, scorecard = self._scorecard.request, self._scorecard
        if len(self._order) < request.total:
            raise EnvironmentFailure("a crash interrupted the submission; start the run again")
        for id, trials in scorecard.trials.items():
            self._trials.setdefault(id, {}).update(trials)
        self._restore_spending()
        rounds = self._rounds
        if rounds is not None:
            self._restore_rounds(rounds)
        async for at, line in read_tasks(store, self._run):
            if rounds is not None and at and at % rounds.size == 0 and await rounds.decided(at):
                return
            for trial in range(request.trials):
                if scorecard.cost > self._ceiling or not self._time_budget.remaining_seconds:
                    return
                if not scorecard.has_trial(self._order[at], trial):
                    if self._budget.exhausted:
                        return
                    number = at * request.trials + trial
                    yield _pack(TrialUnit(self._run.id, number, trial, line, self._answers.key(number)))

    def _restore_spending(self) -> None:
        """What is recorded, and what was spent before a resumption; `outcome` adds what ends from now on."""
        self._budget.spent = self._scorecard.cost + self._repeated
        if self._batches is not None:
            self._batches.begin(self._budget.ceiling, self._budget.spent)

    def _restore_rounds(self, rounds: EvalRounds) -> None:
        """Tell the rounds which tasks have ended before."""
        scorecard = self._scorecard
        for id, scored in scorecard.tasks.items():
            rounds.end_task(id, scored)
        for id in scorecard.unmeasured:
            if all(scorecard.has_trial(id, trial) for trial in range(scorecard.request.trials)):
                rounds.end_task(id, None)

    def outcome(self, result: bytes) -> UnitOutcome:
        trial = _trial(result)
        if trial.state == "not begun":
            return UnitOutcome([])
        request, scorecard = self._scorecard.request, self._scorecard
        self._budget.charge(known_cost(trial) - self._inherit_cost(trial))
        if trial.safety is not None:
            scorecard.add_findings(trial.task_id, trial.trial, trial.safety.findings)
        facts, cause = trial_events(trial, request, scorecard.start_event)
        cases, gone = list[CaseBlock](), list[PutDocument | DeleteDocument]()
        if trial.state != "stopped":
            ended = self._trial_ended(trial)
            if trial.line:
                cases = self._table.add(trial.number, trial_row(trial, ended, request.pass_score))
            if request.trials > 1 or trial.state == "unmeasured":
                node = task_node(trial.task_id)
                facts.append(
                    PendingEvent(type="assay.trial.ended", payload=ended, node_id=node, causation_id=cause)
                )
            scored = self._task_score(trial, ended)
            if scored is not None:
                first = trial.number - trial.trial
                gone = [one for at in range(request.trials) for one in self._answers.forget(first + at)]
                node = task_node(trial.task_id)
                facts.append(
                    PendingEvent(type="eval.scored", payload=scored, node_id=node, causation_id=cause)
                )
        events, pieces, *_ = split(facts, self._clock.now())
        if trial.line:
            pieces.append(EvidenceChunk(kind=RESULTS, first=trial.number, last=trial.number, data=trial.line))
        if trial.safety is not None:
            line = trial.safety.line
            pieces.append(EvidenceChunk(kind=SAFETY, first=trial.number, last=trial.number, data=line))
        pieces += check_chunks(trial.checked, trial.number)
        return UnitOutcome(events, pieces, gone, cases)

    def _inherit_cost(self, trial: TrialResult) -> float:
        """The cost of an answer that the run which this one continues has counted. From now on it counts here."""
        if not self._answers.is_inherited(self._answers.key(trial.number)):
            return 0.0
        counted = min(self._repeated, answer_cost(trial))
        self._repeated = round(self._repeated - counted, 12)
        return counted

    def _trial_ended(self, trial: TrialResult) -> TrialEnded:
        cost = cost_of(trial, free=self._scorecard.request.free)
        valid = trial.finish.schema_validated
        return TrialEnded(
            task_id=trial.task_id,
            trial=trial.trial,
            score=UNSET if trial.score is None else trial.score,
            cost_usd=UNSET if cost is None else cost,
            latency_ms=trial.latency_ms,
            schema_valid=UNSET if valid is None else valid,
        )

    def _task_score(self, trial: TrialResult, event: TrialEnded) -> EvalScored | None:
        """The score of the task, if this was its last trial and all trials were measured."""
        trials = self._trials.setdefault(trial.task_id, {})
        trials[trial.trial] = event
        if len(trials) < self._scorecard.request.trials:
            return None
        del self._trials[trial.task_id]
        scored = None
        if all(one.score is not UNSET for one in trials.values()):
            bar = bar_of(trial.kind, self._scorecard.request.pass_score)
            scored = self._scorecard.with_findings(task_score(trials.values(), bar))
        if self._rounds is not None:
            self._rounds.end_task(trial.task_id, scored)
        return scored

    def metadata(self) -> dict[str, Any]:
        scorecard = self._scorecard
        before = {name: value for name, value in self._run.metadata.items() if name != STATISTICS}
        metadata = {**before, "done": len(scorecard.tasks), "passedCount": scorecard.passed_count}
        metadata |= self._table.metadata
        metadata |= {REPEATED_COST: self._repeated} if REPEATED_COST in before else {}
        if self._rounds is not None and self._rounds.last is not None:
            metadata |= self._rounds.last.metadata
        if scorecard.models:
            metadata["models"] = list(scorecard.models)[:MAX_MODELS]
        return metadata | ({"unmeasured": len(scorecard.unmeasured)} if scorecard.unmeasured else {})

    async def finish(self, store: Store) -> None:
        if self._rounds is not None:
            self._rounds.look_at_all()
            self._keep_decided(self._rounds)
        size = 64 * len(self._kinds)  # bytes of a score, about
        self._statistics = await off_loop(
            size, lambda: eval_statistics(self._scorecard, self._kinds, ended=True)
        )

    def _last_metadata(self) -> dict[str, Any]:
        metadata = self.metadata() | statistics_metadata(self._statistics)
        if self._rounds is None:
            return metadata
        part = self._scorecard.request.run_metadata if self._rounds.has_decided else {}
        return metadata | part

    def ending(self, status: RunStatus, refusal: Refusal | None = None) -> Ending:
        if refusal is not None:
            return self._failed(refusal.code, "the run could not continue")
        if status == "cancelled":
            cancelled = PendingEvent(type="run.cancelled", payload=payloads.RunCancelled())
            events = split([cancelled], self._clock.now()).events
            return Ending("cancelled", events, self._last_metadata(), facts=self._cost_facts())
        if self._scorecard.cost > self._ceiling:
            return self._budget_ending()
        if len(self._scorecard.tasks) + len(self._scorecard.unmeasured) < len(self._order):
            # only a limit of the cost or the time leaves tasks undone
            return self._unaffordable() if self._budget.exhausted else self._late()
        if self._scorecard.unmeasured and self._batches is not None and self._batches.refused:
            return self._unaffordable()
        if missing := [id for id in self._order if id in self._scorecard.unmeasured]:
            message = f"{len(missing)} of {len(self._order)} tasks could not be measured"
            return self._failed("eval_unmeasured", message, {"taskIds": missing})
        return self._completed_ending()

    def _keep_decided(self, rounds: EvalRounds) -> None:
        """The run is the tasks that it needed to decide. The others were not run."""
        if rounds.has_decided and rounds.looked < len(self._order):
            request, whole = self._scorecard.request, len(self._order)
            self._order = self._order[: rounds.looked]
            self._kinds = {id: self._kinds[id] for id in self._order}
            self._scorecard.request = msgspec.structs.replace(
                request, total=rounds.looked, suite_total=whole, rule="decided"
            )

    def _completed_ending(self) -> Ending:
        scorecard = self._scorecard
        summary = summary_of(scorecard, self._order, self._run.id)
        change = delta(scorecard.request, summary.aggregate_score)
        done = payloads.EvalCompleted(
            aggregate_score=summary.aggregate_score,
            passed=summary.passed,
            task_count=summary.task_count,
            passed_count=summary.passed_count,
            regression_vs_baseline=UNSET if change is None else change,
        )
        evals = PendingEvent(type="eval.completed", payload=done, causation_id=scorecard.start_event)
        last = payloads.RunCompleted(outputs=summary, duration_ms=self._duration())
        facts = [evals, PendingEvent(type="run.completed", payload=last, causation_id=evals.id)]
        passed = (
            None if scorecard.request.suite_total else summary.passed
        )  # a part has no verdict on the suite
        metadata = {**self._last_metadata(), "aggregateScore": summary.aggregate_score}
        metadata |= {} if passed is None else {"passed": passed}
        outcome = msgspec.structs.replace(self._cost_facts(), score=summary.aggregate_score, passed=passed)
        return Ending("completed", split(facts, self._clock.now()).events, metadata, facts=outcome)

    def _cost_facts(self) -> RunFacts:
        return RunFacts(cost=self._scorecard.total_cost)

    def _budget_ending(self) -> Ending:
        cap = payloads.CapBreached(
            kind="budget-cost", limit=self._ceiling, observed=round(self._scorecard.cost, 12)
        )
        return self._failed(
            "budget_exhausted",
            "the run cost more than the limit of this host (ASSAY_MAX_SUITE_COST_USD)",
            first=cap,
        )

    def _unaffordable(self) -> Ending:
        spent, ceiling = self._budget.spent, self._budget.ceiling
        assert ceiling is not None
        reached = BudgetExceeded(spent, ceiling)
        cap = payloads.CapBreached(kind="budget-cost", limit=ceiling, observed=round(spent, 12))
        return self._failed(reached.code, str(reached), first=cap)

    def _late(self) -> Ending:
        limit = round(self._time_budget.seconds * 1000)
        cap = payloads.CapBreached(
            kind="run-duration", limit=limit, observed=max(self._duration(), limit + 1)
        )
        return self._failed("run_timeout", "the run took longer than its time limit", first=cap)

    def _failed(
        self,
        code: str,
        message: str,
        details: dict[str, Any] | None = None,
        first: payloads.CapBreached | None = None,
    ) -> Ending:
        error = payloads.ErrorOf(code=code, message=message, details=details or UNSET)
        facts = [PendingEvent(type="cap.breached", payload=first)] if first else []
        cause = facts[0].id if facts else None
        failed = payloads.RunFailed(error=error, duration_ms=self._duration())
        facts.append(PendingEvent(type="run.failed", payload=failed, causation_id=cause))
        metadata = {**self._last_metadata(), "error": message, "code": code}
        events = split(facts, self._clock.now()).events
        return Ending("failed", events, metadata, facts=self._cost_facts())

    def _duration(self) -> int:
        began = self._run.started or self._run.created
        return max(0, round((self._clock.now() - began).total_seconds() * 1000))


def cost_of(trial: TrialResult, *, free: bool) -> float | None:
    """The cost of one trial, including its judge and its simulated user; None: it is not known."""
    agent: list[Usage] = [step.usage for step in trial.steps if isinstance(step, UsageStep)]
    if not agent and not free:
        return None
    others = (*trial.judge, *trial.user)
    return None if any(usage.cost_usd is None for usage in (*agent, *others)) else known_cost(trial)


def known_cost(trial: TrialResult) -> float:
    """The sum of the costs of one trial that are known."""
    return round(answer_cost(trial) + sum(usage.cost_usd or 0.0 for usage in trial.judge), 12)


def answer_cost(trial: TrialResult) -> float:
    """The part of it that the agent and its simulated user had cost before the judge was asked."""
    agent = [step.usage for step in trial.steps if isinstance(step, UsageStep)]
    return sum(usage.cost_usd or 0.0 for usage in (*agent, *trial.user))
