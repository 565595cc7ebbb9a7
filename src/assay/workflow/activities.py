"""Carries out the effects of a workflow. No other part of a workflow has side effects."""

import asyncio
from datetime import datetime
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Struct

from assay.agents.invocation import Invocation, invoke
from assay.errors import Conflict, Fault, Refusal
from assay.ports import CLOSED, Run, Services, Store
from assay.ports.agents import Agent, Agents, ChannelResolver, ToolBox
from assay.protocol.redaction import redact_text
from assay.workflow import llm as models
from assay.workflow.agent_memory import AsOf, JournalMemory
from assay.workflow.critics import Critics, VerifiedTools
from assay.workflow.interpreter import ExecutionEnvironment
from assay.workflow.library import Library, open_transaction
from assay.workflow.replayer import CANCELLED, replay_run
from assay.workflow.state import effects
from assay.workflow.state.effects import AnyEffect, EffectError, Result
from assay.workflow.state.execution_state import WorkflowRequest, read_request, read_steps
from assay.workflow.state.turns import AgentTurn
from assay.workflow.verification_report import workers

PATIENCE = 5.0  # seconds between two looks at a child run without events
SECONDS = 120.0  # that an agent's turn may take
DEEPEST = 16  # levels of child runs


class Executor(Protocol):
    """What activities need of the RunExecutor."""

    @property
    def executor_id(self) -> str: ...
    @property
    def lease(self) -> float: ...
    def start(self, run: Run) -> None: ...
    async def cancel(self, run: str, tenant: str) -> Run: ...
    async def wait(self, run: str) -> Run: ...


class StepUnit(Struct, frozen=True, kw_only=True):
    """One step, as it is sent through an engine."""

    run: str
    tenant: str
    step: int
    effect: AnyEffect
    attempt: int = 0  # how often this node had an effect of this type before
    deadline: datetime | None = None
    started_at: datetime | None = None
    scope: str = "default"
    turn_step: int = 0  # the step as of which memory is read
    turn_at: datetime | None = None
    source: str | None = None  # the run whose recorded result is used
    replay: bool = False


class ActivityRunner:
    def __init__(
        self,
        store: Store,
        library: Library,
        agents: Agents,
        critics: Critics,
        services: Services,
        tools: ToolBox | None = None,
        *,
        environment: ExecutionEnvironment | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._store, self._library, self._agents, self._critics = store, library, agents, critics
        self._services, self._tools, self._environment, self._seconds = (
            services,
            tools,
            environment or ExecutionEnvironment(),
            seconds,
        )
        self.clock = services.clock
        self.executor: Executor | None = None  # set once the RunExecutor exists
        self.channels: ChannelResolver | None = None  # None: deployments are not offered

    async def perform(self, unit: StepUnit) -> Result:
        """The result of one effect. When the run's time is up, the result says by how many milliseconds."""
        if unit.source is not None:
            return await self._replay_result(unit)
        left = None
        if unit.deadline is not None:
            left = max((unit.deadline - self._services.clock.now()).total_seconds(), 0)
        try:
            async with asyncio.timeout(left):
                outcome = await self._dispatch(unit)
        except TimeoutError:
            now = self._services.clock.now()
            spent = now - (unit.started_at or now)
            return Result(at=now, timed_out_after_ms=max(round(spent.total_seconds() * 1000), 1))
        now = self._services.clock.now()
        return (
            Result(at=now, error=outcome)
            if isinstance(outcome, EffectError)
            else Result(at=now, value=outcome)
        )

    async def _dispatch(self, unit: StepUnit) -> Any:
        match unit.effect:
            case effects.Delay(ms=ms):
                return await asyncio.sleep(ms / 1000)
            case effects.Invoke() as effect:
                return await self._invoke(unit, effect)
            case effects.Verify() as effect:
                found = await self._critics.judge(
                    effect.critic, effect.task, effect.result, effect.target, effect.criteria
                )
                return msgspec.to_builtins(found)
            case effects.StartChild() as effect:
                return await self._start(unit, effect)
            case effects.AwaitChild(child=child):
                return await self._await(child)
            case effects.AskModel() as effect:
                return await models.complete(self._store, self._services, unit.tenant, effect)
            case _:
                return None

    async def _invoke(self, unit: StepUnit, effect: effects.Invoke) -> Any:
        agent = await self._agent(unit, effect)
        if isinstance(agent, EffectError):
            return agent
        now = self._services.clock.now()
        view = AsOf(run=unit.run, step=unit.turn_step, at=unit.turn_at or now)
        place = (unit.scope, effect.memory or f"agent:{effect.agent}")
        memory = JournalMemory(self._store, unit.tenant, place, view, self._services.clock)
        tools = VerifiedTools(self._tools, self._critics, effect) if effect.critics else self._tools
        invocation = Invocation(
            agent.card,
            tools,
            memory,
            live=tools is not None,
            runs_own=tools is not None and not effect.critics,  # critics see the calls of live tools alone
            invocation_id=effect.invocation,
            memory_ref=effect.memory or "agent",
            seconds=self._seconds,
            max_depth=self._services.limits.max_depth,
        )
        try:
            # the workflow compares its confidence
            finish = await invoke(agent, effect.task, invocation, min_confidence=0.0)
        except Fault as fault:
            what = f"agent {effect.agent} could not be called: {type(fault).__name__}"
            return EffectError("agent_unreachable", what, redact_text(str(fault)))
        turn = AgentTurn(
            agent=agent.card.agent_id,
            outcome=finish.outcome,
            version=agent.card.version,
            channel=effect.channel,
            tools=len(invocation.tools),
            threshold=agent.card.threshold,
            result=None if finish.result is UNSET else finish.result,
            confidence=finish.confidence,
            error=finish.error,
            schema_validated=finish.schema_validated,
            criteria=agent.card.criteria,
            steps=tuple(invocation.steps),
            tool_verdicts=tools.verdicts if isinstance(tools, VerifiedTools) else {},
        )
        document: dict[str, Any] = msgspec.to_builtins(turn)
        return document | {"written": msgspec.to_builtins(memory.written), "place": list(place)}

    async def _agent(self, unit: StepUnit, effect: effects.Invoke) -> Agent | EffectError:
        """The agent of an effect. A channel is resolved once in a run; then the run has its version."""
        if effect.channel is None:
            agent = self._agents.get(effect.agent)
        elif self.channels is None:
            return EffectError("capability_not_provided", "this host does not offer deployments")
        elif effect.version is not None:
            agent = await self.channels.get(unit.tenant, effect.agent, effect.version)
        else:
            try:
                agent = await self.channels.resolve(unit.tenant, unit.run, effect.agent, effect.channel)
            except Refusal as refusal:
                if refusal.code != "no_active_deployment":
                    raise
                return EffectError(refusal.code, str(refusal))
        at = "" if effect.version is None else f" at version {effect.version}"
        return agent or EffectError("capability_not_provided", f"this host has no agent {effect.agent!r}{at}")

    async def _start(self, unit: StepUnit, effect: effects.StartChild) -> Any:
        workflow = self._library.get(effect.workflow)
        if workflow is None:
            return EffectError("unknown_child_workflow", f"this host has no workflow {effect.workflow!r}")
        parent = await read_request(self._store, unit.run)
        if parent.depth >= DEEPEST:
            return EffectError("recursion_limit_exceeded", f"child runs may be nested at most {DEEPEST} deep")
        request = WorkflowRequest(
            workflow=workflow,
            inputs=effect.inputs,
            configurable=inherited_options(parent.options),
            owner=parent.owner,
            scope=parent.scope,
            parent={"runId": unit.run, "nodeId": effect.node, "cause": effect.cause},
            agent_specs=parent.agent_specs,
            traceparent=parent.traceparent,
            depth=parent.depth + 1,
        )
        assert self.executor is not None
        try:
            entry = open_transaction(
                effect.child, request, unit.tenant, self.executor.executor_id, self.executor.lease
            )
            await self._store.commit(entry)
        except Conflict as conflict:
            if conflict.reason != "exists":
                raise
            await self._store.claim(effect.child, self.executor.executor_id, seconds=self.executor.lease)
        run = await self._store.run(effect.child, tenant=unit.tenant)
        if run is not None and run.holder == self.executor.executor_id:
            self.executor.start(run)
        return {"run": effect.child}

    async def _await(self, child: str) -> Any:
        """Wait for the end of a child run. A child without a holder is claimed first."""
        assert self.executor is not None
        claimed = await self._store.claim(child, self.executor.executor_id, seconds=self.executor.lease)
        if claimed is not None:
            self.executor.start(claimed)
        while True:
            run = await self._store.run(child)
            if run is None:
                return {
                    "status": "failed",
                    "error": {"code": "not_found", "message": "the child run no longer exists"},
                }
            if run.status in CLOSED:
                break
            await self._store.wait_for_events(child, after=run.events - 1, timeout=PATIENCE)
        if run.status == "completed":
            replayer, _, _ = await replay_run(self._store, run, self._environment)
            return {
                "status": run.status,
                "variables": replayer.execution.variables,
                "goalSatisfied": run.metadata.get("goalSatisfied", True),
                "workers": sorted(await workers(self._store, child)),
            }
        error = run.metadata.get("error") or {
            "code": run.status,
            "message": f"the child run was {run.status}",
        }
        return {"status": run.status, "error": {"code": error["code"], "message": error["message"]}}

    async def _replay_result(self, unit: StepUnit) -> Result:
        """The result that a fork's source recorded here. A replay may call a model again (openwop-contract §13.9)."""
        assert unit.source is not None
        same = [
            stored
            for stored in await read_steps(self._store, unit.source)
            if type(stored.effect) is type(unit.effect) and stored.effect.node == unit.effect.node
        ]
        now = self._services.clock.now()
        if unit.attempt >= len(same):
            return Result(at=now, error=await self._missing(unit.source))
        stored = same[unit.attempt].result
        if not (unit.replay and isinstance(unit.effect, effects.AskModel)) or stored.error is not None:
            return stored
        if (known := await models.cached_answer(self._store, unit.tenant, unit.effect)) is not None:
            return msgspec.structs.replace(stored, value=known)
        outcome = await models.complete(self._store, self._services, unit.tenant, unit.effect)
        if isinstance(outcome, EffectError):
            return Result(at=stored.at, error=outcome)
        return msgspec.structs.replace(
            stored, value=outcome | {"original": await self._original(unit, stored)}
        )

    async def _missing(self, source: str) -> EffectError:
        run = await self._store.run(source)
        if run is not None and run.status == "cancelled":
            return EffectError(CANCELLED, "the source run was cancelled at this step")
        return EffectError("replay_source_missing", "the source run recorded no result for this step")

    async def _original(self, unit: StepUnit, result: Result) -> dict[str, Any]:
        assert unit.source is not None
        kind = "refusal" if "refusal" in result.value else "valid"
        expected = "envelope.refusal" if kind == "refusal" else "node.completed"
        for event in await self._store.events(unit.source, limit=10_000):
            document = msgspec.json.decode(event.data)
            if event.type == expected and document.get("nodeId") == unit.effect.node:
                return {"kind": kind, "sequence": event.sequence, "event": document["eventId"]}
        return {"kind": kind, "sequence": 0, "event": ""}


def inherited_options(configurable: dict[str, Any]) -> dict[str, Any]:
    """The options that a child run inherits. Limits are not inherited."""
    own = ("runTimeoutMs", "maxLoopIterations", "recursionLimit")
    return {name: value for name, value in configurable.items() if name not in own}
