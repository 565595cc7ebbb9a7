"""POST /v1/runs/{runId}:fork: a new run from the recorded events of another (openwop-contract §3.7)."""

import msgspec
from msgspec import UNSET

from assay.auth.keys import authorize
from assay.errors import InvalidRequest, Problem
from assay.ports import CLOSED, PutDocument, Run
from assay.ports.telemetry import trace_context
from assay.protocol.runs import ForkCreated, ForkRequest
from assay.runs.copy import fork_point
from assay.runs.intake import new_id
from assay.serve.fep.request_parser import read_json
from assay.serve.fep.submit import digest_for
from assay.serve.openwop.errors import NotProvided
from assay.serve.openwop.host import NewRun, host_of, run_of
from assay.serve.openwop.run_routes import refuse_test_doubles, urls
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Headers, Response, answer

_request = msgspec.json.Decoder(ForkRequest).decode


async def fork_run(call: HttpRequest) -> Response:
    """Copies a run; the key must also have the scope to read it."""
    call.query()
    call.server.admission.check_open()
    host = host_of(call)
    authorize(call.principal, "runs:read")
    if not host.replay:
        raise NotProvided("replay")
    body_format(call)
    body = await read_document(call)
    request = _validate(await read_json(call, _request, body))
    overlay = {} if request.run_options_overlay is UNSET else request.run_options_overlay
    refuse_test_doubles(call, overlay.get("configurable", overlay))
    source = await run_of(call, host)
    kind = host.kinds[source.kind]
    from_seq = 0 if request.from_seq is UNSET else request.from_seq
    fork_point(source, from_seq)
    digest = await digest_for(call, body)
    once = IdempotentRequest(call, "POST /v1/runs/{runId}:fork", lambda: f"{source.id} {digest()}")
    run = new_id("run-")

    async def begin(documents: list[PutDocument]) -> None:
        with call.server.admission.reserve_run(call.tenant), trace_context(call.header(b"traceparent")):
            holder = call.server.executor.executor_id
            await call.audit_read(source)
            made = await kind.fork(source, request, NewRun(run, call.principal, holder, documents))
            # otherwise another process adopted it first
            if made.status not in CLOSED and made.holder == holder:
                call.server.executor.start(made)

    started = await once.start(run, begin)
    forked: Run = await call.server.executor.get(started.run, call.tenant)
    created = ForkCreated(
        run_id=forked.id,
        source_run_id=source.id,
        mode=request.mode,
        status=forked.status,
        events_url=urls(call, forked.id)["events_url"],
        from_seq=from_seq,
    )
    headers: Headers = ((b"location", f"/v1/runs/{forked.id}".encode()),)
    return answer(created, 201, headers + REPLAYED if started.replayed else headers)


def _validate(request: ForkRequest) -> ForkRequest:
    """Rules that the schema cannot express: a branch needs `fromSeq`, and a replay takes no overlay."""
    if request.mode == "branch" and request.from_seq is UNSET:
        raise InvalidRequest(Problem("fromSeq", "expected the sequence at which the branch begins"))
    if request.mode == "replay" and request.run_options_overlay:
        raise InvalidRequest(
            Problem("runOptionsOverlay", "expected mode branch with it; a replay changes nothing")
        )
    return request
