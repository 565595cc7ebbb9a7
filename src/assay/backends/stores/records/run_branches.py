"""
Pages of runs through the indexes that begin with tenant, kind and status.

One such triple is a *branch*: a range of the index in the order of the page. A store has few of them, whatever the
number of its runs. The database reads the beginning of each branch and merges them.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from assay.backends.stores.records.record_rows import stamp
from assay.ports import CLOSED, RunQuery

NUMBERS = {"score": "score", "cost": "cost", "duration": "(ended - started)"}
MAX_TENANTS, MAX_BRANCHES = 20, 240  # SQLite allows 500 parts of a query
_DESCENDING = "created DESC, id DESC"

# Each value is one step in an index. PostgreSQL and SQLite have no other form of this.
_TENANTS = (
    "WITH RECURSIVE found(tenant) AS (SELECT min(tenant) FROM runs UNION ALL"
    " SELECT (SELECT min(tenant) FROM runs WHERE tenant > found.tenant) FROM found WHERE tenant IS NOT NULL)"
    " SELECT tenant FROM found WHERE tenant IS NOT NULL LIMIT :limit"
)
_STATUS = (
    "(SELECT min(status) FROM runs WHERE tenant = :tenant AND kind = found.kind AND status > found.status)"
)
_KIND = "(SELECT min(kind) FROM runs WHERE tenant = :tenant AND kind > found.kind)"
_PAIRS = (
    "WITH RECURSIVE found(kind, status) AS ("  # noqa: S608  # our own text
    "SELECT min(kind), substr(min(kind), 1, 0) FROM runs WHERE tenant = :tenant UNION ALL"
    f" SELECT CASE WHEN {_STATUS} IS NULL THEN {_KIND} ELSE kind END, coalesce({_STATUS}, '')"
    " FROM found WHERE kind IS NOT NULL)"
    " SELECT kind, status FROM found WHERE kind IS NOT NULL AND status <> '' LIMIT :limit"
)


# A statement with named parameters, and its rows.
Execute = Callable[[str, dict[str, Any]], Iterable[Any]]


class Branch(NamedTuple):
    tenant: str
    kind: str
    status: str


class _Part(NamedTuple):
    """What the ranges have in common: the number of the order, a condition, and the direction."""

    number: str
    condition: str
    direction: str
    limit: int


def page(execute: Execute, query: RunQuery) -> list[str] | None:
    """The ids of a page; None: another index, or no index, answers this query."""
    if query.evidence or query.name is not None:
        return None
    if query.order == "created" and _is_range(query):
        return None
    branches = _branches(execute, query)
    if not branches:
        return None if branches is None else []
    if query.order == "created":
        place, sign = place_of(query), ">" if query.ascending else "<"
        condition = "" if place is None else f"(created, id) {sign} (:created, :id)"
        direction = "created, id" if query.ascending else _DESCENDING
        return _read(execute, query, branches, _Part("created", condition, direction, query.limit), place)
    return _by_number(execute, query, branches)


def place_of(query: RunQuery) -> tuple[int, str] | None:
    """The creation time and the id of the run after which the page begins, in an order by time."""
    if query.order == "created" and query.ascending:
        return None if query.beyond is None else (stamp(query.beyond[1]), query.beyond[2])
    return None if query.before is None else (stamp(query.before[0]), query.before[1])


def _is_range(query: RunQuery) -> bool:
    """Whether the page is a range of an index by time, or, for all tenants, of the index of open runs."""
    if query.tenant is None and query.statuses is not None and not query.statuses & CLOSED:
        return True
    return all(value is None for value in (query.kind, query.kinds, query.statuses, query.passed))


def _by_number(execute: Execute, query: RunQuery, branches: list[Branch]) -> list[str]:
    """Runs with the number, then those without it."""
    number, sign, way = NUMBERS[query.order], *((">", "ASC") if query.ascending else ("<", "DESC"))
    ids: list[str] = []
    value, place = None, None
    if query.beyond is not None:
        value, place = query.beyond[0], (stamp(query.beyond[1]), query.beyond[2])
    if place is None or value is not None:
        condition = f"{number} IS NOT NULL"
        if place is not None:
            condition += f" AND ({number}, created, id) {sign} (:value, :created, :id)"
            if query.order == "duration":  # SQLite compares a row with an index of columns only
                condition += f" AND {number} {sign}= :value"
        direction = f"number {way}, created {way}, id {way}"
        part = _Part(number, condition, direction, query.limit)
        ids = _read(execute, query, branches, part, place, value)
        place = None
    if len(ids) < query.limit:
        condition = f"{number} IS NULL" + ("" if place is None else " AND (created, id) < (:created, :id)")
        part = _Part(number, condition, _DESCENDING, query.limit - len(ids))
        ids += _read(execute, query, branches, part, place)
    return ids


def _branches(execute: Execute, query: RunQuery) -> list[Branch] | None:
    tenants = [query.tenant]
    if query.tenant is None:
        tenants = [row.tenant for row in execute(_TENANTS, {"limit": MAX_TENANTS + 1})]
    if len(tenants) > MAX_TENANTS:
        return None
    found = [
        Branch(tenant or "", row.kind, row.status)
        for tenant in tenants
        for row in execute(_PAIRS, {"tenant": tenant, "limit": MAX_BRANCHES + 1})
        if query.kind in (None, row.kind)
        and (query.kinds is None or row.kind in query.kinds)
        and (query.statuses is None or row.status in query.statuses)
    ]
    return found if len(found) <= MAX_BRANCHES else None


def _read(
    execute: Execute,
    query: RunQuery,
    branches: list[Branch],
    part: _Part,
    place: tuple[int, str] | None,
    value: float | None = None,
) -> list[str]:
    parameters: dict[str, Any] = {}
    # a number and not a parameter: PostgreSQL plans a prepared statement once only if it knows that the page is small
    limit = f"LIMIT {int(part.limit)}"
    conditions = [part.condition] if part.condition else []
    if place is not None:
        parameters |= {"created": place[0], "id": place[1]}
    if value is not None:
        parameters["value"] = value
    for name, moment, sign in (("since", query.since, ">="), ("until", query.until, "<")):
        if moment is not None:
            conditions.append(f"created {sign} :{name}")
            parameters[name] = stamp(moment)
    if query.passed is not None:
        conditions.append("passed = :passed")
        parameters["passed"] = int(query.passed)
    rest = "".join(f" AND {one}" for one in conditions)
    selects: list[str] = []
    for at, branch in enumerate(branches):
        here = f"tenant = :tenant{at} AND kind = :kind{at} AND status = :status{at}{rest}"
        selects.append(
            f"SELECT * FROM (SELECT id, created, {part.number} AS number FROM runs WHERE {here}"  # noqa: S608  # our own text
            f" ORDER BY {part.direction} {limit}) AS branch{at}"
        )
        parameters |= {f"{name}{at}": one for name, one in branch._asdict().items()}
    merged = f"SELECT id FROM ({' UNION ALL '.join(selects)}) AS merged"  # noqa: S608
    rows = execute(f"{merged} ORDER BY {part.direction} {limit}", parameters)
    return [row.id for row in rows]
