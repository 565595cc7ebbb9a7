"""Evaluations as a kind of run: restored from the store, executed unit by unit, ended with a summary."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from assay.cache import ByteCache
from assay.cases.fold import CHECKS, CaseFold, totals_of
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.concurrency.event_loop import IdleKeys
from assay.concurrency.threads import in_place
from assay.concurrency.workers import batch
from assay.errors import EnvironmentFailure, InvalidRequest, Refusal, RunTimeout
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.outputs.run_result import summary_of
from assay.fep.planning.request import checks_from
from assay.fep.planning.scorer import Scorer
from assay.fep.records.evaluation_statistics import TOTAL, read_totals
from assay.fep.records.run_header import (
    KIND,
    EvaluationEnded,
    EvaluationProgressFold,
    PlannedRequest,
    ShardUnit,
    StoredRequest,
    UnitPlace,
    UnitResult,
    add_summaries,
    case_count,
    count_checks,
    count_or_zero,
    read_request,
    unit_records,
    units,
)
from assay.inputs.context import Context, stored_context
from assay.ports import CaseTotals, Event, EvidenceChunk, Run, RunStatus, Services, Store
from assay.ports.kinds import Ending, UnitOutcome
from assay.ports.telemetry import telemetry
from assay.protocol.evaluation import Check
from assay.protocol.results import CheckResult, EvaluationSummary, Status
from assay.results.tally import Tally
from assay.runs.intake import PARTIAL
from assay.runs.run_options import TimeBudget
from assay.runs.run_statistics import RunStatistics, facts_of, statistics_metadata

PLAN_CACHE = 128 << 20  # bytes of the cached plans of runs; the largest plan fits
IDLE = 60.0  # seconds without a unit of a run until its plan is dropped: who only executes units is not told of its end
_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.encode
_unpack = msgspec.msgpack.Decoder(ShardUnit).decode
_place = msgspec.msgpack.Decoder(UnitPlace).decode
_done = msgspec.msgpack.Decoder(UnitResult).decode


class EvaluationKind:
    """Each process plans a run once, from its stored request."""

    name = KIND

    def __init__(
        self, store: Store, registry: Registry, services: Services, options: ExecutionOptions
    ) -> None:
        self._store, self._registry, self._services, self._options = store, registry, services, options
        self._plans = ByteCache[tuple[PlannedRequest, TimeBudget]](PLAN_CACHE, largest=PLAN_CACHE)
        self._idle = IdleKeys[tuple[str, str]](IDLE, lambda key: self._plans.drop(*key))

    async def restore(self, store: Store, run: Run) -> "EvaluationState":
        try:
            work, hours = await self._load_plan(run.id)
        except InvalidRequest as trouble:  # a check of the run is no longer registered
            hours = TimeBudget(self._services.clock, run.started, self._options.run_seconds)
            request = await read_request(self._store, run.id)
            return EvaluationState(run, request, self._services, hours, trouble, await totals_of(store, run))
        state = EvaluationState(run, work.request, self._services, hours, totals=await totals_of(store, run))
        state.on_end = lambda: self._forget(run)
        return state

    def _forget(self, run: Run) -> None:
        """Drop the plan of a run that has ended here."""
        self._plans.drop(run.id, run.tenant)

    def start_events(self, run: Run) -> UnitOutcome:
        total = _encode({"total": run.metadata.get("total", 0)})
        return UnitOutcome([Event("evaluation.started", total, self._services.clock.now())])

    def stop(self, run: str) -> bool:
        return False

    async def failure_events(self, run: Run, message: str, code: str) -> Ending:
        self._forget(run)
        request = await read_request(self._store, run.id)
        summary = whole_summary(summary_of(run), request, run)
        ended = EvaluationEnded(status="error", summary=summary, code=code)
        last = Event("evaluation.failed", _encode(ended), self._services.clock.now())
        metadata = {
            "summary": msgspec.to_builtins(summary),
            "status": "error",
            "error": message,
            "code": code,
        }
        return Ending("failed", [last], run.metadata | metadata)

    def unit_name(self, unit: bytes) -> str:
        place = _place(unit)
        return f"unit {place.number} (from case {place.first + 1})"

    async def perform(self, unit: bytes) -> bytes:
        shard = _unpack(unit)
        work, hours = await self._load_plan(shard.run)
        attributes = {"assay.run.id": shard.run, "assay.unit": shard.number, "assay.cases": len(shard.lines)}
        with telemetry.span("unit", attributes):
            return _pack(
                await work.perform(shard, self._options._replace(run_seconds=hours.remaining_seconds))
            )

    async def _load_plan(self, run: str) -> tuple[PlannedRequest, TimeBudget]:
        self._idle.use((run, batch.owner.get()))
        planned = self._plans.get(run, batch.owner.get())
        if planned is None:
            request = await read_request(self._store, run)
            work = await in_place(lambda: PlannedRequest(request, self._registry, self._services))
            stored = await self._store.run(run)
            planned = (
                work,
                TimeBudget(self._services.clock, stored and stored.started, self._options.run_seconds),
            )
            size = work.plan.size(len(_encode(request.checks)))
            self._plans.put(run, planned, size, batch.owner.get())
        return planned


class EvaluationState:
    """The state of one run, folded from its events."""

    size = 0

    def __init__(
        self,
        run: Run,
        request: StoredRequest,
        services: Services,
        time_budget: TimeBudget,
        refusal: Refusal | None = None,
        totals: CaseTotals | None = None,
    ) -> None:
        """`refusal`: why this host cannot continue the run. `totals`: of the results that are recorded."""
        self._run, self._request, self._services, self._time_budget = run, request, services, time_budget
        self._refusal = refusal
        self._progress = EvaluationProgressFold()
        self._partial: dict[str, Any] = {PARTIAL: True} if run.metadata.get(PARTIAL) else {}
        self._table = CaseFold(run.metadata.get(CHECKS, ()), totals)
        self._tally, self._statistics = Tally(), RunStatistics()
        self.on_end: Callable[[], None] = lambda: None

    def add(self, event: Event) -> None:
        self._progress.add(event)

    def on_commit(self) -> None: ...

    async def units(self, store: Store) -> AsyncIterator[bytes]:
        if self._partial:
            raise EnvironmentFailure("the server stopped before all cases were stored; send them again")
        if self._refusal is not None:
            raise self._refusal
        async for unit in units(store, self._run.id, self._request, self._progress.units):
            if not self._time_budget.remaining_seconds:
                return
            yield _pack(unit)

    def outcome(self, result: bytes) -> UnitOutcome:
        done = _done(result)
        if not done.lines:  # it has not begun: its cases are skipped as those of units that were never drawn
            return UnitOutcome([])
        event, evidence = unit_records(done, self._services.clock.now())
        return UnitOutcome([event], evidence, cases=self._table.add(done.first, done.cases))

    def metadata(self) -> dict[str, Any]:
        return self._progress.metadata(self._request.total) | self._table.metadata | self._partial

    async def finish(self, store: Store) -> None:
        self._tally, self._statistics = await read_totals(store, self._run, ended=True)

    def ending(self, status: RunStatus, refusal: Refusal | None = None) -> Ending:
        """The end of a run. Cases of a stopped run that never started count as skipped."""
        self.on_end()
        recorded = self._progress.summary
        summary = whole_summary(recorded, self._request, self._run)
        missing = summary.total_test_cases - recorded.total_test_cases
        if status == "completed" and summary.skipped_test_cases and not self._time_budget.remaining_seconds:
            status, refusal = "failed", RunTimeout(self._time_budget.seconds)
        case_status: Status = (
            "error" if summary.error_test_cases else "skip" if missing else self._progress.status
        )
        ended = EvaluationEnded(
            status="error" if status == "failed" else case_status,
            summary=summary,
            code=refusal.code if refusal else "",
        )
        event = Event(f"evaluation.{status}", _encode(ended), self._services.clock.now())
        metadata = {**self.metadata(), "summary": msgspec.to_builtins(summary), "status": ended.status}
        metadata |= statistics_metadata(self._statistics)
        metadata |= {"error": str(refusal), "code": refusal.code} if refusal else {}
        tally = EvidenceChunk(kind=TOTAL, data=_encode(self._tally.record(final=True)))
        return Ending(status, [event], metadata, [tally], facts=facts_of(self._statistics))


def whole_summary(recorded: EvaluationSummary, request: StoredRequest, run: Run) -> EvaluationSummary:
    """
    The summary of a run that has ended: the cases that never started count as skipped, as they are in its results.
    """
    cases = case_count(run) - recorded.total_test_cases
    if not cases:
        return recorded
    checks = max(0, count_checks(request) - count_or_zero(recorded.total_checks))
    missing = EvaluationSummary(
        total_test_cases=cases,
        completed_test_cases=0,
        error_test_cases=0,
        skipped_test_cases=cases,
        total_checks=checks,
        completed_checks=0,
        error_checks=0,
        skipped_checks=checks,
    )
    return add_summaries(recorded, missing)


# Results of cases that never started and whose checks are no longer registered (FEP-28).


class SkippedCases:
    """A stored request with a check that this host does not have: writes its skipped results."""

    def __init__(self, request: StoredRequest, services: Services) -> None:
        self._checks: Any = None if request.checks is None else checks_from(request.checks)
        self._services = services
        self._scorer = Scorer((), (), services, ResultOptions())

    def skip_cases(self, lines: Iterable[bytes], first: int, tally: Tally) -> Iterator[bytes]:
        for at, line in enumerate(lines, first):
            context = stored_context(line, self._services.limits)
            results = [
                CheckResult(
                    check_type=check.type,
                    status="skip",
                    results={},
                    evaluated_at=self._services.clock.now(),
                    metadata=_metadata(check) or UNSET,
                )
                for check in self._checks_of(at, context)
            ]
            answers = tally.answers(tuple(check.name or check.type for check in self._checks_of(at, context)))
            skipped = self._scorer.result_of(context, results, answers)
            tally.count_case(skipped.status)
            yield skipped.line

    def _checks_of(self, index: int, context: Context) -> Sequence[Check]:
        if context.checks is not None or not self._checks:
            return context.checks or ()
        return self._checks[index] if not isinstance(self._checks[0], Check) else self._checks


def _metadata(check: Check) -> dict[str, Any]:
    members = {"check_version": check.version, "check_name": check.name}
    return {name: value for name, value in members.items() if value}


class FrozenClock(NamedTuple):
    """A clock that always returns the same time."""

    moment: datetime

    def now(self) -> datetime:
        return self.moment
