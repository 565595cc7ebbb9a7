"""From the body of a request to a run: a small one runs inline, another one is stored and started."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from assay.concurrency.threads import LARGE, in_place, in_thread
from assay.errors import InvalidRequest, Problem
from assay.fep.records.service import PlannedEvaluation
from assay.inputs.context import Context
from assay.ports import PutDocument, Run
from assay.protocol.evaluation import ExperimentMetadata
from assay.runs.intake import new_id
from assay.serve.fep.request_parser import (
    ARGUMENTS,
    ParsedRequest,
    digest_of,
    read_request,
    resolved_arguments_flag,
)
from assay.serve.fep.server_state import fep_of
from assay.serve.fep.spool import SpooledRequest, read_lines
from assay.serve.web.body_reader import body_format, read_body
from assay.serve.web.idempotency import IdempotentRequest
from assay.serve.web.request import HttpRequest, RequestContext

STORE = "store"  # the query parameter


class InlineResult(NamedTuple):
    """A run that was evaluated inline, with its results."""

    run: Run
    experiment: ExperimentMetadata | None
    lines: list[bytes]
    metadata: dict[str, Any]


class SubmittedRun(NamedTuple):
    """The id of a run; whether an earlier request started it; and its result, if it ran inline in this request."""

    run: str
    replayed: bool = False
    result: InlineResult | None = None


class Submission(NamedTuple):
    """A valid request with its idempotency key."""

    request: ParsedRequest | SpooledRequest
    idempotency: IdempotentRequest


async def submit_body(call: HttpRequest, operation: str, *, inline: bool) -> SubmittedRun:
    """Start the evaluation of a JSON or NDJSON body. The disk space of NDJSON is freed once the run is stored."""
    arguments = resolved_arguments_flag(call.query(ARGUMENTS).get(ARGUMENTS), ARGUMENTS)
    call.server.admission.check_open()
    if body_format(call, lines=True) == "lines":
        async with read_lines(call, arguments=arguments) as spooled:
            submission = Submission(spooled, IdempotentRequest(call, operation, lambda: spooled.digest))
            return await start_run(call, submission, inline=inline)
    body = await read_body(call, in_parts=True)
    request = await read(call, body, arguments=arguments)
    submission = Submission(
        request, IdempotentRequest(call, operation, await digest_for(call, body, arguments=arguments))
    )
    return await start_run(call, submission, inline=inline, discard_contexts=True)


async def run_unstored(call: HttpRequest) -> InlineResult:
    """Run the evaluation of a JSON body without storing it. It must be one that runs inline."""
    IdempotentRequest(call, "POST /v1/evaluate", str)  # a key has no effect; a malformed one is refused
    arguments = resolved_arguments_flag(call.query(ARGUMENTS, STORE).get(ARGUMENTS), ARGUMENTS)
    call.server.admission.check_open()
    body_format(call)
    request = await read(call, await read_body(call, in_parts=True), arguments=arguments)
    if not request.planned.runs_inline:
        message = "expected true: an evaluation that calls a model, takes long or has many cases is stored"
        raise InvalidRequest(Problem(STORE, message))
    scored = await fep_of(call).evaluations.run_inline(
        request.planned, request.contexts, call.tenant, run=new_id("eval_")
    )
    return InlineResult(scored.run, request.planned.experiment, scored.lines, scored.metadata)


async def digest_for(call: HttpRequest, body: bytes, *, arguments: bool = True) -> Callable[[], str]:
    """A function that computes the digest of a body when needed; that of a large one is computed now, in a thread."""
    if len(body) <= LARGE or b"idempotency-key" not in call.headers:
        return lambda: digest_of(body, arguments=arguments)
    digest = await in_thread(lambda: digest_of(body, arguments=arguments))
    return lambda: digest


async def read(call: HttpRequest, body: bytes, *, arguments: bool) -> ParsedRequest:
    plans, limits, elements = fep_of(call).plans, call.server.limits, call.server.serving.max_elements
    return await in_place(lambda: read_request(body, plans, limits, elements, arguments=arguments), len(body))


async def start_run(
    call: RequestContext,
    submission: Submission,
    part: str = "",
    *,
    inline: bool = True,
    discard_contexts: bool = False,
) -> SubmittedRun:
    """Start a run, or find the one that its key started. `discard_contexts`: the caller is done with the contexts."""
    request, once = submission
    run, planned = new_id("eval_"), request.planned
    result: InlineResult | None = None

    async def start(documents: list[PutDocument]) -> None:
        nonlocal result
        if inline and planned.runs_inline and isinstance(request, ParsedRequest):
            evaluations = fep_of(call).evaluations
            scored = await evaluations.run_inline(planned, request.contexts, call.tenant, run=run)
            # frees their memory, still in the CPU cache, for the next request during the disk write
            if discard_contexts:
                request.contexts.clear()
            await evaluations.save(scored, documents)
            result = InlineResult(scored.run, planned.experiment, scored.lines, scored.metadata)
        else:
            contexts = request.contexts if isinstance(request, ParsedRequest) else request.lines()
            await _submit(call, planned, contexts, documents, run)

    started = await once.start(run, start, part)
    return SubmittedRun(started.run, started.replayed, result)


async def _submit(
    call: RequestContext,
    evaluation: PlannedEvaluation,
    contexts: Iterable[Context | bytes],
    documents: list[PutDocument],
    run: str,
) -> None:
    server = call.server
    with server.admission.reserve_run(call.tenant):
        stored = await fep_of(call).evaluations.submit(
            evaluation, contexts, call.tenant, server.executor.executor_id, documents, run=run
        )
        server.executor.start(stored)
