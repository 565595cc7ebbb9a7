"""The state of a run while it is interpreted (openwop-contract §13.2): its events, variables and limits."""

from collections.abc import Generator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
from msgspec import UNSET, Struct, field

from assay.concurrency.threads import LARGE, json_size, off_loop
from assay.ports import EvidenceChunk, Limits, Store
from assay.protocol.event_record import PendingEvent
from assay.protocol.events import CapBreached, ErrorOf
from assay.protocol.json_types import is_object
from assay.protocol.orchestration import VariableChanged
from assay.protocol.redaction import redact
from assay.protocol.verification import Role, TurnFailure
from assay.runs.erasure import request_data
from assay.runs.log_reader import read_chunks
from assay.workflow.state.definition import DISPATCH, Node, Workflow
from assay.workflow.state.effects import Effect, Result, StepRecord, Wait, stable_id

T = TypeVar("T")
Steps = Generator[Effect, Result, T]

THRESHOLD = 0.7  # of an agent's confidence, unless the run or its manifest has another
FLOOR = 0.5  # of a decision's confidence
LONGEST_WHY = 2_000  # characters
NEVER = datetime.min.replace(tzinfo=UTC)


class ExecutionLimits(NamedTuple):
    """How far a run may go on this host (openwop-contract §1.1 `limits`)."""

    executions: int = 1000
    milliseconds: int = 3_600_000
    iterations: int = 25

    @classmethod
    def of(cls, limits: Limits) -> Self:
        return cls(limits.max_node_executions, round(limits.run_seconds * 1000), limits.max_loop_iterations)


class WorkflowRequest(Struct, frozen=True, kw_only=True):
    """The stored request of a run."""

    workflow: Workflow
    inputs: dict[str, Any] = {}
    configurable: dict[str, Any] = {}
    owner: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    scope: str = "default"  # of memory; a child run has its parent's
    parent: dict[str, str] | None = None  # runId, nodeId, cause
    # specs of agents that are not in the settings; child runs inherit them
    agent_specs: tuple[str, ...] = field(default=(), name="given")
    traceparent: str = ""  # of the request; a child run has its parent's
    depth: int = 0  # number of ancestors
    source: str | None = None  # the run that this one forks
    source_steps: int = 0  # how many steps are taken from the source
    replay: bool = False
    overlay: dict[str, Any] = {}  # options of a branch, after those steps
    # options of earlier branches, each with its number of steps
    earlier_overlays: tuple[tuple[int, dict[str, Any]], ...] = field(default=(), name="laid")

    @property
    def overlays(self) -> tuple[tuple[int, dict[str, Any]], ...]:
        return (
            (*self.earlier_overlays, (self.source_steps, self.overlay))
            if self.overlay
            else self.earlier_overlays
        )

    @property
    def options(self) -> dict[str, Any]:
        """The options that apply to new steps."""
        return {**self.configurable, **dict(item for _, overlay in self.overlays for item in overlay.items())}


class RunStopped(Exception):
    """Ends the run as failed, with an error and the node where it happened."""

    def __init__(self, code: str, message: str, *, node: str | None = None, **details: Any) -> None:
        self.node = node
        self.error = ErrorOf(code=code, message=message, details=details or UNSET)
        super().__init__(message)


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """The outcome of the newest turn."""

    verdict: str | None
    committed: bool
    notes: tuple[str, ...] = ()
    met: dict[str, bool] = {}
    gave_up: bool = False
    self_verified: bool = False  # the actor is one of its critics


class Execution:
    """`run` is this run. `origin` is the run that payloads name: of a replay, its source."""

    def __init__(self, run: str, request: WorkflowRequest, limits: ExecutionLimits) -> None:
        self.run, self.request, self.limits = run, request, limits
        self.origin = request.source if request.replay and request.source else run
        self.workflow = request.workflow
        self.configurable: Mapping[str, Any] = request.configurable
        self.variables: dict[str, Any] = {
            one.name: one.defaultValue for one in self.workflow.variables if one.defaultValue is not UNSET
        } | request.inputs
        self._redactor = Redactor()
        self._redactor.remember(request.inputs)
        self.outputs: dict[str, dict[str, Any]] = {}
        self.pending_events: list[PendingEvent] = []
        self.event_count = 1  # run.started comes first
        self._places: dict[str, int] = {}
        self.started_at = self.now = NEVER
        self.waited = timedelta()
        self.executions = self.iteration = self._invocations = 0
        self.decision: dict[str, Any] | None = None
        self.decided_id = self.supervisor = ""
        self.terminated = False
        self.last_turn: TurnOutcome | None = None
        self.answer: Any = None
        self.current: str | None = None
        self.waiting: Wait | None = None
        self.agent: dict[str, Any] | None = None
        self.prompt: dict[str, Any] | None = None  # what the person sees, while the run waits
        self.failures: list[TurnFailure] = []
        self.pins: dict[tuple[str, str], str] = {}  # the version of each agent and channel, once resolved

    # events

    def emit(
        self,
        type: str,
        payload: Struct,
        *,
        node: str | None = None,
        cause: str | None = None,
        **content: Any,
    ) -> str:
        """Emit an event; return its id. `content` is stored apart, without secrets (openwop-contract §6.5)."""
        present = {name: value for name, value in content.items() if value is not UNSET}
        id = self.next_event_id()
        self.append(
            PendingEvent(type=type, payload=payload, content=present, node_id=node, causation_id=cause, id=id)
        )
        return id

    def next_event_id(self) -> str:
        """The id that the next event must have. It depends on the run and the number of events so far."""
        return stable_id("ev", self.run, self.event_count)

    def append(self, event: PendingEvent) -> None:
        """Emit an event with the id `next_event_id()`. Secrets are removed from its content."""
        self._places[event.id] = self.event_count
        self.event_count += 1
        self.pending_events.append(msgspec.structs.replace(event, content=self.redact(event.content)))

    def redact(self, value: Any) -> Any:
        """A copy without secrets. Large inputs and results of this run are searched once, not each time."""
        return self._redactor.redact(value)

    def source_event_id(self, event: str) -> str:
        """In a replay: the id that an event of this run has in the source. Other ids are returned as they are."""
        if self.origin == self.run or event not in self._places:
            return event
        return stable_id("ev", self.origin, self._places[event])

    def record_failure(self, role: Role, agent: str, reason: str | None) -> None:
        """Record that an agent gave no result, and why. The owner of the run sees it; no event has it."""
        turn = self.iteration + (role == "supervisor")
        message = (reason or "no reason was given")[:LONGEST_WHY]
        self.failures.append(TurnFailure(iteration=turn, agent_id=agent, role=role, reason=message))

    def drain(self) -> list[PendingEvent]:
        events, self.pending_events = self.pending_events, []
        return events

    def set(self, name: str, value: Any, *, node: str, cause: str | None = None) -> None:
        before = self.variables.get(name, UNSET)
        self.variables[name] = value
        changed = VariableChanged(name=name, node_id=node)
        self.emit("variable.changed", changed, node=node, cause=cause, previous=before, next=value)

    # effects

    def perform(self, effect: Effect) -> Steps[Result]:
        """Perform an effect and return its result. The run ends here if its time is up."""
        result = yield effect
        self._redactor.remember(result.value)
        if self.started_at == NEVER:
            self.started_at = result.at
        self.now = result.at
        if result.timed_out_after_ms is not None:
            observed = max(result.timed_out_after_ms, self.milliseconds + 1)  # the clocks may differ a little
            self.breach("run-duration", self.milliseconds, observed, "run_timeout", node=effect.node)
        return result

    def invocation(self) -> str:
        self._invocations += 1
        return stable_id("inv", self.origin, self._invocations)

    # limits

    @property
    def milliseconds(self) -> int:
        return _smaller(self.configurable.get("runTimeoutMs"), self.limits.milliseconds)

    @property
    def deadline(self) -> datetime | None:
        """When its time is up. Time in which it waits for a person does not count."""
        if self.started_at == NEVER:
            return None
        return self.started_at + timedelta(milliseconds=self.milliseconds) + self.waited

    @property
    def iterations(self) -> tuple[int, str]:
        """How many turns a supervisor has, and the name of the setting that limits them."""
        caps = {"maxLoopIterations": self.limits.iterations}
        caps["configurable.maxLoopIterations"] = self.configurable.get("maxLoopIterations", UNSET)
        for node in self.workflow.nodes:
            caps[f"{node.id}.max_turns"] = node.config.get("maxTurns", UNSET)
            if node.typeId == DISPATCH:
                caps[f"{node.id}.iterationCap"] = node.config.get("iterationCap", UNSET)
        return min((cap, name) for name, cap in caps.items() if cap is not UNSET)

    def enter(self, node: Node) -> None:
        """Count an execution of a node."""
        limit = _smaller(self.configurable.get("recursionLimit"), self.limits.executions)
        self.executions += 1
        if self.executions > limit:
            self.breach("node-executions", limit, self.executions, "recursion_limit_exceeded", node=node.id)

    def breach(
        self, kind: str, limit: float, observed: float, code: str, *, node: str = "", **details: Any
    ) -> None:
        breached = CapBreached(kind=kind, limit=limit, observed=observed, node_id=node or UNSET)
        self.emit("cap.breached", breached, node=node or None, cause=self.decided_id or None)
        raise RunStopped(code, f"{kind}: {observed} is over the limit of {limit}", **details)

    def breach_loop(self, node: str) -> None:
        limit, cap = self.iterations
        self.breach("loop-iterations", limit, limit + 1, "loop_limit_exceeded", node=node, cap=cap)

    @property
    def threshold(self) -> float:
        return self.configurable.get("escalationThreshold", THRESHOLD)


def _smaller(option: Any, limit: int) -> int:
    return limit if option is None else min(option, limit)


# Redaction of the content of events, where a large value is searched for secrets once and not in every event that
# repeats it.

LEVELS = 3  # of objects inside a value that are remembered, and looked up in an event's content
MEMBERS = 1_000  # of one object that are remembered


class Redactor:
    """Removes secrets as `redact` does, from values that may contain large parts it has already seen without them."""

    def __init__(self) -> None:
        self._clean: dict[int, Any] = {}  # by id; the value is held, so that its id stays its own

    def remember(self, value: Any) -> None:
        """Search a large value once. If it has no secrets, it is not searched again; it must not change any more."""
        if json_size(value) > LARGE and redact(value) == value:
            self._remember(value, LEVELS)

    def _remember(self, value: Any, levels: int) -> None:
        if isinstance(value, dict | list) or (isinstance(value, str) and len(value) > LARGE):
            self._clean[id(value)] = value  # pyright: ignore[reportUnknownArgumentType]
        if levels and is_object(value) and len(value) <= MEMBERS:
            for part in value.values():
                self._remember(part, levels - 1)

    def redact(self, value: Any) -> Any:
        """Equal to `redact(value)`. Remembered parts are not copied."""
        return self._redact(value, LEVELS) if self._clean else redact(value)

    def _redact(self, value: Any, levels: int) -> Any:
        if id(value) in self._clean:
            return value
        if not levels or not is_object(value) or len(value) > MEMBERS:
            return redact(value)
        copy: dict[str, Any] = {}
        for name, part in value.items():
            # A text is also redacted for its name, so a remembered one may be a secret here.
            if isinstance(part, str) and (len(part) <= LARGE or redact({name: "x"}) != {name: "x"}):
                copy |= redact({name: part})
            else:
                (shown,) = redact({name: 0})
                copy[shown] = self._redact(part, levels - 1)
        return copy


# The stored request and steps of a workflow run. They are evidence and are never shown.

REQUEST = "workflow-request"
STEP = "step"
PAGE = 100
_step = msgspec.json.Decoder(StepRecord).decode
_request = msgspec.json.Decoder(WorkflowRequest).decode


def request_chunk(request: WorkflowRequest) -> EvidenceChunk:
    return EvidenceChunk(kind=REQUEST, data=msgspec.json.encode(request))


def step_chunk(number: int, record: StepRecord) -> EvidenceChunk:
    return EvidenceChunk(kind=STEP, first=number, last=number, data=msgspec.json.encode(record))


async def read_request(store: Store, run: str) -> WorkflowRequest:
    """The stored request. Erased: its content is gone."""
    data = await request_data(store, run, REQUEST)
    return await off_loop(len(data), lambda: _request(data))


async def read_steps(store: Store, run: str) -> list[StepRecord]:
    return [_step(chunk.data) async for chunk in read_chunks(store, run, STEP, limit=PAGE)]
