"""Lists of runs: pages in any order, counts and groups. The index `runs_by_facts` answers them without the rows themselves."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, or_, select, tuple_

from assay.backends.stores.codec import RecordCodec
from assay.backends.stores.queries import find_runs, read_runs
from assay.backends.stores.records import stamp
from assay.backends.stores.tables import case_blocks, evidence, runs
from assay.ports import Run, RunGroup, RunQuery, RunStatus

_AGE = runs.c.created, runs.c.id
_NUMBERS: dict[str, ColumnElement[Any]] = {
    "score": runs.c.score,
    "cost": runs.c.cost,
    "duration": runs.c.ended - runs.c.started,
}


def list_runs(connection: Connection, codec: RecordCodec, query: RunQuery) -> list[Run]:
    if query.order == "created" and not query.ascending:
        where = _conditions(codec, query)
        if query.before is not None:
            created, id = query.before
            where.append(tuple_(*_AGE) < tuple_(stamp(created), id))
        rows = select(runs).where(*where).order_by(*(column.desc() for column in _AGE)).limit(query.limit)
        return read_runs(connection, codec, rows)
    ids = [row.id for row in connection.execute(_in_order(codec, query))]
    found = {run.id: run for run in find_runs(connection, codec, ids)}
    return [found[id] for id in ids]


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


def _in_order(codec: RecordCodec, query: RunQuery) -> Select[Any]:
    """The ids of a page in another order than the newest first."""
    where = _conditions(codec, query)
    if query.order == "created":
        if query.beyond is not None:
            _, created, id = query.beyond
            where.append(tuple_(*_AGE) > tuple_(stamp(created), id))
        return select(runs.c.id).where(*where).order_by(*_AGE).limit(query.limit)
    number = _NUMBERS[query.order]
    if query.beyond is not None:
        value, created, id = query.beyond
        older = tuple_(*_AGE) < tuple_(stamp(created), id)
        if value is None:
            where += [number.is_(None), older]
        else:
            further = number > value if query.ascending else number < value
            where.append(or_(further, number.is_(None), and_(number == value, older)))
    order = number.asc() if query.ascending else number.desc()
    ages = (column.desc() for column in _AGE)
    return select(runs.c.id).where(*where).order_by(order.nulls_last(), *ages).limit(query.limit)


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
    if query.since is not None:
        where.append(runs.c.created >= stamp(query.since))
    if query.until is not None:
        where.append(runs.c.created < stamp(query.until))
    if query.passed is not None:
        where.append(runs.c.passed == int(query.passed))
    if query.evidence:
        where.append(or_(*(exists().where(table.c.run == runs.c.id) for table in (evidence, case_blocks))))
    return where
