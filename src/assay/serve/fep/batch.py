"""POST /v1/evaluate:batch: many evaluations in one request; a failed one does not fail the others (FEP-3, FEP-42)."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

import msgspec
from msgspec import UNSET

from assay.concurrency.threads import in_place
from assay.errors import IdempotencyKeyReused, InvalidRequest, Problem, Refusal
from assay.fep.outputs.run_result import result_json as whole_result
from assay.fep.records.service import require_success
from assay.protocol.operations import (
    BatchEvaluationRequest,
    BatchOptions,
    BatchSummary,
    ErrorResponse,
)
from assay.serve.fep.request_parser import ARGUMENTS, ParsedRequest, decode_body, resolved_arguments_flag
from assay.serve.fep.server_state import fep_of
from assay.serve.fep.submit import Submission, SubmittedRun, digest_for, read, start_run
from assay.serve.web.body_reader import body_format, read_body
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest, RequestContext
from assay.serve.web.responses import Response, encode, error_body

CONCURRENT = 4
LARGEST = 2**53 - 1  # number in the options of a batch
TRANSIENT = ("rate_limited", "unavailable", "internal_error")  # errors that a retry may not meet
_decode = msgspec.json.Decoder(BatchEvaluationRequest).decode


class BatchItem:
    """One evaluation of a batch: its run, or the error instead."""

    def __init__(self, index: int, read: Callable[[], Awaitable[ParsedRequest]]) -> None:
        self.index, self.read = index, read
        self.started: SubmittedRun | None = None
        self.error: ErrorResponse | None = None
        self.done = False

    def fail(self, code: str, message: str, **extra: object) -> None:
        details = {"index": self.index, **extra}
        if self.started is not None:
            details["evaluation_id"] = self.started.run
        self.error = ErrorResponse(error=code, message=message, details=details)

    def refuse(self, refusal: Refusal, request: str) -> None:
        body = error_body(refusal, request)
        self.fail(body.error, body.message, **({} if body.details is UNSET else body.details))


class StoredBatch(msgspec.Struct, frozen=True):
    """The outcome of a batch: the runs by index, the errors, and the summary with its times."""

    runs: list[str | None]
    errors: list[ErrorResponse]
    summary: BatchSummary


async def run_batch(call: HttpRequest) -> Response:
    arguments = resolved_arguments_flag(call.query(ARGUMENTS).get(ARGUMENTS), ARGUMENTS)
    call.server.admission.check_open()
    body_format(call)
    body = await read_body(call, in_parts=True)
    request = await in_place(lambda: decode_body(_decode, body, parts=("evaluations",)), len(body))
    options = BatchOptions() if request.options is UNSET else request.options
    once = IdempotentRequest(
        call, "POST /v1/evaluate:batch", await digest_for(call, body, arguments=arguments)
    )
    items = [
        BatchItem(index, partial(read, call, bytes(raw), arguments=arguments))
        for index, raw in enumerate(request.evaluations)
    ]
    stored, replayed = await run_items(call, items, options, once)
    return Response(_document(call, stored, items), headers=REPLAYED if replayed else ())


async def run_items(
    call: RequestContext, items: list[BatchItem], options: BatchOptions, idempotency: IdempotentRequest
) -> tuple[StoredBatch, bool]:
    """Run every item to its end, or to the end of the batch's time; and whether an earlier request did."""
    _validate(call, items, options)

    def final(batch: StoredBatch) -> bool:
        return not any(error.error in TRANSIENT for error in batch.errors)

    stored, replayed = await idempotency.collect(
        _Batch(call, items, options, idempotency).run, StoredBatch, final
    )
    if replayed:
        for run in filter(None, stored.runs):
            await call.audit_read(await call.server.executor.get(run, call.tenant))
    return stored, replayed


def _validate(call: RequestContext, items: list[BatchItem], options: BatchOptions) -> None:
    problems: list[Problem] = []
    if len(items) > (limit := call.server.serving.max_batch):
        message = f"expected at most {limit} evaluations (ASSAY_MAX_BATCH), got {len(items)}"
        problems.append(Problem("evaluations", message))
    for name in ("max_concurrent", "timeout_ms"):
        value = getattr(options, name)
        if value is not UNSET and not 1 <= value <= LARGEST:
            got = value if abs(value) <= LARGEST else "a number of more than 16 digits"
            problems.append(
                Problem(f"options.{name}", f"expected a whole number from 1 to {LARGEST}, got {got}")
            )
    if problems:
        raise InvalidRequest(problems)


class _Batch:
    def __init__(
        self,
        call: RequestContext,
        items: list[BatchItem],
        options: BatchOptions,
        idempotency: IdempotentRequest,
    ) -> None:
        self._call, self._items, self._idempotency = call, items, idempotency
        limit = call.server.serving.max_tenant_runs
        self._slots = asyncio.Semaphore(min(options.max_concurrent or CONCURRENT, limit))
        self._fail_fast = options.fail_fast is True
        self._seconds = None if options.timeout_ms is UNSET else options.timeout_ms / 1000
        self._failed: int | None = None

    async def run(self) -> StoredBatch:
        clock = self._call.server.clock
        started_at, began = clock.now(), time.monotonic()
        tasks = [asyncio.create_task(self._run_item(item)) for item in self._items]
        try:
            await self._call.until_disconnect(
                asyncio.wait(tasks, timeout=self._seconds) if tasks else asyncio.sleep(0)
            )
        finally:
            late = [task for task in tasks if not task.done()]
            for task in late:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled():
                task.result()
        await self._stop_late(time.monotonic() - began)
        errors = [item.error for item in self._items if item.error is not None]
        summary = BatchSummary(
            total_evaluations=len(self._items),
            successful_evaluations=len(self._items) - len(errors),
            failed_evaluations=len(errors),
            started_at=started_at,
            completed_at=clock.now(),
        )
        runs = [item.started.run if item.started and item.error is None else None for item in self._items]
        return StoredBatch(runs, errors, summary)

    async def _run_item(self, item: BatchItem) -> None:
        async with self._slots:
            if self._fail_fast and self._failed is not None:
                message = f"not started: evaluation {self._failed} failed, and fail_fast is set"
                item.fail("conflict", message, reason="fail_fast")
                return
            try:
                await self._evaluate(item)
            except IdempotencyKeyReused:
                raise  # it is the key of the batch
            except Refusal as refusal:
                item.refuse(refusal, self._call.id)
            item.done = True
            if item.error is not None and self._failed is None:
                self._failed = item.index

    async def _evaluate(self, item: BatchItem) -> None:
        submission = Submission(await item.read(), self._idempotency)
        item.started = await start_run(self._call, submission, f".{item.index}")
        if item.started.result is None:
            run = await self._call.server.executor.wait(item.started.run)
            require_success(run)
            if run.status != "completed":
                item.fail("conflict", f"the evaluation is {run.status}", status=run.status)

    async def _stop_late(self, seconds: float) -> None:
        """Cancel the items that did not end in time; an item that has not started is not started."""
        late = [item for item in self._items if not item.done and item.error is None]
        for item in late:
            item.fail(
                "run_timeout", f"the batch timed out after {seconds:.1f} s, before this evaluation ended"
            )
        executor, tenant = self._call.server.executor, self._call.tenant
        cancels = [executor.cancel(item.started.run, tenant) for item in late if item.started is not None]
        await asyncio.gather(*cancels, return_exceptions=True)


async def _document(call: HttpRequest, batch: StoredBatch, items: list[BatchItem]) -> AsyncGenerator[bytes]:
    """The BatchEvaluationResponse in chunks, the results in the order of their requests."""
    yield b'{"results":['
    comma = b""
    for index, run in enumerate(batch.runs):
        if run is None:
            continue
        started = items[index].started
        yield comma
        comma = b","
        if started is not None and started.result is not None:
            yield whole_result(*started.result)
            continue
        async for chunk in fep_of(call).evaluations.stream_result(
            await call.server.executor.get(run, call.tenant)
        ):
            yield chunk
    yield b'],"errors":' + encode(batch.errors) + b',"summary":' + encode(batch.summary) + b"}"
