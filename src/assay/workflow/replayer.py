"""Replays a run from its recorded results, without side effects."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from assay.concurrency.threads import json_size, off_loop
from assay.ports import Event, Run, Store
from assay.protocol.event_record import PendingEvent, decode_event, encode_event
from assay.protocol.events import RunCancelled
from assay.protocol.orchestration import ReplayDiverged
from assay.workflow.interpreter import ExecutionEnvironment, RunEnd, failed, interpret
from assay.workflow.state.effects import Effect, Result, StepRecord, Wait
from assay.workflow.state.execution_state import (
    NEVER,
    Execution,
    RunStopped,
    WorkflowRequest,
    read_request,
    read_steps,
)

CANCELLED = "replay_source_cancelled"
LONGEST = 100_000  # events of a source that a replay is compared with


class Replayer:
    """`effect` is the next effect of the run; None once it has ended. `end` is how it ended."""

    def __init__(
        self,
        run: str,
        request: WorkflowRequest,
        environment: ExecutionEnvironment,
        source: Sequence[Event] = (),
        *,
        size: int = 0,
    ) -> None:
        """`size`: bytes, as JSON, of the inputs and the recorded results."""
        self.execution = Execution(run, request, environment.limits)
        self._apply_overlay(0)
        self._generator = interpret(self.execution, environment.nodes)
        self.end: RunEnd | None = None
        self.effect: Effect | None = next(self._generator)
        self.step = 0
        self.size = size
        self.turn: tuple[int, datetime] = (0, NEVER)  # the step and the time at which the newest turn started
        self._attempts: Counter[tuple[type, str]] = Counter()
        self._source = deque(source)  # of a replay: the log that it is compared with
        if self._source:
            self._source.popleft()

    @property
    def attempt(self) -> int:
        """How often this node had an effect of this type before."""
        return self._attempts[type(self.effect), self.effect.node] if self.effect else 0

    def feed(self, result: Result) -> list[PendingEvent]:
        """Take the result of the effect; return the events up to the next effect or the end."""
        assert self.effect is not None
        if result.error is not None and result.error.code == "replay_source_missing":
            return self.fail(RunStopped(result.error.code, result.error.message))
        if result.error is not None and result.error.code == CANCELLED:
            self._generator.close()
            self.execution.emit("run.cancelled", RunCancelled())
            self.effect, self.end = None, RunEnd("cancelled", self.execution.pending_events.pop())
            return []
        self._apply_overlay(self.step + 1)
        self._attempts[type(self.effect), self.effect.node] += 1
        before = self.execution.iteration
        self.step += 1
        try:
            self.effect = self._generator.send(result)
        except StopIteration as end:
            self.effect, self.end = None, end.value
        if self.execution.iteration != before or self.step == 1:
            self.turn = (self.step, result.at)
        return self._compare(self.execution.drain())

    def _apply_overlay(self, step: int) -> None:
        for at, options in self.execution.request.overlays:
            if at == step:
                self.execution.configurable = {**self.execution.configurable, **options}

    def _compare(self, facts: list[PendingEvent]) -> list[PendingEvent]:
        """In a replay: report the first event that differs from the source, and go on (openwop-contract §13.9)."""
        for fact in facts:
            if not self._source or fact.type == "replay.divergedAtRefusal":
                self._source.clear()  # the divergence is reported already
                break
            event = self._source.popleft()
            if (kind := difference(fact, event, self.execution.source_event_id)) is not None:
                diverged = ReplayDiverged(
                    source_run_id=self.execution.origin,
                    at_sequence=event.sequence,
                    original_event_id=decode_event(event.data).eventId,
                    divergence_kind=kind,
                )
                self.execution.emit("replay.diverged", diverged)
                self._source.clear()
        return facts + self.execution.drain()

    def fail(self, stop: RunStopped) -> list[PendingEvent]:
        """End the run as failed, from outside."""
        self._generator.close()
        self.effect, self.end = None, failed(self.execution, stop)
        return self.execution.drain()

    @property
    def waiting(self) -> Wait | None:
        return self.effect if isinstance(self.effect, Wait) else None


def difference(
    fact: PendingEvent, event: Event, source_id: Callable[[str], str] = str
) -> Literal["output", "type-mismatch"] | None:
    """How a replayed event differs from the recorded one. Durations and ids of own events are not compared."""
    if fact.type != event.type:
        return "type-mismatch"
    now, then = (msgspec.json.decode(decode_event(data).payload) for data in (encode_event(fact), event.data))
    for payload in (now, then):
        payload.pop("durationMs", None)
    if "target" in now:
        now["target"] = source_id(now["target"])
    return None if now == then else "output"


async def replay_run(
    store: Store, run: Run, environment: ExecutionEnvironment
) -> tuple[Replayer, list[StepRecord], list[PendingEvent]]:
    """Replay a recorded run: its replayer, its steps, and every event after the first."""
    request = await read_request(store, run.id)
    log = await store.events(request.source, limit=LONGEST) if request.replay and request.source else ()
    steps = await read_steps(store, run.id)
    size = sum(map(json_size, (request.inputs, *(record.result.value for record in steps))))

    def replay() -> tuple[Replayer, list[PendingEvent]]:
        replayer = Replayer(run.id, request, environment, log, size=size)
        return replayer, [fact for record in steps for fact in replayer.feed(record.result)]

    replayer, facts = await off_loop(size, replay)
    return replayer, steps, facts
