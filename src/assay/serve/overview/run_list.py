"""POST /v1/host/assay/runs:query and runs:changes: the runs of every kind, and what has changed in a list of them."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from assay.errors import InvalidRequest, Problem
from assay.ports import Run, RunGroup, RunOrder, RunQuery, RunStatus, Store
from assay.serve.fep.request_parser import read_json
from assay.serve.overview.access import overview_of, readable_kinds
from assay.serve.overview.run_rows import SCORED, RunRow, version_of
from assay.serve.web import responses as pages
from assay.serve.web.body_reader import body_format, read_document
from assay.serve.web.request import HttpRequest
from assay.serve.web.responses import Response, answer

SCANNED = 2_000  # runs that one request looks at, if no index finds what it asks for
SCAN_PAGE = 200
TREND = 20  # scores of a group
MAX_WATCHED = 200
POLL_SECONDS = 1.0
MICROSECONDS = 1e6
Name = Annotated[str, Meta(min_length=1, max_length=512)]
Kind = Annotated[str, Meta(max_length=64)]


class _Body(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    pass


class RunFilter(_Body, frozen=True, kw_only=True):
    """Which runs. `agentId`, `tag` and `text` are looked for in the newest runs first, with a limit on the work."""

    kind: list[Kind] | UnsetType = UNSET
    status: list[RunStatus] | UnsetType = UNSET
    name: Annotated[str, Meta(max_length=512)] | UnsetType = UNSET
    since: datetime | UnsetType = UNSET
    until: datetime | UnsetType = UNSET
    passed: bool | UnsetType = UNSET
    agent_id: Name | UnsetType = UNSET
    tag: Name | UnsetType = UNSET
    text: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET

    @property
    def scans(self) -> bool:
        return any(value is not UNSET for value in (self.agent_id, self.tag, self.text))

    def matches(self, run: Run) -> bool:
        """Whether the run has what no index knows."""
        metadata = run.metadata
        if self.agent_id is not UNSET and metadata.get("agentId") != self.agent_id:
            return False
        if self.tag is not UNSET and self.tag not in metadata.get("tags", ()):
            return False
        if self.text is UNSET:
            return True
        texts = (
            run.id,
            run.name,
            metadata.get("agentId", ""),
            *metadata.get("tags", ()),
            *metadata.get("models", ()),
        )
        wanted = self.text.casefold()
        return any(wanted in str(text).casefold() for text in texts)


class RunSort(_Body, frozen=True, kw_only=True):
    by: RunOrder = "created"
    order: Literal["asc", "desc"] = "desc"


class RunsQuery(_Body, frozen=True, kw_only=True):
    filter: RunFilter = RunFilter()
    sort: RunSort = RunSort()
    group_by: Literal["name"] | UnsetType = UNSET
    counts: bool = False
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: Annotated[str, Meta(max_length=2_000)] | UnsetType = UNSET


class WatchedRun(_Body, frozen=True, kw_only=True):
    run_id: Name
    version: Annotated[str, Meta(max_length=100)]


class ChangesQuery(_Body, frozen=True, kw_only=True):
    since: datetime | UnsetType = UNSET
    watch: Annotated[list[WatchedRun], Meta(max_length=MAX_WATCHED)] = []
    kind: list[Kind] | UnsetType = UNSET
    wait_seconds: Annotated[float, Meta(ge=0, le=25)] = 20.0


class Looked(Struct, frozen=True, kw_only=True):
    """How far a scan looked: the number of runs, and the creation time of the last of them."""

    runs: int
    until: datetime | None
    complete: bool


class RunGroupRow(Struct, frozen=True, kw_only=True):
    """`scores` are those of the newest runs, the oldest of them first; null: the run has none."""

    name: str
    kind: str
    count: int
    newest: RunRow
    scores: list[float | None]


class RunsCounts(Struct, frozen=True, kw_only=True, rename="camel"):
    total: int
    by_status: dict[str, int]
    by_kind: dict[str, int]


class RunsAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    runs: list[RunRow] | UnsetType = UNSET
    groups: list[RunGroupRow] | UnsetType = UNSET
    next: str | UnsetType = UNSET
    looked: Looked | UnsetType = UNSET
    counts: RunsCounts | UnsetType = UNSET
    kinds: tuple[str, ...]
    now: datetime


class ChangesAnswer(Struct, frozen=True, kw_only=True):
    changed: list[RunRow]
    created: list[RunRow]
    now: datetime


class _Cursor(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The last run of a page, its number in the order, and a digest of the query."""

    created: datetime
    id: str
    number: float | None
    query: str


_query = msgspec.json.Decoder(RunsQuery).decode
_changes = msgspec.json.Decoder(ChangesQuery).decode


async def query_runs(call: HttpRequest) -> Response:
    call.query()
    kinds = readable_kinds(call)
    body_format(call)
    request = await read_json(call, _query, await read_document(call) or b"{}")
    query = _run_query(call, request, kinds)
    store, rows, now = call.server.store, overview_of(call).rows, call.server.clock.now()
    counts = await _counts(store, query, frozenset(kinds)) if request.counts else UNSET
    if request.group_by is not UNSET:
        _refuse_with_groups(request)
        groups = await store.group_runs(query)
        runs = {
            run.id: run for run in await store.find([group.newest for group in groups], tenant=call.tenant)
        }
        newest = {row.run_id: row for row in await rows.rows([*runs.values()], now)}
        listed = [
            RunGroupRow(
                name=newest[group.newest].name,
                kind=group.kind,
                count=group.count,
                newest=newest[group.newest],
                scores=await _scores(store, query, group, newest[group.newest].name),
            )
            for group in groups
            if group.newest in newest
        ]
        return answer(RunsAnswer(groups=listed, counts=counts, kinds=kinds, now=now))
    digest = pages.digest(call.tenant, kinds, request.filter, request.sort)
    start = UNSET if request.cursor is UNSET else _position(request.cursor, digest)
    found, last, looked = await _page(store, query, request, start)
    listed = await rows.rows(found, now)
    following = UNSET if last is None else _token(last, request.sort.by, digest)
    return answer(RunsAnswer(runs=listed, next=following, looked=looked, counts=counts, kinds=kinds, now=now))


async def _scores(store: Store, query: RunQuery, group: RunGroup, name: str) -> list[float | None]:
    """The scores of the newest runs of a group that the query selects."""
    if group.kind not in SCORED or group.count < 2:
        return []
    own = msgspec.structs.replace(query, kinds=None, kind=group.kind, name=name, limit=TREND)
    return [run.facts.score for run in reversed(await store.runs(own))]


def _refuse_with_groups(request: RunsQuery) -> None:
    if request.filter.scans or request.cursor is not UNSET or request.sort != RunSort():
        message = "expected no sort, cursor, agentId, tag or text: groups have the newest run first"
        raise InvalidRequest(Problem("groupBy", message))


def _run_query(call: HttpRequest, request: RunsQuery, kinds: tuple[str, ...]) -> RunQuery:
    filter = request.filter
    wanted = _kinds(filter.kind, kinds)
    if filter.name is not UNSET and "\0" in filter.name:
        raise InvalidRequest(Problem("filter.name", "expected a name without NUL"))
    return RunQuery(
        tenant=call.tenant,
        kinds=None if set(wanted) == set(overview_of(call).kinds) else frozenset(wanted),
        name=None if filter.name is UNSET else filter.name,
        statuses=None if filter.status is UNSET else frozenset(filter.status),
        since=None if filter.since is UNSET else _utc(filter.since),
        until=None if filter.until is UNSET else _utc(filter.until),
        passed=None if filter.passed is UNSET else filter.passed,
        order=request.sort.by,
        ascending=request.sort.order == "asc",
        limit=request.limit,
    )


def _utc(moment: datetime) -> datetime:
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise InvalidRequest(Problem("filter", "expected a time between the years 1 and 9999")) from None


def _kinds(requested: list[str] | UnsetType, kinds: tuple[str, ...]) -> list[str]:
    if requested is UNSET:
        return list(kinds)
    known = ("evaluation", "agent-eval", "workflow", "deployment")
    for kind in requested:
        if kind not in known:
            raise InvalidRequest(
                Problem("filter.kind", f"expected one of {', '.join(known)}, got {kind[:40]!r}")
            )
    return [kind for kind in requested if kind in kinds]


async def _counts(store: Store, query: RunQuery, readable: frozenset[str]) -> RunsCounts:
    """The counts by status are of the chosen kinds, and those by kind are of the chosen statuses."""
    everything = msgspec.structs.replace(query, statuses=None, kinds=readable)
    counted = await store.count_runs(everything)
    by_status: dict[str, int] = {}
    by_kind: dict[str, int] = {}
    total = 0
    for (kind, status), many in sorted(counted.items()):
        in_kind = query.kinds is None or kind in query.kinds
        in_status = query.statuses is None or status in query.statuses
        if in_kind:
            by_status[status] = by_status.get(status, 0) + many
        if in_status:
            by_kind[kind] = by_kind.get(kind, 0) + many
        total += many if in_kind and in_status else 0
    return RunsCounts(total=total, by_status=by_status, by_kind=by_kind)


async def _page(
    store: Store, query: RunQuery, request: RunsQuery, start: "_Cursor | UnsetType"
) -> tuple[list[Run], Run | None, Looked | UnsetType]:
    """The runs of a page, the run after which the next page starts, and how far a scan looked."""
    filter, limit = request.filter, request.limit
    found: list[Run] = []
    seen, last = 0, None
    while True:
        size = SCAN_PAGE if filter.scans else limit + 1
        page = await store.runs(_from(msgspec.structs.replace(query, limit=size), start))
        if not filter.scans:
            return page[:limit], page[limit - 1] if len(page) > limit else None, UNSET
        for run in page:
            seen, last = seen + 1, run
            if filter.matches(run):
                found.append(run)
            if len(found) == limit or seen == SCANNED:
                complete = len(page) < size and run is page[-1]
                return (
                    found,
                    None if complete else run,
                    Looked(runs=seen, until=run.created, complete=complete),
                )
        if len(page) < size:
            return found, None, Looked(runs=seen, until=last.created if last else None, complete=True)
        assert last is not None
        start = _cursor(last, query.order, "")


def _from(query: RunQuery, start: _Cursor | UnsetType) -> RunQuery:
    if start is UNSET:
        return query
    if query.order == "created" and not query.ascending:
        return msgspec.structs.replace(query, before=(start.created, start.id))
    return msgspec.structs.replace(query, beyond=(start.number, start.created, start.id))


def _cursor(run: Run, order: RunOrder, digest: str) -> _Cursor:
    number = {"score": run.facts.score, "cost": run.facts.cost}.get(order)
    if order == "duration" and run.ended and run.started:
        number = round((run.ended - run.started).total_seconds() * MICROSECONDS)
    return _Cursor(run.created, run.id, number, digest)


def _token(run: Run, order: RunOrder, digest: str) -> str:
    return pages.token(_cursor(run, order, digest))


def _position(token: str, digest: str) -> _Cursor:
    refusal = InvalidRequest(Problem("cursor", "expected `next` of an answer to the same query"))
    try:
        cursor = pages.decode(token, _Cursor)
    except InvalidRequest:
        raise refusal from None
    if cursor.query != digest or cursor.created.tzinfo is None or "\0" in cursor.id:
        raise refusal
    return cursor


async def watch_runs(call: HttpRequest) -> Response:
    """Wait until a watched run has another version, or a run is created. An empty answer comes after `waitSeconds`."""
    call.query()
    kinds = readable_kinds(call)
    body_format(call)
    request = await read_json(call, _changes, await read_document(call) or b"{}")
    wanted = frozenset(_kinds(request.kind, kinds))
    return answer(await call.until_disconnect(_changed(call, request, wanted)))


async def _changed(call: HttpRequest, request: ChangesQuery, kinds: frozenset[str]) -> ChangesAnswer:
    store, rows = call.server.store, overview_of(call).rows
    versions = {one.run_id: one.version for one in request.watch}
    loop = asyncio.get_running_loop()
    until = loop.time() + request.wait_seconds
    since = None if request.since is UNSET else _utc(request.since)
    while True:
        found = await store.find(list(versions), tenant=call.tenant) if versions else []
        changed = [run for run in found if run.kind in kinds and version_of(run) != versions[run.id]]
        created: list[Run] = []
        if since is not None:
            newest = await store.runs(
                RunQuery(tenant=call.tenant, kinds=kinds, since=since, limit=MAX_WATCHED)
            )
            created = [run for run in newest if run.created > since]
        left = until - loop.time()
        if changed or created or left <= 0:
            now = call.server.clock.now()
            return ChangesAnswer(
                changed=await rows.rows(changed, now), created=await rows.rows(created, now), now=now
            )
        await asyncio.sleep(min(POLL_SECONDS, left))
