"""Workflows as a kind of run: restored by replay, continued step by step, at rest while they wait for a person."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

import msgspec
from msgspec import UNSET

from assay.concurrency.event_loop import run_guarded
from assay.errors import Refusal
from assay.ports import Clock, DeleteDocument, Event, PutDocument, Run, RunFacts, RunStatus, Store
from assay.ports.agents import ChannelResolver
from assay.ports.kinds import LOCAL_ONLY, Ending, UnitOutcome, split
from assay.ports.telemetry import telemetry
from assay.protocol.event_record import PendingEvent, encode_event
from assay.protocol.events import ErrorOf, Owner, RunCancelled, RunFailed, RunStarted
from assay.protocol.json_types import is_object
from assay.protocol.redaction import redact, redact_json
from assay.workflow import KIND
from assay.workflow import llm as models
from assay.workflow.activities import ActivityRunner, StepUnit
from assay.workflow.agent_memory import memory_puts
from assay.workflow.interpreter import ExecutionEnvironment
from assay.workflow.library import INPUTS
from assay.workflow.replayer import Replayer, replay_run
from assay.workflow.state.effects import (
    AskModel,
    AwaitChild,
    Begin,
    Delay,
    Effect,
    Result,
    StartChild,
    StepRecord,
    Wait,
    stable_id,
)
from assay.workflow.state.execution_state import RunStopped, step_chunk
from assay.workflow.state.verdict_gating import goal_satisfied

STATUS: dict[str, RunStatus] = {"clarification": "waiting-input"}
_pack = msgspec.json.encode
_unit = msgspec.json.Decoder(StepUnit).decode
_result = msgspec.json.Decoder(Result).decode


class WorkflowKind:
    name = KIND

    def __init__(self, activities: ActivityRunner, environment: ExecutionEnvironment, clock: Clock) -> None:
        self._activities, self.environment, self._clock = activities, environment, clock
        self._waiting: set[str] = set()  # runs that wait for a child run here
        self.children: dict[
            str, tuple[str, str]
        ] = {}  # by run: the child run that it waits for, and its tenant
        self._cancelling: set[asyncio.Task[Any]] = set()

    @property
    def channels(self) -> ChannelResolver | None:
        """Resolves the channels of agents; None: deployments are not offered."""
        return self._activities.channels

    @channels.setter
    def channels(self, resolver: ChannelResolver | None) -> None:
        self._activities.channels = resolver

    async def restore(self, store: Store, run: Run) -> "WorkflowState":
        replayer, _, facts = await replay_run(store, run, self.environment)
        return WorkflowState(self, run, replayer, facts, self._clock)

    def start_events(self, run: Run) -> UnitOutcome:
        owner = Owner(
            tenant=run.tenant,
            principal=run.metadata.get("principal", UNSET),
            workspace=run.metadata.get("workspace", UNSET),
        )
        tags = tuple(run.metadata["tags"]) if "tags" in run.metadata else UNSET
        fact = PendingEvent(
            type="run.started",
            payload=RunStarted(workflow_id=run.name, owner=owner, tags=tags),
            content={INPUTS: True} if run.metadata.get(INPUTS) else {},
            id=stable_id("ev", run.id, 0),
        )
        return UnitOutcome(split([fact], self._clock.now()).events)  # its content was stored with the request

    def unit_name(self, unit: bytes) -> str:
        return "" if self.is_control_step(unit) else f"step {_unit(unit).step}"

    async def perform(self, unit: bytes) -> bytes:
        step = _unit(unit)
        if isinstance(step.effect, AwaitChild):
            self._waiting.add(step.run)
        try:
            with telemetry.span("unit", {"assay.run.id": step.run, "assay.step": type(step.effect).__name__}):
                return _pack(await self._activities.perform(step))
        finally:
            self._waiting.discard(step.run)

    def is_control_step(self, unit: bytes) -> bool:
        """Whether the step only waits, or starts a child run. It belongs to the process that conducts the run."""
        return isinstance(_unit(unit).effect, Begin | Delay | Wait | StartChild | AwaitChild)

    def stop(self, run: str) -> bool:
        """Cancel the child run too. True: the run waits for the end of that child."""
        child = self.children.pop(run, None)
        if child is None or self._activities.executor is None:
            return False
        task = asyncio.create_task(self._cancel(*child))
        self._cancelling.add(task)
        task.add_done_callback(self._cancelling.discard)
        return run in self._waiting

    async def _cancel(self, child: str, tenant: str) -> None:
        assert self._activities.executor is not None
        # a refusal says that it has ended
        await run_guarded("cancel of a child", self._activities.executor.cancel(child, tenant), Refusal)

    async def failure_events(self, run: Run, message: str, code: str) -> Ending:
        fact = PendingEvent(type="run.failed", payload=RunFailed(error=ErrorOf(code=code, message=message)))
        metadata = {**run.metadata, "error": {"code": code, "message": message}}
        return Ending("failed", [Event("run.failed", encode_event(fact), self._clock.now())], metadata)


class WorkflowState:
    """The state of one run. Its replay must give the recorded events: a difference is a bug and ends the run."""

    def __init__(
        self, kind: WorkflowKind, run: Run, replayer: Replayer, facts: list[PendingEvent], clock: Clock
    ) -> None:
        self._kind, self._run, self.replayer, self._clock = kind, run, replayer, clock
        self.size = replayer.size
        self._expected = deque(["run.started", *(fact.type for fact in facts)])
        self._events = 0
        self._durable = asyncio.Event()

    def add(self, event: Event) -> None:
        expected = self._expected.popleft() if self._expected else "nothing more"
        if event.type != expected:
            raise RuntimeError(f"run {self._run.id} recorded {event.type}, and its replay gives {expected}")
        self._events += 1

    def skip_verified(self, events: int) -> None:
        """Take `events` as recorded and verified."""
        self._events = events
        self._expected.clear()

    def on_commit(self) -> None:
        self._durable.set()

    async def units(self, store: Store) -> AsyncIterator[bytes]:
        while self.replayer.effect is not None and (self._from_source or self.replayer.waiting is None):
            self._expect_child()
            self._durable = asyncio.Event()
            yield _pack(self._next())
            await self._durable.wait()

    def _expect_child(self) -> None:
        effect = self.replayer.effect
        if isinstance(effect, AwaitChild) and not self._from_source:
            self._kind.children[self._run.id] = effect.child, self._run.tenant
        else:
            self._kind.children.pop(self._run.id, None)

    @property
    def _from_source(self) -> bool:
        """In a fork: whether the next result is taken from the source."""
        request = self.replayer.execution.request
        return request.replay or self.replayer.step < request.source_steps

    def _next(self) -> StepUnit:
        replayer, execution = self.replayer, self.replayer.execution
        request, effect = execution.request, replayer.effect
        assert effect is not None
        return StepUnit(
            run=self._run.id,
            tenant=self._run.tenant,
            step=replayer.step,
            effect=effect,  # pyright: ignore[reportArgumentType]
            attempt=replayer.attempt,
            deadline=execution.deadline,
            started_at=None if execution.deadline is None else execution.started_at + execution.waited,
            scope=request.scope,
            turn_step=replayer.turn[0],
            turn_at=replayer.turn[1] if replayer.step else None,
            source=request.source if self._from_source else None,
            replay=request.replay,
        )

    def outcome(self, result: bytes) -> UnitOutcome:
        return self._advance(_result(redact_json(result)))

    def answer(self, result: Result) -> UnitOutcome:
        return self._advance(msgspec.structs.replace(result, value=redact(result.value)))

    def _advance(self, result: Result) -> UnitOutcome:
        """One step: its events, their content and its record, without secrets (openwop-contract §6.5)."""
        replayer = self.replayer
        effect, number = replayer.effect, replayer.step
        assert effect is not None
        facts = replayer.feed(result)
        events, evidence, *_ = split(facts, self._clock.now())
        self._expected.extend(fact.type for fact in facts)
        kept = StepRecord(effect=effect, result=result, events=self._events + len(events))  # pyright: ignore[reportArgumentType]
        documents = [] if replayer.execution.request.replay else self._documents(effect, number, result)
        return UnitOutcome(events, [*evidence, step_chunk(number, kept)], documents)

    def _documents(self, effect: Effect, number: int, result: Result) -> list[PutDocument | DeleteDocument]:
        """Memory writes, and model answers for the cache."""
        changes: list[PutDocument | DeleteDocument] = []
        if is_object(value := result.value):
            if written := value.get("written"):
                scope, ref = value["place"]
                changes += memory_puts(
                    self._run.tenant, (scope, ref), self._run.id, number, written, result.at
                )
            if isinstance(effect, AskModel):
                changes += models.cache_puts(self._run.tenant, effect, value)
        return changes

    def metadata(self) -> dict[str, Any]:
        """The metadata that a list shows. It has no content."""
        execution = self.replayer.execution
        kept = (
            "workflowId",
            "principal",
            "workspace",
            "parent",
            "source",
            "mode",
            "tags",
            "traceparent",
            LOCAL_ONLY,
        )
        metadata = {name: self._run.metadata[name] for name in kept if name in self._run.metadata}
        if execution.iteration:
            metadata |= {"iteration": execution.iteration, "supervisor": execution.supervisor}
        if execution.last_turn is not None and execution.last_turn.verdict is not None:
            metadata["verdict"] = execution.last_turn.verdict
            metadata |= {"selfVerified": True} if execution.last_turn.self_verified else {}
        if wait := self.replayer.waiting:
            deadline = None if wait.deadline is None else wait.deadline.isoformat()
            metadata["waiting"] = {
                "nodeId": wait.node,
                "kind": wait.kind,
                "about": wait.about,
                "interruptId": wait.interrupt,
                "deadline": deadline,
            }
        return metadata

    async def finish(self, store: Store) -> None: ...

    def ending(self, status: RunStatus, refusal: Refusal | None = None) -> Ending:
        replayer, now = self.replayer, self._clock.now()
        self._expect_child()
        if status == "cancelled":
            self._kind.stop(self._run.id)
            parent = (replayer.execution.request.parent or {}).get("runId", UNSET)
            replayer.execution.emit("run.cancelled", RunCancelled(parent_run_id=parent))
            events, evidence, *_ = split(replayer.execution.drain(), now)
            metadata = self.metadata() | {"goalSatisfied": False}
            metadata.pop("waiting", None)
            return Ending("cancelled", events, metadata, evidence)
        facts: list[PendingEvent] = []
        if refusal is not None:
            facts = replayer.fail(RunStopped(refusal.code, str(refusal)))
        self._kind.children.pop(self._run.id, None)
        if (wait := replayer.waiting) is not None:
            return Ending(resting(wait), [], self.metadata())
        assert replayer.end is not None
        events, evidence, *_ = split([*facts, replayer.end.last], now)
        metadata = self.metadata()
        metadata["goalSatisfied"] = goal_satisfied(
            replayer.end.status, replayer.execution.decision, metadata.get("verdict")
        )
        if replayer.end.error:
            metadata["error"] = replayer.end.error
        outcome = RunFacts(passed=metadata["goalSatisfied"])
        return Ending(replayer.end.status, events, metadata, evidence, outcome)


def resting(wait: Wait) -> RunStatus:
    return STATUS.get(wait.kind, "waiting-approval")
