"""One run of a workflow, thought through from effect to effect (contract §13.2): what it has told, what it knows, and its bounds."""

from collections.abc import Generator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
from msgspec import UNSET, Struct

from assay.ports import Limits
from assay.protocol.event_record import PendingEvent
from assay.protocol.events import CapBreached, ErrorOf
from assay.protocol.orchestration import VariableChanged
from assay.protocol.redaction import redact
from assay.protocol.verification import Role, TurnFailure
from assay.workflow.definition import DISPATCH, Node, Workflow
from assay.workflow.effects import Effect, Result, Wait, stable_id

T = TypeVar("T")
Steps = Generator[Effect, Result, T]

THRESHOLD = 0.7  # of an agent's own confidence, where neither the run nor its manifest says another
FLOOR = 0.5  # of a decision's
LONGEST_WHY = 2_000  # characters
NEVER = datetime.min.replace(tzinfo=UTC)


class ExecutionLimits(NamedTuple):
    """How far a run may go on this host (contract §1.1 `limits`)."""

    executions: int = 1000
    milliseconds: int = 3_600_000
    iterations: int = 25

    @classmethod
    def of(cls, limits: Limits) -> Self:
        return cls(limits.max_node_executions, round(limits.run_seconds * 1000), limits.max_loop_iterations)


class WorkflowRequest(Struct, frozen=True, kw_only=True):
    """What was asked for, as it is kept."""

    workflow: Workflow
    inputs: dict[str, Any] = {}
    configurable: dict[str, Any] = {}
    owner: dict[str, str] = {}
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}
    scope: str = "default"  # of memory; a child has its parent's
    parent: dict[str, str] | None = None  # runId, nodeId, cause
    given: tuple[str, ...] = ()  # agents that are in no settings, as somebody described them; a child's too
    traceparent: str = ""  # of who asked for it; a child has its parent's
    depth: int = 0  # how many parents
    source: str | None = None  # of a fork
    source_steps: int = 0  # that many are the source's, and are not done again
    replay: bool = False
    overlay: dict[str, Any] = {}  # options of a branch, from behind those steps on
    laid: tuple[
        tuple[int, dict[str, Any]], ...
    ] = ()  # and of the branches it goes back to, each by its steps

    @property
    def overlays(self) -> tuple[tuple[int, dict[str, Any]], ...]:
        return (*self.laid, (self.source_steps, self.overlay)) if self.overlay else self.laid

    @property
    def options(self) -> dict[str, Any]:
        """What holds for all that is done anew."""
        return {**self.configurable, **dict(one for _, laid in self.overlays for one in laid.items())}


class RunStopped(Exception):
    """The run cannot go on: its error, and at which node."""

    def __init__(self, code: str, message: str, *, node: str | None = None, **details: Any) -> None:
        self.node = node
        self.error = ErrorOf(code=code, message=message, details=details or UNSET)
        super().__init__(message)


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """What the newest turn came to."""

    verdict: str | None
    committed: bool
    notes: tuple[str, ...] = ()
    met: dict[str, bool] = {}
    gave_up: bool = False
    self_verified: bool = False  # the actor is among those who said so


class Execution:
    """`run` is this run; `origin` the run that its payloads speak of, which is another where it is a replay."""

    def __init__(self, run: str, request: WorkflowRequest, limits: ExecutionLimits) -> None:
        self.run, self.request, self.limits = run, request, limits
        self.origin = request.source if request.replay and request.source else run
        self.workflow = request.workflow
        self.configurable: Mapping[str, Any] = request.configurable
        self.variables: dict[str, Any] = {
            one.name: one.defaultValue for one in self.workflow.variables if one.defaultValue is not UNSET
        } | request.inputs
        self.outputs: dict[str, dict[str, Any]] = {}
        self.pending_events: list[PendingEvent] = []
        self.event_count = 1  # run.started is told before
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
        self.prompt: dict[str, Any] | None = None  # what a person is shown
        self.failures: list[TurnFailure] = []

    # telling

    def emit(
        self,
        type: str,
        payload: Struct,
        *,
        node: str | None = None,
        cause: str | None = None,
        **content: Any,
    ) -> str:
        """One more event; its id. What lies beside it is kept without what is secret (contract §6.5)."""
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
        self.pending_events.append(msgspec.structs.replace(event, content=redact(event.content)))

    def source_event_id(self, event: str) -> str:
        """Of a replay: the id that an event of this run has in the source. Other names stay."""
        if self.origin == self.run or event not in self._places:
            return event
        return stable_id("ev", self.origin, self._places[event])

    def record_failure(self, role: Role, agent: str, why: str | None) -> None:
        """Somebody gave nothing, and why: for its owner, in no event."""
        turn = self.iteration + (role == "supervisor")
        message = (why or "it did not say why")[:LONGEST_WHY]
        self.failures.append(TurnFailure(iteration=turn, agent_id=agent, role=role, why=message))

    def drain(self) -> list[PendingEvent]:
        events, self.pending_events = self.pending_events, []
        return events

    def set(self, name: str, value: Any, *, node: str, cause: str | None = None) -> None:
        before = self.variables.get(name, UNSET)
        self.variables[name] = value
        changed = VariableChanged(name=name, node_id=node)
        self.emit("variable.changed", changed, node=node, cause=cause, previous=before, next=value)

    # asking

    def perform(self, effect: Effect) -> Steps[Result]:
        """What came back. A run that has taken too long ends here."""
        result = yield effect
        if self.started_at == NEVER:
            self.started_at = result.at
        self.now = result.at
        if result.over is not None:
            observed = max(result.over, self.milliseconds + 1)  # clocks may say that it was just in time
            self.breach("run-duration", self.milliseconds, observed, "run_timeout", node=effect.node)
        return result

    def invocation(self) -> str:
        self._invocations += 1
        return stable_id("inv", self.origin, self._invocations)

    # bounds

    @property
    def milliseconds(self) -> int:
        return _smaller(self.configurable.get("runTimeoutMs"), self.limits.milliseconds)

    @property
    def deadline(self) -> datetime | None:
        """When it has taken too long; while it waits for a person, that time does not run."""
        if self.started_at == NEVER:
            return None
        return self.started_at + timedelta(milliseconds=self.milliseconds) + self.waited

    @property
    def iterations(self) -> tuple[int, str]:
        """How many turns a supervisor has, and which of the bounds says so."""
        caps = {"maxLoopIterations": self.limits.iterations}
        caps["configurable.maxLoopIterations"] = self.configurable.get("maxLoopIterations", UNSET)
        for node in self.workflow.nodes:
            caps[f"{node.id}.max_turns"] = node.config.get("maxTurns", UNSET)
            if node.typeId == DISPATCH:
                caps[f"{node.id}.iterationCap"] = node.config.get("iterationCap", UNSET)
        return min((cap, name) for name, cap in caps.items() if cap is not UNSET)

    def enter(self, node: Node) -> None:
        """Count an execution."""
        limit = _smaller(self.configurable.get("recursionLimit"), self.limits.executions)
        self.executions += 1
        if self.executions > limit:
            self.breach("node-executions", limit, self.executions, "recursion_limit_exceeded", node=node.id)

    def breach(
        self, kind: str, limit: float, observed: float, code: str, *, node: str = "", **details: Any
    ) -> None:
        breached = CapBreached(kind=kind, limit=limit, observed=observed, node_id=node or UNSET)
        self.emit("cap.breached", breached, node=node or None, cause=self.decided_id or None)
        raise RunStopped(code, f"{kind}: {observed} is more than {limit}", **details)

    def breach_loop(self, node: str) -> None:
        limit, cap = self.iterations
        self.breach("loop-iterations", limit, limit + 1, "loop_limit_exceeded", node=node, cap=cap)

    @property
    def threshold(self) -> float:
        return self.configurable.get("escalationThreshold", THRESHOLD)


def _smaller(asked: Any, bound: int) -> int:
    return bound if asked is None else min(asked, bound)
