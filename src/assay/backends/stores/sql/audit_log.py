"""
The audit log in the database. Every process has its own lane in each tenant's log.

An entry is written in the transaction of its action. It needs no read and no lock, except when a lane begins.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime

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
    text,
    true,
    tuple_,
)  # fmt: skip

from assay.backends.stores.records.record_rows import moment, stamp
from assay.backends.stores.sql.tables import audit, audit_heads
from assay.ports.audit import START, AuditEntry, AuditRecord, LaneHead, next_head, next_record

MAX_LANES = 10_000  # open lanes, one per tenant
LAST = 253_402_300_799_999_999  # the last microsecond of the year 9999
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:tenant, 7))")

# By tenant, with the time of the last line: times never decrease in a lane.
Lanes = dict[str, tuple[LaneHead, datetime]]


class AuditChain:
    """The lanes of one process. `add` returns their new ends: call `forget` before the commit, and `keep` after it."""

    def __init__(self) -> None:
        self._open: Lanes = {}

    def add(
        self, connection: Connection, lines: Iterable[AuditEntry], now: datetime
    ) -> tuple[Lanes, list[AuditRecord]]:
        """Append lines."""
        found: list[AuditRecord] = []
        lanes: Lanes = {}
        for line in lines:
            held = lanes.get(line.tenant) or self._open.get(line.tenant)
            if held is None:
                held = _new(connection, line.tenant), now
            head, last = held
            written = next_record(head, max(now, last), line)
            found.append(written)
            lanes[line.tenant] = next_head(head, written), written.at
        return lanes, found

    def keep(self, lanes: Lanes) -> None:
        if lanes:
            if len(self._open) > MAX_LANES:
                self._open.clear()
            self._open.update(lanes)

    def forget(self, lanes: Lanes) -> None:
        for tenant in lanes:
            self._open.pop(tenant, None)


def _new(connection: Connection, tenant: str) -> LaneHead:
    """A new lane, chained to the first line of the lane before."""
    if connection.dialect.name == "postgresql":
        connection.execute(_LOCK, {"tenant": tenant})
    query = select(audit_heads).where(audit_heads.c.tenant == tenant, _readable(connection, audit_heads))
    query = query.order_by(audit_heads.c.lane.desc())
    row = connection.execute(query.limit(1)).one_or_none()
    lane, before = (0, START) if row is None else (row.lane + 1, row.root)
    return LaneHead(tenant=tenant, lane=lane, lines=0, digest=before, root=b"")


def _readable(connection: Connection, table: Table) -> ColumnElement[bool]:
    """
    Whether a row has valid types: SQLite accepts any type in any column, and both databases accept an impossible time.
    """
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
