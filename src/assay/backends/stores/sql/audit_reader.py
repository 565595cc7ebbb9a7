"""Reads the audit log. `record_writer.py` writes it, in the transactions of actions."""

from collections.abc import Sequence

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    LargeBinary,
    Table,
    Text,
    and_,
    func,
    not_,
    select,
    true,
    tuple_,
)  # fmt: skip

from assay.backends.stores.records.record_rows import moment, stamp
from assay.backends.stores.sql.tables import audit, audit_heads
from assay.ports.audit import AuditRecord, LaneHead

LAST = 253_402_300_799_999_999  # the last microsecond of the year 9999


def _readable(connection: Connection, table: Table) -> ColumnElement[bool]:
    """Whether a row has valid types and a possible time: SQLite accepts any type in any column."""
    conditions = [table.c.at.between(0, LAST)] if "at" in table.c else []
    if connection.dialect.name == "sqlite":
        kinds = {Text: "text", BigInteger: "integer", LargeBinary: "blob"}
        conditions += [
            func.typeof(column) == name
            for column in table.c
            for kind, name in kinds.items()
            if isinstance(column.type, kind)
        ]
    return and_(true(), *conditions)


def misfits_of(connection: Connection, tenant: str | None) -> int:
    """The number of invalid rows."""
    count = 0
    for table in (audit, audit_heads):
        query = select(func.count()).select_from(table).where(not_(_readable(connection, table)))
        if tenant is not None:
            query = query.where(table.c.tenant == tenant)
        count += connection.execute(query).scalar_one()
    return count


def lines_of(
    connection: Connection, tenant: str | None, following: AuditRecord | None, limit: int
) -> list[AuditRecord]:
    """A page of lines by tenant and time."""
    place = audit.c.tenant, audit.c.at, audit.c.lane, audit.c.number
    query = select(audit).where(_readable(connection, audit)).order_by(*place).limit(limit)
    if tenant is not None:
        query = query.where(audit.c.tenant == tenant)
    if following is not None:
        there = following.tenant, stamp(following.at), following.lane, following.number
        query = query.where(tuple_(*place) > tuple_(*there))
    return [
        AuditRecord(
            tenant=row.tenant,
            at=moment(row.at),
            lane=row.lane,
            number=row.number,
            data=row.data,
            digest=row.digest,
        )
        for row in connection.execute(query)
    ]


def heads_of(connection: Connection, tenant: str | None) -> Sequence[LaneHead]:
    place = audit_heads.c.tenant, audit_heads.c.lane
    query = select(audit_heads).where(_readable(connection, audit_heads)).order_by(*place)
    if tenant is not None:
        query = query.where(audit_heads.c.tenant == tenant)
    return [
        LaneHead(tenant=row.tenant, lane=row.lane, lines=row.lines, digest=row.digest, root=row.root)
        for row in connection.execute(query)
    ]
