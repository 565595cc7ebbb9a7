"""A workflow run turn by turn, with content: candidates, verdicts, questions for a person, and what was committed."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from assay.concurrency.threads import off_loop
from assay.ports import CLOSED, Run, Store
from assay.protocol.event_record import PendingEvent
from assay.protocol.json_types import is_object
from assay.protocol.verification import CriticVerdict, TurnFailure, VerificationReport
from assay.workflow.interpreter import ExecutionEnvironment
from assay.workflow.replayer import Replayer, replay_run
from assay.workflow.state.effects import Invoke, StepRecord, Verify, Wait
from assay.workflow.state.turns import AgentTurn, CriticResult
from assay.workflow.verification_report import report_of

TurnState = Literal["working", "waiting", "committed", "withheld", "failed"]


class CriterionVerdict(Struct, frozen=True, kw_only=True, rename="camel"):
    """A criterion that a critic looked at. `met` is None if the critic did not say."""

    key: str
    met: bool | None


class TurnVerdict(Struct, frozen=True, kw_only=True, rename="camel"):
    """A verdict with its reasons. `about` is what it judges: the result of the turn, or the answer of a tool."""

    agent_id: str
    verdict: str
    about: Literal["result", "tool"]
    criteria: tuple[CriterionVerdict, ...]
    at: datetime
    confidence: float | None = None
    notes: str = ""
    error: str | None = None
    self_verified: bool = False


class TurnQuestion(Struct, kw_only=True, rename="camel"):
    """A question for a person, and the answer, if there is one. `subject` is what the person decides about."""

    node_id: str
    kind: str
    about: str
    actions: tuple[str, ...]
    at: datetime
    subject: Any = None
    deadline: datetime | None = None
    action: str | None = None  # of the answer; `timeout`: there was none in time
    answered_by: str | None = None
    answered_at: datetime | None = None


class LoopTurn(Struct, kw_only=True, rename="camel"):
    """One turn of the actor. `candidate` is its result, whether or not it was committed."""

    iteration: int
    at: datetime
    actor_id: str | None = None
    child_run_id: str | None = None
    has_candidate: bool = False
    candidate: Any = None
    confidence: float | None = None
    verdicts: list[TurnVerdict] = field(default_factory=list[TurnVerdict])
    questions: list[TurnQuestion] = field(default_factory=list[TurnQuestion])
    failures: list[TurnFailure] = field(default_factory=list[TurnFailure])
    state: TurnState = "working"
    limit_reached: bool = False  # it was the last turn that the loop allows


class LoopEnd(Struct, frozen=True, kw_only=True, rename="camel"):
    """The decision that ended the loop. `gave_up`: a criterion is not met."""

    reason: str
    gave_up: bool
    criteria: tuple[CriterionVerdict, ...]
    at: datetime


class TurnLog(Struct, frozen=True, kw_only=True, rename="camel"):
    """Some turns of a run, from number `first` on. `task` and `result` are content, as candidates and notes are."""

    report: VerificationReport
    total: int
    first: int
    turns: tuple[LoopTurn, ...]
    max_turns: int | None
    task: Any
    result: Any
    end: LoopEnd | None = None


class _Fold:
    """Reads the recorded steps in order, each with its events."""

    def __init__(self, replayer: Replayer, verdicts: Sequence[CriticVerdict]) -> None:
        self._execution, self._verdicts = replayer.execution, iter(verdicts)
        self.turns: list[LoopTurn] = []
        self.end: LoopEnd | None = None
        self._results: Iterator[CriticResult] = iter(())
        self._question: TurnQuestion | None = None

    def add(self, record: StepRecord, facts: Sequence[PendingEvent], following: Wait | None) -> None:
        """`following`: the wait for a person that comes after this step."""
        effect, at = record.effect, record.result.at
        if isinstance(effect, Verify):
            self._results = iter([msgspec.convert(record.result.value, CriticResult)])
        elif isinstance(effect, Invoke) and record.result.error is None:
            done = msgspec.convert(record.result.value, AgentTurn)
            self._results = (one for listed in done.tool_verdicts.values() for one in listed)
        for fact in facts:
            self._read(fact, msgspec.to_builtins(fact.payload), at, about_tool=isinstance(effect, Invoke))
        if following is not None and self._question is not None:
            self._question.about, self._question.actions = following.about, following.actions
            self._question.deadline = following.deadline

    def _read(self, fact: PendingEvent, payload: dict[str, Any], at: datetime, *, about_tool: bool) -> None:
        if fact.type == "runOrchestrator.decided":
            self._decide(payload, fact.content, at)
        elif fact.type == "interrupt.requested":
            self._ask(fact, payload, at)
        elif fact.type in ("approval.received", "clarification.resolved") and self._question is not None:
            self._question.action = payload.get("action", "answer")
            self._question.answered_by = payload.get("decidedBy", payload.get("answeredBy"))
            self._question.answered_at, self._question = at, None
        if self.turns:
            self._extend(self.turns[-1], fact, payload, at, about_tool=about_tool)

    def _extend(
        self, turn: LoopTurn, fact: PendingEvent, payload: dict[str, Any], at: datetime, *, about_tool: bool
    ) -> None:
        if fact.type == "agent.decided":
            turn.actor_id, turn.confidence = payload["agentId"], payload.get("confidence")
            turn.candidate, turn.has_candidate = fact.content.get("decision"), True
        elif fact.type == "node.dispatched":
            turn.child_run_id, turn.actor_id = payload["childRunId"], payload["childWorkflowId"]
        elif fact.type == "agent.verified":
            turn.verdicts.append(self._verdict(payload, at, about_tool=about_tool))
        elif fact.type == "variable.changed" and payload["name"] == "result":
            turn.state, turn.candidate, turn.has_candidate = "committed", fact.content.get("next"), True
        elif fact.type == "cap.breached":
            turn.limit_reached = True
        elif fact.type == "node.completed" and turn.state == "working":
            outcome = fact.content.get("outputs", {}).get("outcome")
            turn.state = outcome if outcome in ("withheld", "failed") else turn.state

    def _decide(self, payload: dict[str, Any], content: dict[str, Any], at: datetime) -> None:
        decision = payload["decision"]
        if decision["kind"] != "terminate":
            workers = decision.get("nextWorkerIds", ())
            actor = workers[0] if len(workers) == 1 else None
            self.turns.append(LoopTurn(iteration=payload["iteration"], actor_id=actor, at=at))
            return
        criteria = tuple(
            CriterionVerdict(key=one["key"], met=one["met"]) for one in decision.get("successCriteria", ())
        )
        spoken = content.get("decision")
        reason = decision.get("reason", spoken.get("reason", "") if is_object(spoken) else "")
        self.end = LoopEnd(
            reason=str(reason), gave_up=any(not one.met for one in criteria), criteria=criteria, at=at
        )

    def _ask(self, fact: PendingEvent, payload: dict[str, Any], at: datetime) -> None:
        question = TurnQuestion(
            node_id=payload["key"],
            kind=payload["kind"],
            about="",
            actions=(),
            at=at,
            subject=fact.content.get("data"),
        )
        if not self.turns:  # before the first decision
            self.turns.append(LoopTurn(iteration=0, at=at))
        self.turns[-1].questions.append(question)
        self._question = question

    def _verdict(self, payload: dict[str, Any], at: datetime, *, about_tool: bool) -> TurnVerdict:
        judged, found = next(self._verdicts, None), next(self._results, None)
        passed = payload["verdict"] == "pass"
        met = {} if found is None else found.criteria_met
        keys = dict.fromkeys([*payload.get("criteria", ()), *met])
        return TurnVerdict(
            agent_id=payload["agentId"],
            verdict=payload["verdict"],
            about="tool" if about_tool else "result",
            criteria=tuple(
                CriterionVerdict(key=key, met=met.get(key, True if passed else None)) for key in keys
            ),
            at=at,
            confidence=payload.get("confidence"),
            notes="" if found is None else self._execution.redact(found.notes),
            error=None if found is None else self._execution.redact(found.error),
            self_verified=judged is not None and judged.self_verified,
        )


async def turn_log(
    store: Store, run: Run, environment: ExecutionEnvironment, first: int, limit: int
) -> TurnLog:
    """Some turns of a run. Raises Erased if its content is gone."""
    replayer, steps, facts = await replay_run(store, run, environment)
    report = await report_of(store, run)

    def fold() -> _Fold:
        folded, read = _Fold(replayer, report.verdicts), 0
        for number, record in enumerate(steps):
            following = steps[number + 1].effect if number + 1 < len(steps) else replayer.effect
            wait = following if isinstance(following, Wait) else None
            count = max(read, record.events - 1)  # the first event of a run is not among the facts
            folded.add(record, facts[read:count], wait)
            read = count
        return folded

    folded = await off_loop(replayer.size, fold)
    execution = replayer.execution
    for failure in execution.failures:
        for turn in folded.turns:
            if turn.iteration == failure.iteration:
                turn.failures.append(failure)
    if folded.turns and replayer.waiting is not None:
        folded.turns[-1].state = "waiting"
    elif folded.turns and run.status in CLOSED and folded.turns[-1].state == "working":
        folded.turns[-1].state = "withheld" if folded.turns[-1].has_candidate else "failed"
    size = replayer.size
    safe = await off_loop(size, lambda: execution.redact(execution.variables.get("task")))
    committed = await off_loop(size, lambda: execution.redact(execution.variables.get("result")))
    configs = [node.config for node in execution.workflow.nodes if "maxTurns" in node.config]
    return TurnLog(
        report=report,
        total=len(folded.turns),
        first=first,
        turns=tuple(folded.turns[first : first + limit]),
        max_turns=configs[0]["maxTurns"] if configs else None,
        task=safe,
        result=committed if report.committed else None,
        end=folded.end,
    )
