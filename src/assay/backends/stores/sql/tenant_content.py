"""Deletes the evidence and the documents of tenants, and destroys their data keys. Each call is one transaction."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    Connection,
    LargeBinary,
    Row,
    cast,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    text,
    tuple_,
    update,
)

from assay.backends.stores.records.codec import EncodedBlob, RecordCodec
from assay.backends.stores.records.record_rows import moment, stamp
from assay.backends.stores.sql.tables import UNIT_SCHEMA, case_blocks, documents, evidence, runs, tenant_keys
from assay.errors.storage import open_runs_refusal
from assay.ports import CLOSED
from assay.ports.deletion import Destruction, TenantContent

MAX_BYTES = 16 * 1024 * 1024  # that one transaction deletes, about: SQLite writes zeros over them
LISTED = 50  # runs
ERASED = 1_000  # rows of the table of cases that one step of an erasure deletes
_OPEN = runs.c.status.notin_(sorted(CLOSED))
_NAME = documents.c.tenant, documents.c.kind, documents.c.key
_UNITS = f"{UNIT_SCHEMA}.workflow_status"
_UNITS_EXIST = text(f"SELECT to_regclass('{_UNITS}')")
_DELETE_UNITS = text(
    f"DELETE FROM {_UNITS} WHERE workflow_uuid IN (SELECT workflow_uuid FROM {_UNITS} "  # noqa: S608  # a constant
    "WHERE queue_partition_key = :tenant AND created_at <= :before LIMIT :limit)"
)
_PLACE = evidence.c.run, evidence.c.kind, evidence.c.key, evidence.c.first


def erase(connection: Connection, ids: Sequence[str], kind: str | None, limit: int) -> int:
    """Delete some evidence of runs, then their tables of cases; return the number of rows."""
    where = [evidence.c.run.in_(ids)] + ([] if kind is None else [evidence.c.kind == kind])
    query = select(*_PLACE, evidence.c.size).where(*where).order_by(*_PLACE).limit(limit)
    rows = _bounded(connection.execute(query).all())
    if not rows and kind is None:
        return _delete_blocks(connection, ids)
    if rows:
        connection.execute(delete(evidence).where(tuple_(*_PLACE).in_([tuple(row)[:4] for row in rows])))
    return len(rows)


def _delete_blocks(connection: Connection, runs: Sequence[str]) -> int:
    """Delete some rows of runs whose evidence is gone; return their number. Repeat until it is 0."""
    place = case_blocks.c.run, case_blocks.c.first
    some = select(*place).where(case_blocks.c.run.in_(runs)).order_by(*place).limit(ERASED)
    return connection.execute(delete(case_blocks).where(tuple_(*place).in_(some))).rowcount


def sweep(connection: Connection, kind: str, before: datetime, limit: int) -> int:
    """Delete documents of a kind that were not changed since then."""
    old = select(*_NAME).where(documents.c.kind == kind, documents.c.updated < stamp(before))
    return connection.execute(delete(documents).where(tuple_(*_NAME).in_(old.limit(limit)))).rowcount


def survey(connection: Connection, tenant: str) -> TenantContent:
    here = runs.c.tenant == tenant
    held = or_(*(exists().where(table.c.run == runs.c.id) for table in (evidence, case_blocks)))
    of_tenant = tenant_keys.c.tenant == tenant
    kinds = select(documents.c.kind, func.count().label("many")).where(documents.c.tenant == tenant)
    destroyed = connection.execute(select(func.max(tenant_keys.c.destroyed)).where(of_tenant)).scalar()
    living = select(func.count()).select_from(tenant_keys).where(of_tenant, tenant_keys.c.destroyed.is_(None))
    return TenantContent(
        runs=_count(connection, here),
        open_runs=_open_runs(connection, tenant),
        open_count=_count(connection, here, _OPEN),
        evidence=_count(connection, here, held),
        documents={row.kind: row.many for row in connection.execute(kinds.group_by(documents.c.kind))},
        keys=connection.execute(living).scalar_one(),
        destroyed=None if destroyed is None else moment(destroyed),
    )


def retire(connection: Connection, tenant: str, clock: Callable[[], datetime]) -> datetime:
    """Retire the key of a tenant, and return when. Writers lock it, so all that used it are committed."""
    mine = tenant_keys.c.tenant == tenant, tenant_keys.c.retired.is_(None)
    connection.execute(select(tenant_keys.c.id).where(*mine).with_for_update()).all()
    if open_runs := _open_runs(connection, tenant):
        count = _count(connection, runs.c.tenant == tenant, _OPEN)
        raise open_runs_refusal(tenant, open_runs, count)
    now = clock()
    connection.execute(update(tenant_keys).where(*mine).values(retired=stamp(now)))
    return now


def delete_documents(
    connection: Connection, tenant: str, kept: frozenset[str], before: datetime, limit: int
) -> int:
    old = or_(documents.c.updated <= stamp(before), documents.c.key_id.in_(_retired(connection, tenant)))
    where = documents.c.tenant == tenant, documents.c.kind.notin_(sorted(kept)), old
    size = func.length(documents.c.data)
    rows = connection.execute(select(*_NAME, size.label("size")).where(*where).order_by(*_NAME).limit(limit))
    names = [tuple(row)[:3] for row in _bounded(rows.all())]
    if names:
        connection.execute(delete(documents).where(tuple_(*_NAME).in_(names)))
        return len(names)
    return delete_units(connection, tenant, before, limit)


def delete_units(connection: Connection, tenant: str, before: datetime, limit: int) -> int:
    """Delete some units of a tenant from the queue of workers: results of runs that have ended by now."""
    if connection.dialect.name != "postgresql" or connection.execute(_UNITS_EXIST).scalar() is None:
        return 0
    values = {"tenant": tenant, "before": stamp(before) // 1000, "limit": limit}
    return connection.execute(_DELETE_UNITS, values).rowcount


def destroy(connection: Connection, codec: RecordCodec, tenant: str, now: datetime) -> Destruction:
    """Destroy the retired keys, unless a run needs one. Documents that stay are encrypted with the key in use."""
    ids = _retired(connection, tenant)
    if not ids:
        return Destruction()
    if left := _encrypted_runs(connection, tenant, ids):
        return Destruction(runs=left)
    codec.keys.prepare(connection, (tenant,), now)
    rows = connection.execute(
        select(documents).where(documents.c.tenant == tenant, documents.c.key_id.in_(ids))
    ).all()
    codec.load(connection, rows)
    for row in rows:
        place = "documents", row.tenant, row.kind, row.key
        data = codec.open(EncodedBlob(row.coding, row.key_id, row.data), *place)
        sealed = codec.seal(data, *place, tenant=tenant)
        connection.execute(update(documents).where(_here(row)).values(**sealed._asdict()))
    gone = tenant_keys.c.id.in_(ids)
    connection.execute(update(tenant_keys).where(gone).values(destroyed=stamp(now), key_id="", data=b""))
    rewrite_keys(connection)
    return Destruction(keys=len(ids))


def rewrite_keys(connection: Connection) -> None:
    """
    Write the table of keys anew in a SQLite file.

    SQLite writes zeros over a row that it deletes, but not over copies that a reorganization of the page has left. It
    writes zeros over pages that it gives up.
    """
    if connection.dialect.name != "sqlite":
        return
    rows = [dict(row) for row in connection.execute(select(tenant_keys)).mappings()]
    connection.execute(delete(tenant_keys))
    if rows:
        connection.execute(insert(tenant_keys), rows)


def _retired(connection: Connection, tenant: str) -> list[str]:
    """The retired keys of a tenant that are not destroyed."""
    mine = (
        tenant_keys.c.tenant == tenant,
        tenant_keys.c.retired.is_not(None),
        tenant_keys.c.destroyed.is_(None),
    )
    return list(
        connection.execute(select(tenant_keys.c.id).where(*mine).order_by(tenant_keys.c.id)).scalars()
    )


def _encrypted_runs(connection: Connection, tenant: str, ids: Sequence[str]) -> list[str]:
    """Some runs that these keys encrypt: their rows, or their evidence."""
    head = [func.substr(runs.c.head, 3, len(id)) == cast(id.encode(), LargeBinary) for id in ids]
    held = exists().where(evidence.c.run == runs.c.id, evidence.c.key_id.in_(ids))
    query = select(runs.c.id).where(runs.c.tenant == tenant, or_(*head, held)).limit(LISTED)
    return list(connection.execute(query).scalars())


def _open_runs(connection: Connection, tenant: str) -> list[str]:
    query = select(runs.c.id).where(runs.c.tenant == tenant, _OPEN).order_by(runs.c.created, runs.c.id)
    return list(connection.execute(query.limit(5)).scalars())


def _count(connection: Connection, *where: Any) -> int:
    return connection.execute(select(func.count()).select_from(runs).where(*where)).scalar_one()


def _here(row: Row[Any]) -> Any:
    return tuple_(*_NAME).in_([(row.tenant, row.kind, row.key)])


def _bounded(rows: Sequence[Any]) -> Sequence[Any]:
    """The first rows, up to `MAX_BYTES` in all; at least one."""
    total = 0
    for at, row in enumerate(rows):
        total += row.size
        if at and total > MAX_BYTES:
            return rows[:at]
    return rows
