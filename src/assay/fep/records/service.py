"""The evaluation service: submits evaluations, runs small ones inline, and reads results back in chunks."""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.cases.fold import CaseFold
from assay.cases.outcomes import RESULTS, scored_outcomes
from assay.checks.registry import Registry
from assay.checks.runner import ResultOptions
from assay.concurrency.threads import in_place, in_thread
from assay.concurrency.workers.batch import owner_scope
from assay.errors import Conflict, InvalidRequest
from assay.errors.evaluations import EvaluationFailed
from assay.fep.execution.inline import score_contexts
from assay.fep.outputs.run_result import metadata_of
from assay.fep.outputs.run_result import result_header as result_header
from assay.fep.outputs.run_result import summary_of as summary_of
from assay.fep.outputs.run_result import times_of as times_of
from assay.fep.planning.plan import Checks, Plan
from assay.fep.records.evaluation_statistics import CaseNumbers, evaluation_statistics, read_tally
from assay.fep.records.kind import FrozenClock, SkippedCases
from assay.fep.records.run_header import (
    CONTEXTS,
    KIND,
    SHARD,
    EvaluationEnded,
    PlannedRequest,
    StoredRequest,
    case_count,
    context_chunks,
    encode_context,
    lines_chunk,
    read_request,
    request_chunk,
    shard_event,
)
from assay.inputs.context import Context
from assay.ports import (
    CLOSED,
    CaseBlock,
    CreateRun,
    Event,
    PutDocument,
    Run,
    RunUpdate,
    Services,
    Store,
    Transaction,
)
from assay.ports.audit import audit_entry as audited
from assay.ports.telemetry import telemetry
from assay.protocol.evaluation import ExperimentMetadata
from assay.protocol.operations import ErrorResponse, EvaluationOperation, EvaluationProgress, OperationStatus
from assay.results.tally import Tally, TallyRecord
from assay.runs.intake import NewRun, new_id, submit
from assay.runs.run_statistics import facts_of, statistics_metadata

INLINE_CASES = 1_000  # cases that run within the request, if no check waits
_encode = msgspec.json.Encoder().encode


class PlannedEvaluation(Struct, frozen=True):
    """A valid request with its plan; nothing has run yet."""

    plan: Plan
    checks: Checks | msgspec.Raw  # decoded, or their JSON
    experiment: ExperimentMetadata | None
    total: int
    waits: bool | None = None  # whether any check waits; None if the cases were not examined
    own_checks: int = 0  # the number of own checks of all cases

    @property
    def runs_inline(self) -> bool:
        return self.total <= INLINE_CASES and not self.is_slow

    @property
    def is_slow(self) -> bool:
        if self.waits is not None:
            return self.waits
        return self.plan.shared is None or self.plan.shared.waits

    def request(self, tally: TallyRecord | UnsetType = UNSET) -> StoredRequest:
        return StoredRequest(
            checks=self.checks,
            experiment=self.experiment,
            total=self.total,
            shard=1 if self.is_slow else SHARD,
            resolved_arguments=self.plan.options.resolved_arguments,
            timings=self.plan.options.timings,
            own=self.own_checks,
            tally=tally,
        )

    @property
    def name(self) -> str:
        return self.experiment.name if self.experiment and self.experiment.name else ""


class CompletedEvaluation(NamedTuple):
    """A run that was scored inline: the run as it will be stored, its result lines, and the update for the store."""

    run: Run
    lines: list[bytes]
    entry: RunUpdate
    metadata: dict[str, Any]


class EvaluationService:
    """The evaluations of a store, for transports and the command."""

    def __init__(self, store: Store, registry: Registry, services: Services, *, lease: float = 10.0) -> None:
        self.store, self.registry, self.services, self.lease = store, registry, services, lease

    def plan(self, checks: Checks, options: ResultOptions | None = None) -> Plan:
        return Plan(checks, self.registry, self.services, options)

    async def run_inline(
        self,
        evaluation: PlannedEvaluation,
        contexts: Sequence[Context],
        tenant: str,
        *,
        run: str | None = None,
    ) -> CompletedEvaluation:
        """Score all cases and return the completed run; `save` stores it."""
        tally = Tally()
        began = self.services.clock.now()
        run = run or new_id("eval_")
        attributes = {"assay.run.id": run, "assay.run.kind": KIND}
        with telemetry.span("run evaluation", attributes), owner_scope(tenant):
            lines = await score_contexts(evaluation.plan, contexts, tally)
        now = self.services.clock.now()
        summary = tally.summary()
        cases: list[CaseBlock] = []
        metadata: dict[str, Any] = {
            "total": evaluation.total,
            "summary": summary,
            "status": tally.status,
            "moments": (began, now),  # the store's own times are those of the commit
        }
        events = [Event("evaluation.started", _encode({"total": evaluation.total}), began)]
        # before the statistics, which move the answers of more than a few cases to columns
        outcomes = scored_outcomes(tally, contexts, lines)
        numbers = CaseNumbers()
        numbers.add(outcomes.columns)
        statistics = evaluation_statistics(tally, numbers)
        metadata |= statistics_metadata(statistics)
        facts = facts_of(statistics)
        evidence = [request_chunk(evaluation.request(tally.record(final=True)))]
        if lines:
            results = lines_chunk(RESULTS, 0, lines)
            events.append(shard_event(0, results, summary, now))
            evidence.append(results)
            table = CaseFold()
            cases = table.add(0, outcomes)
            metadata |= table.metadata
        events.append(
            Event("evaluation.completed", _encode(EvaluationEnded(status=tally.status, summary=summary)), now)
        )
        done = Run(
            id=run,
            tenant=tenant,
            kind=KIND,
            status="completed",
            name=evaluation.name,
            metadata=msgspec.to_builtins(metadata),
            created=began,
            started=began,
            ended=now,
            events=3 if lines else 2,
            facts=facts,
        )
        entry = RunUpdate(
            run=run,
            opens=CreateRun(tenant=tenant, kind=KIND, name=evaluation.name),
            status="completed",
            metadata=done.metadata,
            events=events,
            evidence=evidence,
            cases=cases,
            facts=facts,
        )
        return CompletedEvaluation(done, lines, entry, metadata_of(tally))

    async def save(self, evaluation: CompletedEvaluation, documents: Sequence[PutDocument] = ()) -> None:
        """Store the run in one transaction."""
        audit_entry = audited(evaluation.run.tenant, "run.start", evaluation.run.id)
        await self.store.commit(
            Transaction(entries=[evaluation.entry], documents=documents, lines=[audit_entry])
        )

    async def submit(
        self,
        evaluation: PlannedEvaluation,
        contexts: Iterable[Context | bytes],
        tenant: str,
        holder: str,
        documents: Sequence[PutDocument] = (),
        *,
        run: str | None = None,
    ) -> Run:
        """
        Store a request in chunks.

        The run is then pending, and `holder` has its lease. A context may be its stored line.

        `documents` are written with the last chunk, so a document never refers to an incomplete run.
        """
        incoming = NewRun(
            run=run or new_id("eval_"),
            tenant=tenant,
            kind=KIND,
            name=evaluation.name,
            metadata={"total": evaluation.total},
            request=request_chunk(evaluation.request()),
        )
        chunks = context_chunks(one if isinstance(one, bytes) else encode_context(one) for one in contexts)
        return await submit(self.store, incoming, chunks, holder, self.lease, documents)

    async def results(
        self, run: Run, start: int = 0, stop: int | None = None, tally: Tally | None = None
    ) -> AsyncIterator[bytes]:
        """
        Result lines in the order of the cases. Cases of a stopped run without results are yielded as `skip` and counted
        in `tally`.
        """
        tally = Tally() if tally is None else tally
        total = case_count(run)
        stop = total if stop is None else min(stop, total)
        at = start
        while at < stop:
            chunks = await self.store.chunks(run.id, RESULTS, start=at, stop=stop, limit=2)
            for chunk in chunks:
                async for line in self._skipped_results(run, at, min(chunk.first, stop), tally):
                    yield line
                for line in chunk.lines(at, stop):
                    yield line
                at = max(at, chunk.last + 1)
            if not chunks:
                async for line in self._skipped_results(run, at, stop, tally):
                    yield line
                return

    async def _skipped_results(self, run: Run, start: int, stop: int, tally: Tally) -> AsyncIterator[bytes]:
        """Cases that never started, as skipped results. Their checks need not be registered any more."""
        if start >= stop or run.status not in CLOSED:
            return
        request = await read_request(self.store, run.id)
        services = msgspec.structs.replace(self.services, clock=FrozenClock(run.ended or run.created))
        try:
            request_plan = await in_place(lambda: PlannedRequest(request, self.registry, services))
        except InvalidRequest:
            request_plan = SkippedCases(request, services)
        at = start
        while at < stop:
            chunks = await self.store.chunks(run.id, CONTEXTS, start=at, stop=stop, limit=1)
            if not chunks:
                return
            for chunk in chunks:
                for line in request_plan.skip_cases(chunk.lines(at, stop), at, tally):
                    yield line
                at = chunk.last + 1

    async def stream_result(
        self, run: Run, start: int = 0, stop: int | None = None, metadata: dict[str, Any] | None = None
    ) -> AsyncGenerator[bytes]:
        """
        The EvaluationRunResult, or a range of its results, as a stream of bytes; it is never in memory as a whole.
        """
        request = await read_request(self.store, run.id)
        yield result_header(run, request.experiment)
        buffer: list[bytes] = []
        comma = b""
        async for line in self.results(run, start, stop):
            buffer.append(comma + line)
            comma = b","
            if len(buffer) >= 128:
                yield b"".join(buffer)
                buffer = []
        run_metadata = await self.metadata(run, request) | (metadata or {})
        yield b"".join(
            (*buffer, b"]", b',"metadata":' + _encode(run_metadata) if run_metadata else b"", b"}")
        )

    async def metadata(self, run: Run, request: StoredRequest | None = None) -> dict[str, Any]:
        """The metadata of a run: what it spent, and its statistics."""
        tally = await self.tally(run, request)
        if tally.cases <= INLINE_CASES:
            return metadata_of(tally)
        return await in_thread(lambda: metadata_of(tally))

    async def tally(self, run: Run, request: StoredRequest | None = None) -> Tally:
        """The tally of a run. Of a run that has ended, its statistics are recorded."""
        return await read_tally(self.store, run, request)

    def operation(self, run: Run) -> EvaluationOperation:
        """A run as an FEP operation."""
        status: OperationStatus = _OPERATION_STATUS.get(run.status, "running")
        error = run.metadata.get("error")
        started, ended = times_of(run)
        return EvaluationOperation(
            operation_id=run.id,
            status=status,
            created_at=min(run.created, started or run.created),
            started_at=started or UNSET,
            completed_at=ended or UNSET,
            progress=self.progress(run),
            metadata={"experiment": run.name} if run.name else UNSET,
            error=ErrorResponse(error=run.metadata.get("code", "internal_error"), message=error)
            if error
            else UNSET,
        )

    def progress(self, run: Run) -> EvaluationProgress:
        summary = run.metadata.get("summary", {})
        return EvaluationProgress(
            evaluation_id=run.id,
            status=_OPERATION_STATUS.get(run.status, "running"),
            completed_test_cases=summary.get("total_test_cases", 0) - summary.get("skipped_test_cases", 0),
            total_test_cases=run.metadata.get("total", 0),
        )


_OPERATION_STATUS: dict[str, OperationStatus] = {
    "pending": "pending",
    "running": "running",
    "completed": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}


def require_success(run: Run) -> None:
    """Raise EvaluationFailed for a run that failed, for the caller that waited for it (FEP-54)."""
    if run.status == "failed":
        raise EvaluationFailed(
            run.id,
            run.metadata.get("error", "the reason is unknown"),
            run.metadata.get("code", EvaluationFailed.code),
        )


def require_ended(run: Run) -> None:
    """Raise Conflict for a run that has not ended (FEP-41)."""
    if run.status not in CLOSED:
        raise Conflict("status", f"evaluation {run.id}", f"it is {run.status}")
