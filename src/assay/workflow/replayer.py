"""A run brought to where it is, by what came back so far: thinking only, so that it can be done again at any time."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

import msgspec

from assay.ports import Event, Run, Store
from assay.protocol.event_record import PendingEvent, decode_event, encode_event
from assay.protocol.events import RunCancelled
from assay.protocol.orchestration import ReplayDiverged
from assay.runs.large import json_size, off_loop
from assay.workflow.effects import Effect, Result, StepRecord, Wait
from assay.workflow.execution import NEVER, Execution, RunStopped, WorkflowRequest
from assay.workflow.interpreter import ExecutionEnvironment, RunEnd, failed, interpret
from assay.workflow.steps import read_request, read_steps

CANCELLED = "replay_source_cancelled"
LONGEST = 100_000  # events of a source that a replay is held against


class Replayer:
    """`effect` is what it waits for now; `over` how it ended, once it has."""

    def __init__(
        self,
        run: str,
        request: WorkflowRequest,
        environment: ExecutionEnvironment,
        source: Sequence[Event] = (),
    ) -> None:
        self.execution = Execution(run, request, environment.limits)
        self._apply_overlay(0)
        self._generator = interpret(self.execution, environment.nodes)
        self.end: RunEnd | None = None
        self.effect: Effect | None = next(self._generator)
        self.step = 0
        self.turn: tuple[int, datetime] = (0, NEVER)  # at which step, and when, the newest turn began
        self._attempts: Counter[tuple[type, str]] = Counter()
        self._source = deque(source)  # of a replay: the log it is held against
        if self._source:
            self._source.popleft()

    @property
    def attempt(self) -> int:
        """How often the same was asked for at this node before."""
        return self._attempts[type(self.effect), self.effect.node] if self.effect else 0

    def feed(self, result: Result) -> list[PendingEvent]:
        """What follows from a result, up to the next effect or the end."""
        assert self.effect is not None
        if result.trouble is not None and result.trouble.code == "replay_source_missing":
            return self.fail(RunStopped(result.trouble.code, result.trouble.message))
        if result.trouble is not None and result.trouble.code == CANCELLED:
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
        """Of a replay: the first fact that is another than its source's is told of, and it goes on (contract §13.9)."""
        for fact in facts:
            if not self._source or fact.type == "replay.divergedAtRefusal":
                self._source.clear()  # that is told of already
                break
            event = self._source.popleft()
            if (how := difference(fact, event, self.execution.source_event_id)) is not None:
                diverged = ReplayDiverged(
                    source_run_id=self.execution.origin,
                    at_sequence=event.sequence,
                    original_event_id=decode_event(event.data).eventId,
                    divergence_kind=how,
                )
                self.execution.emit("replay.diverged", diverged)
                self._source.clear()
        return facts + self.execution.drain()

    def fail(self, stop: RunStopped) -> list[PendingEvent]:
        """End it from outside."""
        self._generator.close()
        self.effect, self.end = None, failed(self.execution, stop)
        return self.execution.drain()

    @property
    def waiting(self) -> Wait | None:
        return self.effect if isinstance(self.effect, Wait) else None


def difference(
    fact: PendingEvent, event: Event, known_as: Callable[[str], str] = str
) -> Literal["output", "type-mismatch"] | None:
    """Between what is told again and what was told then, clocks and the names of its own events aside."""
    if fact.type != event.type:
        return "type-mismatch"
    now, then = (msgspec.json.decode(decode_event(data).payload) for data in (encode_event(fact), event.data))
    for payload in (now, then):
        payload.pop("durationMs", None)
    if "target" in now:
        now["target"] = known_as(now["target"])
    return None if now == then else "output"


async def replay_run(
    store: Store, run: Run, environment: ExecutionEnvironment
) -> tuple[Replayer, list[StepRecord], list[PendingEvent]]:
    """A recorded run as it stands, its steps, and every fact after its first."""
    request = await read_request(store, run.id)
    log = await store.events(request.source, limit=LONGEST) if request.replay and request.source else ()
    replayer = Replayer(run.id, request, environment, log)
    steps = await read_steps(store, run.id)
    size = sum(map(json_size, (request.inputs, request.metadata, *(kept.result.value for kept in steps))))
    facts = await off_loop(size, lambda: [fact for kept in steps for fact in replayer.feed(kept.result)])
    return replayer, steps, facts
