"""
Lists of runs: pages in any order, counts and groups.

The work for a page does not depend on the number of runs (ADR-0090). A filter by kind, status or verdict, and an order
by a number, are answered by `run_branches`. Everything else is a range of one index.
"""

from typing import Any

from sqlalchemy import ColumnElement, Connection, exists, func, or_, select, text, tuple_

from assay.backends.stores.records import run_branches
from assay.backends.stores.records.codec import RecordCodec
from assay.backends.stores.records.record_rows import stamp
from assay.backends.stores.sql.queries import find_runs, read_runs
from assay.backends.stores.sql.tables import OPEN, case_blocks, evidence, runs
from assay.ports import CLOSED, Run, RunGroup, RunQuery, RunStatus

_AGE = runs.c.created, runs.c.id
_NUMBERS: dict[str, ColumnElement[Any]] = {
    "score": runs.c.score,
    "cost": runs.c.cost,
    "duration": runs.c.ended - runs.c.started,
}


def list_runs(connection: Connection, codec: RecordCodec, query: RunQuery) -> list[Run]:
    ids = run_branches.page(lambda sql, values: connection.execute(text(sql), values), query)
    if ids is None and query.order != "created":
        ids = _in_order(connection, codec, query)
    if ids is not None:
        found = {run.id: run for run in find_runs(connection, codec, ids)}
        return [found[id] for id in ids]
    where = _conditions(codec, query)
    if (place := run_branches.place_of(query)) is not None:
        here, there = tuple_(*_AGE), tuple_(*place)
        where.append(here > there if query.ascending else here < there)
    order = _AGE if query.ascending else tuple(column.desc() for column in _AGE)
    rows = select(runs).where(*where).order_by(*order).limit(query.limit)
    return read_runs(connection, codec, rows)


def count_runs(
    connection: Connection, codec: RecordCodec, query: RunQuery
) -> dict[tuple[str, RunStatus], int]:
    key = runs.c.kind, runs.c.status
    rows = connection.execute(
        select(*key, func.count().label("many")).where(*_conditions(codec, query)).group_by(*key)
    )
    return {(row.kind, row.status): row.many for row in rows}


def group_runs(connection: Connection, codec: RecordCodec, query: RunQuery) -> list[RunGroup]:
    key = runs.c.kind, runs.c.name
    newest = func.max(runs.c.created)
    groups = select(*key, func.count().label("many"), newest.label("created")).where(
        *_conditions(codec, query)
    )
    groups = groups.group_by(*key).order_by(newest.desc(), *key).limit(query.limit)
    found: list[RunGroup] = []
    for row in connection.execute(groups).all():
        where = [*_conditions(codec, query), runs.c.kind == row.kind, runs.c.name == row.name]
        last = (
            select(runs.c.id).where(*where, runs.c.created == row.created).order_by(runs.c.id.desc()).limit(1)
        )
        id = connection.execute(last).scalar_one()
        found.append(RunGroup(kind=row.kind, count=row.many, newest=id))
    return found


def _in_order(connection: Connection, codec: RecordCodec, query: RunQuery) -> list[str]:
    """
    The ids of a page in the order of a number. It reads all runs that match: those of one name, or of very many
    tenants.
    """
    where, number, limit = _conditions(codec, query), _NUMBERS[query.order], query.limit
    ids: list[str] = []
    value, place = query.beyond and query.beyond[0], None
    if query.beyond is not None:
        place = stamp(query.beyond[1]), query.beyond[2]
    if place is None or value is not None:
        numbered = [*where, number.is_not(None)]
        if place is not None:
            here, there = tuple_(number, *_AGE), tuple_(value, *place)
            numbered.append(here > there if query.ascending else here < there)
        order = [column.asc() if query.ascending else column.desc() for column in (number, *_AGE)]
        rows = connection.execute(select(runs.c.id).where(*numbered).order_by(*order).limit(limit))
        ids, place = [row.id for row in rows], None
    if len(ids) < limit:
        where.append(number.is_(None))
        if place is not None:
            where.append(tuple_(*_AGE) < tuple_(*place))
        rows = select(runs.c.id).where(*where).order_by(*(column.desc() for column in _AGE))
        ids += [row.id for row in connection.execute(rows.limit(limit - len(ids)))]
    return ids


def _conditions(codec: RecordCodec, query: RunQuery) -> list[ColumnElement[bool]]:
    where: list[ColumnElement[bool]] = [
        column == value
        for column, value in ((runs.c.tenant, query.tenant), (runs.c.kind, query.kind))
        if value is not None
    ]
    if query.kinds is not None:
        where.append(runs.c.kind.in_(sorted(query.kinds)))
    if query.name is not None:
        where.append(runs.c.name.in_(codec.names(query.name)))
    if query.statuses is not None:
        where.append(runs.c.status.in_(sorted(query.statuses)))
        if not query.statuses & CLOSED:
            where.append(OPEN)  # pyright: ignore[reportArgumentType]
    if query.since is not None:
        where.append(runs.c.created >= stamp(query.since))
    if query.until is not None:
        where.append(runs.c.created < stamp(query.until))
    if query.passed is not None:
        where.append(runs.c.passed == int(query.passed))
    if query.evidence:
        where.append(or_(*(exists().where(table.c.run == runs.c.id) for table in (evidence, case_blocks))))
    return where
