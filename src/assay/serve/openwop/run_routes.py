"""Create, read and cancel runs (openwop-contract §3.1, §3.3, §3.5)."""

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec import UNSET

from assay.concurrency.threads import off_loop
from assay.errors import Conflict, InvalidRequest, NotFound, Problem, Refusal
from assay.ports import CLOSED, PutDocument, Run, RunQuery, RunStatus
from assay.ports.telemetry import trace_context
from assay.promotion import KIND as DEPLOYMENT
from assay.protocol.json_types import JSON, is_object
from assay.protocol.redaction import redact
from assay.protocol.runs import (
    BulkCancelled,
    BulkCancelRequest,
    BulkCancelResponse,
    BulkError,
    CancelRequest,
    CancelResponse,
    EraseResponse,
    RunCreated,
    RunRequest,
)
from assay.runs.erasure import erase_run
from assay.runs.intake import new_id
from assay.serve.fep.operations import moment, page_start
from assay.serve.fep.request_parser import read_json
from assay.serve.fep.submit import digest_for
from assay.serve.openwop.errors import ForeignTenant, MockForbidden
from assay.serve.openwop.host import NewRun, OpenWopHost, host_of, run_of, snapshot
from assay.serve.web import responses as pages
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.idempotency import REPLAYED, IdempotentRequest
from assay.serve.web.request import NAME, HttpRequest, matches
from assay.serve.web.responses import Headers, Response, answer, error_body

CANCEL_SECONDS = 2.8  # to wait for a run to stop
MAX_RUNS = 100  # in one bulk cancel
ENDS: dict[str, Literal["cancelled", "completed", "failed"]] = {
    "cancelled": "cancelled",
    "completed": "completed",
    "failed": "failed",
}
_request = msgspec.json.Decoder(RunRequest).decode
_cancel = msgspec.json.Decoder(CancelRequest).decode
_bulk = msgspec.json.Decoder(BulkCancelRequest).decode


async def create_run(call: HttpRequest) -> Response:
    """Create a run. A run that will fail later is created too; only one that cannot start is refused."""
    call.query()
    call.server.admission.check_open()
    host = host_of(call)
    body_format(call)
    body = await read_document(call)
    request = await read_json(call, _request, body)
    _authorize(call, request)
    request = await off_loop(len(body), lambda: _without_secrets(request))
    kind = host.kind_for(request)
    once = IdempotentRequest(call, "POST /v1/runs", await digest_for(call, body))
    run = new_id("run-")

    async def begin(documents: list[PutDocument]) -> None:
        with call.server.admission.reserve_run(call.tenant), trace_context(call.header(b"traceparent")):
            new = NewRun(run, call.principal, call.server.executor.executor_id, documents)
            call.server.executor.start(await kind.open(request, new))

    started = await once.start(run, begin)
    created_run = await call.server.executor.get(started.run, call.tenant)
    created = RunCreated(
        run_id=created_run.id, status=_created_status(created_run), **urls(call, created_run.id)
    )
    headers: Headers = ((b"location", f"/v1/runs/{created_run.id}".encode()),)
    return answer(created, 201, headers + REPLAYED if started.replayed else headers)


def _authorize(call: HttpRequest, request: RunRequest) -> None:
    """The tenant must be the one of the key, and test doubles are refused (openwop-contract §1.1, §2.2)."""
    if request.tenant_id is not UNSET and request.tenant_id != call.tenant:
        raise ForeignTenant
    refuse_test_doubles(call, {} if request.configurable is UNSET else request.configurable)


def refuse_test_doubles(call: HttpRequest, configurable: object) -> None:
    if is_object(configurable) and "mockProvider" in configurable:
        raise MockForbidden("mock_provider_forbidden", "configurable.mockProvider is not offered here")
    if call.header(b"x-force-engine-version") is not None:
        raise MockForbidden("force_engine_version_forbidden", "X-Force-Engine-Version is not offered here")


def _without_secrets(request: RunRequest) -> RunRequest:
    """Tags and metadata are stored and returned without secrets (openwop-contract §6.5)."""
    members = {name: getattr(request, name) for name in ("tags", "metadata")}
    safe = {name: redact(value) for name, value in members.items() if value is not UNSET}
    return msgspec.structs.replace(request, **safe)


def _created_status(run: Run) -> str:
    """The status in the response to a create: `running` for a run that has ended, as OpenWOP has no end there."""
    return "running" if run.status in CLOSED or run.status == "cancelling" else run.status


def urls(call: HttpRequest, run: str) -> dict[str, str]:
    base = call.base_url
    return {"events_url": f"{base}/v1/runs/{run}/events", "status_url": f"{base}/v1/runs/{run}"}


async def get_run(call: HttpRequest) -> Response:
    call.query()
    host = host_of(call)
    run = await run_of(call, host)
    tag = (
        b'"%b"'
        % hashlib.sha256(f"{run.id} {run.events} {run.status} {run.erased}".encode())
        .hexdigest()[:32]
        .encode()
    )
    if matches(call, tag):
        return Response(b"", 304, headers=((b"etag", tag),))
    await call.audit_read(run, content=False)
    return answer(await snapshot(host, run), headers=((b"etag", tag),))


async def delete_run(call: HttpRequest) -> Response:
    """DELETE /v1/host/assay/runs/{runId}: erase its content. A second request has the same answer."""
    call.query()
    run = await erase_run(call.server.store, await run_of(call, host_of(call)))
    return answer(EraseResponse(run_id=run.id, status=run.status, erased_at=run.erased))


async def cancel_run(call: HttpRequest) -> Response:
    """Cancel a run; its recorded events stay. An ended run is answered with its status (openwop-contract §3.5)."""
    call.query()
    host, run = host_of(call), call.run_id
    body = await read_document(call) or b"{}"
    cancel_request = await read_json(call, _cancel, body)
    digest = await digest_for(call, body)
    once = IdempotentRequest(call, "POST /v1/runs/{runId}/cancel", lambda: f"{run} {digest()}")

    async def cancel(documents: Sequence[PutDocument] = ()) -> CancelResponse:
        return await _cancelled(call, host, run, cancel_request.reason, documents)

    result, replayed = await once.perform(cancel, cancel)
    return answer(result, headers=REPLAYED if replayed else ())


async def _cancelled(
    call: HttpRequest,
    host: OpenWopHost,
    id: str,
    reason: str | msgspec.UnsetType,
    documents: Sequence[PutDocument] = (),
) -> CancelResponse:
    run = await run_of(call, host, id)
    if run.status not in CLOSED:
        try:
            text = "" if reason is UNSET else reason
            run = await call.server.executor.cancel(
                run.id, call.tenant, reason=text, documents=documents, timeout=CANCEL_SECONDS
            )
        except Conflict as conflict:
            if conflict.reason == "exists":
                raise  # another request has used its key
            run = await run_of(call, host, id)
    status: Literal["cancelled", "completed", "failed"] | None = ENDS.get(run.status)
    return CancelResponse(run_id=run.id, status=status or "cancelling")


async def bulk_cancel(call: HttpRequest) -> Response:
    """Cancel up to a hundred runs. One that cannot be cancelled does not affect the others."""
    call.query()
    host = host_of(call)
    body_format(call)
    body = await read_document(call)
    request = await read_json(call, _bulk, body)
    if len(request.run_ids) > MAX_RUNS:
        raise TooMany(len(request.run_ids))
    once = IdempotentRequest(call, "POST /v1/runs:bulk-cancel", await digest_for(call, body))

    async def cancel() -> BulkCancelResponse:
        each = (_cancel_one(call, host, id, request.reason, once) for id in request.run_ids)
        return BulkCancelResponse(results=list(await asyncio.gather(*each)))

    result, replayed = await once.collect(cancel, BulkCancelResponse, lambda _: True)
    return answer(result, headers=REPLAYED if replayed else ())


async def _cancel_one(
    call: HttpRequest,
    host: OpenWopHost,
    id: str,
    reason: str | msgspec.UnsetType,
    idempotency: IdempotentRequest,
) -> BulkCancelled:
    async def cancel(documents: Sequence[PutDocument] = ()) -> CancelResponse:
        return await _cancelled(call, host, id, reason, documents)

    try:
        if not NAME.fullmatch(id):
            raise NotFound(f"there is no run {id[:128]!r}")
        done, _ = await idempotency.perform(cancel, cancel, f".{id}")
    except Refusal as refusal:
        await call.audit_refusal(refusal, id)
        body = error_body(refusal, call.id)
        return BulkCancelled(run_id=id, ok=False, error=BulkError(code=body.error, message=body.message))
    return BulkCancelled(run_id=id, ok=True, status=done.status)


class TooMany(InvalidRequest):
    def __init__(self, count: int) -> None:
        super().__init__(Problem("runIds", f"expected at most {MAX_RUNS}, got {count}"))

    @property
    def details(self) -> dict[str, object]:
        return super().details | {"maxRunIds": MAX_RUNS}


# GET /v1/host/assay/runs: the runs of a tenant, newest first (openwop-contract §3.5; OpenWOP v1 has no list of
# its own).

STATUSES: tuple[RunStatus, ...] = (
    "pending", "running", "paused", "waiting-approval", "waiting-input", "waiting-external",
    "completed", "failed", "cancelling", "cancelled",
)  # fmt: skip


async def list_runs(call: HttpRequest) -> Response:
    params = call.query("status", "mode", "workflowId", "since", "until", "page_size", "page_token")
    host = host_of(call)
    size = pages.size(params.get("page_size"), call.server.serving.max_page)
    status, name = params.get("status"), params.get("workflowId")
    if status is not None and status not in STATUSES:
        raise InvalidRequest(Problem("status", f"expected one of {', '.join(STATUSES)}, got {status[:40]!r}"))
    if name is not None and "\0" in name:
        raise InvalidRequest(Problem("workflowId", "expected a name without NUL"))
    since, until = moment(params, "since"), moment(params, "until")
    kind = _kind(host, params.get("mode"))
    digest = pages.digest(call.tenant, "runs", status, name, kind, since, until)
    query = RunQuery(
        tenant=call.tenant,
        kind=kind,
        name=name,
        statuses=None if status is None else frozenset({status}),
        since=since,
        until=until,
        before=page_start(params.get("page_token"), digest),
        limit=size + 1,
    )
    runs = await call.server.executor.list(query)
    entries = [run_item(run) for run in runs[:size] if run.kind in host.kinds]
    following: JSON = {}
    if len(runs) > size:
        last = runs[size - 1]
        following = {"nextPageToken": pages.token(pages.RunCursor(last.created, last.id, digest))}
    return answer({"runs": entries, **following})


def _kind(host: OpenWopHost, mode: str | None) -> str | None:
    """The name of the kind for `mode`: `eval`, `workflow` or `deployment`."""
    kinds = {"eval": host.evals, "workflow": host.workflows, "deployment": DEPLOYMENT}
    if mode is None:
        return None
    if mode not in kinds:
        raise InvalidRequest(Problem("mode", f"expected one of {', '.join(kinds)}, got {mode[:40]!r}"))
    return kinds[mode] or "nothing"


def run_item(run: Run) -> JSON:
    """The entry of a run in a list. It has no content."""
    entry: JSON = {
        "runId": run.id,
        "workflowId": run.name,
        "status": run.status,
        "createdAt": run.created.isoformat().replace("+00:00", "Z"),
    }
    metadata = run.metadata
    if "parent" in metadata:
        entry["parentRunId"] = metadata["parent"]["runId"]
    if "source" in metadata:  # of a workflow's fork; the header of an eval's fork has the wire names
        entry |= {"sourceRunId": metadata["source"], "forkMode": metadata["mode"]}
    return entry | {name: metadata[name] for name in MEMBERS if name in metadata}


MEMBERS = (
    "suiteId", "suiteVersion", "agentId", "agentVersion", "modes", "total", "suiteTotal", "trials", "done",
    "passedCount", "unmeasured", "aggregateScore", "passed", "baselineRunId", "code", "sourceRunId", "forkMode", "goalSatisfied",
    "verdict", "selfVerified", "waiting", "tags", "transition", "toState",
)  # fmt: skip
