"""`assay evaluate --save`: the run is kept in the store as it goes, so that a list shows it and a crash loses little."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from assay import app
from assay.checks.redaction import kept_checks
from assay.errors import EnvironmentFailure
from assay.fep.plan import Checks
from assay.fep.run_header import (
    KIND,
    RESULTS,
    SHARD,
    TALLY,
    EvaluationEnded,
    ShardCompleted,
    StoredRequest,
    lines_chunk,
    plus,
    request_chunk,
)
from assay.fep.sinks import RunFooter
from assay.fep.tally import Tally
from assay.ports import Clock, CreateRun, Event, EvidenceChunk, RunStatus, RunUpdate, Transaction
from assay.ports.audit import audit_entry as audited
from assay.ports.kinds import EXTERNALLY_DRIVEN
from assay.ports.supervise import guarded
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.results import EvaluationSummary, Status, TestCaseSummary
from assay.runs.ids import new_id
from assay.settings import Settings

TENANT = "local"
LEASE = 30.0
T = TypeVar("T")
_encode = msgspec.json.Encoder().encode


class _Case(Struct):
    status: Status
    summary: TestCaseSummary


_read = msgspec.json.Decoder(_Case).decode


class StoreSink:
    """A sink that is the store. Its loop has a thread of its own, since results come from wherever they are made."""

    name = "the store"

    def __init__(
        self,
        settings: Settings,
        checks: Checks,
        experiment: ExperimentMetadata | None,
        tally: Tally,
        clock: Clock,
    ) -> None:
        self.run = new_id("eval_")
        self._tally, self._clock = tally, clock
        self._lines: list[bytes] = []
        self._first = self._unit = 0
        self._summary = Tally().summary()  # of what is kept
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="assay-store", daemon=True).start()
        self._door = app.store(settings)
        self._store = self._do(self._door.__aenter__())
        request = StoredRequest(
            checks=None if checks is None else kept_checks(msgspec.to_builtins(checks)),
            experiment=experiment,
            total=0,
        )
        name = experiment.name if experiment and experiment.name else ""
        opening = RunUpdate(
            run=self.run,
            opens=CreateRun(tenant=TENANT, kind=KIND, name=name, holder=self.run, seconds=LEASE),
            status="running",
            head={"total": 0, EXTERNALLY_DRIVEN: True},
            events=[Event("evaluation.started", b"{}", clock.now())],
            evidence=[request_chunk(request)],
        )
        self._do(
            self._store.commit(Transaction(entries=[opening], lines=[audited(TENANT, "run.start", self.run)]))
        )
        self._beat = asyncio.run_coroutine_threadsafe(self._beating(), self._loop)

    def write(self, line: bytes) -> None:
        self._lines.append(line)
        if len(self._lines) >= SHARD:
            self.flush()

    def flush(self) -> None:
        """A unit: its event and its results in one transaction."""
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        summary, total = _summary(lines), self._first + len(lines)
        self._summary = plus(self._summary, summary)
        shard = ShardCompleted(unit=self._unit, first=self._first, last=total - 1, summary=summary)
        entry = RunUpdate(
            run=self.run,
            holder=self.run,
            head={"total": total, "summary": msgspec.to_builtins(self._summary), EXTERNALLY_DRIVEN: True},
            events=[Event("evaluation.shard", _encode(shard), self._clock.now())],
            evidence=[lines_chunk(RESULTS, self._first, lines)],
        )
        self._first, self._unit = total, self._unit + 1
        self._do(self._store.commit(Transaction(entries=[entry])))

    def close(self, closing: RunFooter) -> None:
        """Completed, or failed where something kept it from ending; then the store is let go."""
        try:
            self.flush()
            status: RunStatus = "failed" if closing.trouble else "completed"
            ended = EvaluationEnded(status=closing.status, summary=closing.summary)
            head = {
                "total": self._first,
                "summary": msgspec.to_builtins(closing.summary),
                "status": closing.status,
            }
            entry = RunUpdate(
                run=self.run,
                holder=self.run,
                status=status,
                head=head | ({"error": closing.trouble} if closing.trouble else {}),
                events=[Event(f"evaluation.{status}", _encode(ended), self._clock.now())],
                evidence=[
                    EvidenceChunk(
                        kind=TALLY, last=max(self._first - 1, 0), data=_encode(self._tally.record(ended=True))
                    )
                ],
            )
            self._do(self._store.commit(Transaction(entries=[entry])))
        finally:
            self._beat.cancel()
            self._do(self._door.__aexit__(None, None, None))
            self._loop.call_soon_threadsafe(self._loop.stop)

    async def _beating(self) -> None:
        while True:
            await asyncio.sleep(LEASE / 5)
            await guarded(
                "heartbeat", self._store.renew(self.run, seconds=LEASE), EnvironmentFailure
            )  # the next commit says so

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def _summary(lines: list[bytes]) -> EvaluationSummary:
    cases = [_read(line) for line in lines]
    counts = {"completed": 0, "error": 0, "skip": 0}
    for case in cases:
        counts[case.status] += 1
    return EvaluationSummary(
        total_test_cases=len(cases),
        completed_test_cases=counts["completed"],
        error_test_cases=counts["error"],
        skipped_test_cases=counts["skip"],
        total_checks=sum(case.summary.total_checks for case in cases),
        completed_checks=sum(case.summary.completed_checks for case in cases),
        error_checks=sum(case.summary.error_checks for case in cases),
        skipped_checks=sum(case.summary.skipped_checks for case in cases),
    )
