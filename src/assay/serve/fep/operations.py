"""Operations: an evaluation seen from outside, one or many (FEP 5.2, decision 41)."""

from datetime import UTC, datetime

from msgspec import UNSET

from assay.errors import InvalidRequest, Problem
from assay.fep.run_header import KIND
from assay.ports import RunQuery, RunStatus
from assay.protocol.operations import ListOperationsResponse
from assay.serve.fep.state import evaluation_of, fep_of
from assay.serve.web import pagination as pages
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
    """Newest first; by status, experiment and when they were created."""
    return answer(await listed(call, call.query(*FILTERS, "page_size", "page_token")))


async def listed(call: RequestContext, asked: dict[str, str]) -> ListOperationsResponse:
    """A page of them, by what a transport has understood."""
    size = pages.size(asked.get("page_size"), call.server.serving.max_page)
    status, name = asked.get("status"), asked.get("experiment")
    if status is not None and status not in STATUSES:
        raise InvalidRequest(Problem("status", f"expected one of {', '.join(STATUSES)}, got {status[:40]!r}"))
    if name is not None and "\0" in name:
        raise InvalidRequest(Problem("experiment", "no experiment has a NUL in its name"))
    since, until = (moment(asked, name) for name in ("since", "until"))
    digest = pages.digest(call.tenant, status, name, since, until)
    query = RunQuery(
        tenant=call.tenant,
        kind=KIND,
        name=name,
        statuses=None if status is None else STATUSES[status],
        since=since,
        until=until,
        before=before(asked.get("page_token"), digest),
        limit=size + 1,
    )
    runs = await call.server.executor.list(query)
    following = UNSET
    if len(runs) > size:
        last = runs[size - 1]
        following = pages.token(pages.RunCursor(last.created, last.id, digest))
    operations = [fep_of(call).evaluations.operation(run) for run in runs[:size]]
    return ListOperationsResponse(operations=operations, next_page_token=following)


def before(token: str | None, digest: str) -> tuple[datetime, str] | None:
    if token is None:
        return None
    place = pages.decode(token, pages.RunCursor)
    if place.query != digest or place.created.tzinfo is None or "\0" in place.id:
        raise pages.invalid_token()
    return place.created, place.id


def moment(asked: dict[str, str], name: str) -> datetime | None:
    text = asked.get(name)
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text.replace(" ", "+"))  # a plus sign that nobody has escaped
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        said = f"expected a moment such as 2026-07-01T12:00:00Z, got {text[:40]!r}"
        raise InvalidRequest(Problem(name, said)) from None
    return moment
