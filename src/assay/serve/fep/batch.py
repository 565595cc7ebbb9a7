"""POST /v1/evaluate:batch: many evaluations in one request; a bad one does not sink the others (decisions 3, 42)."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import partial

import msgspec
from msgspec import UNSET

from assay.errors import IdempotencyKeyReused, InvalidRequest, Problem, Refusal
from assay.fep.service import result_json as whole_result
from assay.protocol.operations import (
    BatchEvaluationRequest,
    BatchOptions,
    BatchSummary,
    ErrorResponse,
)
from assay.serve.fep.request import ARGUMENTS, ParsedRequest, decoded, shows_arguments
from assay.serve.fep.state import fep_of
from assay.serve.fep.submit import LARGE, Started, Submission, begin, digest_for, read
from assay.serve.web.body import body_format, read_body
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest, RequestContext
from assay.serve.web.responses import Response, encode, error_body

CONCURRENT = 4
LARGEST = 2**53 - 1  # of a number of a batch's options
PASSING = ("rate_limited", "unavailable", "internal_error")  # what may come out otherwise the next time
_decode = msgspec.json.Decoder(BatchEvaluationRequest).decode


class BatchItem:
    """One evaluation of a batch: a run, or why there is none."""

    def __init__(self, index: int, read: Callable[[], Awaitable[ParsedRequest]]) -> None:
        self.index, self.read = index, read
        self.begun: Started | None = None
        self.error: ErrorResponse | None = None
        self.done = False

    def fail(self, code: str, message: str, **more: object) -> None:
        details = {"index": self.index, **more}
        if self.begun is not None:
            details["evaluation_id"] = self.begun.run
        self.error = ErrorResponse(error=code, message=message, details=details)

    def refuse(self, refusal: Refusal, request: str) -> None:
        said = error_body(refusal, request)
        self.fail(said.error, said.message, **({} if said.details is UNSET else said.details))


class StoredBatch(msgspec.Struct, frozen=True):
    """What came of a batch: the runs by index, the errors, and when."""

    runs: list[str | None]
    errors: list[ErrorResponse]
    summary: BatchSummary


async def run_batch(call: HttpRequest) -> Response:
    arguments = shows_arguments(call.query(ARGUMENTS).get(ARGUMENTS), ARGUMENTS)
    call.server.admission.check_open()
    body_format(call)
    body = await read_body(call, in_parts=True)
    request = (
        await call.in_thread(lambda: decoded(_decode, body)) if len(body) > LARGE else decoded(_decode, body)
    )
    options = BatchOptions() if request.options is UNSET else request.options
    once = IdempotentRequest(
        call, "POST /v1/evaluate:batch", await digest_for(call, body, arguments=arguments)
    )
    parts = [
        BatchItem(index, partial(read, call, bytes(one), arguments=arguments))
        for index, one in enumerate(request.evaluations)
    ]
    kept, replayed = await conduct(call, parts, options, once)
    return Response(_document(call, kept, parts), headers=REPLAYED if replayed else ())


async def conduct(
    call: RequestContext, parts: list[BatchItem], options: BatchOptions, once: IdempotentRequest
) -> tuple[StoredBatch, bool]:
    """Every part to its end, or to the end of the batch's time; and whether an earlier request did."""
    _possible(call, parts, options)

    def final(kept: StoredBatch) -> bool:
        return not any(one.error in PASSING for one in kept.errors)

    kept, replayed = await once.collect(_Batch(call, parts, options, once).run, StoredBatch, final)
    if replayed:
        for run in filter(None, kept.runs):
            await call.audit_read(await call.server.executor.get(run, call.tenant))
    return kept, replayed


def _possible(call: RequestContext, parts: list[BatchItem], options: BatchOptions) -> None:
    problems: list[Problem] = []
    if len(parts) > (most := call.server.serving.max_batch):
        said = f"{len(parts)} evaluations, and at most {most} are taken (ASSAY_MAX_BATCH)"
        problems.append(Problem("evaluations", said))
    for name in ("max_concurrent", "timeout_ms"):
        value = getattr(options, name)
        if value is not UNSET and not 1 <= value <= LARGEST:
            got = value if abs(value) <= LARGEST else "one of more than 16 digits"
            problems.append(
                Problem(f"options.{name}", f"expected a whole number from 1 to {LARGEST}, got {got}")
            )
    if problems:
        raise InvalidRequest(problems)


class _Batch:
    def __init__(
        self, call: RequestContext, parts: list[BatchItem], options: BatchOptions, once: IdempotentRequest
    ) -> None:
        self._call, self._parts, self._once = call, parts, once
        most = call.server.serving.max_tenant_runs
        self._gate = asyncio.Semaphore(min(options.max_concurrent or CONCURRENT, most))
        self._fail_fast = options.fail_fast is True
        self._seconds = None if options.timeout_ms is UNSET else options.timeout_ms / 1000
        self._failed: int | None = None

    async def run(self) -> StoredBatch:
        clock = self._call.server.clock
        started, began = clock.now(), time.monotonic()
        tasks = [asyncio.create_task(self._one(part)) for part in self._parts]
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
        errors = [part.error for part in self._parts if part.error is not None]
        summary = BatchSummary(
            total_evaluations=len(self._parts),
            successful_evaluations=len(self._parts) - len(errors),
            failed_evaluations=len(errors),
            started_at=started,
            completed_at=clock.now(),
        )
        runs = [part.begun.run if part.begun and part.error is None else None for part in self._parts]
        return StoredBatch(runs, errors, summary)

    async def _one(self, part: BatchItem) -> None:
        async with self._gate:
            if self._fail_fast and self._failed is not None:
                said = f"not begun: evaluation {self._failed} failed, and fail_fast is set"
                part.fail("conflict", said, reason="fail_fast")
                return
            try:
                await self._through(part)
            except IdempotencyKeyReused:
                raise  # the batch's own
            except Refusal as refusal:
                part.refuse(refusal, self._call.id)
            part.done = True
            if part.error is not None and self._failed is None:
                self._failed = part.index

    async def _through(self, part: BatchItem) -> None:
        want = Submission(await part.read(), self._once)
        part.begun = await begin(self._call, want, f".{part.index}")
        if part.begun.made is None:
            run = await self._call.server.executor.wait(part.begun.run)
            if run.status != "completed":
                code = "internal_error" if run.status == "failed" else "conflict"
                part.fail(code, f"it is {run.status}", status=run.status)

    async def _stop_late(self, seconds: float) -> None:
        """What did not end in time is stopped; what was not begun is not begun."""
        late = [part for part in self._parts if not part.done and part.error is None]
        for part in late:
            part.fail("run_timeout", f"the batch was over after {seconds:.1f} s, before this was")
        desk, tenant = self._call.server.executor, self._call.tenant
        stopping = [desk.cancel(part.begun.run, tenant) for part in late if part.begun is not None]
        await asyncio.gather(*stopping, return_exceptions=True)


async def _document(call: HttpRequest, kept: StoredBatch, parts: list[BatchItem]) -> AsyncGenerator[bytes]:
    """The BatchEvaluationResponse in pieces, the results in the order of their requests."""
    yield b'{"results":['
    comma = b""
    for index, run in enumerate(kept.runs):
        if run is None:
            continue
        begun = parts[index].begun
        yield comma
        comma = b","
        if begun is not None and begun.made is not None:
            yield whole_result(*begun.made)
            continue
        async for piece in fep_of(call).evaluations.document(
            await call.server.executor.get(run, call.tenant)
        ):
            yield piece
    yield b'],"errors":' + encode(kept.errors) + b',"summary":' + encode(kept.summary) + b"}"
