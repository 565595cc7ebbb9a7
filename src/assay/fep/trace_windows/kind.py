"""
A window of traces as an evaluation: its units are the traces that become complete while it is open.

The run is conducted as any other: one process holds its lease, and after a crash another one goes on. A unit's results,
the deletion of its spans and the marks of its traces are one transaction, so each trace is scored once.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any

import msgspec
from msgspec import Struct

from assay.cases.fold import totals_of
from assay.checks.registry import Registry
from assay.errors import InvalidRequest, Refusal
from assay.fep.execution.execute import ExecutionOptions
from assay.fep.records.kind import EvaluationKind, EvaluationState
from assay.fep.records.run_header import SHARD, StoredRequest, read_request, unit_records
from assay.fep.trace_windows.pending import PendingCase, PendingTraces
from assay.fep.trace_windows.registry import read_entry
from assay.fep.trace_windows.trace_units import (
    CaseDocuments,
    TraceUnit,
    changes_of,
    pack_unit,
    perform,
    read_result,
    read_unit,
)
from assay.fep.trace_windows.window import (
    TRACES,
    WindowCounts,
    plan_in,
    window_metadata,
)
from assay.ports import Event, Run, RunStatus, Services, Store
from assay.ports.kinds import STANDING, Ending, UnitOutcome, units_stopped
from assay.runs.run_options import TimeBudget
from assay.traces.span_inbox import within_limits
from assay.traces.trace_case import Price
from assay.traces.trace_files import MAX_SPANS

POLL = 0.5  # seconds between two looks at what came
UNIT_BYTES = 1 << 20  # of spans, in a unit of several traces
COUNTED = "evaluation.traces"  # the type of the events that count
_encode = msgspec.json.Encoder().encode


class TracesCounted(Struct, frozen=True):
    """An event: what a unit counts, never content."""

    unit: int
    counts: WindowCounts


_counted = msgspec.json.Decoder(TracesCounted).decode


class TraceWindowKind(EvaluationKind):
    """Evaluations, and among them windows of traces. `price`: of a model call whose span does not say it."""

    def __init__(
        self,
        store: Store,
        registry: Registry,
        services: Services,
        options: ExecutionOptions,
        price: Price | None = None,
    ) -> None:
        super().__init__(store, registry, services, options)
        self._price = price

    async def restore(self, store: Store, run: Run) -> EvaluationState:
        if TRACES not in run.metadata:
            return await super().restore(store, run)
        refusal: Refusal | None = None
        try:
            request = (await self._load_plan(run.id))[0].request
        except InvalidRequest as trouble:  # a check of the window is no longer registered
            request, refusal = await read_request(store, run.id), trouble
        state = WindowState(run, request, self._services, refusal, await totals_of(store, run))
        state.on_end = lambda: self._forget(run)
        return state

    def unit_name(self, unit: bytes) -> str:
        traces = read_unit(unit)
        if traces is None:
            return super().unit_name(unit)
        return f"trace {traces.cases[0].name}" if traces.cases else ""

    async def perform(self, unit: bytes) -> bytes:
        traces = read_unit(unit)
        if traces is None:
            return await super().perform(unit)
        work, _ = await self._load_plan(traces.run)
        return await perform(traces, self._store, work, self._options, self._price)


class WindowState(EvaluationState):
    """The state of an open window. It ends when its time is over, or when the settings of its project have changed."""

    def __init__(
        self, run: Run, request: StoredRequest, services: Services, refusal: Refusal | None, totals: Any
    ) -> None:
        clock = services.clock
        hours = TimeBudget(clock, None, float("inf"))
        super().__init__(run, request, services, hours, refusal, totals)
        self._plan = plan_in(run.metadata)
        self._counts = WindowCounts()
        self._pending = PendingTraces(run.tenant, self._plan)
        self._kept = {name: run.metadata[name] for name in ("tags", STANDING) if name in run.metadata}
        self._number = 0
        self._first = 0  # the number of the next result
        self._keys: dict[int, list[str]] = {}  # of units in flight
        self._written: list[int] = []  # units whose events are being written

    def add(self, event: Event) -> None:
        super().add(event)
        if event.type == COUNTED:
            done = _counted(event.data)
            self._counts = self._counts.plus(done.counts)
            self._number = max(self._number, done.unit + 1)
            self._written.append(done.unit)
        self._first = max(self._first, self._progress.summary.total_test_cases)

    def on_commit(self) -> None:
        for number in self._written:
            self._pending.forget(self._keys.pop(number, []))
        self._written.clear()

    async def units(self, store: Store) -> AsyncIterator[bytes]:
        if self._refusal is not None:
            raise self._refusal
        while True:
            over = self._now() >= self._end or await self._has_changed(store)
            await self._pending.look(store, time.monotonic(), whole=over)
            for unit in self._complete_units(over=over):
                yield unit
            if over or await _stopped_within(POLL):
                return

    async def _has_changed(self, store: Store) -> bool:
        """Whether the project has other settings by now: then its next window begins."""
        entry = await read_entry(store, self._run.tenant, self._plan.project)
        return entry is not None and entry.digest != self._plan.digest

    def _now(self) -> int:
        return int(self._services.clock.now().timestamp() * 1_000_000)

    @property
    def _end(self) -> int:
        return int(self._plan.end.timestamp() * 1_000_000)

    def _complete_units(self, *, over: bool) -> Iterator[bytes]:
        """The traces that are complete, in units. Those that are not belong to the next window."""
        most = 1 if self._request.shard == 1 else SHARD
        batch: list[PendingCase] = []
        for case in self._pending.take_complete(self._now(), self._end):
            if batch and (len(batch) == most or sum(one.size for one in batch) + case.size > UNIT_BYTES):
                yield self._unit(batch)
                batch = []
            batch.append(case)
        if batch or self._pending.counted:
            yield self._unit(batch)

    def _unit(self, cases: list[PendingCase]) -> bytes:
        counted = self._pending.take_counted()
        most_bytes = self._services.limits.max_line_bytes
        unit = TraceUnit(
            run=self._run.id,
            number=self._number,
            tenant=self._run.tenant,
            plan=self._plan,
            cases=[CaseDocuments(one.name, *within_limits(one.keys, MAX_SPANS, most_bytes)) for one in cases],
            counted=[entry.key for entry in counted],
            unsampled=sum(entry.items for entry in counted),
        )
        self._keys[unit.number] = [*(key for case in cases for key in case.keys), *unit.counted]
        self._number += 1
        return pack_unit(unit)

    def outcome(self, result: bytes) -> UnitOutcome:
        done = read_result(result)
        now = self._services.clock.now()
        events = [Event(COUNTED, _encode(TracesCounted(done.number, done.counts)), now)]
        evidence, cases = [], []
        if done.result is not None:
            placed = msgspec.structs.replace(done.result, first=self._first)
            event, evidence = unit_records(placed, now)
            cases = self._table.add(self._first, placed.cases)
            self._first += len(placed.lines)
            events.append(event)
        changes = changes_of(done, self._run.tenant, self._plan.project)
        return UnitOutcome(events, evidence, changes, cases)

    def metadata(self) -> dict[str, Any]:
        summary = self._progress.summary
        window = window_metadata(self._plan, self._counts, summary.error_test_cases)
        found = self._progress.metadata(summary.total_test_cases) | self._table.metadata
        return found | self._kept | window

    def ending(self, status: RunStatus, refusal: Refusal | None = None) -> Ending:
        total = self._progress.summary.total_test_cases
        self._request = msgspec.structs.replace(self._request, total=total)
        self._run = msgspec.structs.replace(self._run, metadata=self._run.metadata | {"total": total})
        return super().ending(status, refusal)


async def _stopped_within(seconds: float) -> bool:
    """Wait; True as soon as no more units are wanted."""
    stopped = units_stopped.get()
    if stopped is None:
        await asyncio.sleep(seconds)
        return False
    with suppress(TimeoutError):
        await asyncio.wait_for(stopped.wait(), seconds)
    return stopped.is_set()
