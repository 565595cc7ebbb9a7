# ruff: noqa: S608  # the parts of statements are constants here; values are parameters
"""
Lists of runs: pages in any order, counts and groups.

The work for a page does not depend on the number of runs (ADR-0090). A filter by kind, status or verdict, and an order
by a number, are answered by `run_branches`. Everything else is a range of one index.
"""

from assay.backends.stores.records import run_branches
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.queries import Database, Values, find_runs, one_of, read_runs
from assay.backends.stores.records.record_rows import stamp
from assay.backends.stores.records.sqlite_schema import OPEN_RUNS
from assay.ports import CLOSED, Run, RunGroup, RunQuery, RunStatus

_OLDEST, _NEWEST = "created, id", "created DESC, id DESC"


def list_runs(db: Database, query: RunQuery) -> list[Run]:
    ids = run_branches.page(db.rows, query)
    if ids is None and query.order != "created":
        ids = _in_order(db, query)
    if ids is not None:
        found = {run.id: run for run in find_runs(db, ids)}
        return [found[id] for id in ids]
    where, values = _conditions(db.codec, query)
    if (place := run_branches.place_of(query)) is not None:
        where.append(f"(created, id) {'>' if query.ascending else '<'} (:created, :id)")
        values |= {"created": place[0], "id": place[1]}
    order = _OLDEST if query.ascending else _NEWEST
    return read_runs(db, f"{_where(where)} ORDER BY {order} LIMIT :limit", values | {"limit": query.limit})


def count_runs(db: Database, query: RunQuery) -> dict[tuple[str, RunStatus], int]:
    where, values = _conditions(db.codec, query)
    rows = db.rows(
        f"SELECT kind, status, count(*) AS many FROM runs {_where(where)} GROUP BY kind, status", values
    )
    return {(row.kind, row.status): row.many for row in rows}


def group_runs(db: Database, query: RunQuery) -> list[RunGroup]:
    where, values = _conditions(db.codec, query)
    groups = db.rows(
        f"SELECT kind, name, count(*) AS many, max(created) AS newest FROM runs {_where(where)}"
        " GROUP BY kind, name ORDER BY max(created) DESC, kind, name LIMIT :limit",
        values | {"limit": query.limit},
    )
    here = _where([*where, "kind = :group_kind", "name = :group_name", "created = :newest"])
    found: list[RunGroup] = []
    for row in groups:
        group = {"group_kind": row.kind, "group_name": row.name, "newest": row.newest}
        (last,) = db.rows(f"SELECT id FROM runs {here} ORDER BY id DESC LIMIT 1", values | group)
        found.append(RunGroup(kind=row.kind, count=row.many, newest=last.id))
    return found


def _in_order(db: Database, query: RunQuery) -> list[str]:
    """The ids of a page in the order of a number. It reads all runs that match: of one name, or of many tenants."""
    where, values = _conditions(db.codec, query)
    number, sign, way = (
        run_branches.NUMBERS[query.order],
        *((">", "ASC") if query.ascending else ("<", "DESC")),
    )
    ids: list[str] = []
    beyond = query.beyond
    if beyond is not None:
        values |= {"value": beyond[0], "created": stamp(beyond[1]), "id": beyond[2]}
    if beyond is None or beyond[0] is not None:
        there = [f"({number}, created, id) {sign} (:value, :created, :id)"] if beyond else []
        numbered = _where([*where, f"{number} IS NOT NULL", *there])
        order = f"{number} {way}, created {way}, id {way}"
        rows = db.rows(
            f"SELECT id FROM runs {numbered} ORDER BY {order} LIMIT :limit", values | {"limit": query.limit}
        )
        ids, beyond = [row.id for row in rows], None
    if len(ids) < query.limit:
        there = ["(created, id) < (:created, :id)"] if beyond else []
        rest = _where([*where, f"{number} IS NULL", *there])
        left = {"limit": query.limit - len(ids)}
        ids += [
            row.id
            for row in db.rows(f"SELECT id FROM runs {rest} ORDER BY {_NEWEST} LIMIT :limit", values | left)
        ]
    return ids


def _where(conditions: list[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def _conditions(codec: RecordCodec, query: RunQuery) -> tuple[list[str], Values]:
    where, values = list[str](), Values()
    for name, sign, value in (
        ("tenant", "=", query.tenant),
        ("kind", "=", query.kind),
        ("passed", "=", None if query.passed is None else int(query.passed)),
        ("created", ">=", query.since and stamp(query.since)),
        ("created", "<", query.until and stamp(query.until)),
    ):
        if value is not None:
            parameter = f"p{len(values)}"
            where.append(f"{name} {sign} :{parameter}")
            values[parameter] = value
    for column, several in (
        ("kind", query.kinds),
        ("status", query.statuses),
        ("name", None if query.name is None else codec.names(query.name)),
    ):
        if several is not None:
            condition, some = one_of(sorted(several), column)
            where.append(f"{column} {condition}")
            values |= some
    if query.statuses is not None and not query.statuses & CLOSED:
        where.append(OPEN_RUNS)
    if query.evidence:
        kept = (
            f"EXISTS (SELECT 1 FROM {table} WHERE run = runs.id)" for table in ("evidence", "case_blocks")
        )
        where.append(f"({' OR '.join(kept)})")
    return where, values
