"""
An evaluation that asks an agent, as a kind of run: one trial of one case is a unit, recorded when it ends (ADR-0043).

A stored context of such a run has no output yet: only the number of its trial. A context that has an outcome was
answered in the run that this one continues; it is scored again, and the agent is not asked.
"""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import Struct

from assay.cases.fold import totals_of
from assay.cases.outcomes import outcomes_of
from assay.checks.registry import Registry
from assay.errors import BudgetExceeded, Refusal
from assay.fep.agent_output import AgentDependencies, run_trial
from assay.fep.execute import ExecutionOptions
from assay.fep.kind import EvaluationKind, EvaluationState
from assay.fep.run_header import (
    ShardCompleted,
    ShardUnit,
    StoredRequest,
    UnitResult,
    read_request,
    unit_records,
)
from assay.inputs.context import stored_context
from assay.ports import CaseTotals, Event, Run, RunStatus, Services, Store
from assay.ports.kinds import LOCAL_ONLY, Ending, UnitOutcome
from assay.runs.run_options import CostBudget, TimeBudget

DIGEST, AGENT, VERSION, TRIALS, SOURCE = "inputDigest", "agentId", "agentVersion", "trials", "sourceRunId"
KEPT = (LOCAL_ONLY, DIGEST, AGENT, VERSION, TRIALS, SOURCE)  # members of the metadata that a run keeps
_encode = msgspec.json.Encoder().encode
_pack = msgspec.msgpack.encode
_unit = msgspec.msgpack.Decoder(ShardUnit).decode


class AgentUnitResult(Struct, frozen=True):
    """The result of one trial of one case, and its known cost."""

    unit: UnitResult
    cost_usd: float


_result = msgspec.msgpack.Decoder(AgentUnitResult).decode


class AgentEvaluationKind(EvaluationKind):
    """It is stored as an evaluation. Only the process that has the agent can continue it."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        services: Services,
        options: ExecutionOptions,
        dependencies: AgentDependencies,
    ) -> None:
        super().__init__(store, registry, services, options)
        self._dependencies = dependencies

    async def restore(self, store: Store, run: Run) -> "AgentEvaluationState":
        stored = await read_request(store, run.id)
        request = msgspec.structs.replace(
            stored, agent=self._dependencies.request
        )  # --resume may raise its limits
        hours = TimeBudget(self._services.clock, run.started, self._options.run_seconds)
        return AgentEvaluationState(run, request, self._services, hours, await totals_of(store, run))

    async def perform(self, unit: bytes) -> bytes:
        work, deps = _unit(unit), self._dependencies
        (line,) = work.lines
        context = stored_context(line, deps.plan.services.limits)
        scored, tally = await run_trial(deps, context, work.number, self._options)
        cases = outcomes_of([scored], tally.spending)
        result = UnitResult(work.number, work.first, [scored], tally.record(), tally.summary(), cases)
        return _pack(AgentUnitResult(result, tally.spending.known_cost_usd))


class AgentEvaluationState(EvaluationState):
    """
    The state of one run. It starts no more units when the cost limit is reached, or after an error with `fail_fast`.
    """

    def __init__(
        self,
        run: Run,
        request: StoredRequest,
        services: Services,
        hours: TimeBudget,
        totals: CaseTotals | None = None,
    ) -> None:
        super().__init__(run, request, services, hours, totals=totals)
        assert request.agent is not None
        self._agent = request.agent
        self._budget = CostBudget(request.agent.max_cost)
        self._pending: set[int] = set()  # units that are counted and not recorded yet
        self._erred = False
        self._kept: dict[str, Any] = {name: run.metadata[name] for name in KEPT if name in run.metadata}

    def add(self, event: Event) -> None:
        super().add(event)
        if event.type == "evaluation.shard":
            self._count(msgspec.json.decode(event.data, type=ShardCompleted))

    def _count(self, shard: ShardCompleted) -> None:
        """Count a unit once: when it ends, before the next one starts, or when its event is read back."""
        if shard.unit in self._pending:
            self._pending.discard(shard.unit)
            return
        self._budget.charge(shard.cost_usd)
        self._erred = self._erred or bool(shard.summary.error_checks)

    async def units(self, store: Store) -> AsyncIterator[bytes]:
        async for unit in super().units(store):
            if self._budget.exhausted or (self._agent.fail_fast and self._erred):
                return
            yield unit

    def outcome(self, result: bytes) -> UnitOutcome:
        done = _result(result)
        event, evidence = unit_records(done.unit, self._services.clock.now())
        shard = msgspec.json.decode(event.data, type=ShardCompleted)
        shard = msgspec.structs.replace(shard, cost_usd=done.cost_usd)
        self._count(shard)
        self._pending.add(shard.unit)
        cases = self._table.add(done.unit.first, done.unit.cases)
        return UnitOutcome([msgspec.structs.replace(event, data=_encode(shard))], evidence, cases=cases)

    def metadata(self) -> dict[str, Any]:
        return super().metadata() | self._kept

    def ending(self, status: RunStatus, refusal: Refusal | None = None) -> Ending:
        missing = self._request.total > self._progress.summary.total_test_cases
        if status == "completed" and missing and self._budget.exhausted:
            assert self._budget.ceiling is not None
            return super().ending("failed", BudgetExceeded(self._budget.spent, self._budget.ceiling))
        return super().ending(status, refusal)
