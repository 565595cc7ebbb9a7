"""From the body of a request to a run: done at once where it is small, taken in and begun where it is not."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from assay.checks.loop_budget import OverBudget, within
from assay.fep.context import Context
from assay.fep.scheduler.owner_threads import in_place, in_share
from assay.fep.service import PlannedEvaluation
from assay.ports import PutDocument, Run
from assay.protocol.evaluation import ExperimentMetadata
from assay.runs.ids import new_id
from assay.serve.fep.request import ARGUMENTS, ParsedRequest, digest_of, read_request, shows_arguments
from assay.serve.fep.spool import SpooledRequest, read_lines
from assay.serve.fep.state import fep_of
from assay.serve.web.body import body_format
from assay.serve.web.body import read_body as whole_body
from assay.serve.web.idempotency import IdempotentRequest
from assay.serve.web.request import HttpRequest, RequestContext

T = TypeVar("T")
TURN = 0.5  # seconds for the checks of a large body
LARGE = 256 * 1024  # bytes of a body that are read in a thread, so that others are served meanwhile


class InlineResult(NamedTuple):
    """A run that was done at once, and its results."""

    run: Run
    experiment: ExperimentMetadata | None
    lines: list[bytes]
    metadata: dict[str, Any]


class Started(NamedTuple):
    """A run, by id; whether an earlier request began it; and what came of it where that is at hand."""

    run: str
    replayed: bool = False
    made: InlineResult | None = None


class Submission(NamedTuple):
    """A request that makes sense, once for its key."""

    request: ParsedRequest | SpooledRequest
    once: IdempotentRequest


async def submit_body(call: HttpRequest, operation: str, *, at_once: bool) -> Started:
    """The request in a body of JSON or of lines; what it takes of the disk is given back once it is taken in."""
    arguments = shows_arguments(call.query(ARGUMENTS).get(ARGUMENTS), ARGUMENTS)
    call.server.admission.check_open()
    if body_format(call, lines=True) == "lines":
        async with read_lines(call, arguments=arguments) as lined:
            want = Submission(lined, IdempotentRequest(call, operation, lambda: lined.digest))
            return await begin(call, want, at_once=at_once)
    body = await whole_body(call, in_parts=True)
    request = await read(call, body, arguments=arguments)
    want = Submission(
        request, IdempotentRequest(call, operation, await digest_for(call, body, arguments=arguments))
    )
    return await begin(call, want, at_once=at_once, spent=True)


async def digest_for(call: HttpRequest, body: bytes, *, arguments: bool = True) -> Callable[[], str]:
    """What makes the digest of a body, if it is wanted; that of a large one has been made in a thread."""
    if len(body) <= LARGE or b"idempotency-key" not in call.headers:
        return lambda: digest_of(body, arguments=arguments)
    digest = await call.in_thread(lambda: digest_of(body, arguments=arguments))
    return lambda: digest


async def read(call: HttpRequest, body: bytes, *, arguments: bool) -> ParsedRequest:
    plans, limits, elements = fep_of(call).plans, call.server.limits, call.server.serving.max_elements
    return await read_checks(
        call, lambda: read_request(body, plans, limits, elements, arguments=arguments), len(body)
    )


async def read_checks(call: RequestContext, work: Callable[[], T], size: int) -> T:
    """
    The result of `work`, which reads a request of this many bytes: a large one in the thread that takes turns.

    Where its checks take long, in a thread of the tenant's share, so that no other tenant waits for its turn.
    """
    if size <= LARGE:
        return await in_place(work)
    try:
        return await call.in_thread(lambda: within(TURN, work))
    except OverBudget:
        return await in_share(work)


async def begin(
    call: RequestContext, want: Submission, part: str = "", *, at_once: bool = True, spent: bool = False
) -> Started:
    """Start it, or find what its key has started before. `spent`: nobody asks for its contexts afterwards."""
    request, once = want
    run, asked = new_id("eval_"), request.asked
    made: InlineResult | None = None

    async def start(documents: list[PutDocument]) -> None:
        nonlocal made
        if at_once and asked.at_once and isinstance(request, ParsedRequest):
            office = fep_of(call).evaluations
            scored = await office.score(asked, request.contexts, call.tenant, run=run, told=request.told)
            if (
                spent
            ):  # not held while the disk is waited for: the next request has their place while it is warm
                request.contexts.clear()
            await office.keep(scored, documents)
            made = InlineResult(scored.run, asked.experiment, scored.lines, scored.metadata)
        else:
            contexts = request.contexts if isinstance(request, ParsedRequest) else request.lines()
            await _take_in(call, asked, contexts, documents, run)

    started = await once.start(run, start, part)
    return Started(started.run, started.replayed, made)


async def _take_in(
    call: RequestContext,
    asked: PlannedEvaluation,
    contexts: Iterable[Context | bytes],
    documents: list[PutDocument],
    run: str,
) -> None:
    server = call.server
    with server.admission.reserve_run(call.tenant):
        taken = await fep_of(call).evaluations.take_in(
            asked, contexts, call.tenant, server.executor.executor_id, documents, run=run
        )
        server.executor.start(taken)
