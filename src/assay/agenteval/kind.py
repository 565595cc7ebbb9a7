"""Agent evals as a kind of run: units are trials, events those of openwop-contract §5.1, the result a scorecard."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct

from assay.agenteval.planning.request import EvalLimits, overrides_of
from assay.agenteval.planning.run_header import KIND, EvalHeader, read_request, stored_request
from assay.agenteval.results.eval_statistics import read_kinds
from assay.agenteval.results.scorecard import Scorecard
from assay.agenteval.scoring.expected_calls import ExpectedToolCalls
from assay.agenteval.scoring.safety import SafetyInspector
from assay.agenteval.scoring.safety_records import MODE, read_records
from assay.agenteval.scoring.scoring import judge_arguments
from assay.agenteval.scoring.task_checks import plan_checks
from assay.agenteval.state import EvalState
from assay.agenteval.trial import NamedTask, TrialEnvironment, TrialResult, TrialRunner, TrialUnit
from assay.agents.registered import TenantAgents
from assay.checks.registry import Registry
from assay.concurrency.event_loop import IdleKeys
from assay.errors import EnvironmentFailure
from assay.fep.planning.plan import Plan
from assay.ports import Event, Run, Services, Store
from assay.ports.agents import Agents, Memory, ToolBox, agent_at
from assay.ports.kinds import Ending, UnitOutcome, split
from assay.ports.telemetry import telemetry
from assay.protocol import events as payloads
from assay.protocol.event_record import PendingEvent, decode_event
from assay.protocol.events import EvalScored, TrialEnded
from assay.protocol.json_types import JSON
from assay.protocol.suite_extension import ExtendedTask
from assay.runs.agent_answers import AgentAnswers, answers_of
from assay.runs.run_options import TimeBudget
from assay.traces.span_receiver import SpanReceiver
from assay.traces.trace_case import Price

# Live progress of eval runs for clients that follow them (openwop-contract §5.1). It is not logged and has no
# content.

Tell = Callable[[str, bytes], None]  # takes a run and a progress document
_encode = msgspec.json.Encoder().encode


class ProgressStep(Struct, frozen=True, kw_only=True, rename="camel"):
    """A trial of a task has started, or its result is recorded."""

    run_id: str
    task_id: str
    trial: int
    state: Literal["started", "ended"]


class EvalProgress:
    """Reports trials that start in this process. Until a listener is set, reports are dropped."""

    def __init__(self) -> None:
        self.tell: Tell | None = None

    def start_trial(self, run: str, task_id: str, trial: int) -> None:
        if self.tell is not None:
            self.tell(run, _encode(ProgressStep(run_id=run, task_id=task_id, trial=trial, state="started")))


def progress_of(run: Run, event: Event) -> bytes | None:
    """The progress that an event of the log means; the same in every process."""
    ended = None
    if run.kind == KIND and event.type == "assay.trial.ended":
        ended = msgspec.json.decode(decode_event(event.data).payload, type=TrialEnded)
    elif run.kind == KIND and event.type == "eval.scored" and run.metadata.get("trials", 1) == 1:
        ended = msgspec.json.decode(decode_event(event.data).payload, type=EvalScored)
    if ended is None:
        return None
    trial = ended.trial if isinstance(ended, TrialEnded) else 0
    return _encode(ProgressStep(run_id=run.id, task_id=ended.task_id, trial=trial, state="ended"))


KEPT = 64  # runs whose environments are cached
IDLE = 60.0  # seconds without a trial of a run until its environment is dropped
LiveMemory = Callable[[str, str], Memory]  # takes a tenant and an agent id
_unpack = msgspec.msgpack.Decoder(TrialUnit).decode
_task = msgspec.json.Decoder(ExtendedTask).decode
_named = msgspec.json.Decoder(NamedTask).decode
_pack = msgspec.json.encode  # an agent's number may be too large for msgpack


class EvalDependencies(Struct, frozen=True, kw_only=True):
    """What trials of every run need."""

    agents: Agents
    packs: TenantAgents | None = None  # the agents that tenants brought
    pack_tools: bool = True  # False: agents of packs may not call the live tools of this host
    registry: Registry
    services: Services
    tools: ToolBox | None = None
    memory: LiveMemory | None = None
    limits: EvalLimits = EvalLimits()
    spans: SpanReceiver | None = None  # of the agents' own spans
    price: Price | None = None  # of model calls in spans
    policy: JSON | None = None  # of tool calls, of this host
    checks: Plan | None = None  # of a run that was submitted here; else they are read from the store
    progress: EvalProgress = msgspec.field(default_factory=EvalProgress)


class AgentEvalKind:
    """The environment of a run is built once per process, from the stored request."""

    name = KIND

    def __init__(self, store: Store, dependencies: EvalDependencies) -> None:
        self._store, self._dependencies = store, dependencies
        self._environments: dict[str, TrialEnvironment] = {}
        self._idle = IdleKeys[str](IDLE, self._forget)
        self._lock = asyncio.Lock()
        self._running: dict[str, set[asyncio.Task[Any]]] = {}
        self._stopping: set[str] = set()

    async def restore(self, store: Store, run: Run) -> EvalState:
        request = await read_request(store, run)
        kinds = await read_kinds(store, run)
        dependencies, scorecard = self._dependencies, Scorecard(request)
        if MODE in request.modes:
            async for record in read_records(store, run.id):
                scorecard.add_findings(record.task_id, record.trial, record.findings)
        return EvalState(
            run,
            scorecard,
            kinds,
            dependencies.services.clock,
            self._time_budget(run, request),
            dependencies.limits,
            await answers_of(store, run, keeps=self._keeps_answers),
            dependencies.services.batch_budget,
        )

    @property
    def _keeps_answers(self) -> bool:
        return self._dependencies.services.batch_budget is not None

    def _time_budget(self, run: Run | None, request: EvalHeader) -> TimeBudget:
        dependencies = self._dependencies
        began = run.started if run else None
        return TimeBudget(
            dependencies.services.clock, began, request.run_seconds(dependencies.limits.run_seconds)
        )

    def start_events(self, run: Run) -> UnitOutcome:
        metadata = run.metadata
        began = PendingEvent(
            type="run.started",
            payload=payloads.RunStarted(
                workflow_id=metadata["suiteId"],
                owner=payloads.Owner(tenant=run.tenant, principal=metadata.get("principal", UNSET)),
                tags=metadata.get("tags", UNSET),
            ),
        )
        evals = payloads.EvalStarted(
            suite_id=metadata["suiteId"],
            suite_version=metadata["suiteVersion"],
            task_count=metadata["total"],
            modes=tuple(metadata["modes"]),
            baseline_run_id=metadata.get("baselineRunId", UNSET),
        )
        facts = [began, PendingEvent(type="eval.started", payload=evals, causation_id=began.id)]
        return split(facts, self._dependencies.services.clock.now())

    def unit_name(self, unit: bytes) -> str:
        found = _unpack(unit)
        return f"trial {found.trial + 1} of task {_named(found.task).task_id}"

    async def perform(self, unit: bytes) -> bytes:
        trial_unit = _unpack(unit)
        environment = await self._environment(trial_unit.run)
        runner = TrialRunner(environment, trial_unit, _task(trial_unit.task))
        running = self._running.setdefault(trial_unit.run, set())
        budget = environment.time_budget
        if budget.remaining_seconds:
            self._dependencies.progress.start_trial(trial_unit.run, runner.task_id, trial_unit.trial)
        with telemetry.span("unit", {"assay.run.id": trial_unit.run, "assay.trial": trial_unit.trial}):
            return _pack(
                await perform_trial(runner, running, lambda: trial_unit.run in self._stopping, budget)
            )

    def stop(self, run: str) -> bool:
        self._stopping.add(run)
        self._idle.use(run)
        for task in self._running.get(run, set()):
            task.cancel()
        return True

    async def failure_events(self, run: Run, message: str, code: str) -> Ending:
        error = payloads.ErrorOf(code=code, message=message)
        fact = PendingEvent(type="run.failed", payload=payloads.RunFailed(error=error))
        events = split([fact], self._dependencies.services.clock.now()).events
        return Ending("failed", events, {**run.metadata, "status": "error", "error": message, "code": code})

    def _forget(self, run: str) -> None:
        """Drop the environment of a run of which no trial runs here. Its next one opens another."""
        if self._running.get(run):
            self._idle.use(run)
            return
        self._environments.pop(run, None)
        self._running.pop(run, None)
        self._stopping.discard(run)

    async def _environment(self, run: str) -> TrialEnvironment:
        self._idle.use(run)
        found = self._environments.get(run)
        if found is not None:
            return found
        async with self._lock:  # of tasks that start together, the first reads the store
            found = self._environments.get(run)
            if found is None:
                found = await self._open_environment(run, await stored_request(self._store, run))
                while len(self._environments) >= KEPT:
                    old = next(iter(self._environments))
                    self._environments.pop(old)
                    self._running.pop(old, None)
                self._environments[run] = found
        return found

    async def _open_environment(self, run: str, request: EvalHeader) -> TrialEnvironment:
        dependencies = self._dependencies
        if request.definition is not None and dependencies.packs is not None:
            agent = dependencies.packs.restore(request.definition)
        elif request.tenant_agent and dependencies.packs is not None:
            owner = await self._store.run(run)
            tenant = owner.tenant if owner else ""
            agent = await dependencies.packs.get(tenant, request.agent_id, request.agent_version)
        else:
            agent = agent_at(dependencies.agents.get(request.agent_id), request.agent_version)
        if agent is None:
            raise EnvironmentFailure(
                f"this host no longer has agent {request.agent_id!r} at version {request.agent_version!r}"
            )
        known, memory = await self._store.run(run), None
        if request.live and dependencies.memory is not None:
            memory = partial(dependencies.memory, known.tenant if known else "", request.agent_id)
        return TrialEnvironment(
            request=request,
            agent=overrides_of(agent, request.configurable),
            time_budget=self._time_budget(known, request),
            answers=AgentAnswers(self._store, run, known.tenant if known else "", keeps=self._keeps_answers),
            plan=Plan(None, dependencies.registry.with_checks([ExpectedToolCalls]), dependencies.services),
            services=dependencies.services,
            tools=dependencies.tools if dependencies.pack_tools or not request.tenant_agent else None,
            memory=memory,
            judge=judge_arguments(request.judge),
            checks=self._checks(request),
            spans=dependencies.spans,
            price=dependencies.price,
            inspector=SafetyInspector(
                dependencies.registry, dependencies.services, request.policy, judge_arguments(request.judge)
            )
            if MODE in request.modes
            else None,
        )

    def _checks(self, request: EvalHeader) -> Plan | None:
        dependencies = self._dependencies
        if request.checks is None or dependencies.checks is not None:
            return dependencies.checks
        return plan_checks(request.checks, dependencies.registry, dependencies.services)


async def perform_trial(
    runner: TrialRunner,
    running: set[asyncio.Task[Any]],
    stopping: Callable[[], bool],
    budget: TimeBudget,
) -> TrialResult:
    """
    Run a trial to its end. It is cancelled with the run (`stopping()`), or when the time of the run is up.

    It does not begin after that, as after a long wait in a queue of units.
    """
    remaining_seconds = budget.remaining_seconds
    if not remaining_seconds:
        return runner.result("not begun")
    task = asyncio.current_task()
    assert task is not None
    before, late = task.cancelling(), False

    def cancel_trial() -> None:
        nonlocal late
        budget.end()
        late = task.cancel()

    alarm = asyncio.get_running_loop().call_later(remaining_seconds, cancel_trial)
    running.add(task)
    cut_short: Literal["stopped"] | None = None
    try:
        await runner.run()
    except asyncio.CancelledError:
        if not late and not stopping():
            raise
        cut_short = "stopped"
    finally:
        alarm.cancel()
        running.discard(task)
    while task.cancelling() > before:
        task.uncancel()  # the trial was cancelled, and not who asked for its result
    return runner.result(cut_short)
