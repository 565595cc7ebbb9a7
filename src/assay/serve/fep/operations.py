"""Operations: the state of one evaluation, and lists of them (FEP 5.2, FEP-41)."""

from datetime import UTC, datetime

from msgspec import UNSET

from assay.errors import InvalidRequest, Problem
from assay.fep.records.run_header import KIND
from assay.ports import RunQuery, RunStatus
from assay.protocol.operations import ListOperationsResponse
from assay.serve.fep.server_state import evaluation_of, fep_of
from assay.serve.web import responses as pages
from assay.serve.web.request import HttpRequest, RequestContext
from assay.serve.web.responses import Response, answer

FILTERS = ("status", "experiment", "since", "until")
STATUSES: dict[str, frozenset[RunStatus]] = {
    "pending": frozenset({"pending"}),
    "running": frozenset(
        {"running", "cancelling", "paused", "waiting-approval", "waiting-input", "waiting-external"}
    ),
    "completed": frozenset({"completed"}),
    "failed": frozenset({"failed"}),
    "cancelled": frozenset({"cancelled"}),
}


async def get_operation(call: HttpRequest) -> Response:
    call.query()
    return answer(fep_of(call).evaluations.operation(await evaluation_of(call)))


async def list_evaluations(call: HttpRequest) -> Response:
    """Newest first; filtered by status, experiment and creation time."""
    return answer(await list_operations(call, call.query(*FILTERS, "page_size", "page_token")))


async def list_operations(call: RequestContext, params: dict[str, str]) -> ListOperationsResponse:
    """One page. `params` are the parameters of any transport, by REST's names."""
    size = pages.size(params.get("page_size"), call.server.serving.max_page)
    status, name = params.get("status"), params.get("experiment")
    if status is not None and status not in STATUSES:
        raise InvalidRequest(Problem("status", f"expected one of {', '.join(STATUSES)}, got {status[:40]!r}"))
    if name is not None and "\0" in name:
        raise InvalidRequest(Problem("experiment", "expected a name without NUL"))
    since, until = (moment(params, name) for name in ("since", "until"))
    digest = pages.digest(call.tenant, status, name, since, until)
    query = RunQuery(
        tenant=call.tenant,
        kind=KIND,
        name=name,
        statuses=None if status is None else STATUSES[status],
        since=since,
        until=until,
        before=page_start(params.get("page_token"), digest),
        limit=size + 1,
    )
    runs = await call.server.executor.list(query)
    following = UNSET
    if len(runs) > size:
        last = runs[size - 1]
        following = pages.token(pages.RunCursor(last.created, last.id, digest))
    operations = [fep_of(call).evaluations.operation(run) for run in runs[:size]]
    return ListOperationsResponse(operations=operations, next_page_token=following)


def page_start(token: str | None, digest: str) -> tuple[datetime, str] | None:
    if token is None:
        return None
    cursor = pages.decode(token, pages.RunCursor)
    if cursor.query != digest or cursor.created.tzinfo is None or "\0" in cursor.id:
        raise pages.invalid_token()
    return cursor.created, cursor.id


def moment(params: dict[str, str], name: str) -> datetime | None:
    text = params.get(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))  # an unescaped plus sign decodes to a space
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        message = f"expected a timestamp such as 2026-07-01T12:00:00Z, got {text[:40]!r}"
        raise InvalidRequest(Problem(name, message)) from None
    return moment
