"""
GET /v1/host/assay/runs: the runs of a tenant, newest first (openwop-contract §3.5; OpenWOP v1 has no list of its own).
"""

from assay.errors import InvalidRequest, Problem
from assay.ports import Run, RunQuery, RunStatus
from assay.promotion import KIND as DEPLOYMENT
from assay.protocol.json_types import JSON
from assay.serve.fep.operations import moment, page_start
from assay.serve.openwop.host import OpenWopHost, host_of
from assay.serve.web import pagination as pages
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

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
    "suiteId", "suiteVersion", "agentId", "agentVersion", "modes", "total", "trials", "done", "passedCount",
    "unmeasured", "aggregateScore", "passed", "baselineRunId", "code", "sourceRunId", "forkMode", "goalSatisfied",
    "verdict", "selfVerified", "waiting", "tags", "transition", "toState",
)  # fmt: skip
